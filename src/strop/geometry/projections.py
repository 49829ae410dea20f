"""Nearest points: the simplex and the weighted lp balls.

Every ball may be stretched: with ``radii`` r, one for each coordinate, it is

    { v : (sum_k |v_k / r_k|^p)^(1/p) <= radius },     all r_k = 1 if not given.

Legend: b example, k coordinate of the flattened example.
"""

import math

import torch
from torch import Tensor

from strop.geometry import lp
from strop.geometry.checks import as_examples, as_radius, like_input
from strop.geometry.multipliers import shrink, simplex_level

__all__ = [
    "project_l1_ball",
    "project_l2_ball",
    "project_linf_ball",
    "project_lp_ball",
    "project_simplex",
]

# A processor's searches pass over the same rows many times: this many numbers stay in its cache.
_BLOCK = 2**16


def project_simplex(x: Tensor, total: float | Tensor = 1.0) -> Tensor:
    """Nearest point of the simplex: argmin ||v - x||_2 over v >= 0 with sum_k v_k = total.

    Args:
        x: examples, (batch, ...).
        total: the sum, positive, one number or one for each example.

    >>> project_simplex(torch.tensor([[0.5, 1.5, -1.0]]))
    tensor([[0., 1., 0.]])
    """
    examples = as_examples(x)
    column = as_radius(total, examples, name="total")
    if examples.shape[1] == 0:
        if bool((column > 0).any()):
            raise ValueError("expected total = 0 for examples without coordinates: no sum is > 0")
        return x.clone()
    below = examples - examples.detach().amax(dim=1, keepdim=True)  # no sum of these overflows
    return like_input((below - _level(below, column, None)).relu(), x)


def project_l1_ball(x: Tensor, radius: float | Tensor, *, radii: Tensor | None = None) -> Tensor:
    """Nearest point of an l1 ball: argmin ||v - x||_2 over sum_k |v_k| / r_k <= radius.

    A soft threshold whose level is found without sorting.

    Args:
        x: examples, (batch, ...).
        radius: of the ball, one number or one for each example.
        radii: positive semi-axes r, of the shape of one example.

    >>> project_l1_ball(torch.tensor([[3.0, 0.0, -4.0]]), 2.0)
    tensor([[ 0.5000,  0.0000, -1.5000]])
    """
    return project_lp_ball(x, radius, p=1.0, radii=radii)


def project_l2_ball(x: Tensor, radius: float | Tensor, *, radii: Tensor | None = None) -> Tensor:
    """Nearest point of an l2 ball, or with ``radii`` of an ellipsoid; see :func:`project_lp_ball`.

    >>> project_l2_ball(torch.tensor([[3.0, 0.0, -4.0]]), 2.5)
    tensor([[ 1.5000,  0.0000, -2.0000]])
    """
    return project_lp_ball(x, radius, p=2.0, radii=radii)


def project_linf_ball(x: Tensor, radius: float | Tensor, *, radii: Tensor | None = None) -> Tensor:
    """Nearest point of an linf ball, a box: each coordinate clipped to [-radius r_k, radius r_k].

    >>> project_linf_ball(torch.tensor([[3.0, 0.0, -4.0]]), 1.0)
    tensor([[ 1.,  0., -1.]])
    """
    return project_lp_ball(x, radius, p=math.inf, radii=radii)


def project_lp_ball(
    x: Tensor, radius: float | Tensor, *, p: float, radii: Tensor | None = None
) -> Tensor:
    """Nearest point of an lp ball: argmin ||v - x||_2 over (sum_k |v_k / r_k|^p)^(1/p) <= radius.

    Closed forms for p = 2 without ``radii`` and p = inf; p = 1 by a finite search; every other p
    by a safeguarded Newton's method on the multiplier.

    Args:
        x: examples, (batch, ...).
        radius: of the ball, one number or one for each example.
        p: 1 <= p <= inf.
        radii: positive semi-axes r, of the shape of one example.

    >>> project_lp_ball(torch.tensor([[1.0, 1.0]]), 1.0, p=3.0) ** 3
    tensor([[0.5000, 0.5000]])
    """
    examples = as_examples(x)
    if not p >= 1:
        raise ValueError(f"expected 1 <= p <= inf, came p={p}: below 1 the ball is not convex")
    column = as_radius(radius, examples)
    if radii is not None:
        radii = _as_radii(radii, x)
    return like_input(nearest(examples, column, p, radii), x)


def nearest(x: Tensor, radius: Tensor, p: float, radii: Tensor | None) -> Tensor:
    """:func:`project_lp_ball` for examples bk, a column of radii b1 and semi-axes k."""
    if p == math.inf:
        bound = radius if radii is None else radius * radii
        return x.clamp(-bound, bound)
    if p == 2 and radii is None:
        size = lp.value(x, 2.0)[:, None]
        return x * torch.where(size > radius, radius / size, 1.0)
    rows = max(1, _BLOCK // max(1, x.shape[1]))
    if x.device.type != "cpu" or len(x) <= rows:
        return _nearest_rows(x, radius, p, radii)
    pairs = zip(x.split(rows), radius.split(rows), strict=True)
    return torch.cat([_nearest_rows(*pair, p, radii) for pair in pairs])


def _nearest_rows(x: Tensor, radius: Tensor, p: float, radii: Tensor | None) -> Tensor:
    outside = lp.value(x.detach(), p, radii) > radius[:, 0]
    if x.numel() > 0 and bool(outside.all()):
        return _onto_sphere(x, radius, p, radii)
    result = x.clone()
    if bool(outside.any()):
        result[outside] = _onto_sphere(x[outside], radius[outside], p, radii)
    return result


def _onto_sphere(x: Tensor, radius: Tensor, p: float, radii: Tensor | None) -> Tensor:
    """The nearest point of the ball for rows which are all outside of it."""
    if p == 1:
        return _lengthened(_soft_threshold(x, radius, radii), radius, p, radii)
    return _shrunk(x, radius, p, radii)


def _lengthened(v: Tensor, radius: Tensor, p: float, radii: Tensor | None) -> Tensor:
    """``v`` brought to the norm of the answer, from what units and rounding made it."""
    size = lp.value(v, p, radii)[:, None]
    return v * (radius / torch.where(size > 0, size, 1.0))


def _soft_threshold(x: Tensor, radius: Tensor, radii: Tensor | None) -> Tensor:
    """Proportional to the nearest point; in units of the largest entry, so that no sum overflows.

    v_k = max(b_k - level, 0) / r_k with b_k = |x_k| r_k, at the level where sum_k v_k / r_k is the
    radius.
    """
    unit = lp.peak(x.detach())[:, None]
    breaks = x.abs().div_(unit)
    if radii is None:
        v = (breaks - _level(breaks, radius / unit, None)).relu()
    else:
        breaks = breaks * radii
        v = (breaks - _level(breaks, radius / unit, radii**-2)).relu() / radii
    return v.copysign(x)


def _level(values: Tensor, total: Tensor, weights: Tensor | None) -> Tensor:
    """:func:`simplex_level`, with its derivative where one is asked for."""
    level = simplex_level(values, total, weights)
    if not (torch.is_grad_enabled() and (values.requires_grad or total.requires_grad)):
        return level
    active = (values.detach() >= level).to(values.dtype) * (1.0 if weights is None else weights)
    return ((active * values).sum(1, keepdim=True) - total) / active.sum(1, keepdim=True)


def _shrunk(x: Tensor, radius: Tensor, p: float, radii: Tensor | None) -> Tensor:
    # Logarithms and powers cost single precision its digits: double, wherever the device has it.
    dtype = x.dtype if x.device.type == "mps" else torch.float64
    unit = lp.peak(x.detach())[:, None].to(dtype)
    a, share = x.abs().to(dtype) / unit, radius.to(dtype) / unit
    # Below the square root of the smallest number only the direction matters, and it is there.
    share = share.clamp(min=math.sqrt(torch.finfo(dtype).tiny))
    radii = None if radii is None else radii.to(dtype)
    v = shrink(a.detach(), share.detach(), p, radii)
    if torch.is_grad_enabled() and (a.requires_grad or share.requires_grad):
        v = v + _first_order(v, a, share, p, radii)
    return _lengthened(v, radius.to(dtype), p, radii).to(x.dtype).copysign(x)


def _first_order(v: Tensor, a: Tensor, radius: Tensor, p: float, radii: Tensor | None) -> Tensor:
    """Zero, with the derivative of v: that of v + m n(v) = a on the sphere, n its normal."""
    with torch.no_grad():
        r = torch.ones_like(v) if radii is None else radii
        normal = (v / r / radius).pow(p - 1) / r
        stiffness = ((a - v) * v).sum(1, keepdim=True) / radius
        give = v / (v + stiffness * (p - 1) * normal)
        give = torch.where(v > 0, give, 1.0 if p > 2 else 0.0)
        along = give * normal / (give * normal**2).sum(1, keepdim=True)
    moved = give * (a - a.detach())
    drift = (normal * moved).sum(1, keepdim=True) - (radius - radius.detach())
    return moved - along * drift


def _as_radii(radii: Tensor, x: Tensor) -> Tensor:
    """Semi-axes of one example, flattened to k."""
    if radii.shape != x.shape[1:]:
        raise ValueError(
            f"expected radii of the shape of one example, {tuple(x.shape[1:])}, came "
            f"{tuple(radii.shape)}: broadcast them with torch.broadcast_to"
        )
    dtype = torch.promote_types(x.dtype, torch.float32)
    radii = radii.to(device=x.device, dtype=dtype).flatten()
    if not bool(((radii > 0) & radii.isfinite()).all()):
        raise ValueError(
            "expected positive finite radii, came zero, negative, infinite or NaN ones"
        )
    return radii
