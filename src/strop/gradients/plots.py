"""Drawings of gradient statistics from their records: over a run, and estimators side by side."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

LABELS = {
    "variance": "variance (trace)",
    "average_variance": "average variance",
    "normalised_variance": "normalised variance, zeta",
    "gradient_norm": "gradient norm",
    "noise_scale": "noise scale, examples",
}


def draw_statistics(events: Sequence[Mapping[str, Any]]) -> Any:
    """A matplotlib figure of one run: zeta, gradient norm and noise scale, with intervals."""
    return _panels(
        {"": events}, names=("normalised_variance", "gradient_norm", "noise_scale"), key="step"
    )


def draw_curves(events: Sequence[Mapping[str, Any]]) -> Any:
    """A matplotlib figure like thesis figure 4.3: both variances of each estimator over steps."""
    by_estimator: dict[str, list[Mapping[str, Any]]] = {}
    for event in events:
        by_estimator.setdefault(event["estimator"], []).append(event)
    return _panels(by_estimator, names=("average_variance", "normalised_variance"), key="step")


def _panels(
    series: Mapping[str, Sequence[Mapping[str, Any]]], *, names: Sequence[str], key: str
) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.2 * len(names), 3.4), layout="constrained")
    for axes, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
        for label, events in series.items():
            shown = [event for event in events if _positive(event[name])]
            steps = [event[key] for event in shown]
            line = axes.plot(steps, [event[name] for event in shown], label=label, linewidth=1.5)
            low = [max(event[f"{name}_low"], event[name] / 1e3) for event in shown]
            high = [min(event[f"{name}_high"], event[name] * 1e3) for event in shown]
            axes.fill_between(steps, low, high, color=line[0].get_color(), alpha=0.15, linewidth=0)
        if name == "normalised_variance":
            axes.axhline(1, color="grey", linewidth=0.8, linestyle=":")
        axes.set_yscale("log")
        axes.set_xlabel(key)
        axes.set_title(LABELS[name], fontsize="medium")
        axes.grid(alpha=0.3)
    if len(series) > 1:
        axes.legend(fontsize="small")
    return figure


def _positive(value: float) -> bool:
    return math.isfinite(value) and value > 0
