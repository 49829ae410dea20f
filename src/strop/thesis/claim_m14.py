"""Claim M14: the maximally robust classifier with slack, for data that no line separates.

    strop thesis run claim-M14

Thesis appendix B.1 defines it and leaves it. Two Gaussian classes that overlap, l∞, l2 and
Fourier-l∞ attacks: the largest epsilon at which the mean hinge loss under attack is at most xi, by
bisection over a convex problem, and by one convex problem with a certificate (nu-SVM in the dual
norm). Expected: both agree, and epsilon grows with xi. Seven seconds of one core at small.
"""

from dataclasses import dataclass
from typing import Any

import torch

from strop.margins import signed_data, solve
from strop.margins.equivalences import slack_by_bisection
from strop.margins.slack import least_slack
from strop.thesis.calls import Each, Record, one_by_one
from strop.thesis.linear_margins import ATTACKS, TITLES, rounded


@dataclass(frozen=True)
class Settings:
    """``multiples`` of the least slack that allows any epsilon."""

    count: int = 60
    dimension: int = 6
    attacks: tuple[str, ...] = ("linf", "l2", "fourier-linf")
    multiples: tuple[float, ...] = (1.1, 1.5, 2.0, 3.0)
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)


PRESETS = {
    "smoke": Settings(count=20, dimension=3, attacks=("l2",), multiples=(1.5,), seeds=(0,)),
    "small": Settings(),
    "gpu": Settings(count=200, dimension=20),
    "paper": Settings(count=200, dimension=20),
}


def with_slack(
    attack: str, count: int, dimension: int, multiples: list[float], seed: int
) -> list[Record]:
    """epsilon at several slacks, each found twice."""
    generator = torch.Generator().manual_seed(seed)
    signs = torch.ones(count).double()
    signs[count // 2 :] = -1
    noise = torch.randn(count, dimension, generator=generator).double()
    data = signed_data(noise + 0.5 * signs[:, None], signs, intercept=True)
    least = least_slack(data, attack=ATTACKS[attack]).value
    records = []
    for multiple in multiples:
        slack = min(multiple * least, 0.95)
        found = solve(data, attack=ATTACKS[attack], slack=slack, tol=1e-7)
        weights = found.weights.double().reshape(-1)
        values = data.values(weights) + signs * found.intercept
        bisected = slack_by_bisection(data, attack=ATTACKS[attack], slack=slack, tol=1e-5)
        records.append(
            {
                "attack": attack,
                "seed": seed,
                "least": rounded(least),
                "multiple": multiple,
                "slack": rounded(slack),
                "eps": rounded(found.margin),
                "gap": rounded(found.gap),
                "bisected": rounded(bisected),
                "errors": int((values <= 0).sum()),
                "count": count,
            }
        )
    return records


def compute(settings: Settings, each: Each = one_by_one) -> list[Record]:
    calls = [
        {
            "attack": attack,
            "count": settings.count,
            "dimension": settings.dimension,
            "multiples": list(settings.multiples),
            "seed": seed,
        }
        for attack in settings.attacks
        for seed in settings.seeds
    ]
    return [record for some in each(with_slack, calls) for record in some]


def draw(records: list[Record]) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    for attack in sorted({one["attack"] for one in records}):
        some = [one for one in records if one["attack"] == attack]
        multiples = sorted({one["multiple"] for one in some})
        for axes, key in ((left, "eps"), (right, "errors")):
            mean = [
                sum(one[key] for one in some if one["multiple"] == multiple)
                / sum(one["multiple"] == multiple for one in some)
                for multiple in multiples
            ]
            axes.plot(multiples, mean, "o-", label=TITLES[attack])
    left.set(ylabel="largest ε")
    right.set(ylabel=f"training errors of {records[0]['count']}")
    for axes in (left, right):
        axes.set(xlabel="slack ξ / least slack")
        axes.grid(alpha=0.25)
    left.legend(fontsize="small")
    return figure
