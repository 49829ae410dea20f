"""The perturbations that are allowed: those of a ball that also keep x + delta within a box.

Both sets hold zero and are convex, so whatever is allowed stays so when it is scaled towards zero.
Clipping to the box and scaling into the ball is thus enough, unless some frequencies are shut:
clipping leaks into these. Within such a band the perturbation is bent into the box by turns that
keep to the band, and scaled by what is then still missing.

Legend: b example.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from strop.geometry import L1, Fourier, Linf, Lp, Norm
from strop.geometry.multipliers import newton_level

__all__ = ["Neighbourhood", "each"]

_TURNS = 60
QUICK_TURNS = 3
MUCH = 0.97
OVERSHOOT = 1.5
_FARTHEST = 1.0
_INSET = 0.02
_ROOM = 9e-7  # of the 1e-6 that are promised, the rest is for the rounding of eps to float32
_ATTEMPTS = 24
_HALVINGS = 10
_LEVEL_STEPS = 8


def each(values: Tensor, x: Tensor) -> Tensor:
    """One value for each example, broadcast over ``x``."""
    return values.reshape(-1, *[1] * (x.ndim - 1))


@dataclass(frozen=True)
class Neighbourhood:
    """{delta : ||delta|| <= eps, low <= x + delta <= high} around each example of ``x``.

    Args:
        x: examples (batch, ...), inside of the bounds.
        norm: of the ball.
        eps: its radius for each example, b.
        bounds: the box, or none.
    """

    x: Tensor
    norm: Norm
    eps: Tensor
    bounds: tuple[float, float] | None

    def __getitem__(self, rows: Tensor) -> Neighbourhood:
        return replace(self, x=self.x[rows], eps=self.eps[rows])

    @cached_property
    def shuts(self) -> bool:
        """Whether some frequencies are shut."""
        band = self.norm.band if isinstance(self.norm, Fourier) else None
        return band is not None and bool((band == 0).any())

    @property
    def leaks(self) -> bool:
        """Whether clipping to the box would leave the band of frequencies that are allowed."""
        return self.bounds is not None and self.shuts

    @cached_property
    def box(self) -> tuple[Tensor, Tensor]:
        """The least and largest delta; for Linf this is all that is allowed."""
        eps = each(self.eps, self.x)
        if self.bounds is None:
            return -eps, eps
        low, high = self.bounds[0] - self.x, self.bounds[1] - self.x
        return (low.maximum(-eps), high.minimum(eps)) if self.norm == Linf else (low, high)

    @torch.no_grad()
    def inside(self, delta: Tensor) -> Tensor:
        """A perturbation near ``delta`` that is allowed, up to rounding."""
        if self.norm == Linf:
            return delta.clamp(*self.box)
        if self.bounds is None or len(delta) == 0:
            return self.norm.project(delta, self.eps)
        low, high = self.box
        if self.leaks:
            return self._bent_into_box(self.norm.project(delta, self.eps), low, high)
        if isinstance(self.norm, Lp):
            # Neither undoes the other: a clip makes no coordinate longer, and a projection, which
            # keeps signs, none either. L1 is spared to shorten what the box takes away.
            if self.norm.p == 1:
                delta, level = delta.clamp(low, high), self.eps.new_zeros(len(delta), 1)
                return into_l1_ball(
                    delta, self.eps, level, steps=_LEVEL_STEPS, asking=may_ask(delta)
                )
            return self.norm.project(delta, self.eps).clamp_(low, high)
        clipped = self.norm.project(delta, self.eps).clamp_(low, high)
        share = shrinkage(self.norm(clipped), self.eps)
        for _ in range(QUICK_TURNS):
            # A wave that the box takes out of the ball would shrink all others with it: where that
            # costs much, turns between ball and box first.
            rows = (share < MUCH).nonzero().flatten()
            if len(rows) == 0:
                break
            turned, eps = clipped[rows], self.eps[rows]
            turned = turned.lerp(self.norm.project(turned, eps), OVERSHOOT)
            clipped[rows] = turned = turned.clamp_(low[rows], high[rows])
            share[rows] = shrinkage(self.norm(turned), eps)
        return clipped.mul_(each(share, clipped))

    @torch.no_grad()
    def steepest(self, gradient: Tensor, delta: Tensor) -> Tensor:
        """The steepest direction of unit norm for what the box still lets move at ``delta``.

        A pixel at its bound would otherwise be all that a step in L1 moves, for ever.
        """
        if self.bounds is not None:
            low, high = self.bounds
            near = torch.finfo(delta.dtype).eps ** 0.75 * (high - low)
            point = self.x + delta
            stuck = ((point >= high - near) & (gradient > 0)) | (
                (point <= low + near) & (gradient < 0)
            )
            gradient = gradient.masked_fill(stuck, 0.0)
        return self.norm.steepest(gradient)

    @torch.no_grad()
    def step(self, gradient: Tensor, delta: Tensor, length: Tensor) -> Tensor:
        """A step of this length, b: argmax <gradient, v> over ||v|| <= length.

        In L1 with a box the argmax also keeps x + delta + v in the box: the steepest pixels go to
        their bounds until the length is spent, where one alone could not spend it.
        """
        if self.bounds is None or self.norm != L1:
            return self.norm.steepest(gradient).mul_(each(length, delta))
        return _filled(gradient, delta, *self.box, length)

    def random(self, generator: torch.Generator | None) -> Tensor:
        """Noise of the band, as long as the budget allows; for Linf even over the cube."""
        noise = self.x if generator is None else self.x.to(generator.device)
        if self.norm == Linf:
            noise = torch.empty_like(noise).uniform_(-1, 1, generator=generator)
            return self.inside(noise.to(self.x.device) * each(self.eps, noise))
        noise = torch.empty_like(noise).normal_(generator=generator).to(self.x.device)
        noise = self.norm.project(noise, math.inf)
        size = self.norm(noise)
        scale = self.eps / torch.where(size > 0, size, 1.0)
        return self.inside(noise * each(scale, noise))

    @torch.no_grad()
    def deliver(self, delta: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """x + delta rounded to ``dtype`` and the norm of what that is, in float64: inside the box,
        and inside the ball of radius eps (1 + 1e-6) after the rounding too.

        What the rounding takes out of the ball is scaled by a little less, and left at x itself
        where nothing but zero is left at this precision. In a band the norm is that of the part
        within the band; the part outside is a rounding of x + delta.
        """
        x, delta, eps = self.x.double(), delta.double(), self.eps.double()
        scale = torch.ones_like(eps)
        unit = torch.finfo(dtype).eps
        original = self.x.to(dtype)
        largest = max(1.0, *map(abs, self.bounds)) if self.bounds else 1.0
        for attempt in range(_ATTEMPTS):
            moved = x + delta * each(scale, delta)
            adversarial = (moved if self.bounds is None else moved.clamp(*self.bounds)).to(dtype)
            change = adversarial.double() - x
            seen = self.norm.project(change, math.inf) if self.shuts else change
            size = self.norm(seen)
            outside = size > eps * (1 + _ROOM)
            if self.shuts:
                outside |= _peak(change - seen) > 4 * unit * _peak(adversarial).clamp(min=largest)
            if not bool(outside.any()):
                return adversarial, size
            shorter = scale * shrinkage(size, eps) * max(0.0, 1 - unit * 2.0**attempt)
            scale = torch.where(outside, shorter, scale)
        adversarial = torch.where(each(outside, adversarial), original, adversarial)
        return adversarial, torch.where(outside, 0.0, size)

    def _bent_into_box(self, delta: Tensor, low: Tensor, high: Tensor) -> Tensor:
        """The one of many ways into the box, all within band and ball, that keeps the most.

        Turns between the box and the ball come near to the box and never arrive. Aiming at a box
        that is a little smaller, they arrive in the true one, if there is a way: pixels at a bound
        then move inwards. What is still outside after a turn is mended by scaling.
        """
        # From far outside the turns overshoot to the other side: start no further than a box away.
        delta = delta * each(shrinkage(_peak(delta), _FARTHEST * _peak(high - low)), delta)
        best, most = torch.zeros_like(delta), torch.zeros_like(self.eps)
        inset = each(_INSET * _peak(delta), delta)
        bottom, top, turned = low + inset, high - inset, delta
        for _ in range(_TURNS):
            reach = _reach(turned, low, high)
            fitting = turned * each(reach, delta)
            kept = (fitting * delta).flatten(1).sum(dim=1)
            better = kept > most
            best = torch.where(each(better, delta), fitting, best)
            most = torch.where(better, kept, most)
            if bool((reach == 1).all()):
                break
            back = turned.clamp(bottom, top) - turned
            turned = self.norm.project(turned + OVERSHOOT * back, self.eps)
        return best


def _filled(gradient: Tensor, delta: Tensor, low: Tensor, high: Tensor, length: Tensor) -> Tensor:
    """argmax <gradient, v> over ||v||_1 <= length with delta + v between low and high.

    All that is steeper than a level goes to its bound. The level is found by halving, many times
    faster than sorting; what lies in the last interval shares what is left of the length.
    """
    rising = gradient.sign()
    # Of high - delta and low - delta the one that the gradient points to; zero where it does not.
    room = torch.lerp(low, high, (rising + 1).mul_(0.5)).sub_(delta).mul_(rising)
    room, steep = room.clamp_(min=0).flatten(1), gradient.abs().flatten(1)
    top = steep.amax(dim=1, keepdim=True).clamp_(min=torch.finfo(steep.dtype).tiny)
    steep.div_(top)
    wanted, spare = length[:, None], torch.empty_like(steep)
    level, reach = torch.full_like(top, 0.5), 0.5
    for _ in range(_HALVINGS):  # the level is within reach of the one that spends what is wanted
        reach /= 2
        spent = torch.gt(steep, level, out=spare).mul_(room).sum(dim=1, keepdim=True)
        level += torch.where(spent > wanted, reach, -reach)
    full = torch.gt(steep, level + reach, out=spare).mul_(room)
    some = torch.gt(steep, level - reach, out=steep).mul_(room)
    above, within = full.sum(dim=1, keepdim=True), some.sum(dim=1, keepdim=True)
    share = (wanted - above) / (within - above).clamp_(min=torch.finfo(steep.dtype).tiny)
    spent = full.lerp_(some, share.clamp_(0, 1))
    return spent.view_as(delta).copysign_(gradient)


def may_ask(x: Tensor) -> bool:
    """Whether a step may depend on what has come out so far: a GPU would have to be waited for."""
    return x.device.type == "cpu"


def into_l1_ball(delta: Tensor, eps: Tensor, level: Tensor, *, steps: int, asking: bool) -> Tensor:
    """The nearest point of each L1 ball: a soft threshold, whose level b1 is looked for from the
    one given, which is overwritten.

    With ``asking`` until it is found; without, by this many steps, and what is then still outside
    is scaled.
    """
    size = delta.abs().flatten(1)
    found = newton_level(size, eps[:, None], None, level, steps=steps, asking=asking)
    left = size.sub_(level.copy_(found)).relu_()
    return left.mul_(shrinkage(left.sum(dim=1), eps)[:, None]).view_as(delta).copysign_(delta)


def shrinkage(size: Tensor, eps: Tensor) -> Tensor:
    """The factor that brings a perturbation of this size into the ball."""
    return (eps / size.clamp(min=torch.finfo(size.dtype).tiny)).clamp_(max=1)


def _reach(delta: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """The largest factor up to 1 that keeps ``delta`` in the box, but for a rounding of x + delta.

    The room is widened by one unit in the last place: at a bound a ripple of rounding errors must
    not forbid all of the perturbation.
    """
    slack = torch.finfo(delta.dtype).eps * (high - low)
    room = torch.where(delta > 0, high, -low) + slack
    moving = delta != 0
    factor = torch.where(moving, room / torch.where(moving, delta.abs(), 1.0), 1.0)
    return factor.flatten(1).amin(dim=1).clamp(max=1.0)


def _peak(x: Tensor) -> Tensor:
    return x.abs().flatten(1).amax(dim=1)
