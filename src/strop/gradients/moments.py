"""Variance and signal of a gradient estimate from a few draws, with intervals.

Draws e_t = g + noise, t = 1 … n, go into J groups. From the groups' sums s_j, with s their sum, and
the total Q of ``||e_t||^2``, both moments come without bias:

    V = tr Cov(e) = (Q - ||s||^2 / n) / (n - 1),    ||g||^2 = (||s||^2 - Q) / (n (n - 1)).

Leaving out one group at a time (the jackknife) says how far they may be off. Only the J x J inner
products of the sums are needed, so the same formulas serve per-example gradients, which are never
held: there every example is a group and the products are their Gram matrix.

Legend: n draws, J groups, d parameters.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from strop.support import InputError

KEPT_NUMBERS = 2**27
"""Numbers kept for the sums of groups: 512 MiB in single precision."""
FEWEST_GROUPS = 10


@dataclass(frozen=True)
class Measured:
    """A number that was estimated, and the interval it lies in with the stated confidence.

    >>> print(Measured(2.0, low=1.5, high=2.5))
    2 (1.5 to 2.5)
    """

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.4g} ({self.low:.4g} to {self.high:.4g})"

    def map(self, function: Callable[[float], float]) -> "Measured":
        """The interval of an increasing function of it."""
        return Measured(function(self.value), low=function(self.low), high=function(self.high))


@dataclass(frozen=True)
class Moments:
    """V and ||g||^2 of an estimate, and what they are without each group.

    Attributes:
        variance: V, the trace of the covariance.
        squared_norm: the squared norm of the mean; without bias, so it may fall below 0.
        without: (J, 2) both, with one group left out.
    """

    variance: float
    squared_norm: float
    without: Tensor

    def interval(self, function: Callable[[float, float], float], *, confidence: float) -> Measured:
        """``function(V, ||g||^2)`` with its jackknife interval."""
        left = [function(v, g) for v, g in self.without.tolist()]
        return jackknife(function(self.variance, self.squared_norm), left, confidence=confidence)


def jackknife(value: float, without: Sequence[float], *, confidence: float) -> Measured:
    """A statistic with its interval, from what it is without each of J groups in turn.

    >>> print(jackknife(2.0, [1.9, 2.0, 2.1, 2.0], confidence=0.95))
    2 (1.611 to 2.389)
    """
    left = torch.tensor(without, dtype=torch.float64)
    groups = len(left)
    error = math.sqrt((groups - 1) / groups * float((left - left.mean()).square().sum()))
    half = student_quantile((1 + confidence) / 2, groups - 1) * error
    return Measured(value, low=value - half, high=value + half)


class GroupedDraws:
    """Draws as they come, added up in groups: J d numbers, whatever the number of draws.

    As many groups as draws, while their sums fit ``KEPT_NUMBERS``, and never fewer than ten.

    Args:
        draws: how many will come.
        coordinates: also add up squares by coordinate, for :meth:`coordinate_mean`.
    """

    def __init__(self, draws: int, *, coordinates: bool = False) -> None:
        if draws < FEWEST_GROUPS:
            raise InputError(f"expected at least {FEWEST_GROUPS} draws, but came {draws}")
        self.draws, self.coordinates = draws, coordinates
        self._taken = 0

    def add(self, estimate: Tensor) -> None:
        """One draw, flat (d,)."""
        if self._taken == 0:
            groups = min(self.draws, max(FEWEST_GROUPS, KEPT_NUMBERS // len(estimate)))
            self.sums = estimate.new_zeros(groups, len(estimate))
            self.squares = torch.zeros(groups, dtype=torch.float64)
            self.counts = torch.zeros(groups, dtype=torch.long)
            self.by_coordinate = torch.zeros_like(self.sums) if self.coordinates else None
        group = self._taken % len(self.sums)
        self.sums[group] += estimate
        self.squares[group] += float(estimate.double().square().sum())
        self.counts[group] += 1
        if self.by_coordinate is not None:
            self.by_coordinate[group] += estimate.square()
        self._taken += 1

    def moments(self) -> Moments:
        return moments(self.sums @ self.sums.T, squares=self.squares, counts=self.counts)

    def coordinate_mean(self, *, confidence: float) -> Measured:
        """The mean over coordinates of ``V[g] / E[g^2]``: the thesis's text, section 4.4.

        It never passes 1, unlike zeta. Coordinates that were 0 in every draw are left out.
        """
        if self.by_coordinate is None:
            raise InputError("the squares of coordinates were not kept: say coordinates=True")
        total, squares, n = self.sums.sum(0), self.by_coordinate.sum(0), self.draws

        def ratio(total: Tensor, squares: Tensor, n: int) -> float:
            alive = squares > 0
            total, squares = total[alive].double(), squares[alive].double()
            variance = (squares - total.square() / n).clamp_min(0) / (n - 1)
            return float((variance * n / squares).mean()) if len(total) else 0.0

        left = [
            ratio(total - own, squares - square, n - count)
            for own, square, count in zip(
                self.sums, self.by_coordinate, self.counts.tolist(), strict=True
            )
        ]
        return jackknife(ratio(total, squares, n), left, confidence=confidence)


def moments(
    inner: Tensor, *, squares: Tensor | None = None, counts: Tensor | None = None
) -> Moments:
    """The moments from the inner products of the groups' sums.

    Args:
        inner: (J, J) ``<s_i, s_j>``; for single draws their Gram matrix.
        squares: (J,) each group's sum of ``||e_t||^2``; the diagonal, for single draws.
        counts: (J,) each group's draws; 1 for single draws.

    >>> found = moments(torch.tensor([[1.0, 3.0, 5.0], [3.0, 9.0, 15.0], [5.0, 15.0, 25.0]]))
    >>> found.variance, found.squared_norm  # draws 1, 3, 5: the variance 4, the mean^2 9 - 4/3
    (4.0, 7.666666666666667)
    """
    inner = inner.detach().double()
    return moments_of_sums(inner.diagonal(), inner.sum(1), squares=squares, counts=counts)


def moments_of_sums(
    diagonal: Tensor,
    with_sum: Tensor,
    *,
    squares: Tensor | None = None,
    counts: Tensor | None = None,
) -> Moments:
    """The same from ``||s_j||^2`` and ``<s_j, sum_i s_i>``, (J,) each, which is all it takes."""
    diagonal, with_sum = diagonal.detach().double().cpu(), with_sum.detach().double().cpu()
    squares = diagonal if squares is None else squares
    counts = torch.ones(len(diagonal), dtype=torch.long) if counts is None else counts
    if len(diagonal) < 3:
        raise InputError(f"expected at least 3 draws, or groups of them, came {len(diagonal)}")
    total = with_sum.sum()
    whole = _both(total, squares.sum(), counts.sum())
    left = total - 2 * with_sum + diagonal
    without = _both(left, squares.sum() - squares, counts.sum() - counts)
    variance, squared_norm = whole.tolist()
    return Moments(variance, squared_norm, without)


def _both(total: Tensor, squares: Tensor, count: Tensor) -> Tensor:
    n = count.double()
    variance = ((squares - total / n) / (n - 1)).clamp_min(0)
    return torch.stack([variance, (total - squares) / (n * (n - 1))], dim=-1)


def student_quantile(probability: float, freedom: int) -> float:
    """Student's t, by its expansion about the normal distribution: to 0.2 % from 3 degrees on.

    >>> round(student_quantile(0.975, 9), 2), round(student_quantile(0.975, 49), 3)
    (2.26, 2.01)
    """
    z = float(torch.special.ndtri(torch.tensor(probability, dtype=torch.float64)))
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / freedom ** (power + 1) for power, term in enumerate(terms))
