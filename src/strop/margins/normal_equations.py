"""The linear system in the heart of the interior-point method.

    [ D   F ] [x]   [r]
    [ F' -I ] [y] = [h],        D > 0 diagonal (n,), F (n, d).

Eliminating y needs a Cholesky factor of D + F F', of size n; eliminating x one of I + F' D^-1 F, of
size d. Both x and y are wanted, neither as a difference of large numbers.

Near an optimum D spreads over twenty orders of magnitude, and a matrix product loses the I beside
F' D^-1 F. Where refinement shows that it has, the factor is computed anew without that product, by
the QR decomposition of [I; D^-1/2 F], which costs more and errs by the root of as much.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["NormalEquations"]

_REFINEMENTS_WIDE, _REFINEMENTS_TALL = 1, 4
_ACCURATE = 1e-8
_STRIPES = 5
_SMALL = 1000


class NormalEquations:
    """The system above, factored once.

    >>> system = NormalEquations(torch.ones(2), torch.tensor([[1.0], [0.0]]))
    >>> x, y = system.solve(torch.tensor([[2.0], [2.0]]), torch.zeros(1, 1))
    >>> x.T, y
    (tensor([[1., 2.]]), tensor([[1.]]))
    """

    def __init__(self, diagonal: Tensor, factor: Tensor) -> None:
        self.diagonal, self.factor = diagonal[:, None], factor
        # Size n is the more accurate of the two: where both are small it is taken.
        self.wide = factor.shape[0] <= max(_SMALL, factor.shape[1])
        self.orthogonal = False
        if self.wide:
            matrix = _gram(factor)
            matrix.diagonal().add_(diagonal)
        else:
            matrix = _gram((factor / self.diagonal.sqrt()).T)
            matrix.diagonal().add_(1.0)
        self.lower = _cholesky(matrix)

    def solve(self, r: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        """x (n, c) and y (d, c) for right-hand sides r (n, c) and h (d, c), refined."""
        x, y, accurate = self._refined(r, h)
        if not accurate and not self.orthogonal and self.factor.shape[0] > self.factor.shape[1]:
            self._factor_orthogonally()
            x, y, _ = self._refined(r, h)
        return x, y

    def _factor_orthogonally(self) -> None:
        self.wide, self.orthogonal = False, True
        scaled = self.factor / self.diagonal.sqrt()
        identity = torch.eye(scaled.shape[1], dtype=scaled.dtype, device=scaled.device)
        _, upper = torch.linalg.qr(torch.cat([identity, scaled]), mode="r")
        self.lower = upper.T

    def _refined(self, r: Tensor, h: Tensor) -> tuple[Tensor, Tensor, bool]:
        x, y = self._once(r, h)
        for _ in range(_REFINEMENTS_WIDE if self.wide else _REFINEMENTS_TALL):
            dx, dy = self._once(*self._residuals(r, h, x, y))
            x, y = x + dx, y + dy
        off_x, off_y = self._residuals(r, h, x, y)
        accurate = bool(
            (off_x.abs().amax() <= _ACCURATE * (self.diagonal * x).abs().amax())
            & (off_y.abs().amax() <= _ACCURATE * y.abs().amax())
        )
        return x, y, accurate

    def _residuals(self, r: Tensor, h: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return r - self.diagonal * x - self.factor @ y, h - self.factor.T @ x + y

    def _once(self, r: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        if self.wide:
            x = torch.cholesky_solve(r + self.factor @ h, self.lower)
            return x, self.factor.T @ x - h
        y = torch.cholesky_solve(self.factor.T @ (r / self.diagonal) - h, self.lower)
        return (r - self.factor @ y) / self.diagonal, y


def _gram(factor: Tensor) -> Tensor:
    """F F', its lower triangle a stripe at a time: little more than half of the products."""
    n = factor.shape[0]
    stripe = max(64, -(-n // _STRIPES))
    matrix = factor.new_empty(n, n)
    for start in range(0, n, stripe):
        end = min(n, start + stripe)
        product = factor[start:] @ factor[start:end].T
        matrix[start:, start:end] = product
        matrix[start:end, end:] = product[end - start :].T
    return matrix


def _cholesky(matrix: Tensor) -> Tensor:
    """A factor, of a matrix made a little more definite where rounding has made it less."""
    largest = float(matrix.diagonal().max())
    lift = 0.0
    for attempt in range(8):
        lower, failed = torch.linalg.cholesky_ex(matrix)
        if not bool(failed):
            return lower
        more = torch.finfo(matrix.dtype).eps * largest * 10.0**attempt
        matrix.diagonal().add_(more - lift)
        lift = more
    return lower
