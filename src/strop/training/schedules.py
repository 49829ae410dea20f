"""Learning-rate schedules: pure functions of the step and the epoch, so that resuming is trivial.

A schedule gives a factor; every parameter group's own learning rate is multiplied by it.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from strop.support import InputError

Schedule = Callable[[int, int], float]
"""``schedule(step, epoch) -> factor``, both counted from 0."""


@dataclass(frozen=True)
class Constant:
    """The learning rate as it is given.

    >>> Constant()(1000, 10)
    1.0
    """

    def __call__(self, step: int, epoch: int) -> float:
        return 1.0


CONSTANT = Constant()


@dataclass(frozen=True)
class StepDecay:
    """Times ``factor`` after every ``every`` epochs: factor ** floor(epoch / every).

    >>> decay = StepDecay(every=15)
    >>> [decay(0, epoch) for epoch in (0, 14, 15, 29)]
    [1.0, 1.0, 0.1, 0.1]
    """

    every: int
    factor: float = 0.1

    def __post_init__(self) -> None:
        if self.every < 1:
            raise InputError(f"StepDecay(every=...) must be at least 1 epoch, but is {self.every}")

    def __call__(self, step: int, epoch: int) -> float:
        return self.factor ** (epoch // self.every)


@dataclass(frozen=True)
class Cosine:
    """Linear warm-up over ``warmup`` steps, then half a cosine down to ``floor`` at step ``total``.

    After warm-up, with t = (step - warmup) / (total - warmup) cut at 1,
    the factor is floor + (1 - floor) (1 + cos(pi t)) / 2.

    >>> cosine = Cosine(total=100, warmup=10)
    >>> [round(cosine(step, 0), 3) for step in (0, 9, 10, 55, 100, 200)]
    [0.1, 1.0, 1.0, 0.5, 0.0, 0.0]
    """

    total: int
    warmup: int = 0
    floor: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.warmup < self.total:
            raise InputError(
                f"Cosine needs 0 <= warmup < total steps, but warmup is {self.warmup} "
                f"and total is {self.total}"
            )

    def __call__(self, step: int, epoch: int) -> float:
        if step < self.warmup:
            return (step + 1) / self.warmup
        done = min(1.0, (step - self.warmup) / (self.total - self.warmup))
        return self.floor + (1 - self.floor) * (1 + math.cos(math.pi * done)) / 2
