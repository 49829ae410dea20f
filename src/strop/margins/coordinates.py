"""Coordinates in which an attack norm is the largest or the sum of Euclidean lengths of blocks.

    linf: d blocks of one entry, the largest.       l1: the same, the sum.
    Fourier-linf, Fourier-l1: a block of two (real, imaginary) for each coefficient of the half
    spectrum, stretched so that its ball has radius one.       l2: one block of d entries.

Legend: n points, m blocks, k entries of a block.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from strop.geometry import Fourier, Lp, Norm
from strop.geometry.fourier import half_spectrum, inverse_half_spectrum, multiplicity
from strop.support import InputError

__all__ = ["Blocks", "as_blocks", "has_blocks"]


@dataclass(frozen=True, eq=False)
class Blocks:
    """Points in block coordinates, and the way back for weights."""

    entries: Tensor
    """(n, m, k)."""
    largest: bool
    """Whether the attack norm is the largest of the lengths (True) or their sum."""
    weights_of: Callable[[Tensor], Tensor]
    """(m, k) weights in block coordinates to (d,) weights."""


def has_blocks(attack: Norm) -> bool:
    """Whether :func:`as_blocks` knows this norm."""
    if isinstance(attack, Fourier):
        radii = attack.band
        open_band = radii is None or bool(((radii > 0) & radii.isfinite()).all())
        return open_band and attack.norm.p in (1, 2, math.inf) and not _weighted_l2(attack)
    return isinstance(attack, Lp) and attack.p in (1, 2, math.inf)


def as_blocks(rows: Tensor, shape: tuple[int, ...], attack: Norm) -> Blocks:
    """Rows (n, d) of points of this ``shape`` in the block coordinates of the attack norm."""
    if not has_blocks(attack):
        raise InputError(
            f"expected l1, l2, linf, or Fourier of one of these with all frequencies open, came "
            f"{attack!r}: use solver='pdhg', which takes any norm"
        )
    if isinstance(attack, Lp) or (isinstance(attack, Fourier) and attack.norm.p == 2):
        if _exponent(attack) == 2:  # an orthonormal transform keeps Euclidean lengths
            return Blocks(rows[:, None, :], True, lambda w: w.reshape(-1))
        return Blocks(rows[:, :, None], _exponent(attack) == math.inf, lambda w: w.reshape(-1))
    assert isinstance(attack, Fourier)
    return _spectral_blocks(rows, shape, attack)


def _spectral_blocks(rows: Tensor, shape: tuple[int, ...], attack: Fourier) -> Blocks:
    dims, sizes = attack.dims, shape[-attack.dims :]
    half = (*shape[:-1], shape[-1] // 2 + 1)
    counts = multiplicity(sizes).expand(half).flatten().to(rows)
    p = attack.norm.p
    # y = sqrt(count) F(x) keeps Euclidean lengths; each of its balls has semi-axis r.
    radii = counts ** (0.5 - 1 / p)
    if attack.band is not None:
        radii = radii * attack.band[..., : half[-1]].expand(half).flatten().to(rows)
    stretch = counts.sqrt() / radii
    spectrum = half_spectrum(rows.reshape(-1, *shape), dims=dims).reshape(rows.shape[0], -1)
    entries = torch.view_as_real(spectrum) * stretch[:, None]

    def weights_of(w: Tensor) -> Tensor:
        # <w, x> = sum_k count_k Re(conj(F(w)_k) F(x)_k) = <block weights, block entries>.
        coefficients = torch.view_as_complex((w * (stretch / counts)[:, None]).contiguous())
        return inverse_half_spectrum(coefficients.reshape(1, *half), sizes=sizes).reshape(-1)

    return Blocks(entries, p == math.inf, weights_of)


def _exponent(attack: Norm) -> float:
    if isinstance(attack, Fourier):
        return attack.norm.p
    assert isinstance(attack, Lp)
    return attack.p


def _weighted_l2(attack: Fourier) -> bool:
    return attack.norm.p == 2 and attack.band is not None and not bool((attack.band == 1).all())
