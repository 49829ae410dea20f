"""Second-order cones, many at a time: {(head, tail) : |tail| <= head}.

Nesterov-Todd scaling as in Andersen, Dahl and Vandenberghe's cone programs, for m cones at once.

Legend: m cones, k entries of a tail; heads (m,), tails (m, k).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = [
    "Cone",
    "Factor",
    "Scaling",
    "arrow_divide",
    "arrow_product",
    "inner",
    "scaling",
    "step_to_edge",
]


@dataclass(frozen=True, eq=False)
class Cone:
    """A vector of R^(1+k) for each of the m cones."""

    head: Tensor
    tail: Tensor

    def __add__(self, other: Cone) -> Cone:
        return Cone(self.head + other.head, self.tail + other.tail)

    def __sub__(self, other: Cone) -> Cone:
        return Cone(self.head - other.head, self.tail - other.tail)

    def times(self, factor: float | Tensor) -> Cone:
        return Cone(self.head * factor, self.tail * factor)


def inner(a: Cone, b: Cone) -> Tensor:
    """The sum of all products."""
    return (a.head * b.head).sum() + (a.tail * b.tail).sum()


def arrow_product(a: Cone, b: Cone) -> Cone:
    """Jordan's product: (a.b, a0 b1 + b0 a1) for each cone."""
    head = a.head * b.head + (a.tail * b.tail).sum(1)
    return Cone(head, a.head[:, None] * b.tail + b.head[:, None] * a.tail)


def arrow_divide(a: Cone, d: Cone) -> Cone:
    """x with :func:`arrow_product` (a, x) = d."""
    head = (a.head * d.head - (a.tail * d.tail).sum(1)) / _depth_squared(a)
    return Cone(head, (d.tail - head[:, None] * a.tail) / a.head[:, None])


def step_to_edge(x: Cone, direction: Cone) -> float:
    """The largest step along ``direction`` from inside the cones that leaves none of them."""
    c = _depth_squared(x)
    b = x.head * direction.head - (x.tail * direction.tail).sum(1)
    a = direction.head**2 - (direction.tail**2).sum(1)
    # The smallest positive root of a s^2 + 2 b s + c, written so that nothing cancels.
    below = (b * b - a * c).clamp(min=0).sqrt() - b
    turning = (b * b - a * c >= 0) & (below > 0)
    steps = torch.where(turning, c / torch.where(turning, below, 1.0), torch.inf)
    return float(steps.min())


@dataclass(frozen=True, eq=False)
class Scaling:
    """W = eta [w0, w1'; w1, I + w1 w1'/(1+w0)], symmetric, with W z = W^-1 s."""

    eta: Tensor
    w0: Tensor
    w1: Tensor

    def apply(self, x: Cone) -> Cone:
        return self._map(x, self.w1, self.eta)

    def inverse(self, x: Cone) -> Cone:
        return self._map(x, -self.w1, 1 / self.eta)

    def _map(self, x: Cone, w1: Tensor, eta: Tensor) -> Cone:
        along = (w1 * x.tail).sum(1)
        head = eta * (self.w0 * x.head + along)
        tail = x.tail + (x.head + along / (1 + self.w0))[:, None] * w1
        return Cone(head, eta[:, None] * tail)

    def inverse_square(self) -> tuple[Tensor, Tensor]:
        """W^-2 = [a, b'; b, C]: a (m,) and b (m, k); for C see :meth:`tail_factor`."""
        a = (2 * self.w0**2 - 1) / self.eta**2
        return a, (-2 * self.w0 / self.eta**2)[:, None] * self.w1

    def tail_factor(self, *, without_head: bool) -> Factor:
        """R, symmetric, with R R = C; or, ``without_head``, C - b b'/a."""
        root = (1 + 2 * (self.w1**2).sum(1)).sqrt()
        slope = 2 / (1 + root)  # (root - 1) / |w1|^2 without cancelling
        if without_head:
            return Factor(1 / self.eta, -slope / root, -slope, self.w1)
        return Factor(1 / self.eta, slope, slope / root, self.w1)


@dataclass(frozen=True, eq=False)
class Factor:
    """R = f (I + g w1 w1') in each cone, with R^-1 = (I - back w1 w1') / f."""

    f: Tensor
    g: Tensor
    back: Tensor
    w1: Tensor

    def times(self, x: Tensor) -> Tensor:
        """R x for x (…, m, k)."""
        if x.shape[-1] == 1:
            return x * (self.f * (1 + self.g * self.w1[:, 0] ** 2))[:, None]
        along = torch.einsum("...mk,mk->...m", x, self.w1) * (self.f * self.g)
        return torch.addcmul(x * self.f[:, None], along[..., None], self.w1)

    def divide(self, x: Tensor) -> Tensor:
        """R^-1 x for x (m, k)."""
        along = (x * self.w1).sum(1) * self.back
        return (x - along[:, None] * self.w1) / self.f[:, None]


def scaling(s: Cone, z: Cone) -> tuple[Scaling, Cone]:
    """The Nesterov-Todd scaling of a primal and a dual point, and the scaled point W z."""
    depth_s, depth_z = _depth_squared(s).sqrt(), _depth_squared(z).sqrt()
    unit_s, unit_z = _over(s, depth_s), _over(z, depth_z)
    cosine = unit_s.head * unit_z.head + (unit_s.tail * unit_z.tail).sum(1)
    gamma = ((1 + cosine) / 2).sqrt()
    w1 = (unit_s.tail - unit_z.tail) / (2 * gamma)[:, None]
    # w0 from w1: the scaling point lies on the hyperboloid exactly, whatever was rounded.
    w0 = (1 + (w1**2).sum(1)).sqrt()
    found = Scaling((depth_s / depth_z).sqrt(), w0, w1)
    return found, found.apply(z)


def _over(x: Cone, divisor: Tensor) -> Cone:
    return Cone(x.head / divisor, x.tail / divisor[:, None])


def _depth_squared(x: Cone) -> Tensor:
    length = torch.linalg.vector_norm(x.tail, dim=1)
    return (x.head - length) * (x.head + length)
