"""Norms as values: what a ball is, which way is steepest in it, and the nearest point of it.

Every norm takes examples of shape (batch, ...) and treats each of them apart.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

from torch import Tensor

from strop.geometry import lp
from strop.geometry.checks import as_examples, like_input
from strop.geometry.projections import project_lp_ball
from strop.geometry.prox import moreau, prox_l1, prox_l2

__all__ = ["L1", "L2", "Linf", "Lp", "Norm"]


class Norm(ABC):
    """A norm of examples, its dual, and three maps of its ball. Equal norms are equal values."""

    @abstractmethod
    def __call__(self, x: Tensor) -> Tensor:
        """The norm of each example of ``x``: (batch,)."""

    @property
    @abstractmethod
    def dual(self) -> Norm:
        """||g||_dual = max <g, v> over ||v|| <= 1. The dual of the dual is the norm."""

    @abstractmethod
    def steepest(self, g: Tensor) -> Tensor:
        """argmax <g, v> over ||v|| <= 1, in the shape of ``g``; zero where ``g`` is zero."""

    @abstractmethod
    def project(self, x: Tensor, radius: float | Tensor) -> Tensor:
        """The Euclidean nearest point: argmin ||v - x||_2 over ||v|| <= radius.

        ``radius`` is one number or one for each example.
        """

    def prox(self, x: Tensor, scale: float | Tensor) -> Tensor:
        """argmin_v  scale ||v|| + ||v - x||_2^2 / 2.

        ``scale`` is one number or one for each example.
        """
        return moreau(self.dual.project, x, scale)


class Lp(Norm):
    """The lp norm, 1 <= p <= inf: ||x|| = (sum_k |x_k|^p)^(1/p), the largest |x_k| for p = inf.

    >>> import torch
    >>> Lp(3), Lp(3).dual, Lp(3)(torch.tensor([[1.0, 2.0, 3.0]]))
    (Lp(3), Lp(1.5), tensor([3.3019]))
    """

    def __init__(self, p: float) -> None:
        if not isinstance(p, (int, float)) or not p >= 1:
            raise ValueError(f"expected a number 1 <= p <= inf, came p={p!r}: below 1 is no norm")
        self.p = float(p)
        self._dual: Lp | None = None

    def __call__(self, x: Tensor) -> Tensor:
        return lp.value(as_examples(x), self.p).to(x.dtype)

    @property
    def dual(self) -> Lp:
        if self._dual is None:
            # 1/p + 1/q = 1 does not survive rounding there and back: keep the way back.
            self._dual = Lp(lp.conjugate(self.p))
            self._dual._dual = self
        return self._dual

    def steepest(self, g: Tensor) -> Tensor:
        return like_input(lp.steepest(as_examples(g), self.p), g)

    def project(self, x: Tensor, radius: float | Tensor) -> Tensor:
        return project_lp_ball(x, radius, p=self.p)

    def prox(self, x: Tensor, scale: float | Tensor) -> Tensor:
        if self.p == 1:
            return prox_l1(x, scale)
        if self.p == 2:
            return prox_l2(x, scale)
        return super().prox(x, scale)

    def __eq__(self, other: object) -> bool:
        return self.p == other.p if isinstance(other, Lp) else NotImplemented

    def __hash__(self) -> int:
        return hash((Lp, self.p))

    def __repr__(self) -> str:
        return f"L{self.p:g}" if self.p in (1, 2, math.inf) else f"Lp({self.p:g})"


L1 = Lp(1)
L2 = Lp(2)
Linf = Lp(math.inf)
