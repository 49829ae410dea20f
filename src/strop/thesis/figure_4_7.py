"""Figure 4.7: CIFAR with ten training points duplicated until they dominate.

    strop thesis run figure-4.7

Thesis section 4.4.3: ten points of CIFAR-10 and of CIFAR-100 with 10,000 further copies each (twice
the 50,000 pictures; the thesis counts them as 20 times), with the usual augmentation, so that
copies differ in input space. `small` has no augmentation and as large a share of copies. Expected:
GC falls well under SG-2B (claim G14). `small`: 4 minutes on a busy machine.
"""

from dataclasses import dataclass, replace
from typing import Any

from strop.thesis.calls import Each, Record, one_by_one
from strop.thesis.figure_4_3 import draw_curves
from strop.thesis.trajectories import (
    GPU_CIFAR,
    SMALL_CIFAR,
    SMOKE,
    THESIS_CIFAR,
    Trajectory,
    trajectories,
)


@dataclass(frozen=True)
class Settings:
    """The trainings, their data with copies."""

    trajectories: tuple[Trajectory, ...]
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)


def _copied(base: Trajectory, *, points: int, copies: int, augment: bool) -> Trajectory:
    name = f"{base.name}, {points} x {copies:,} copies"
    return replace(base, name=name, duplicated=points, copies=copies, augment=augment)


_HUNDRED = replace(THESIS_CIFAR, name="CIFAR-100", data="cifar100", model="resnet-32", rate=0.1)
PRESETS = {
    "smoke": Settings((_copied(SMOKE, points=3, copies=80, augment=False),), (0,)),
    "small": Settings(
        (_copied(replace(SMALL_CIFAR, examples=150), points=10, copies=30, augment=False),)
    ),
    "gpu": Settings((_copied(GPU_CIFAR, points=10, copies=10_000, augment=True),)),
    "paper": Settings(
        tuple(
            _copied(base, points=10, copies=10_000, augment=True)
            for base in (THESIS_CIFAR, _HUNDRED)
        ),
        (0,),
    ),
}


def compute(settings: Settings, each: Each = one_by_one) -> list[Record]:
    return trajectories(settings.trajectories, settings.seeds, each)


def draw(records: list[Record]) -> Any:
    return draw_curves(records, normalised=False)
