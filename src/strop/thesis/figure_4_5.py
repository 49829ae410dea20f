"""Figure 4.5: Random Features, normalised variance of SG-B.

    strop thesis run figure-4.5

Thesis section 4.4.2: zeta = tr Cov / |mean gradient|^2 along the trainings of figure 4.4, its
maximum and its mean over the last 70 % of iterations. Expected: above 1 where hidden units over
examples are under 5, alike for all rates there (claim G12). The thesis's other definition, which
divides by the second moment, cannot pass 1. `small`: 8 busy minutes.
"""

from dataclasses import dataclass
from typing import Any

from strop.thesis.calls import Each, Record, one_by_one
from strop.thesis.random_features import SMALL, SWEEPS, Sweep, draw_ratio, sweep


@dataclass(frozen=True)
class Settings:
    """The trainings, shared with figures 4.4 and A.1."""

    sweep: Sweep = SMALL


PRESETS = {name: Settings(one) for name, one in SWEEPS.items()}


def compute(settings: Settings, each: Each = one_by_one) -> list[Record]:
    """One record for each cell of the grid: zeta of each seed."""
    cell = ("rate", "inputs", "teacher", "ratio", "examples")
    return [
        {key: record[key] for key in cell}
        | {name: {"zeta": record[name]["zeta"]} for name in ("max", "mean")}
        for record in sweep(settings.sweep, each)
    ]


def draw(records: list[Record]) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.6), layout="constrained")
    rates = sorted({one["rate"] for one in records})
    for axes, summary in zip(figure.subplots(1, 2, sharey=True), ("max", "mean"), strict=True):
        for rate, colour in zip(rates, ("tab:blue", "tab:orange", "tab:green"), strict=False):
            some = [one for one in records if one["rate"] == rate]
            style = {"color": colour, "label": f"rate {rate:g}"}
            draw_ratio(axes, some, summary=summary, names=["zeta"], **style)
        axes.axhline(1, color="0.5", lw=1, ls=":")
        axes.axvline(5, color="0.5", lw=1, ls=":")
        axes.set(title=f"{summary} normalised variance of SG-B")
        axes.legend(fontsize="x-small", frameon=False)
    return figure
