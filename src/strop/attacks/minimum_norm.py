"""The smallest perturbation that a classifier gets wrong."""

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from strop.attacks.feasible import Neighbourhood, each
from strop.attacks.losses import margin, with_slopes
from strop.attacks.search import AttackResult, Objective, prepare
from strop.geometry import Norm

__all__ = ["minimum_norm"]

_FIRST_CHANGE, _LAST_CHANGE = 0.1, 1e-3
_FIRST_BLEND, _LAST_BLEND = 1.0, 0.02
_HALVINGS = 12


def minimum_norm(
    model: Callable[[Tensor], Tensor],
    x: Tensor,
    y: Tensor,
    *,
    norm: Norm,
    steps: int = 100,
    bounds: tuple[float, float] | None = (0, 1),
) -> AttackResult:
    """argmin ||delta|| over the delta with x + delta misclassified and within bounds, by steps

        eps    <-  eps (1 - change) where x + delta is misclassified, eps (1 + change) elsewhere
        delta  <-  inside((1 - blend) delta + blend eps steepest(gradient of the margin))

    Until an example is first misclassified eps is where its margin would vanish were the model
    linear. Change and blend fall over the steps. The idea of a radius that follows the boundary is
    that of Pintor et al., "Fast minimum-norm adversarial attacks", 2021; the step here is one of
    Frank and Wolfe's, whose fixed points are right in every norm. In the end each perturbation is
    scaled down as far as it stays misclassified.

    Args:
        model: gives the logits of a batch. Its mode and the gradients it holds stay as they are.
        x: examples, (batch, ...).
        y: labels, (batch,).
        norm: whose least value is sought.
        steps: gradients.
        bounds: of every coordinate of x + delta, or None.

    Returns:
        As of other attacks; where nothing was found, x itself, no success, and a norm of infinity.

    >>> from strop.geometry import L2
    >>> model = torch.nn.Linear(2, 2, bias=False)
    >>> _ = model.weight.data.copy_(torch.tensor([[0.6, 0.8], [-0.6, -0.8]]))
    >>> x, y = torch.tensor([[0.3, 0.4]]), torch.tensor([0])
    >>> result = minimum_norm(model, x, y, norm=L2, bounds=None)
    >>> 0.5 <= float(result.norm) < 0.501
    True
    """
    logits, around = prepare(model, x, y, norm=norm, eps=0.0, steps=steps, bounds=bounds)
    x = x.detach()
    success = margin(logits, y) > 0
    adversarial, size = x.clone(), torch.where(success, 0.0, math.inf).to(around.x.dtype)
    rows = (~success).nonzero().flatten()
    if len(rows) == 0 or steps == 0:
        return AttackResult(adversarial, success, size, 0, 0)
    here = around[rows]
    climbed = with_slopes(lambda logits, labels, _: margin(logits, labels))
    task = Objective(model, here.x, y[rows], y[rows], climbed, x.dtype)
    best, found = _follow_boundary(task, here, steps)
    task.check()
    found_rows = rows[found]
    if len(found_rows):
        nearest = around[found_rows]
        adversarial[found_rows], size[found_rows], success[found_rows] = _scaled_down(
            model, nearest, y[found_rows], best[found], x.dtype
        )
    return AttackResult(adversarial, success, size, task.gradient_calls, task.gradient_calls)


def _follow_boundary(
    objective: Objective, around: Neighbourhood, steps: int
) -> tuple[Tensor, Tensor]:
    """The shortest misclassified perturbation of each example, and whether there was one."""
    norm, delta = around.norm, torch.zeros_like(around.x)
    best, shortest = delta, torch.full_like(around.eps, math.inf)
    eps = torch.zeros_like(around.eps)
    for step in range(steps):
        gap, gradient = objective(around.x + delta)
        size = norm(norm.project(delta, math.inf))
        shorter = (gap > 0) & (size < shortest)
        best = torch.where(each(shorter, delta), delta, best)
        shortest = torch.where(shorter, size, shortest)
        share = (1 + math.cos(math.pi * step / steps)) / 2
        change = _LAST_CHANGE + share * (_FIRST_CHANGE - _LAST_CHANGE)
        blend = _LAST_BLEND + share * (_FIRST_BLEND - _LAST_BLEND)
        direction = around.steepest(gradient, delta)
        slope = (gradient * direction).flatten(1).sum(dim=1)
        vanishing = size - gap / slope.clamp(min=torch.finfo(slope.dtype).tiny)
        # A radius no further than the last one doubled: where slopes vanish, the formula says far.
        vanishing = torch.where(eps > 0, vanishing.minimum(2 * eps), vanishing)
        outward = torch.where(shortest.isfinite(), eps * (1 + change), vanishing * (1 + change))
        eps = torch.where(gap > 0, torch.minimum(eps, shortest) * (1 - change), outward)
        eps = eps.minimum(shortest).clamp(max=torch.finfo(eps.dtype).max ** 0.5)
        aim = (1 - blend) * delta + blend * each(eps, delta) * direction
        delta = replace(around, eps=eps).inside(aim)
    return best, shortest.isfinite()


@torch.no_grad()
def _scaled_down(
    model: Callable[[Tensor], Tensor],
    around: Neighbourhood,
    labels: Tensor,
    delta: Tensor,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor, Tensor]:
    """x + t delta for the least t of a bisection that is misclassified, its norm, and success."""
    around = replace(around, eps=torch.full_like(around.eps, math.inf))
    result, size = around.deliver(delta, dtype)
    success = margin(model(result), labels) > 0
    low, high = torch.zeros_like(around.eps), torch.ones_like(around.eps)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        moved, length = around.deliver(each(middle, delta) * delta, dtype)
        wrong = margin(model(moved), labels) > 0
        result = torch.where(each(wrong, result), moved, result)
        size, success = torch.where(wrong, length, size), success | wrong
        low, high = torch.where(wrong, low, middle), torch.where(wrong, middle, high)
    original = around.x.to(dtype)
    size = torch.where(success, size, math.inf).to(around.x.dtype)
    return torch.where(each(success, result), result, original), size, success
