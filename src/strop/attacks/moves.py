"""The moves of a climb: steps of steepest ascent that keep some of the last move's direction.

    ahead  =  delta + length * steepest(gradient)
    delta  <-  inside(delta + 0.75 (ahead - delta) + 0.25 (delta - previous))

For Linf ahead is brought inside first, as in the published attack: it costs a clip there. In the
other norms a projection more in every step has made no attack stronger, nor has the drift in
Fourier(Linf).

A gradient costs little more than some dozen passes over the pictures, so passes are saved: what was
``previous`` is overwritten with the new delta, and where ahead needs no clip a move is

    delta  <-  inside(previous + 1.25 (delta - previous) + 0.75 length * steepest(gradient)).

Legend: b example.
"""

from __future__ import annotations

import torch
from torch import Tensor

from strop.attacks.feasible import Neighbourhood, each
from strop.geometry import L2, Fourier, Linf, lp
from strop.geometry.fourier import half_spectrum, inverse_half_spectrum

__all__ = ["Moves", "moves_in"]

_KEPT = 0.25


def moves_in(around: Neighbourhood, delta: Tensor) -> Moves:
    """The moves from ``delta`` in this neighbourhood, the quickest way to make them."""
    norm = around.norm
    if norm == Linf:
        return CubeMoves(around, delta)
    if norm == L2 or (isinstance(norm, Fourier) and norm.norm == L2 and norm.band is None):
        return BallMoves(around, delta)  # Parseval: the same ball
    if not isinstance(norm, Fourier) or norm.norm != Linf or around.leaks:
        return Moves(around, delta)
    if norm.band is not None and not bool(norm.band.isfinite().all()):
        return Moves(around, delta)
    return SpectralMoves(around, delta)


class Moves:
    """Moves from ``delta``, which is inside.

    A call gives the new delta. It is overwritten by the call after the next.
    """

    def __init__(self, around: Neighbourhood, delta: Tensor) -> None:
        self.around, self.delta = around, delta
        self.previous: Tensor | None = None

    @torch.no_grad()
    def __call__(self, gradient: Tensor, length: Tensor) -> Tensor:
        ahead = self._ahead(gradient, length)
        if self.previous is not None:
            ahead = self.previous.lerp_(self.delta, 2).lerp_(ahead, 1 - _KEPT)
        self.previous, self.delta = self.delta, self._inside(ahead)
        return self.delta

    def go_back(self, where: Tensor, best: Tensor) -> None:
        """Go on from ``best`` and at rest, in the examples of a mask b."""
        where, previous = each(where, best), self.delta if self.previous is None else self.previous
        self.previous = torch.where(where, best, previous)
        self.delta = torch.where(where, best, self.delta)

    def _ahead(self, gradient: Tensor, length: Tensor) -> Tensor:
        return self.around.step(gradient, self.delta, length).add_(self.delta)

    def _inside(self, delta: Tensor) -> Tensor:
        return self.around.inside(delta)


class CubeMoves(Moves):
    """The same for Linf, where being inside is a clip."""

    def _ahead(self, gradient: Tensor, length: Tensor) -> Tensor:
        ahead = gradient.sign()
        torch.addcmul(self.delta, ahead, each(length, ahead), out=ahead)
        return ahead.clamp_(*self.around.box)

    def _inside(self, delta: Tensor) -> Tensor:
        return delta.clamp_(*self.around.box)


class BallMoves(Moves):
    """The same for L2."""

    @torch.no_grad()
    def __call__(self, gradient: Tensor, length: Tensor) -> Tensor:
        slope = lp.value(gradient.flatten(1), 2.0)
        tiny = torch.finfo(slope.dtype).tiny
        length = torch.where(slope > tiny, length / slope.clamp(min=tiny), 0.0)
        if self.previous is None:
            moved = torch.addcmul(self.delta, gradient, each(length, gradient))
        else:
            moved = self.previous.lerp_(self.delta, 1 + _KEPT)
            moved.addcmul_(gradient, each(length, gradient), value=1 - _KEPT)
        size = lp.value(moved.flatten(1), 2.0)
        moved.mul_(each((self.around.eps / size.clamp_(min=tiny)).clamp_(max=1), moved))
        if self.around.bounds is not None:
            moved.clamp_(*self.around.box)
        self.previous, self.delta = self.delta, moved
        return moved


class SpectralMoves(Moves):
    """Steps for Fourier(Linf), where all but the box is done to the spectra, and without drift.

    Steps of spectra are those of the pictures, and clipping moduli is the projection onto the ball:
    one transform of the gradient, one back, and one to see what the box has changed. Spectra are
    kept in units of the radii, u = F(delta) / (eps r), so that the ball is |u_k| <= 1.

    Clipping to the box leaves the ball. Scaling back into it would shrink, on a picture with a
    white background, all waves with the one that the box takes out. So the moves are those of
    Davis and Yin, "A three-operator splitting scheme and its optimization applications", 2017,

        here  =  box(aim),      aim  <-  aim + ball(2 here - aim + step) - here,

    whose fixed points are in both sets and cannot be left uphill. Scaled is only what is shown to
    the model, by what is missing on the way there.
    """

    def __init__(self, around: Neighbourhood, delta: Tensor) -> None:
        super().__init__(around, delta)
        norm, x = around.norm, around.x
        assert isinstance(norm, Fourier)
        self.dims, self.sizes = norm.dims, x.shape[-norm.dims :]
        self.radii: Tensor | None = None
        if norm.band is not None:
            self.radii = norm.band[..., : x.shape[-1] // 2 + 1].to(x.device, x.dtype)
        self.eps = each(around.eps, x)
        self.unit = torch.where(self.eps > 0, self.eps, 1.0)
        self.here = self._spectrum(delta / self.unit)
        self.aim = self.here.clone()
        self.pairs = torch.empty_like(torch.view_as_real(self.here))
        self.squares = torch.empty_like(self.pairs[..., 0], memory_format=torch.contiguous_format)
        self.box: tuple[Tensor, Tensor] | None = None
        if around.bounds is not None:
            low, high = around.box
            self.box = low / self.unit, high / self.unit

    @torch.no_grad()
    def __call__(self, gradient: Tensor, length: Tensor) -> Tensor:
        step = self._step(gradient, each(length, gradient) / self.unit)
        if self.box is None:
            self.here = self._clipped(step.add_(self.here))
            return self._picture(self.here).mul_(self.eps)
        ahead = step.add_(self.here, alpha=2).sub_(self.aim)
        self.aim.add_(self._clipped(ahead)).sub_(self.here)
        moved = self._picture(self.aim).clamp_(*self.box)
        self.here = self._spectrum(moved)
        size = self._squares(self.here).flatten(1).amax(dim=1).clamp_(min=1)
        return moved.mul_(each(size.rsqrt_(), moved) * self.eps)

    def go_back(self, where: Tensor, best: Tensor) -> None:
        spectrum = self._spectrum(best / self.unit)
        back = torch.where(each(where, best), spectrum, self.here)
        self.aim.add_(back).sub_(self.here)
        self.here = back

    def _step(self, gradient: Tensor, length: Tensor) -> Tensor:
        # Squares of moduli are taken: in units of the peak they neither over- nor underflow.
        tiny = torch.finfo(gradient.dtype).tiny
        peak = lp.peak(gradient.flatten(1)).clamp_(min=tiny)
        step = half_spectrum(gradient, dims=self.dims).mul_(each(1 / peak, gradient))
        return step.mul_(self._squares(step).clamp_(min=tiny).rsqrt_().mul_(length))

    def _clipped(self, spectrum: Tensor) -> Tensor:
        return spectrum.mul_(self._squares(spectrum).clamp_(min=1).rsqrt_())

    def _spectrum(self, delta: Tensor) -> Tensor:
        spectrum = half_spectrum(delta, dims=self.dims)
        if self.radii is None:
            return spectrum
        return spectrum.mul_(torch.where(self.radii > 0, 1 / self.radii, 0.0))

    def _picture(self, spectrum: Tensor) -> Tensor:
        if self.radii is not None:
            spectrum = spectrum * self.radii
        return inverse_half_spectrum(spectrum, sizes=self.sizes)

    def _squares(self, spectrum: Tensor) -> Tensor:
        """Squared moduli: many times faster than moduli, which guard against overflow."""
        pairs = torch.square(torch.view_as_real(spectrum), out=self.pairs)
        return torch.add(pairs[..., 0], pairs[..., 1], out=self.squares)
