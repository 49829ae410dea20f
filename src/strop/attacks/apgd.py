"""Projected steepest ascent that finds its own step size (Croce and Hein 2020)."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from strop.attacks.feasible import Neighbourhood, each
from strop.attacks.losses import LossName
from strop.attacks.moves import moves_in
from strop.attacks.search import AttackResult, Objective, search
from strop.geometry import Norm

__all__ = ["apgd", "checkpoints"]

_RISING = 0.75


def apgd(
    model: Callable[[Tensor], Tensor],
    x: Tensor,
    y: Tensor,
    *,
    norm: Norm,
    eps: float | Tensor,
    loss: LossName = "ce",
    steps: int = 100,
    restarts: int = 1,
    bounds: tuple[float, float] | None = (0, 1),
    generator: torch.Generator | None = None,
) -> AttackResult:
    """argmax of the loss over ||delta|| <= eps with x + delta within bounds, by steps

        ahead  =  delta + length * steepest(gradient)
        delta  <-  inside(delta + 0.75 (ahead - delta) + 0.25 (delta - previous))

    of a length that begins at 2 eps (the very first step: eps, without drift). At each checkpoint
    it is halved, and the climb goes on from the best point, for an example whose loss rose in fewer
    than three quarters of the steps since the last one, or whose best loss and length both stayed
    as they were. Croce and Hein, "Reliable evaluation of adversarial robustness with an ensemble of
    diverse parameter-free attacks", 2020. For Fourier(Linf) the moves are without the drift, and
    between ball and box they are those of :class:`strop.attacks.moves.SpectralMoves`.

    The arguments and what is returned are those of :func:`strop.attacks.pgd`.

    >>> from strop.geometry import Fourier, Linf
    >>> model = torch.nn.Linear(4, 2, bias=False)
    >>> _ = model.weight.data.copy_(torch.tensor([[1.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 0.0]]))
    >>> x, y = torch.full((1, 4), 0.5), torch.tensor([0])
    >>> apgd(model, x, y, norm=Fourier(Linf, dims=1), eps=0.5, steps=10).adversarial
    tensor([[0.2500, 0.2500, 0.2500, 0.2500]])
    """

    def climb(objective: Objective, around: Neighbourhood, delta: Tensor) -> None:
        _climb(objective, around, delta, steps)

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


def _climb(objective: Objective, around: Neighbourhood, delta: Tensor, steps: int) -> None:
    moves = moves_in(around, delta)
    ends, last_end = set(checkpoints(steps)), 0
    length = 2 * around.eps
    value, gradient = objective(around.x + delta)
    rises, halved = torch.zeros_like(value), torch.ones_like(value, dtype=torch.bool)
    best_at_last_end = objective.best_loss
    for step in range(1, steps):
        # The first step has no direction to keep, and from the centre eps is as far as it goes.
        point = moves(gradient, length if step > 1 else around.eps)
        before, (value, gradient) = value, objective(point)
        rises += value > before
        if step in ends:
            stuck = ~halved & (objective.best_loss <= best_at_last_end)
            halved = (rises < _RISING * (step - last_end)) | stuck
            length = torch.where(halved, length / 2, length)
            moves.go_back(halved, objective.best)
            share = each(halved, gradient).to(gradient.dtype)
            gradient = gradient.lerp(objective.best_gradient, share)
            value = torch.where(halved, objective.best_loss, value)
            best_at_last_end, last_end = objective.best_loss, step
            rises = torch.zeros_like(rises)


def checkpoints(steps: int) -> list[int]:
    """After which steps the length is looked at: periods that shrink from 22 % to 6 % of all.

    >>> checkpoints(100)
    [22, 41, 57, 70, 80, 87, 93, 99]
    """
    ends, share, period = [], 0.22, 0.22
    while share < 1:
        ends.append(math.ceil(round(share * steps, 9)))
        period = max(period - 0.03, 0.06)
        share += period
    return ends
