"""What an attack claims, looked at again: is it misclassified, in the box, and how long is it."""

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from strop.attacks.feasible import Neighbourhood, each
from strop.attacks.losses import margin

__all__ = ["ROOM", "distances", "shortened"]

ROOM = 1e-6
"""A perturbation is within a budget if it exceeds it by no more than this part of it."""

_ULPS = 4
_PUSHES = (1.0, 1.001, 1.01)


@torch.no_grad()
def distances(
    model: Callable[[Tensor], Tensor],
    around: Neighbourhood,
    labels: Tensor,
    adversarial: Tensor,
    claimed: Tensor,
) -> tuple[Tensor, Tensor]:
    """The norm of each perturbation in float64, infinity where ``adversarial`` is not one: not
    misclassified, longer than the budget, out of the box, or with frequencies that the norm
    forbids; and the adversarial examples that the distances belong to.

    At the boundary itself a batch of another size may round the logits to the other side: what was
    ``claimed`` and is not so is pushed outwards by up to a percent, within the budget.
    """
    size = torch.full((len(labels),), math.inf, dtype=torch.float64, device=labels.device)
    result, missing = adversarial, claimed
    for push in _PUSHES:
        if not bool(missing.any()):
            break
        if push == 1:
            found = adversarial[missing]
        else:
            delta = (adversarial.double() - around.x.double())[missing]
            found, _ = around[missing].deliver(push * delta, adversarial.dtype)
        length = _length(around[missing], found)
        allowed = length <= around.eps[missing].double() * (1 + ROOM)
        wrong = margin(model(found), labels[missing]) > 0
        size[missing] = torch.where(allowed & wrong, length, math.inf)
        result = result.index_copy(0, missing.nonzero().flatten(), found)
        missing = missing.masked_scatter(missing, allowed & ~wrong)
    return size, result


@torch.no_grad()
def shortened(
    model: Callable[[Tensor], Tensor],
    around: Neighbourhood,
    labels: Tensor,
    adversarial: Tensor,
    size: Tensor,
    *,
    halvings: int = 8,
) -> Tensor:
    """The least norm seen while each adversarial example is drawn back towards x by bisection."""
    found = size.isfinite() & (size > 0)
    if not bool(found.any()):
        return size
    here = around[found]
    here = replace(here, eps=torch.full_like(here.eps, math.inf))
    delta = (adversarial.double() - around.x.double())[found]
    low, high = torch.zeros_like(size[found]), torch.ones_like(size[found])
    least = size[found]
    for _ in range(halvings):
        middle = (low + high) / 2
        moved, _ = here.deliver(each(middle, delta) * delta, adversarial.dtype)
        length = _length(here, moved)
        wrong = (margin(model(moved), labels[found]) > 0) & (length < least)
        least = torch.where(wrong, length, least)
        low, high = torch.where(wrong, low, middle), torch.where(wrong, middle, high)
    shorter = size.clone()
    shorter[found] = least
    return shorter


def _length(around: Neighbourhood, adversarial: Tensor) -> Tensor:
    """||adversarial - x|| in float64; infinity out of the box or, beyond rounding, of the band."""
    change = adversarial.double() - around.x.double()
    seen = around.norm.project(change, math.inf)
    size = around.norm(seen)
    largest = max(1.0, *map(abs, around.bounds)) if around.bounds else 1.0
    peak = adversarial.double().abs().flatten(1).amax(dim=1).clamp(min=largest)
    leak = (change - seen).abs().flatten(1).amax(dim=1)
    allowed = leak <= _ULPS * torch.finfo(adversarial.dtype).eps * peak
    if around.bounds is not None:
        low, high = around.bounds
        inside = (adversarial >= low) & (adversarial <= high)
        allowed &= inside.flatten(1).all(dim=1)
    return torch.where(allowed, size, math.inf)
