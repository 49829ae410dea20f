"""One move of a climb: a step of steepest ascent that keeps some of the last move's direction.

    ahead  =  delta + length * steepest(gradient)
    delta  <-  inside(delta + 0.75 (ahead - delta) + 0.25 (delta - previous))

For Linf ahead is brought inside first, as in the published attack: it costs a clip there. In the
other norms a projection more in every step has made no attack stronger.

Legend: b example.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from strop.attacks.feasible import MUCH, OVERSHOOT, QUICK_TURNS, Neighbourhood, each
from strop.geometry import L2, Fourier, Linf
from strop.geometry.fourier import half_spectrum, inverse_half_spectrum

__all__ = ["Moves", "moves_in"]

_KEPT = 0.25


def moves_in(around: Neighbourhood) -> Moves:
    """The moves of this neighbourhood, the quickest way to make them."""
    norm = around.norm
    if not isinstance(norm, Fourier):
        return Moves(around)
    if norm.norm == L2 and norm.band is None:
        return Moves(replace(around, norm=L2))  # Parseval: the same ball
    return SpectralMoves(around) if norm.norm == Linf and not around.leaks else Moves(around)


class Moves:
    """Moves from ``delta``, where the last one came from ``previous`` (None: from nowhere)."""

    def __init__(self, around: Neighbourhood) -> None:
        self.around = around

    @torch.no_grad()
    def __call__(
        self, delta: Tensor, previous: Tensor | None, gradient: Tensor, length: Tensor
    ) -> Tensor:
        ahead = self.around.step(gradient, delta, length).add_(delta)
        if self.around.norm == Linf:
            ahead = self.around.inside(ahead)
        if previous is not None:
            ahead = _with_drift(delta, ahead, previous)
        return self.around.inside(ahead)


class SpectralMoves(Moves):
    """The same for Fourier(Linf), where all but the box is done to the spectra.

    Steps and drifts of spectra are those of the pictures, and clipping moduli is the projection:
    one transform of the gradient, one back, and one to see how much the box has changed.
    """

    def __init__(self, around: Neighbourhood) -> None:
        super().__init__(around)
        norm, x = around.norm, around.x
        assert isinstance(norm, Fourier)
        self.dims, self.sizes = norm.dims, x.shape[-norm.dims :]
        self.radii: Tensor | None = None
        if norm.band is not None:
            half = norm.band[..., : x.shape[-1] // 2 + 1]
            self.radii = half.to(x.device, x.dtype)
        self.known: list[tuple[Tensor, Tensor]] = []

    @torch.no_grad()
    def __call__(
        self, delta: Tensor, previous: Tensor | None, gradient: Tensor, length: Tensor
    ) -> Tensor:
        here = self._spectrum(delta)
        # Squares of moduli are taken: in units of the peak they neither over- nor underflow.
        peak = gradient.flatten(1).abs().amax(dim=1).clamp(min=torch.finfo(gradient.dtype).tiny)
        steepest = half_spectrum(gradient / each(peak, gradient), dims=self.dims)
        ahead = steepest.mul_(self._per_modulus(steepest, length)).add_(here)
        if previous is not None:
            ahead = _with_drift(here, ahead, self._spectrum(previous))
        ahead = self._clipped(ahead)
        moved = inverse_half_spectrum(ahead, sizes=self.sizes)
        if self.around.bounds is not None:
            moved = moved.clamp_(*self.around.box)
            ahead = half_spectrum(moved, dims=self.dims)
            share = self._share(ahead, self.around.eps)
            moved, ahead, share = self._less_scaled(moved, ahead, share)
            moved, ahead = moved.mul_(each(share, moved)), ahead.mul_(each(share, moved))
        self.known = [(delta, here), (moved, ahead)]
        return moved

    def _less_scaled(
        self, moved: Tensor, spectrum: Tensor, share: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Turns between ball and box where scaling into the ball would cost much.

        Of a picture with a white background the box takes a single wave out of the ball, and all
        others would have to shrink with it.
        """
        low, high = self.around.box
        for _ in range(QUICK_TURNS):
            rows = (share < MUCH).nonzero().flatten()
            if len(rows) == 0:
                break
            eps, turned = self.around.eps[rows], spectrum[rows]
            over = self._per_modulus(turned, eps).clamp_(max=1).sub_(1).mul_(OVERSHOOT).add_(1)
            turned = inverse_half_spectrum(turned.mul_(over), sizes=self.sizes)
            moved[rows] = turned = turned.clamp_(low[rows], high[rows])
            spectrum[rows] = turned = half_spectrum(turned, dims=self.dims)
            share[rows] = self._share(turned, eps)
        return moved, spectrum, share

    def _share(self, spectrum: Tensor, eps: Tensor) -> Tensor:
        """The factor that brings each into the ball."""
        size = _squares(spectrum)
        if self.radii is not None:
            size = size.div_(self.radii**2)
        size = size.flatten(1).amax(dim=1).sqrt_()
        return (eps / size.clamp_(min=torch.finfo(size.dtype).tiny)).clamp_(max=1)

    def _spectrum(self, delta: Tensor) -> Tensor:
        for seen, spectrum in self.known:
            if seen is delta:
                return spectrum
        return half_spectrum(delta, dims=self.dims)

    def _clipped(self, spectrum: Tensor) -> Tensor:
        return spectrum.mul_(self._per_modulus(spectrum, self.around.eps).clamp_(max=1))

    def _per_modulus(self, spectrum: Tensor, length: Tensor) -> Tensor:
        """length r_k / |spectrum_k|; what is zero stays so."""
        squares = _squares(spectrum)
        squares.clamp_(min=torch.finfo(squares.dtype).tiny).rsqrt_().mul_(each(length, squares))
        return squares if self.radii is None else squares.mul_(self.radii)


def _with_drift(here: Tensor, ahead: Tensor, previous: Tensor) -> Tensor:
    return torch.lerp(ahead, here, _KEPT).add_(here - previous, alpha=_KEPT)


def _squares(spectrum: Tensor) -> Tensor:
    """Squared moduli: many times faster than moduli, which guard against overflow."""
    return (spectrum * spectrum.conj()).real.clone()
