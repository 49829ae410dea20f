"""Figure 4.8: Random Features with 10, 50 and 90 % duplicates.

    strop thesis run figure-4.8

Thesis section 4.4.3. As figure 4.4 at its middle rate, with five points repeated equally until they
make up a share of the training set. Expected: the advantage of GC over SG-B grows with that share
and does not fall with over-parametrisation (claim G14). `small`: 2.5 minutes on a busy machine.
"""

from dataclasses import dataclass, replace
from typing import Any

from strop.thesis.calls import Each, Record, one_by_one
from strop.thesis.random_features import ESTIMATORS, SWEEPS, Sweep, draw_ratio, sweep

SHARES = (0.1, 0.5, 0.9)


@dataclass(frozen=True)
class Settings:
    """The trainings."""

    sweep: Sweep


def _with_duplicates(base: Sweep, *, teachers: int) -> Settings:
    return Settings(
        replace(
            base,
            rates=(base.rates[1],),
            inputs=base.inputs[:teachers],
            teachers=base.teachers[:teachers],
            duplicates=SHARES,
        )
    )


PRESETS = {
    name: _with_duplicates(base, teachers=1 if name in ("smoke", "small") else 2)
    for name, base in SWEEPS.items()
}


def compute(settings: Settings, each: Each = one_by_one) -> list[Record]:
    """One record for each cell of the grid, lists over seeds."""
    return sweep(settings.sweep, each)


def draw(records: list[Record]) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 3.6), layout="constrained")
    shares = sorted({one["duplicates"] for one in records})
    for axes, share in zip(figure.subplots(1, len(shares), sharey=True), shares, strict=True):
        some = [one for one in records if one["duplicates"] == share]
        draw_ratio(axes, some, summary="max", names=ESTIMATORS)
        axes.set(title=f"{share:.0%} duplicates")
        axes.legend(fontsize="x-small", frameon=False)
    # No variance at all, where different points are no more than clusters, is off the figure.
    figure.axes[0].set_ylim(bottom=1e-8)
    figure.axes[0].set_ylabel("maximal variance")
    return figure
