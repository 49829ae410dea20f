"""Orthonormal Fourier transforms of real signals, kept as half spectra, and bands of frequencies.

A real signal has a Hermitian spectrum, so half of it (``rfft``) says all. In the half spectrum the
coefficients of last wave number 0 and, where the size is even, of the last one stand for themselves
and the others for a pair: see :func:`multiplicity`.
"""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

__all__ = [
    "half_spectrum",
    "high_band",
    "inverse_half_spectrum",
    "low_band",
    "mirrored",
    "multiplicity",
]

Scaling = Literal["ortho", "backward"]


def half_spectrum(x: Tensor, *, dims: int, norm: Scaling = "ortho") -> Tensor:
    """The orthonormal DFT of real ``x`` over its last ``dims`` dimensions, its first half.

    With ``norm="backward"`` the plain sums, larger by the square root of the number of samples:
    these and their inverse cost a processor less.

    >>> half_spectrum(torch.ones(1, 4), dims=1)
    tensor([[2.+0.j, 0.+0.j, 0.+0.j]])
    """
    return torch.fft.rfftn(x, dim=tuple(range(-dims, 0)), norm=norm)


def inverse_half_spectrum(
    spectrum: Tensor, *, sizes: Sequence[int], norm: Scaling = "ortho"
) -> Tensor:
    """The real signal of the given ``sizes`` whose :func:`half_spectrum` is ``spectrum``."""
    dimensions = tuple(range(-len(sizes), 0))
    return torch.fft.irfftn(spectrum, s=tuple(sizes), dim=dimensions, norm=norm)


def multiplicity(sizes: Sequence[int]) -> Tensor:
    """How many coefficients of the full spectrum each one of the half spectrum stands for.

    >>> multiplicity((4,)), multiplicity((5,))
    (tensor([1., 2., 1.], dtype=torch.float64), tensor([1., 2., 2.], dtype=torch.float64))
    """
    *leading, last = sizes
    counts = torch.full((last // 2 + 1,), 2.0, dtype=torch.float64)
    counts[0] = 1.0
    if last % 2 == 0:
        counts[-1] = 1.0
    return counts.expand(*leading, -1).clone()


def mirrored(band: Tensor, *, dims: int) -> Tensor:
    """``band`` with the values at k and -k exchanged, over its last ``dims`` dimensions.

    >>> mirrored(torch.arange(4), dims=1)
    tensor([0, 3, 2, 1])
    """
    dimensions = tuple(range(-dims, 0))
    return band.flip(dimensions).roll((1,) * dims, dimensions)


def low_band(shape: Sequence[int], cutoff: float) -> Tensor:
    """The frequencies up to ``cutoff`` over the full spectrum of signals of this ``shape``: a mask.

    Frequencies are in cycles per sample, from 0 (constant) to 0.5 (alternating, Nyquist); that of a
    picture is the largest of its axes': ``low_band((32, 32), 8 / 32)`` keeps the waves which cross
    the picture at most 8 times in height and in width.

    >>> low_band((5,), 0.2)
    tensor([ True,  True, False, False,  True])
    """
    _check_cutoff(cutoff)
    frequency = torch.zeros(tuple(shape), dtype=torch.float64)
    for axis, size in enumerate(shape):
        along = torch.fft.fftfreq(size, dtype=torch.float64).abs()
        along = along.reshape(-1, *[1] * (len(shape) - axis - 1))
        frequency = torch.maximum(frequency, along)
    return frequency <= cutoff


def high_band(shape: Sequence[int], cutoff: float) -> Tensor:
    """The frequencies above ``cutoff``: all that :func:`low_band` leaves out.

    >>> high_band((5,), 0.2)
    tensor([False, False,  True,  True, False])
    """
    return ~low_band(shape, cutoff)


def _check_cutoff(cutoff: float) -> None:
    if not 0 <= cutoff <= 0.5:
        raise ValueError(
            f"expected a cut-off between 0 and 0.5 cycles per sample, came {cutoff}: "
            "divide the number of waves across the signal by its length, e.g. 8 / 32"
        )
