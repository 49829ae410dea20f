"""Figure 4.7: CIFAR with ten training points duplicated until they dominate.

    strop thesis run figure-4.7

Thesis section 4.4.3: ten points of CIFAR-10 and of CIFAR-100 with 10,000 further copies each (twice
the 50,000 pictures; the thesis counts them as 20 times), with the usual augmentation, so that
copies differ in input space; beside it the same pictures without copies. `small` has 150 pictures
and as large a share of copies. Expected: GC is well under SG-B, by more than without copies (claim
G14). `small`: thirteen minutes of one core.
"""

from dataclasses import dataclass, replace
from typing import Any

from strop.thesis.calls import Each, Record, one_by_one
from strop.thesis.figure_4_3 import draw_curves
from strop.thesis.trajectories import trajectories
from strop.thesis.trajectory_presets import GPU_CIFAR, SMALL_CIFAR, SMOKE, THESIS_CIFAR, Trajectory


@dataclass(frozen=True)
class Settings:
    """The trainings, in pairs: without copies and with them."""

    trajectories: tuple[Trajectory, ...]
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)


def _with_and_without(
    base: Trajectory, *, points: int, copies: int, augment: bool
) -> tuple[Trajectory, Trajectory]:
    plain = replace(base, name=f"{base.name}, no copies", augment=augment)
    name = f"{base.name}, {points} x {copies:,} copies"
    return plain, replace(plain, name=name, duplicated=points, copies=copies)


_HUNDRED = replace(THESIS_CIFAR, name="CIFAR-100", data="cifar100", model="resnet-32", rate=0.1)
PRESETS = {
    "smoke": Settings(_with_and_without(SMOKE, points=3, copies=80, augment=False), (0,)),
    "small": Settings(
        _with_and_without(replace(SMALL_CIFAR, examples=150), points=10, copies=30, augment=True),
        # The first eight left the claim open: these were fixed before they were run.
        tuple(range(8, 28)),
    ),
    "gpu": Settings(
        _with_and_without(
            replace(GPU_CIFAR, steps=8_000, drops=(4_000, 6_000)),
            points=10,
            copies=10_000,
            augment=True,
        ),
        (0, 1, 2),
    ),
    "paper": Settings(
        tuple(
            one
            for base in (THESIS_CIFAR, _HUNDRED)
            for one in _with_and_without(base, points=10, copies=10_000, augment=True)
        ),
        (0,),
    ),
}


def compute(settings: Settings, each: Each = one_by_one) -> list[Record]:
    return trajectories(settings.trajectories, settings.seeds, each)


def draw(records: list[Record]) -> Any:
    return draw_curves(records, normalised=False)
