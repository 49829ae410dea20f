"""How a claim is decided: by computation, or by an interval that lies on one side."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

Outcome = Literal["holds", "fails", "undecided", "not run"]

# Two-sided 95 % points of Student's t for 1 to 30 degrees of freedom.
_STUDENT = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip


@dataclass(frozen=True)
class Interval:
    """A mean with its 95 % interval over seeds or queries."""

    mean: float
    low: float
    high: float
    count: int

    def __str__(self) -> str:
        return f"{self.mean:.3g} [{self.low:.3g}, {self.high:.3g}] (n={self.count})"


@dataclass(frozen=True)
class Verdict:
    """What a claim came to, in words with the numbers, and the interval that decided it."""

    outcome: Outcome
    evidence: str
    interval: Interval | None = None


def interval_of(values: Iterable[float]) -> Interval:
    """The mean of independent values and its 95 % interval (Student's t).

    >>> print(interval_of([1.0, 2.0, 3.0]))
    2 [-0.484, 4.48] (n=3)
    """
    numbers = [float(value) for value in values]
    count = len(numbers)
    if count == 0:
        return Interval(math.nan, -math.inf, math.inf, 0)
    mean = sum(numbers) / count
    if count == 1:
        return Interval(mean, -math.inf, math.inf, 1)
    deviation = math.sqrt(sum((number - mean) ** 2 for number in numbers) / (count - 1))
    point = _STUDENT[count - 2] if count - 2 < len(_STUDENT) else 1.96
    half = point * deviation / math.sqrt(count)
    return Interval(mean, mean - half, mean + half, count)


def computed(true: bool, evidence: str) -> Verdict:
    """The verdict of a claim that a computation decides."""
    return Verdict("holds" if true else "fails", evidence)


def above(values: Iterable[float], threshold: float, evidence: str) -> Verdict:
    """Holds when the interval lies above ``threshold``, fails when it lies below.

    >>> above([2.8, 3.1, 2.5], 0.0, "MH less SH").outcome
    'holds'
    >>> above([2.8, -3.1, 0.5], 0.0, "MH less SH").outcome
    'undecided'
    """
    interval = interval_of(values)
    return Verdict(_side(interval, threshold), f"{evidence}: {interval}", interval)


def below(values: Iterable[float], threshold: float, evidence: str) -> Verdict:
    """Holds when the interval lies below ``threshold``, fails when it lies above."""
    interval = interval_of(values)
    mirrored = Interval(-interval.mean, -interval.high, -interval.low, interval.count)
    return Verdict(_side(mirrored, -threshold), f"{evidence}: {interval}", interval)


def all_of(verdicts: Sequence[Verdict]) -> Verdict:
    """A claim of several parts: fails with its worst part, holds when all do."""
    evidence = "; ".join(verdict.evidence for verdict in verdicts)
    outcomes = {verdict.outcome for verdict in verdicts}
    for outcome in ("fails", "not run", "undecided"):
        if outcome in outcomes:
            return Verdict(outcome, evidence)
    return Verdict("holds", evidence)


def not_run(why: str) -> Verdict:
    """The verdict where no record speaks to the claim."""
    return Verdict("not run", why)


def _side(interval: Interval, threshold: float) -> Outcome:
    if interval.low > threshold:
        return "holds"
    if interval.high < threshold:
        return "fails"
    return "undecided"
