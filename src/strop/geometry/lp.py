"""Weighted lp norms of flattened examples: their value and their steepest directions.

Legend: b example, k coordinate; r_k the semi-axes ("radii") of the unit ball, all one if not given:

    ||x||  =  (sum_k |x_k / r_k|^p)^(1/p)
"""

import math

import torch
from torch import Tensor

__all__ = ["conjugate", "peak", "steepest", "value"]


def conjugate(p: float) -> float:
    """The exponent q of the dual norm: 1/p + 1/q = 1."""
    if p == 1:
        return math.inf
    return 1.0 if p == math.inf else p / (p - 1)


def peak(x: Tensor) -> Tensor:
    """The largest modulus of each row, b. (Two reductions: no copy of x is made.)"""
    if x.shape[1] == 0:
        return x.sum(dim=1)
    return torch.maximum(x.amax(dim=1), -x.amin(dim=1))


def value(x: Tensor, p: float, radii: Tensor | None = None) -> Tensor:
    """The weighted lp norm of each row of ``x``, b; no power over- or underflows."""
    if radii is not None:
        x = x / radii
    if p == math.inf:
        return peak(x)
    if p == 1 or x.shape[1] == 0:
        return x.abs().sum(dim=1)
    if p == 2 and x.device.type == "cpu":
        # Scaling copies x, which costs more than the norm: only where squares may leave the range.
        norm = torch.linalg.vector_norm(x, 2, dim=1)
        limits = torch.finfo(x.dtype)
        small, large = math.sqrt(limits.tiny) / limits.eps, math.sqrt(limits.max) * limits.eps
        if bool(((norm > small) & (norm < large)).all()):
            return norm
    scale = _usable(peak(x).detach())
    return scale * torch.linalg.vector_norm(x / scale[:, None], p, dim=1)


def steepest(g: Tensor, p: float, radii: Tensor | None = None) -> Tensor:
    """argmax <g, v> over the unit ball, a row at a time; zero where ``g`` is zero.

    With w_k = v_k / r_k it is the steepest direction of r_k g_k for the plain norm.
    """
    if radii is not None:
        return radii * steepest(radii * g, p)
    if p == math.inf:
        return g.sign()
    if g.shape[1] == 0:
        return g.clone()
    if p == 1:
        best = g.abs().argmax(dim=1, keepdim=True)
        return torch.zeros_like(g).scatter(1, best, g.gather(1, best).sign())
    w = g / _usable(peak(g).detach())[:, None]
    if p != 2:
        w = w.abs().pow(conjugate(p) - 1).copysign(g)
    return w / _usable(value(w, p))[:, None]


def _usable(scale: Tensor) -> Tensor:
    """``scale``, or one where dividing by it would say nothing."""
    return torch.where((scale > 0) & scale.isfinite(), scale, torch.ones_like(scale))
