"""The moves of a climb: steps of steepest ascent that keep some of the last move's direction.

    ahead  =  delta + length * steepest(gradient)
    delta  <-  inside(delta + 0.75 (ahead - delta) + 0.25 (delta - previous))

For Linf ahead is brought inside first, as in the published attack: it costs a clip there. In the
other norms a projection more in every step has made no attack stronger, nor has the drift in
Fourier(Linf).

A gradient costs little more than some dozen passes over the pictures, so passes are saved: what was
``previous`` is overwritten with the new delta, Linf and L2 keep x + delta in place of delta (then
what the model sees needs no sum), and where ahead needs no clip a move is

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
    """Moves from x + ``delta``, which is inside.

    A call gives the new x + delta, to be overwritten by a later call.
    """

    def __init__(self, around: Neighbourhood, delta: Tensor) -> None:
        self.around, self.here = around, delta
        self.previous: Tensor | None = None

    @torch.no_grad()
    def __call__(self, gradient: Tensor, length: Tensor) -> Tensor:
        step = self.around.step(gradient, self.here, length)
        if self.previous is None:
            ahead = step.add_(self.here)
        else:
            ahead = self.previous.lerp_(self.here, 1 + _KEPT).add_(step, alpha=1 - _KEPT)
        self.previous, self.here = self.here, self.around.inside(ahead)
        return self.around.x + self.here

    def go_back(self, where: Tensor, best: Tensor) -> None:
        """Go on from the points ``best`` and at rest, in the examples of a mask b."""
        self._rest(where, best - self.around.x)

    def _rest(self, where: Tensor, best: Tensor) -> None:
        share = each(where, best).to(best.dtype)
        previous = self.here if self.previous is None else self.previous
        self.previous, self.here = previous.lerp(best, share), self.here.lerp(best, share)


class PointMoves(Moves):
    """Moves that keep points, x + delta: what the model sees needs no sum of its own."""

    def __init__(self, around: Neighbourhood, delta: Tensor) -> None:
        super().__init__(around, around.x + delta)

    def go_back(self, where: Tensor, best: Tensor) -> None:
        self._rest(where, best)


class CubeMoves(PointMoves):
    """The same for Linf, where being inside is a clip."""

    def __init__(self, around: Neighbourhood, delta: Tensor) -> None:
        super().__init__(around, delta)
        low, high = around.box
        self.box = around.x + low, around.x + high

    @torch.no_grad()
    def __call__(self, gradient: Tensor, length: Tensor) -> Tensor:
        ahead = gradient.sign()
        torch.addcmul(self.here, ahead, each(length, ahead), out=ahead).clamp_(*self.box)
        if self.previous is not None:
            ahead = self.previous.lerp_(self.here, 2).lerp_(ahead, 1 - _KEPT).clamp_(*self.box)
        self.previous, self.here = self.here, ahead
        return ahead


class BallMoves(PointMoves):
    """The same for L2."""

    @torch.no_grad()
    def __call__(self, gradient: Tensor, length: Tensor) -> Tensor:
        slope = lp.value(gradient.flatten(1), 2.0)
        tiny = _tiny(slope)
        length = each(torch.where(slope > tiny, length / slope.clamp(min=tiny), 0.0), gradient)
        if self.previous is None:
            moved = torch.addcmul(self.here, gradient, length)
        else:
            moved = self.previous.lerp_(self.here, 1 + _KEPT)
            moved.addcmul_(gradient, length, value=1 - _KEPT)
        x, delta = self.around.x, moved.sub_(self.around.x)
        share = self.around.eps / lp.value(delta.flatten(1), 2.0).clamp_(min=tiny)
        torch.addcmul(x, delta, each(share.clamp_(max=1), delta), out=moved)
        if self.around.bounds is not None:
            moved.clamp_(*self.around.bounds)
        self.previous, self.here = self.here, moved
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
    the model, by what is missing on the way there. Kept are mirror = 2 here - aim, and the excess
    aim - here, which stays when an example goes back to another here.
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
        self.mirror = self._spectrum(delta / self.unit)
        self.excess = torch.zeros_like(self.mirror)
        self.squares = torch.empty_like(self.mirror.real, memory_format=torch.contiguous_format)
        self.box: tuple[Tensor, Tensor] | None = None
        if around.bounds is not None:
            low, high = around.box
            self.box = low / self.unit, high / self.unit

    @torch.no_grad()
    def __call__(self, gradient: Tensor, length: Tensor) -> Tensor:
        step = self._step(gradient, each(length, gradient) / self.unit)
        aim = self._clipped(step.add_(self.mirror)).add_(self.excess)
        moved = self._picture(aim)
        if self.box is None:
            self.mirror = aim
            return torch.addcmul(self.around.x, moved, self.eps, out=moved)
        here = self._spectrum(moved.clamp_(*self.box))
        size = self._squares(here).flatten(1).amax(dim=1).clamp_(min=1)
        self.excess = aim.sub_(here)
        self.mirror = here.sub_(self.excess)
        return torch.addcmul(self.around.x, moved, each(size.rsqrt_(), moved) * self.eps, out=moved)

    def go_back(self, where: Tensor, best: Tensor) -> None:
        back = self._spectrum((best - self.around.x) / self.unit).sub_(self.excess)
        self.mirror = torch.where(each(where, back), back, self.mirror)

    def _step(self, gradient: Tensor, length: Tensor) -> Tensor:
        step = half_spectrum(gradient, dims=self.dims)
        squares = self._squares(step) if step.device.type == "cpu" else None
        if squares is None or not _in_range(squares):
            peak = lp.peak(gradient.flatten(1)).clamp_(min=_tiny(gradient))
            squares = self._squares(step.mul_(each(1 / peak, step)))
        return step.mul_(squares.clamp_(min=_tiny(squares)).rsqrt_().mul_(length))

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
        pairs = torch.view_as_real(spectrum).square()
        return torch.add(pairs[..., 0], pairs[..., 1], out=self.squares)


def _in_range(squares: Tensor) -> bool:
    """Whether the largest of each example are far from over- and underflow."""
    limits, top = torch.finfo(squares.dtype), squares.flatten(1).amax(dim=1)
    return bool(((top > limits.tiny / limits.eps**2) & (top < limits.max * limits.eps)).all())


def _tiny(x: Tensor) -> float:
    return torch.finfo(x.dtype).tiny
