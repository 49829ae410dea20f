"""What robust training descends, and the quick search for the worst perturbation in it.

Legend: b example, c class.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from strop.attacks.feasible import Neighbourhood
from strop.geometry import Norm
from strop.support import InputError

__all__ = ["InnerSearch", "adversarial_loss", "trades_loss", "worst_nearby"]

_ADAM = (0.9, 0.999, 1e-8)


@dataclass(frozen=True)
class InnerSearch:
    """Where and how the worst perturbation is sought while training.

    Args:
        norm: of the perturbation.
        eps: its budget.
        steps: gradients spent on it.
        step_size: in the norm (for Adam: in the pixels); if None, 2 eps / steps.
        optimizer: "steepest" ascent in the norm, or "adam".
        bounds: of every coordinate of x + delta, or None.
    """

    norm: Norm
    eps: float
    steps: int
    step_size: float | None = None
    optimizer: Literal["steepest", "adam"] = "steepest"
    bounds: tuple[float, float] | None = (0, 1)

    def around(self, x: Tensor) -> Neighbourhood:
        return Neighbourhood(x, self.norm, x.new_full((len(x),), self.eps), self.bounds)


def adversarial_loss(
    model: nn.Module, x: Tensor, y: Tensor, *, search: InnerSearch
) -> tuple[Tensor, Tensor]:
    """mean_b max_{||delta|| <= eps} CE(model(x_b + delta), y_b), and the logits bc at that delta.

    Adversarial training (Madry et al. 2018), thesis appendix B.5.2. The maximum is sought with the
    model in evaluation mode; the loss is of the mode it came in.
    """

    def climbed(point: Tensor) -> Tensor:
        return functional.cross_entropy(model(point), y, reduction="sum")

    with _evaluating(model):
        point = worst_nearby(climbed, x, search=search)
    logits = model(point)
    return functional.cross_entropy(logits, y), logits


def trades_loss(
    model: nn.Module, x: Tensor, y: Tensor, *, search: InnerSearch, beta: float
) -> tuple[Tensor, Tensor]:
    """mean_b CE(model(x_b), y_b) + beta max_{||delta|| <= eps} KL(p(x_b) || p(x_b + delta)).

    p are the probabilities of the classes (Zhang et al. 2019). The second result are the logits at
    x + delta. The maximum is sought with the model in evaluation mode.
    """
    with _evaluating(model):
        with torch.no_grad():
            wanted = functional.log_softmax(model(x), dim=1)

        def climbed(point: Tensor) -> Tensor:
            return _divergence(wanted, model(point), reduction="sum")

        point = worst_nearby(climbed, x, search=search)
    clean, moved = model(x), model(point)
    drift = _divergence(functional.log_softmax(clean, dim=1), moved, reduction="batchmean")
    return functional.cross_entropy(clean, y) + beta * drift, moved


def worst_nearby(
    objective: Callable[[Tensor], Tensor], x: Tensor, *, search: InnerSearch
) -> Tensor:
    """x + delta that climbs ``objective``, the sum of a loss over the examples, from noise.

    The steps and the projection of :func:`strop.attacks.pgd`, without what an evaluation needs:
    neither is the best of all points kept, nor is the budget verified in float64. With L1, L2,
    Linf and their Fourier norms no step waits for the device.

    >>> from strop.geometry import Linf
    >>> search = InnerSearch(Linf, eps=0.1, steps=3)
    >>> worst_nearby(lambda point: point.sum(), torch.tensor([[0.5, 0.95]]), search=search)
    tensor([[0.6000, 1.0000]])
    """
    x = x.detach()
    if search.steps == 0 or search.eps == 0:
        return x
    around = search.around(x)
    length = 2 * search.eps / search.steps if search.step_size is None else search.step_size
    lengths = torch.full_like(around.eps, length)
    delta = around.random(None)
    adam = _Adam(x) if search.optimizer == "adam" else None
    for _ in range(search.steps):
        point = (x + delta).requires_grad_()
        with torch.enable_grad():
            (gradient,) = torch.autograd.grad(objective(point), point)
        if adam is not None:
            delta = around.inside(delta + length * adam(gradient))
        elif search.optimizer == "steepest":
            delta = around.inside(delta + around.step(gradient, delta, lengths))
        else:
            raise InputError(
                f"expected the optimizer 'steepest' or 'adam', came {search.optimizer!r}"
            )
    return x + delta


class _Adam:
    """The direction of Adam for one tensor, ascending."""

    def __init__(self, x: Tensor) -> None:
        self.mean, self.square, self.step = torch.zeros_like(x), torch.zeros_like(x), 0

    def __call__(self, gradient: Tensor) -> Tensor:
        first, second, least = _ADAM
        self.step += 1
        self.mean.lerp_(gradient, 1 - first)
        self.square.mul_(second).addcmul_(gradient, gradient, value=1 - second)
        mean = self.mean / (1 - first**self.step)
        return mean / ((self.square / (1 - second**self.step)).sqrt() + least)


def _divergence(log_wanted: Tensor, logits: Tensor, *, reduction: str) -> Tensor:
    log_reached = functional.log_softmax(logits, dim=1)
    return functional.kl_div(log_reached, log_wanted, reduction=reduction, log_target=True)


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode inside; afterwards every module's mode is as before."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode
