"""Lagrange multipliers of projections: one root in one unknown for each row.

Legend: b example, k coordinate.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import softplus

from strop.geometry import lp

__all__ = [
    "climbing_level",
    "falling_root",
    "newton_level",
    "shrink",
    "simplex_level",
    "sorted_level",
]

_MOST_STEPS = 100


@torch.no_grad()
def simplex_level(values: Tensor, total: Tensor, weights: Tensor | None = None) -> Tensor:
    """The level t with sum_k w_k max(values_k - t, 0) = total, for each row, b1; w_k = 1 if None.

    By sorting where that is cheap, on a GPU; elsewhere without.
    """
    if values.device.type == "cuda":
        return sorted_level(values, total, weights)
    return climbing_level(values, total, weights)


def sorted_level(values: Tensor, total: Tensor, weights: Tensor | None = None) -> Tensor:
    """:func:`simplex_level` read off the sorted rows (Held, Wolfe and Crowder 1974)."""
    ordered, order = values.sort(dim=1, descending=True)
    w = torch.ones_like(values) if weights is None else weights[order]
    # In double: a running sum in single precision loses the small ones at the end of a long row.
    mass = w.cumsum(dim=1, dtype=torch.float64)
    levels = ((w * ordered).cumsum(dim=1, dtype=torch.float64) - total) / mass
    last = (ordered > levels).sum(dim=1, keepdim=True).clamp(min=1) - 1
    return levels.gather(1, last).to(values.dtype)


def climbing_level(values: Tensor, total: Tensor, weights: Tensor | None = None) -> Tensor:
    """:func:`simplex_level` without sorting (Michelot 1986; Condat 2016).

    Newton's method on a convex, piecewise linear, falling function, from the left: the iterates
    rise, the active set {values_k > t} shrinks, and when it stays the same the root is found.
    """
    # No coordinate alone may exceed the total, nor may all of them together.
    if weights is None:
        alone = values.amax(dim=1, keepdim=True) - total
        mass: Tensor | int = values.shape[1]
    else:
        alone = (values - total / weights).amax(dim=1, keepdim=True)
        mass = weights.sum()
    level = torch.maximum(alone, (_weighed(values, weights) - total) / mass)
    buffer, active = torch.empty_like(values), None
    while True:
        torch.sub(values, level, out=buffer).relu_()
        excess = _weighed(buffer, weights) - total
        slope = _weighed(torch.gt(buffer, 0, out=buffer), weights)
        # Rounding must not let the level fall: a set that only shrinks ends the loop.
        level = level + (excess / slope).nan_to_num_(0.0).clamp_(min=0.0)
        if active is not None and torch.equal(slope, active):
            return level
        active = slope


def _weighed(x: Tensor, weights: Tensor | None) -> Tensor:
    """sum_k w_k x_k, b1."""
    return x.sum(dim=1, keepdim=True) if weights is None else (x @ weights)[:, None]


@torch.no_grad()
def newton_level(
    values: Tensor,
    total: Tensor,
    weights: Tensor | None,
    start: Tensor,
    *,
    steps: int,
    asking: bool,
) -> Tensor:
    """:func:`simplex_level` from a guess, b1, for values >= 0; zero where their sum is below total.

    Newton's first step leads from anywhere to the left of the root, and from there the others rise.
    They end when all are there; without ``asking``, which a GPU would have to be waited for, after
    that many, and the level may then still be too low.
    """
    live, level, least, last = torch.empty_like(values), start, torch.zeros_like(start), None
    for _ in range(_MOST_STEPS if asking else steps):
        mass = _weighed(torch.gt(values, level, out=live), weights)
        if asking and last is not None and torch.equal(mass, last):
            break
        excess = _weighed(live.mul_(values), weights).sub_(total)
        least = level = excess.div_(mass).fmax(least)
        last = mass
    return level


def falling_root(
    function: Callable[[Tensor], tuple[Tensor, Tensor]],
    low: Tensor,
    high: Tensor,
    start: Tensor,
    tolerance: Tensor | float,
) -> Tensor:
    """The root of a falling function between ``low`` and ``high``, one for each row, b1.

    Newton's method, with a bisection wherever it would leave the bracket.

    Args:
        function: gives the value and the slope at a column b1.
        tolerance: the value is zero when it is no larger than this.
    """
    t = start
    for _ in range(_MOST_STEPS):
        value, slope = function(t)
        low, high = torch.where(value > 0, t, low), torch.where(value > 0, high, t)
        newton = t - value / slope
        step = torch.where((newton >= low) & (newton <= high), newton, (low + high) / 2) - t
        moving = (value.abs() > tolerance) & (step != 0)  # never true of a row of NaN
        if not bool(moving.any()):
            break
        t = torch.where(moving, t + step, t)
    return t


@torch.no_grad()
def shrink(magnitude: Tensor, radius: Tensor, p: float, radii: Tensor | None = None) -> Tensor:
    """The nearest point of a weighted lp ball, 1 < p < inf, for rows ``magnitude`` >= 0 outside it.

    Stationarity reads v_k + m v_k^(p-1) / r_k^p = a_k. With s = log v, t = log m it is

        s_k + softplus(t - p log r_k + (p-2) s_k) = log a_k,

    convex in s_k with slopes between 1 and p-1, so that Newton's method is safe for every p and
    nothing overflows. The outer root log ||v(t)|| = log radius falls in t: Newton's method again,
    kept inside a bracket.
    """
    limits = torch.finfo(magnitude.dtype)
    log_a = magnitude.clamp(min=limits.tiny).log()
    log_r = torch.zeros_like(log_a[0]) if radii is None else radii.log()
    log_radius = radius.log()

    def log_excess(t: Tensor) -> tuple[Tensor, Tensor]:
        s, slopes = _shrunk_logarithm(log_a, t - p * log_r, p)
        terms = p * (s - log_r)
        excess = terms.logsumexp(dim=1, keepdim=True) / p - log_radius
        return excess, (terms.softmax(dim=1) * slopes).sum(dim=1, keepdim=True)

    low, high, start = _multiplier_bounds(magnitude, radius, p, radii)
    tolerance = 4 * limits.eps * (1 + log_radius.abs()) * max(1.0, 1 / (p - 1))
    t = falling_root(log_excess, low, high, start, tolerance)
    s, _ = _shrunk_logarithm(log_a, t - p * log_r, p)
    return torch.where(magnitude > 0, s.exp(), 0.0)


def _shrunk_logarithm(log_a: Tensor, offset: Tensor, p: float) -> tuple[Tensor, Tensor]:
    """s with s + softplus(offset + (p-2) s) = log_a, and ds/doffset; from the right, see above."""
    s = torch.minimum(log_a, (log_a - offset) / (p - 1))
    tolerance = 4 * torch.finfo(s.dtype).eps * max(1.0, 1 / (p - 1))
    for _ in range(_MOST_STEPS):
        z = offset + (p - 2) * s
        change = (s + softplus(z) - log_a) / (1 + (p - 2) * z.sigmoid())
        s = s - change
        if p == 2 or not bool((change.abs() > tolerance * (1 + s.abs())).any()):
            break
    weight = (offset + (p - 2) * s).sigmoid()
    return s, -weight / (1 + (p - 2) * weight)


def _multiplier_bounds(
    magnitude: Tensor, radius: Tensor, p: float, radii: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Bounds of t, from m radius^(p-1) = ||a - v||_dual, and the t of shrinking a radially."""
    reach = None if radii is None else 1 / radii
    thinnest = 0.0 if radii is None else 2 * float(radii.min().log())
    log_radius = radius.log()
    size = lp.value(magnitude, p, radii)[:, None]
    dual_size = lp.value(magnitude, lp.conjugate(p), reach)[:, None]
    # A row that is outside by less than rounding has next to no multiplier.
    excess = (size - radius).clamp(min=torch.finfo(size.dtype).tiny).log()
    low = excess + thinnest - math.log(magnitude.shape[1]) / p - (p - 1) * log_radius - math.log(2)
    high = dual_size.log() - (p - 1) * log_radius + math.log(2)
    energy = 2 * lp.value(magnitude, 2)[:, None].log()
    start = excess + energy - 2 * size.log() - (p - 1) * log_radius
    return low, high, torch.minimum(torch.maximum(start, low), high)
