"""What a count of examples says about all of them: accuracies and quantiles with intervals.

The intervals are about the examples that were drawn, not about the strength of the attack: an
accuracy under attack is an upper bound, whatever the number of examples.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch

from strop.support import InputError

__all__ = ["Accuracy", "binomial_interval", "quantile_interval"]

_LEVEL = 0.95
_HALVINGS = 40


@dataclass(frozen=True)
class Accuracy:
    """So many of so many examples are classified rightly; ``low`` and ``high`` hold the share among
    all examples with a confidence of 95 % (Clopper and Pearson's exact interval).

    >>> Accuracy(412, 1000)
    41.2 % [38.1, 44.3]
    """

    right: int
    count: int

    @property
    def value(self) -> float:
        return self.right / self.count if self.count else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        return binomial_interval(self.right, self.count)

    def to_dict(self) -> dict[str, float | int]:
        low, high = self.interval
        return {
            "right": self.right,
            "count": self.count,
            "accuracy": self.value,
            "low": low,
            "high": high,
        }

    def __float__(self) -> float:
        return self.value

    def __repr__(self) -> str:
        low, high = self.interval
        return f"{100 * self.value:.1f} % [{100 * low:.1f}, {100 * high:.1f}]"


@lru_cache(maxsize=4096)  # a curve asks for the same counts again and again
def binomial_interval(successes: int, count: int, *, level: float = _LEVEL) -> tuple[float, float]:
    """The probabilities p under which so many successes or more, and so many or fewer, both have
    a chance of at least (1 - level) / 2: Clopper and Pearson 1934.

    >>> low, high = binomial_interval(0, 1000)
    >>> low, round(high, 5)
    (0.0, 0.00368)
    """
    if not 0 <= successes <= count or count < 1:
        raise InputError(
            f"expected from 0 to {count} successes of at least one example, came {successes}: "
            "give some examples"
        )
    tail = (1 - level) / 2
    low = 0.0 if successes == 0 else _solve(lambda p: 1 - _at_most(successes - 1, count, p), tail)
    high = 1.0 if successes == count else _solve(lambda p: -_at_most(successes, count, p), -tail)
    return low, high


def quantile_interval(
    sorted_values: Sequence[float], *, count: int, share: float, level: float = _LEVEL
) -> tuple[float, float]:
    """Two of the sorted values that hold the ``share``-quantile of what they were drawn from.

    ``count`` examples were drawn; those without a value have a larger one than all others. How many
    values lie below the quantile is binomial, whatever their distribution: the interval is exact.

    >>> quantile_interval([float(i) for i in range(1, 1001)], count=1000, share=0.01)
    (4.0, 18.0)
    """
    tail = (1 - level) / 2
    below = [_at_most(k, count, share) for k in range(min(count, _enough(count, share)) + 1)]
    first = sum(chance <= tail for chance in below)
    last = next((k + 1 for k, chance in enumerate(below) if 1 - chance <= tail), count + 1)
    low = 0.0 if first == 0 else _value(sorted_values, first)
    return low, _value(sorted_values, last)


def _value(sorted_values: Sequence[float], rank: int) -> float:
    return float(sorted_values[rank - 1]) if rank <= len(sorted_values) else math.inf


def _enough(count: int, share: float) -> int:
    """Beyond so many successes the chance is far below any level."""
    return math.ceil(count * share + 12 * math.sqrt(count * share + 1) + 12)


def _at_most(successes: int, count: int, probability: float) -> float:
    """The chance of at most so many successes in ``count`` trials."""
    if probability <= 0 or successes >= count:
        return 1.0
    if probability >= 1:
        return 0.0
    k = torch.arange(successes + 1, dtype=torch.float64)
    whole = torch.tensor(float(count), dtype=torch.float64)
    ways = torch.lgamma(whole + 1) - torch.lgamma(k + 1) - torch.lgamma(whole - k + 1)
    chances = ways + k * math.log(probability) + (whole - k) * math.log1p(-probability)
    return min(1.0, float(torch.logsumexp(chances, dim=0).exp()))


def _solve(rising: Callable[[float], float], target: float) -> float:
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < target else (low, middle)
    return (low + high) / 2
