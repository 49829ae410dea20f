"""Figure 4.4: Random Features, maximal variance against over-parametrisation.

    strop thesis run figure-4.4

Thesis section 4.4.2. Students on labels of a random teacher, by SGD at three learning rates;
estimators measured exactly along the way, the maximum over the last 70 % of iterations, over seeds,
input and teacher widths. Expected: little variance when over-parametrised, where all estimators
are alike; less with a larger rate; no matter which teacher; GC between SG-B and SG-2B (claims G12,
G13). `small`: 8 busy minutes.
"""

from dataclasses import dataclass
from typing import Any

from strop.thesis.calls import Each, Record, one_by_one
from strop.thesis.random_features import ESTIMATORS, SMALL, SWEEPS, Sweep, draw_ratio, sweep


@dataclass(frozen=True)
class Settings:
    """The trainings, shared with figures 4.5 and A.1."""

    sweep: Sweep = SMALL


PRESETS = {name: Settings(one) for name, one in SWEEPS.items()}


def compute(settings: Settings, each: Each = one_by_one) -> list[Record]:
    """One record for each cell of the grid, lists over seeds."""
    return [
        {key: value for key, value in record.items() if key != "mean"}
        for record in sweep(settings.sweep, each)
    ]


def draw(records: list[Record]) -> Any:
    return draw_panels(records, summary="max", words="maximal variance")


def draw_panels(records: list[Record], *, summary: str, words: str) -> Any:
    """(a) SG-B at every rate; all estimators at (b) the smallest and (c) the next rate."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 3.6), layout="constrained")
    panels = figure.subplots(1, 3, sharey=True)
    rates = sorted({one["rate"] for one in records})
    for rate, colour in zip(rates, ("tab:blue", "tab:orange", "tab:green"), strict=False):
        some = [one for one in records if one["rate"] == rate]
        style = {"color": colour, "label": f"rate {rate:g}"}
        draw_ratio(panels[0], some, summary=summary, names=["SG-B"], **style)
    panels[0].set(ylabel=words, title=f"SG-B at {len(rates)} rates")
    for axes, rate in zip(panels[1:], rates, strict=False):
        some = [one for one in records if one["rate"] == rate]
        draw_ratio(axes, some, summary=summary, names=ESTIMATORS)
        axes.set(title=f"rate {rate:g}")
    for axes in panels:
        axes.legend(fontsize="x-small", frameon=False)
    return figure
