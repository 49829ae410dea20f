"""The nearest point of a ball that also keeps to a box, such as pictures within [0, 1].

Legend: b example, k coordinate of the flattened example.
"""

import math

import torch
from torch import Tensor

from strop.geometry import lp
from strop.geometry.checks import as_examples, as_radius, like_input, working
from strop.geometry.multipliers import falling_root
from strop.geometry.norms import Lp, Norm

__all__ = ["project_ball_and_box"]

_STEPS = 300


@torch.no_grad()
def project_ball_and_box(
    x: Tensor,
    radius: float | Tensor,
    *,
    norm: Norm,
    low: float | Tensor,
    high: float | Tensor,
    steps: int = _STEPS,
) -> Tensor:
    """argmin ||v - x||_2 over ||v|| <= radius and low <= v <= high, a box around zero.

    For a perturbation of a picture z in [0, 1] the box is ``low=-z, high=1 - z``. Exact for L1, L2
    and Linf, where the answer is the box's clip of x shrunk by one multiplier. Every other norm
    takes turns between ball and box (ADMM, over-relaxed, with a rising penalty) for at most
    ``steps`` turns.

    The result is inside both up to rounding. One exception: in a band of frequencies some of which
    are shut, clipping to the box leaks out of the band; the result is then in the band and the
    ball, and may be outside of the box by what the turns have left. It is then for the caller to
    say which of the two must hold. No gradient flows through.

    Args:
        x: examples, (batch, ...).
        radius: of the ball, one number or one for each example.
        norm: of the ball.
        low: at most zero; a number or a tensor that broadcasts to ``x``.
        high: at least zero, likewise.
        steps: how many turns at most, where turns are taken.

    >>> from strop.geometry import L2
    >>> x = torch.tensor([[3.0, 4.0]])
    >>> project_ball_and_box(x, 1.0, norm=L2, low=-1.0, high=torch.tensor([0.6, 0.0]))
    tensor([[0.6000, 0.0000]])
    """
    raised = working(x)
    column = as_radius(radius, raised)
    low, high = _as_bound(low, raised), _as_bound(high, raised)
    if not bool(((low <= 0) & (high >= 0)).all()):
        raise ValueError(
            "expected a box around zero, low <= 0 <= high, came one without it: "
            "for pictures z in [0, 1] pass low=-z, high=1 - z, and check that z is in [0, 1]"
        )
    if raised.numel() == 0:
        return x.clone()
    if isinstance(norm, Lp) and norm.p == math.inf:
        result = norm.project(raised, column[:, 0]).clamp(low, high)
    elif isinstance(norm, Lp) and norm.p in (1, 2):
        flat, bottom, top = as_examples(raised), as_examples(low), as_examples(high)
        result = _shrunk_and_clipped(flat, bottom, top, column, norm.p)
    else:
        result = _take_turns(raised, low, high, column[:, 0], norm, steps)
    return like_input(result, x)


def _shrunk_and_clipped(x: Tensor, low: Tensor, high: Tensor, radius: Tensor, p: float) -> Tensor:
    """clip(x shrunk) with the one multiplier that makes it as long as the radius, if it is longer.

    A coordinate of the clip that is not at a bound is still free to shrink: the slope counts these.
    """
    unit = lp.peak(x)[:, None]
    unit = torch.where((unit > 0) & unit.isfinite(), unit, 1.0)
    y, share = x / unit, radius / unit
    bottom, top = low / unit, high / unit

    def clipped(level: Tensor) -> Tensor:
        # l2 shrinks by a factor 1 - level, l1 by a threshold; both level from 0 to 1.
        shrunk = y * (1 - level) if p == 2 else (y.abs() - level).relu() * y.sign()
        return shrunk.clamp(bottom, top)

    def excess(level: Tensor) -> tuple[Tensor, Tensor]:
        v = clipped(level)
        size = lp.value(v, p)[:, None]
        free = ((v > bottom) & (v < top) & (v != 0)).to(v.dtype)
        if p == 1:
            return size - share, -free.sum(1, keepdim=True)
        pull = (y * v * free).sum(1, keepdim=True)
        return size - share, -pull / torch.where(size > 0, size, 1.0)

    zero, one = torch.zeros_like(share), torch.ones_like(share)
    level = falling_root(excess, zero, one, zero, 2 * torch.finfo(x.dtype).eps * share)
    inside = excess(zero)[0] <= 0
    v = clipped(torch.where(inside, zero, level)) * unit
    return _into_ball(v.clamp(low, high), radius[:, 0], Lp(p))


def _take_turns(
    x: Tensor, low: Tensor, high: Tensor, radius: Tensor, norm: Norm, steps: int
) -> Tensor:
    """ADMM on ||v - x||^2 / 2 with v in the box, y in the ball, v = y; u the scaled multiplier."""
    relaxation, penalty, largest_penalty = 1.8, 10.0, 500.0
    accuracy = torch.finfo(x.dtype).eps ** (2 / 3)
    y, u = norm.project(x, radius), torch.zeros_like(x)
    for step in range(1, steps + 1):
        v = ((x + penalty * (y - u)) / (1 + penalty)).clamp(low, high)
        ahead = relaxation * v + (1 - relaxation) * y
        before, y = y, norm.project(ahead + u, radius)
        u = u + ahead - y
        if step % 25 == 0:
            change = torch.maximum((v - y).abs(), penalty * (y - before).abs()).flatten(1)
            if not bool((lp.peak(change) > accuracy * lp.peak(x.flatten(1))).any()):
                break
            if penalty < largest_penalty:
                penalty, u = 2 * penalty, u / 2
    # Where one constraint alone does it, the answer is known exactly.
    in_ball, in_box = norm.project(x, radius), x.clamp(low, high)
    y = torch.where(_each(norm(in_box) <= radius, x), in_box, y)
    y = torch.where(_each((in_ball == in_ball.clamp(low, high)).flatten(1).all(1), x), in_ball, y)
    clipped = _into_ball(y.clamp(low, high), radius, norm)
    return torch.where(_each(norm(clipped).isinf(), x), y, clipped)


def _into_ball(v: Tensor, radius: Tensor, norm: Norm) -> Tensor:
    """``v`` scaled into the ball: a box around zero does not lose it."""
    size = norm(v)
    outside = (size > radius) & size.isfinite()
    return v * _each(torch.where(outside, radius / torch.where(outside, size, 1.0), 1.0), v)


def _each(values: Tensor, x: Tensor) -> Tensor:
    """One value for each example, broadcast over ``x``."""
    return values.reshape(-1, *[1] * (x.ndim - 1))


def _as_bound(bound: float | Tensor, x: Tensor) -> Tensor:
    return torch.as_tensor(bound, dtype=x.dtype, device=x.device).expand_as(x)
