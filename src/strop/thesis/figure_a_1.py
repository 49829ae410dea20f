"""Figure A.1: Random Features, the mean variance in place of the maximum of figure 4.4.

    strop thesis run figure-A.1

Thesis appendix A.3.2: the trainings of figure 4.4, statistics averaged over the last 70 % of
iterations. Expected: like figure 4.4. `small`: 8 busy minutes.
"""

from dataclasses import dataclass
from typing import Any

from strop.thesis.calls import Each, Record, one_by_one
from strop.thesis.figure_4_4 import draw_panels
from strop.thesis.random_features import SMALL, SWEEPS, Sweep, sweep


@dataclass(frozen=True)
class Settings:
    """The trainings, shared with figures 4.4 and 4.5."""

    sweep: Sweep = SMALL


PRESETS = {name: Settings(one) for name, one in SWEEPS.items()}


def compute(settings: Settings, each: Each = one_by_one) -> list[Record]:
    """One record for each cell of the grid, lists over seeds."""
    return [
        {key: value for key, value in record.items() if key not in ("max", "loss")}
        for record in sweep(settings.sweep, each)
    ]


def draw(records: list[Record]) -> Any:
    return draw_panels(records, summary="mean", words="mean variance")
