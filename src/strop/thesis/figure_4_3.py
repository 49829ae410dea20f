"""Figure 4.3: variance of SG-B, SG-2B, SVRG and GC along one SGD trajectory.

    strop thesis run figure-4.3

Thesis section 4.4.1: an MLP on MNIST, ResNet8 without normalisation on CIFAR-10, ResNet18 on
ImageNet; variance above, normalised variance (zeta) of SG-B below. Expected: on MNIST both fall,
zeta stays under 1, GC is under SG-2B and SVRG best at the end (claim G8); on CIFAR-10 both rise for
most of training, more after each drop of the rate, GC under SG-B (claim G9); SG-2B is half of SG-B
(claim G7); on ImageNet zeta passes 1 and GC is SG-B (claim G10). ImageNet itself is left out at
every preset, as it does not fit the tensors that are kept here; `small` and `gpu` have the closest
that is at hand, photographs with the classes that a network of ImageNet gives them, for as many
passes over the data. Missing data are replaced by digits, which the titles say. `small`: five
minutes of one core.
"""

import math
from dataclasses import dataclass
from typing import Any

from strop.thesis.calls import Each, Record, one_by_one
from strop.thesis.trajectories import COLOURS, ESTIMATORS, trajectories
from strop.thesis.trajectory_presets import (
    GPU_MNIST,
    LONG_CIFAR,
    SMALL_CIFAR,
    SMALL_MNIST,
    SMALL_PHOTOGRAPHS,
    SMOKE,
    THESIS_CIFAR,
    THESIS_MNIST,
    Trajectory,
)


@dataclass(frozen=True)
class Settings:
    """The trainings, shared with figures 4.6 and 4.7."""

    trajectories: tuple[Trajectory, ...] = (SMALL_MNIST, SMALL_CIFAR, SMALL_PHOTOGRAPHS)
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)


PRESETS = {
    "smoke": Settings((SMOKE,), (0,)),
    "small": Settings(),
    "gpu": Settings((GPU_MNIST, LONG_CIFAR, SMALL_PHOTOGRAPHS), (0, 1, 2)),
    "paper": Settings((THESIS_MNIST, THESIS_CIFAR), (0,)),
}


def compute(settings: Settings, each: Each = one_by_one) -> list[Record]:
    return trajectories(settings.trajectories, settings.seeds, each)


def draw(records: list[Record]) -> Any:
    return draw_curves(records, normalised=True)


def draw_curves(records: list[Record], *, normalised: bool) -> Any:
    """A column for each trajectory: estimators' variance, and zeta below if wanted.

    The first seed is drawn heavily. SVRG's curve is broken at its updates.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    names = list(dict.fromkeys(one["name"] for one in records))
    rows = 2 if normalised else 1
    figure = Figure(figsize=(4.6 * len(names), 3.2 * rows), layout="constrained")
    panels = figure.subplots(rows, len(names), squeeze=False, sharey=not normalised)
    for column, name in enumerate(names):
        some = [one for one in records if one["name"] == name]
        axes = panels[0][column]
        for estimator in ESTIMATORS:
            for one in some:
                first = one is some[0]
                axes.semilogy(
                    one["steps"],
                    _shown(one["variance"], estimator),
                    marker="." if first and estimator == "SVRG" else None,
                    color=COLOURS[estimator],
                    lw=1.6 if first else 0.5,
                    alpha=1 if first else 0.4,
                    label=estimator if first else None,
                )
        for step in some[0]["drops"]:
            axes.axvline(step, color="0.7", lw=0.8, ls=":")
        axes.set(ylabel="average variance", xlabel="step")
        axes.set_title(f"{name}, {len(some)} seeds", fontsize="medium")
        axes.legend(fontsize="x-small", frameon=False)
        if normalised:
            for one in some:
                panels[1][column].semilogy(one["steps"], one["zeta"], color="tab:blue", lw=1)
            panels[1][column].axhline(1, color="0.5", lw=1, ls=":")
            panels[1][column].set(ylabel="normalised variance of SG-B", xlabel="step")
        for panel in panels[:, column]:
            panel.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    return figure


def _shown(variance: dict[str, list[float]], estimator: str) -> list[float]:
    """A curve without the updates of SVRG, where it has no variance up to rounding."""
    return [
        value if value > 1e-3 * base else math.nan
        for value, base in zip(variance[estimator], variance["SG-B"], strict=True)
    ]
