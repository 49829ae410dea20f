"""Figure 4.1: gradients of 2-D logistic regression in four clusters, steps 0, 1 and 2 of GD.

    strop thesis run figure-4.1

Thesis section 4.1. A linear classifier on two separable classes, started at random; gradients in
four clusters, by their points in input space, with the boundary that a step along each cluster's
mean would give. Expected: a cluster holds both classes, whose points lie far apart in input space
while their gradients are alike (claim G16). Seconds at every preset.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from strop.data import blobs
from strop.gradients import GradientTable, Stratified
from strop.gradients.local_search import local_search
from strop.thesis.calls import Each, Record, one_by_one


@dataclass(frozen=True)
class Settings:
    """The data, and the step size of gradient descent."""

    examples: int = 100
    separation: float = 6.0
    clusters: int = 4
    steps: int = 2
    rate: float = 1.0
    seeds: tuple[int, ...] = tuple(range(10))


PRESETS = {
    "smoke": Settings(seeds=(0, 1)),
    "small": Settings(),
    "gpu": Settings(),
    "paper": Settings(),
}


def compute(settings: Settings, each: Each = one_by_one) -> list[Record]:
    shared = {
        "examples": settings.examples,
        "separation": settings.separation,
        "clusters": settings.clusters,
        "steps": settings.steps,
        "rate": settings.rate,
    }
    calls = [shared | {"seed": seed, "shown": seed == settings.seeds[0]} for seed in settings.seeds]
    return [record for records in each(descend, calls) for record in records]


def descend(
    *,
    examples: int,
    separation: float,
    clusters: int,
    steps: int,
    rate: float,
    seed: int,
    shown: bool,
) -> list[Record]:
    """GD from a random start; the gradients of each step in clusters by exact moves."""
    generator = torch.Generator().manual_seed(seed)
    data = blobs(count=examples, separation=separation, generator=generator, dtype=torch.float64)
    turn = torch.linalg.qr(torch.randn(2, 2, generator=generator, dtype=torch.float64)).Q
    points, signs = data.points @ turn, data.signs
    inputs = torch.cat([points, points.new_ones(examples, 1)], dim=1)
    weights = torch.randn(3, generator=generator, dtype=torch.float64)
    records = []
    for step in range(steps + 1):
        rows = logistic_gradients(inputs, signs, weights)
        found = local_search(rows, n_clusters=clusters, cap=None, generator=generator)
        centres = torch.stack([rows[found.assignment == k].mean(0) for k in range(clusters)])
        spread = float((rows - rows.mean(0)).square().sum()) / examples
        record: Record = {
            "seed": seed,
            "step": step,
            "loss": float(nn.functional.softplus(-signs * (inputs @ weights)).mean()),
            "relative_variance": Stratified(found.assignment).exact_variance(GradientTable(rows))
            / (spread / clusters),
            "clusters": [
                _describe(points, rows, signs, found.assignment == k) for k in range(clusters)
            ],
        }
        if shown:
            record |= {
                "points": [[round(value, 3) for value in point] for point in points.tolist()],
                "signs": signs.int().tolist(),
                "assignment": found.assignment.tolist(),
                "weights": weights.tolist(),
                "predicted": (weights - rate * centres).tolist(),
            }
        records.append(record)
        weights = weights - rate * rows.mean(0)
    return records


def logistic_gradients(inputs: Tensor, signs: Tensor, weights: Tensor) -> Tensor:
    """Of softplus(-y x.w) for each example, (n, d).

    >>> logistic_gradients(torch.ones(1, 2), torch.ones(1), torch.zeros(2))
    tensor([[-0.5000, -0.5000]])
    """
    return -(signs * torch.sigmoid(-signs * (inputs @ weights)))[:, None] * inputs


def _describe(points: Tensor, rows: Tensor, signs: Tensor, inside: Tensor) -> Record:
    """A cluster's share of each class, and the distance between its classes.

    Distances are between the means of the two classes within it, in units of the mean distance
    between two of all examples.
    """
    counts = [int((inside & (signs == sign)).sum()) for sign in (-1, 1)]
    record: Record = {"counts": counts, "input_distance": None, "gradient_distance": None}
    if min(counts):
        for name, values in (("input_distance", points), ("gradient_distance", rows)):
            means = [values[inside & (signs == sign)].mean(0) for sign in (-1, 1)]
            scale = torch.nn.functional.pdist(values).mean()
            record[name] = round(float((means[0] - means[1]).norm() / scale), 4)
    return record


def draw(records: list[Record]) -> Any:
    from matplotlib.figure import Figure

    shown = [record for record in records if "points" in record]
    figure = Figure(figsize=(4 * len(shown), 4.2), layout="constrained")
    colours = ("tab:blue", "tab:orange", "tab:green", "tab:red", "tab:purple", "tab:brown")
    for axes, record in zip(figure.subplots(1, len(shown)), shown, strict=True):
        reach = 1.15 * max(abs(value) for point in record["points"] for value in point)
        for sign, marker in ((-1, "o"), (1, "x")):
            chosen = [i for i, one in enumerate(record["signs"]) if one == sign]
            axes.scatter(
                [record["points"][i][0] for i in chosen],
                [record["points"][i][1] for i in chosen],
                c=[colours[record["assignment"][i]] for i in chosen],
                marker=marker,
                s=28,
            )
        _boundary(axes, record["weights"], reach, color="black", lw=2)
        for colour, weights in zip(colours, record["predicted"], strict=False):
            _boundary(axes, weights, reach, color=colour, lw=1.2, ls="--")
        both = sum(min(one["counts"]) > 0 for one in record["clusters"])
        axes.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal", xticks=[], yticks=[])
        axes.set_title(
            f"GD step {record['step']}: {both} of {len(record['clusters'])} clusters hold both "
            f"classes\nvariance {record['relative_variance']:.2f} of SG-4",
            fontsize="medium",
        )
    return figure


def _boundary(axes: Any, weights: list[float], reach: float, **style: Any) -> None:
    """The line w.x + b = 0, where it crosses the picture."""
    across, up, bias = weights
    length = (across**2 + up**2) ** 0.5
    middle = [-bias * across / length**2, -bias * up / length**2]
    along = [-up / length, across / length]
    ends = [[middle[i] + sign * 3 * reach * along[i] for sign in (-1, 1)] for i in range(2)]
    axes.plot(*ends, **style)
