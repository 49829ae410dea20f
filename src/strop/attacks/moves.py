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

import math

import torch
from torch import Tensor

from strop.attacks.feasible import (
    MUCH,
    OVERSHOOT,
    QUICK_TURNS,
    Neighbourhood,
    each,
    into_l1_ball,
    may_ask,
    shrinkage,
)
from strop.geometry import L1, L2, Fourier, Linf, lp
from strop.geometry.fourier import half_spectrum, inverse_half_spectrum, multiplicity
from strop.geometry.multipliers import newton_level

__all__ = ["Moves", "moves_in"]

_KEPT = 0.25
# From the last level, on a GPU; where it takes more, what is left outside is scaled.
_DIAMOND_STEPS, _WAVE_STEPS = 3, 2


def moves_in(around: Neighbourhood, delta: Tensor) -> Moves:
    """The moves from ``delta`` in this neighbourhood, the quickest way to make them."""
    norm = around.norm
    if norm == Linf:
        return CubeMoves(around, delta)
    if norm == L2 or (isinstance(norm, Fourier) and norm.norm == L2 and norm.band is None):
        return BallMoves(around, delta)  # Parseval: the same ball
    if norm == L1 and around.bounds is not None:
        return DiamondMoves(around, delta)
    if isinstance(norm, Fourier) and norm.norm == L1 and norm.band is None:
        return WaveMoves(around, delta)
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
        self.previous, self.here = self.here, self._inside(ahead)
        return self.around.x + self.here

    def go_back(self, where: Tensor, best: Tensor) -> None:
        """Go on from the points ``best`` and at rest, in the examples of a mask b."""
        self._rest(where, best - self.around.x)

    def _inside(self, delta: Tensor) -> Tensor:
        return self.around.inside(delta)

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


class DiamondMoves(Moves):
    """The same for L1 in a box: the level that shortens deltas is looked for near the last one."""

    def __init__(self, around: Neighbourhood, delta: Tensor) -> None:
        super().__init__(around, delta)
        self.level = delta.new_zeros(len(delta), 1)

    def _inside(self, delta: Tensor) -> Tensor:
        delta, eps = delta.clamp_(*self.around.box), self.around.eps
        asking = may_ask(delta)
        return into_l1_ball(delta, eps, self.level, steps=_DIAMOND_STEPS, asking=asking)


class SpectralMoves(Moves):
    """Steps for Fourier(Linf), where all but the box is done to the spectra, and without drift.

    Steps of spectra are those of the pictures, and clipping moduli is the projection onto the ball:
    one transform of the gradient, one back, and one to see what the box has changed. Spectra are
    kept in units of the radii, u = F(delta) / (eps r), so that the ball is |u_k| <= 1, and deltas
    in units of which these are the plain sums.

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
        eps = each(around.eps, x)
        self.eps = torch.where(eps > 0, eps, 1.0)
        root = math.sqrt(math.prod(self.sizes))
        self.reach, self.span = eps * root, self.eps * root  # alike where there is a ball at all
        self.mirror = self._spectrum(delta / self.span)
        self.excess = torch.zeros_like(self.mirror)
        self.squares = torch.empty_like(self.mirror.real, memory_format=torch.contiguous_format)
        self.box: tuple[Tensor, Tensor] | None = None
        if around.bounds is not None:
            low, high = around.box
            self.box = low / self.span, high / self.span

    @torch.no_grad()
    def __call__(self, gradient: Tensor, length: Tensor) -> Tensor:
        step = self._step(gradient, each(length, gradient) / self.eps)
        aim = self._clipped(step.add_(self.mirror)).add_(self.excess)
        moved = self._picture(aim)
        if self.box is None:
            self.mirror = aim
            return torch.addcmul(self.around.x, moved, self.reach, out=moved)
        here = self._spectrum(moved.clamp_(*self.box))
        size = self._squares(here).flatten(1).amax(dim=1).clamp_(min=1)
        self.excess = aim.sub_(here)
        self.mirror = here.sub_(self.excess)
        share = each(size.rsqrt_(), moved) * self.reach
        return torch.addcmul(self.around.x, moved, share, out=moved)

    def go_back(self, where: Tensor, best: Tensor) -> None:
        back = self._spectrum((best - self.around.x) / self.span).sub_(self.excess)
        self.mirror = torch.where(each(where, back), back, self.mirror)

    def _step(self, gradient: Tensor, length: Tensor) -> Tensor:
        step = half_spectrum(gradient, dims=self.dims, norm="backward")
        squares = self._squares(step) if step.device.type == "cpu" else None
        if squares is None or not _in_range(squares):
            peak = lp.peak(gradient.flatten(1)).clamp_(min=_tiny(gradient))
            squares = self._squares(step.mul_(each(1 / peak, step)))
        return step.mul_(squares.clamp_(min=_tiny(squares)).rsqrt_().mul_(length))

    def _clipped(self, spectrum: Tensor) -> Tensor:
        return spectrum.mul_(self._squares(spectrum).clamp_(min=1).rsqrt_())

    def _spectrum(self, delta: Tensor) -> Tensor:
        spectrum = half_spectrum(delta, dims=self.dims, norm="backward")
        if self.radii is None:
            return spectrum
        return spectrum.mul_(torch.where(self.radii > 0, 1 / self.radii, 0.0))

    def _picture(self, spectrum: Tensor) -> Tensor:
        if self.radii is not None:
            spectrum = spectrum * self.radii
        return inverse_half_spectrum(spectrum, sizes=self.sizes, norm="backward")

    def _squares(self, spectrum: Tensor) -> Tensor:
        """Squared moduli: many times faster than moduli, which guard against overflow."""
        pairs = torch.view_as_real(spectrum).square()
        return torch.add(pairs[..., 0], pairs[..., 1], out=self.squares)


class WaveMoves(Moves):
    """The same for Fourier(L1), a wave at a time: all but the box is done to the spectra.

    A wave that the box takes out of the ball would shrink all others with it: where that costs
    much, turns between ball and box come first. On a GPU no step waits for an answer: all examples
    take all turns, and the levels that shorten the spectra are looked for near the last ones.
    """

    def __init__(self, around: Neighbourhood, delta: Tensor) -> None:
        super().__init__(around, delta)
        norm, x = around.norm, around.x
        assert isinstance(norm, Fourier)
        self.dims, self.sizes = norm.dims, x.shape[-norm.dims :]
        self.here = half_spectrum(delta, dims=self.dims)
        counts = multiplicity(self.sizes).expand(self.here.shape[1:])
        self.counts = counts.flatten().to(x.device, x.dtype)
        self.partners = _partners(self.here.shape[1:], dims=self.dims).to(x.device)
        self.levels = [x.new_zeros(len(x), 1) for _ in range(1 + QUICK_TURNS)]
        self.one = x.new_ones(())
        self.asking = may_ask(x)

    @torch.no_grad()
    def __call__(self, gradient: Tensor, length: Tensor) -> Tensor:
        if self.previous is None:
            ahead = self.here.clone()
        else:
            ahead = self.previous.lerp_(self.here, 1 + _KEPT)
            length = length * (1 - _KEPT)
        self._add_wave(ahead, half_spectrum(gradient, dims=self.dims), length)
        self.previous = self.here
        moved, self.here = self._bent(ahead)
        return moved.add_(self.around.x)

    def go_back(self, where: Tensor, best: Tensor) -> None:
        self._rest(where, half_spectrum(best - self.around.x, dims=self.dims))

    def _add_wave(self, spectrum: Tensor, slopes: Tensor, length: Tensor) -> None:
        """Add the steepest of all waves to ``spectrum``, of this length in the norm."""
        slopes, flat = slopes.flatten(1), spectrum.flatten(1)
        size, best = slopes.abs().max(dim=1, keepdim=True)
        half = slopes.gather(1, best) / size.clamp_(min=_tiny(size)) * (length[:, None] / 2)
        flat.scatter_(1, best, flat.gather(1, best) + half)
        # The other half is at -k, which is in this half of the spectrum only for some.
        half = half.conj() * (2 - self.counts[best])
        best = self.partners[best]
        flat.scatter_(1, best, flat.gather(1, best) + half)

    def _bent(self, spectrum: Tensor) -> tuple[Tensor, Tensor]:
        """The perturbation inside near the one of this spectrum, and its spectrum."""
        around = self.around
        moduli = spectrum.abs().flatten(1)
        wanted = moduli.new_ones(len(moduli))
        for turn in range(1 + QUICK_TURNS):
            spectrum = spectrum.mul_(self._factor(moduli, wanted, turn).view(spectrum.shape))
            moved = inverse_half_spectrum(spectrum, sizes=self.sizes)
            if around.bounds is not None:
                spectrum = half_spectrum(moved.clamp_(*around.box), dims=self.dims)
            moduli = spectrum.abs().flatten(1)
            share = shrinkage(moduli @ self.counts, around.eps)
            wanted = OVERSHOOT * (share < MUCH)
            if around.bounds is None or (self.asking and not bool(wanted.any())):
                break
        share = each(share, moved)
        return moved.mul_(share), spectrum.mul_(share)

    def _factor(self, moduli: Tensor, wanted: Tensor, turn: int) -> Tensor:
        """What takes each coefficient ``wanted`` times the way to the nearest point of the ball."""
        level = newton_level(
            moduli,
            self.around.eps[:, None],
            self.counts,
            self.levels[turn],
            steps=_WAVE_STEPS,
            asking=self.asking,
        )
        self.levels[turn] = level
        missing = level.div(moduli.clamp(min=_tiny(moduli))).clamp_(max=1)
        return torch.addcmul(self.one, missing, wanted[:, None], value=-1)


def _partners(shape: torch.Size, *, dims: int) -> Tensor:
    """Where -k is in a flattened half spectrum, for those k whose -k is in it too."""
    here, others = torch.arange(math.prod(shape)).view(shape), tuple(range(-dims, -1))
    return (here.flip(others).roll((1,) * len(others), others) if others else here).flatten()


def _in_range(squares: Tensor) -> bool:
    """Whether the largest of each example are far from over- and underflow."""
    limits, top = torch.finfo(squares.dtype), squares.flatten(1).amax(dim=1)
    return bool(((top > limits.tiny / limits.eps**2) & (top < limits.max * limits.eps)).all())


def _tiny(x: Tensor) -> float:
    return torch.finfo(x.dtype).tiny
