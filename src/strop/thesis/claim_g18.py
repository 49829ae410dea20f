"""Claim G18: what tracks the speed of convergence, the normalised variance or the variance.

    strop thesis run claim-G18

The chapter's headline (thesis sections 4.1 and 4.5), on many problems: networks of several widths
on several data sets, with and without wrong labels, by SGD with one batch size, each at its best
rate; how many steps to a share of the first loss, and the average variance and zeta of a mini-batch
on the way (exact, geometric means over the steps). Rank correlation over problems, with an interval
from resampling problems. Expected: zeta correlates with the steps, the variance less. `small`: 5
busy minutes; data that are not there are left out, and the figure names those that are.
"""

from dataclasses import dataclass
from itertools import product
from typing import Any

import torch

from strop.data import find_data
from strop.support import InputError
from strop.thesis.calls import Each, Record, one_by_one
from strop.thesis.claim_g15 import best_of
from strop.thesis.side_by_side_networks import train


@dataclass(frozen=True)
class Settings:
    """The problems, and how each is trained."""

    data: tuple[str, ...] = ("digits", "mnist", "fashion-mnist", "cifar10")
    hidden: tuple[int, ...] = (8, 32, 96)
    wrong: tuple[float, ...] = (0.0, 0.1, 0.3)
    examples: int = 800
    batch: int = 16
    rates: tuple[float, ...] = (0.01, 0.04, 0.16, 0.64)
    steps: int = 1200
    every: int = 15
    target: float = 0.6
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)


POOLED = {"digits": 1, "cifar10": 4}
"""Pictures are averaged over squares of this side, 2 for others: about 200 inputs each."""
PRESETS = {
    "smoke": Settings(
        data=("digits",), hidden=(8, 16), examples=200, steps=60, target=0.9, seeds=(0, 1)
    ),
    "small": Settings(),
    "gpu": Settings(hidden=(8, 32, 128, 512), examples=4000, steps=4000),
    "paper": Settings(hidden=(8, 32, 128, 512), examples=4000, steps=4000),
}


def compute(settings: Settings, each: Each = one_by_one) -> list[Record]:
    shared = {
        "examples": settings.examples,
        "batch": settings.batch,
        "rates": list(settings.rates),
        "steps": settings.steps,
        "every": settings.every,
        "target": settings.target,
        "seeds": list(settings.seeds),
    }
    cells = product(filter(_is_there, settings.data), settings.hidden, settings.wrong)
    calls = [dict(zip(("data", "hidden", "wrong"), cell, strict=True)) for cell in cells]
    return each(problem_runs, [shared | call for call in calls])


def _is_there(data: str) -> bool:
    try:
        return data == "digits" or find_data(data).exists()
    except InputError:
        return False


def problem_runs(
    *,
    data: str,
    hidden: int,
    wrong: float,
    examples: int,
    batch: int,
    rates: list[float],
    steps: int,
    every: int,
    target: float,
    seeds: list[int],
) -> Record:
    """Over seeds: steps to the target at the best rate, with variance and zeta on the way."""
    torch.set_num_threads(1)
    found = train(
        data,
        examples=examples,
        hidden=hidden,
        batch=batch,
        rates=rates,
        seeds=seeds,
        steps=steps,
        every=every,
        target=target,
        pooled=POOLED.get(data, 2),
        wrong=wrong,
    )
    best = [best_of(one, rates) for one in found]
    return {"data": data, "hidden": hidden, "wrong": wrong} | {
        name: [one[name] for one in best] for name in ("steps", "rate", "variance", "zeta")
    }


def solved(records: list[Record]) -> list[tuple[float, float, float]]:
    """(steps, variance, zeta) of each problem that was solved by some seed, means over seeds."""
    rows = []
    for one in records:
        kept = [
            row
            for row in zip(one["steps"], one["variance"], one["zeta"], strict=True)
            if None not in row
        ]
        if kept:
            logs = torch.tensor(kept, dtype=torch.float64).log().mean(0).exp()
            rows.append((float(logs[0]), float(logs[1]), float(logs[2])))
    return rows


def rank_correlation(first: list[float], second: list[float]) -> float:
    """Spearman's, ties sharing their mean rank.

    >>> rank_correlation([1.0, 2.0, 3.0], [10.0, 30.0, 20.0])
    0.5
    """
    ranks = [_ranks(torch.tensor(values, dtype=torch.float64)) for values in (first, second)]
    return round(float(torch.corrcoef(torch.stack(ranks))[0, 1]), 10)


def _ranks(values: torch.Tensor) -> torch.Tensor:
    below = (values[None, :] < values[:, None]).sum(1)
    return below + ((values[None, :] == values[:, None]).sum(1) - 1) / 2.0


def draw(records: list[Record]) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.8), layout="constrained")
    names = list(dict.fromkeys(one["data"] for one in records))
    rows = solved(records)
    for axes, name in zip(figure.subplots(1, 2, sharey=True), ("variance", "zeta"), strict=True):
        place = ("steps", "variance", "zeta").index(name)
        for data in names:
            some = solved([one for one in records if one["data"] == data])
            axes.loglog([row[place] for row in some], [row[0] for row in some], "o", label=data)
        rho = rank_correlation([row[0] for row in rows], [row[place] for row in rows])
        words = "average variance" if name == "variance" else "normalised variance zeta"
        axes.set(xlabel=f"{words} of a mini-batch", title=f"rank correlation {rho:.2f}")
        axes.tick_params(axis="x", which="minor", labelbottom=False)
    figure.axes[0].set_ylabel("steps to the target, best rate")
    figure.axes[0].legend(frameon=False, fontsize="small")
    return figure
