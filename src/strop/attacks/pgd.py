"""Projected steepest ascent within a ball and a box."""

from collections.abc import Callable

import torch
from torch import Tensor

from strop.attacks.feasible import Neighbourhood
from strop.attacks.losses import LossName
from strop.attacks.search import AttackResult, Objective, search
from strop.geometry import Norm
from strop.support import InputError

__all__ = ["pgd"]


def pgd(
    model: Callable[[Tensor], Tensor],
    x: Tensor,
    y: Tensor,
    *,
    norm: Norm,
    eps: float | Tensor,
    steps: int,
    bounds: tuple[float, float] | None = (0, 1),
    loss: LossName = "ce",
    step_size: float | None = None,
    restarts: int = 1,
    generator: torch.Generator | None = None,
) -> AttackResult:
    """argmax of the loss over ||delta|| <= eps with x + delta within bounds, by steps

        delta  <-  inside(delta + step_size * steepest(gradient))

    Thesis section 5.3.3 for Fourier norms. The first run starts at x itself, the others at noise.
    The point of the largest loss is returned, misclassified ones first; what is misclassified to
    begin with is returned as it is.

    Args:
        model: gives the logits of a batch. Its mode and the gradients it holds stay as they are.
        x: examples, (batch, ...).
        y: labels, (batch,).
        norm: of the perturbation.
        eps: the budget, one number or one for each example.
        steps: gradients for each run.
        bounds: of every coordinate of x + delta, or None.
        loss: "ce", "dlr", "targeted-dlr" (a run for each of up to nine targets) or "margin".
        step_size: in the norm; if None, 2.5 eps / steps.
        restarts: runs for what is still classified rightly.
        generator: of the noise.

    >>> from strop.geometry import L2
    >>> model = torch.nn.Linear(2, 2, bias=False)
    >>> _ = model.weight.data.copy_(torch.tensor([[0.6, 0.8], [-0.6, -0.8]]))
    >>> x, y = torch.tensor([[0.5, 0.5]]), torch.tensor([0])
    >>> pgd(model, x, y, norm=L2, eps=0.5, steps=5).adversarial
    tensor([[0.2000, 0.1000]])
    """
    if step_size is not None and not step_size > 0:
        raise InputError(f"expected step_size > 0, came {step_size}: pass None for 2.5 eps / steps")

    def climb(objective: Objective, around: Neighbourhood, delta: Tensor) -> None:
        length = 2.5 * around.eps / steps if step_size is None else step_size + 0 * around.eps
        _, gradient = objective(around.x + delta)
        for _ in range(steps - 1):
            delta = around.inside(delta + around.step(gradient, delta, length))
            _, gradient = objective(around.x + delta)

    return search(
        model,
        x,
        y,
        climb,
        norm=norm,
        eps=eps,
        steps=steps,
        loss=loss,
        restarts=restarts,
        bounds=bounds,
        generator=generator,
    )
