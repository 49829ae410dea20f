"""Norms of the spectrum, of a band of it, or with a radius for every frequency."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from strop.geometry import lp
from strop.geometry.checks import as_examples, as_radius, working
from strop.geometry.fourier import (
    half_spectrum,
    inverse_half_spectrum,
    mirrored,
    multiplicity,
)
from strop.geometry.norms import Lp, Norm
from strop.geometry.projections import nearest

__all__ = ["Fourier"]

# A transform there and back leaves a few eps of the length of x outside of a band.
_LEAK = 16


@dataclass(frozen=True)
class _Axes:
    """The ball of one spectrum in coordinates y_k = sqrt(multiplicity_k) |F(x)_k|, k half spectrum.

    In y the Euclidean length is that of x, and ||x|| = ||y / radii||_p over the ``live`` ones.
    """

    stretch: Tensor  # k: sqrt(multiplicity)
    radii: Tensor | None  # of the live coefficients, None: all one
    live: Tensor | None = None  # their indices, None: all
    shut: Tensor | None = None  # indices of those of radius 0
    rest: Tensor | None = None  # k: factor of the others, 1 if free (radius inf), 0 if shut

    def select(self, moduli: Tensor) -> Tensor:
        return moduli if self.live is None else moduli[:, self.live]


class Fourier(Norm):
    """The norm of the orthonormal Fourier transform of each example: || |F(x)| / band ||.

    The transform runs over the last ``dims`` dimensions (1 for signals, 2 for pictures; channels
    are transformed apart) and one norm is taken over all the moduli of an example. Projections
    shrink moduli and keep phases.

    ``band`` holds a radius for each frequency of the full spectrum (or a mask: radius 1 inside), of
    the shape of the last dimensions of the examples, the same at k and -k. Radius 0 allows nothing
    at that frequency: the norm of what has a component there (beyond the rounding of a transform)
    is infinite, and ``project(x, math.inf)`` is its part within the band. The dual norm, of radii
    1 / band, does not see these frequencies: a seminorm, whose ``steepest`` leaves them zero.

    Thesis section 5.3.3 and appendix B.3.

    Args:
        norm: the norm of the moduli, an :class:`Lp`.
        dims: how many of the last dimensions are transformed.
        band: radii >= 0 or a mask.

    >>> from strop.geometry import Linf, low_band
    >>> x = torch.tensor([[1.0, -1.0, 1.0, -1.0]])
    >>> norm = Fourier(Linf, dims=1)
    >>> norm(x), norm.dual
    (tensor([2.]), Fourier(L1, dims=1))
    >>> norm.project(x, 1.0)
    tensor([[ 0.5000, -0.5000,  0.5000, -0.5000]])
    >>> Fourier(Linf, dims=1, band=low_band((4,), 0.25)).project(x, 1.0)
    tensor([[0., 0., 0., 0.]])
    """

    def __init__(self, norm: Lp, dims: int, band: ArrayLike | None = None) -> None:
        if not isinstance(norm, Lp):
            raise ValueError(
                f"expected the norm of the moduli to be L1, L2, Linf or Lp(p), came {norm!r}: "
                "write Fourier(Linf, dims=2)"
            )
        if not isinstance(dims, int) or dims < 1:
            raise ValueError(
                f"expected dims >= 1, the number of transformed dimensions, came {dims!r}: "
                "1 for signals, 2 for pictures"
            )
        self.norm = norm
        self.dims = dims
        self.band = None if band is None else _as_band(band, dims)
        self._dual: Fourier | None = None
        self._axes_of: dict[object, _Axes] = {}

    def __call__(self, x: Tensor) -> Tensor:
        raised = self._checked(x)
        if raised.numel() == 0:
            return lp.value(as_examples(x), self.norm.p).to(x.dtype)
        axes = self._axes(raised)
        moduli = half_spectrum(raised, dims=self.dims).abs().flatten(1).mul_(axes.stretch)
        size = lp.value(axes.select(moduli), self.norm.p, axes.radii)
        if axes.shut is not None:
            leak = lp.value(moduli[:, axes.shut], 2.0)
            rounding = _LEAK * torch.finfo(x.dtype).eps * lp.value(moduli, 2.0)
            size = torch.where(leak > rounding, torch.inf, size)
        return size.to(x.dtype)

    @property
    def dual(self) -> Fourier:
        if self._dual is None:
            band = None if self.band is None else 1 / self.band
            self._dual = Fourier(self.norm.dual, self.dims, band)
            self._dual._dual = self
        return self._dual

    def steepest(self, g: Tensor) -> Tensor:
        raised = self._checked(g)
        if raised.numel() == 0:
            return g.clone()
        axes = self._axes(raised)
        kept = None if axes.rest is None else torch.zeros_like(axes.rest)

        def direction(moduli: Tensor) -> Tensor:
            return lp.steepest(moduli, self.norm.p, axes.radii)

        return self._with_moduli(raised, axes, direction, kept).to(g.dtype)

    def project(self, x: Tensor, radius: float | Tensor) -> Tensor:
        raised = self._checked(x)
        column = as_radius(radius, raised)
        if raised.numel() == 0:
            return x.clone()
        axes = self._axes(raised)

        def shorten(moduli: Tensor) -> Tensor:
            return nearest(moduli, column, self.norm.p, axes.radii)

        return self._with_moduli(raised, axes, shorten, axes.rest).to(x.dtype)

    def _with_moduli(
        self, x: Tensor, axes: _Axes, change: Callable[[Tensor], Tensor], rest: Tensor | None
    ) -> Tensor:
        """``x`` with the moduli of its live coefficients changed, the others times ``rest``."""
        spectrum = half_spectrum(x, dims=self.dims)
        moduli = axes.select(spectrum.abs().flatten(1).mul_(axes.stretch))
        tiny = torch.finfo(x.dtype).tiny
        # Fresh memory costs a processor more than the arithmetic: none is taken but for autograd.
        in_place = not spectrum.requires_grad
        changed = change(moduli)
        ratio = changed.div_(moduli.clamp_(min=tiny)) if in_place else changed / moduli.clamp(tiny)
        if rest is not None and axes.live is not None:
            ratio = rest.repeat(len(x), 1).index_copy(1, axes.live, ratio)
        ratio = ratio.view(spectrum.shape)
        spectrum = spectrum.mul_(ratio) if in_place else spectrum * ratio
        return inverse_half_spectrum(spectrum, sizes=x.shape[-self.dims :])

    def _checked(self, x: Tensor) -> Tensor:
        raised = working(x)
        if self.dims > x.ndim - 1:
            raise ValueError(
                f"expected examples of at least {self.dims} dimensions, came shape "
                f"{tuple(x.shape)} with the batch first: choose dims <= {x.ndim - 1}"
            )
        if self.band is not None:
            expected = tuple(self.band.shape)
            if tuple(x.shape[1:])[-len(expected) :] != expected:
                raise ValueError(
                    f"expected examples whose last dimensions are {expected}, those of the band, "
                    f"came {tuple(x.shape)}: build the band for this size"
                )
        return raised

    def _axes(self, x: Tensor) -> _Axes:
        key = (x.shape[1:], x.dtype, x.device)
        if key not in self._axes_of:
            self._axes_of[key] = _axes(self.norm.p, self.dims, self.band, x)
        return self._axes_of[key]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Fourier):
            return NotImplemented
        if (self.norm, self.dims) != (other.norm, other.dims):
            return False
        if self.band is None or other.band is None:
            return self.band is other.band
        return torch.equal(self.band, other.band)

    def __hash__(self) -> int:
        band = None if self.band is None else self.band.numpy().tobytes()
        return hash((Fourier, self.norm, self.dims, band))

    def __repr__(self) -> str:
        if self.band is None:
            return f"Fourier({self.norm}, dims={self.dims})"
        size = "x".join(map(str, self.band.shape))
        open_ones = int((self.band > 0).sum())
        band = f"<{size}, {open_ones} of {self.band.numel()} frequencies>"
        return f"Fourier({self.norm}, dims={self.dims}, band={band})"


def _as_band(band: ArrayLike, dims: int) -> Tensor:
    radii = torch.as_tensor(band).detach().cpu()
    if radii.is_complex() or radii.ndim < dims:
        raise ValueError(
            f"expected a band of real radii over the {dims} transformed dimensions, came shape "
            f"{tuple(radii.shape)} of {radii.dtype}: give one radius for each frequency"
        )
    radii = radii.to(torch.float64)
    if not bool((radii >= 0).all()):
        raise ValueError(
            "expected radii >= 0 in the band, came negative ones or NaN: use 0 to shut"
        )
    mirror = mirrored(radii, dims=dims)
    if not torch.allclose(radii, mirror, rtol=1e-6, atol=0.0):
        raise ValueError(
            "expected a band over the full spectrum with the same radius at k and -k (real signals "
            "have Hermitian spectra), came one without: build it from torch.fft.fftfreq, not "
            "fftshifted, or take low_band and high_band"
        )
    return (radii + mirror) / 2


def _axes(p: float, dims: int, band: Tensor | None, x: Tensor) -> _Axes:
    half = (*x.shape[1:-1], x.shape[-1] // 2 + 1)
    counts = multiplicity(x.shape[-dims:]).expand(half).flatten()
    # In y every one of the m copies of a modulus |c| adds |c|^p to the norm: r_y = m^(1/2-1/p) r.
    stretch, radii = counts.sqrt().to(x.dtype), (counts ** (0.5 - 1 / p)).to(x.dtype)
    if band is None:
        return _Axes(stretch.to(x.device), None if p == 2 else radii.to(x.device))
    given = band[..., : half[-1]].expand(half).flatten().to(x.dtype)
    live = ((given > 0) & given.isfinite()).nonzero().flatten()
    shut = (given == 0).nonzero().flatten()
    plain = p == 2 and bool((given[live] == 1).all())
    return _Axes(
        stretch.to(x.device),
        None if plain else (radii * given)[live].to(x.device),
        live.to(x.device),
        shut.to(x.device) if len(shut) else None,
        given.isinf().to(x.dtype).to(x.device),
    )
