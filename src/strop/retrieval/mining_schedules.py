"""Hardness that changes with the epoch: from many negatives to the hardest.

A schedule is a value that, called with the epoch (or a part of it, 2.5), gives the mining.
"""

from dataclasses import dataclass, field
from typing import Protocol

from strop.retrieval.mining import MaxOfHinges, Mining, SoftmaxHinges, SumOfHinges, TopKHinges
from strop.support import InputError


class HardnessSchedule(Protocol):
    """The mining of an epoch."""

    def __call__(self, epoch: float) -> Mining: ...


@dataclass(frozen=True)
class WarmStart:
    """SH for the first ``epochs``, then a harder loss: the curriculum of thesis section 3.3.6.

    >>> schedule = WarmStart(epochs=2)
    >>> schedule(1.9), schedule(2)
    (SumOfHinges(), MaxOfHinges())
    """

    epochs: float
    then: Mining = field(default_factory=MaxOfHinges)

    def __call__(self, epoch: float) -> Mining:
        return SumOfHinges() if epoch < self.epochs else self.then


@dataclass(frozen=True)
class AnnealedTopK:
    """The k hardest negatives, k falling geometrically from ``start`` to ``stop`` over ``epochs``.

    >>> schedule = AnnealedTopK(start=127, epochs=10)
    >>> [schedule(epoch).k for epoch in (0, 5, 10, 30)]
    [127, 11, 1, 1]
    """

    start: int
    epochs: float
    stop: int = 1

    def __post_init__(self) -> None:
        _check(self.start, self.stop, self.epochs)

    def __call__(self, epoch: float) -> Mining:
        return TopKHinges(round(_geometric(self.start, self.stop, epoch / self.epochs)))


@dataclass(frozen=True)
class AnnealedTemperature:
    """Softmax weights whose temperature falls geometrically from ``start`` to ``stop``.

    >>> schedule = AnnealedTemperature(start=1.0, stop=0.01, epochs=4)
    >>> [round(schedule(epoch).temperature, 4) for epoch in (0, 2, 4, 9)]
    [1.0, 0.1, 0.01, 0.01]
    """

    start: float
    stop: float
    epochs: float

    def __post_init__(self) -> None:
        _check(self.start, self.stop, self.epochs)

    def __call__(self, epoch: float) -> Mining:
        return SoftmaxHinges(_geometric(self.start, self.stop, epoch / self.epochs))


def _geometric(start: float, stop: float, progress: float) -> float:
    share = min(max(progress, 0.0), 1.0)
    return start ** (1 - share) * stop**share


def _check(start: float, stop: float, epochs: float) -> None:
    if not start >= stop > 0 or not epochs > 0:
        raise InputError(
            f"expected start >= stop > 0 and epochs > 0, but start is {start}, stop {stop} and "
            f"epochs {epochs}"
        )
