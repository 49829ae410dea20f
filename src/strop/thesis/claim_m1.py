"""Claim M1: maximally robust = maximum margin = minimum dual norm.

    strop thesis run claim-M1

Thesis lemma 1, eq. (5.4) to (5.6), for l∞, l2, l1 and Fourier-l∞ attacks. Each of the three
problems is solved by its own program: bisection over epsilon with the attack carried out, an
interior-point method, CVXPY. Expected: one answer; an attack at 0.999 of it changes no label, at
1.001 it does. Seven seconds of one core at small.
"""

from dataclasses import dataclass
from typing import Any

from strop.margins import solve
from strop.margins.equivalences import compare_formulations, withstands
from strop.thesis.calls import Each, Record, one_by_one
from strop.thesis.linear_margins import ATTACKS, TITLES, gaussian


@dataclass(frozen=True)
class Settings:
    """Pairs (points, dimension), and seeds."""

    sizes: tuple[tuple[int, int], ...] = ((10, 20), (20, 60))
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)


PRESETS = {
    "smoke": Settings(sizes=((4, 8),), seeds=(0,)),
    "small": Settings(),
    "gpu": Settings(sizes=((10, 20), (20, 60), (50, 100))),
    "paper": Settings(sizes=((10, 20), (20, 60), (50, 100))),
}


def formulations(attack: str, count: int, dimension: int, seed: int) -> Record:
    """The maximal epsilon of one data set, three times; and the attack just below and above."""
    data, norm = gaussian(count, dimension, seed), ATTACKS[attack]
    found = compare_formulations(data, attack=norm, tol=1e-6)
    best = solve(data, attack=norm, tol=1e-7)
    weights = best.weights.double().reshape(-1)
    just = {
        name: withstands(data, weights, 0.0, attack=norm, eps=share * best.margin)
        for name, share in (("below", 0.999), ("above", 1.001))
    }
    return {
        "attack": attack,
        "count": count,
        "dimension": dimension,
        "seed": seed,
        "maximally_robust": found.maximally_robust,
        "maximum_margin": found.maximum_margin,
        "minimum_norm": found.minimum_norm,
        "difference": found.difference,
        "withstands_below": just["below"],
        "withstands_above": just["above"],
    }


def compute(settings: Settings, each: Each = one_by_one) -> list[Record]:
    return each(
        formulations,
        [
            {"attack": attack, "count": count, "dimension": dimension, "seed": seed}
            for attack in ATTACKS
            for count, dimension in settings.sizes
            for seed in settings.seeds
        ],
    )


def draw(records: list[Record]) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.5, 4), layout="constrained")
    axes = figure.add_subplot()
    for attack, title in TITLES.items():
        some = [one for one in records if one["attack"] == attack]
        axes.loglog(
            [one["maximum_margin"] for one in some],
            [max(one["difference"], 1e-12) for one in some],
            "o",
            label=title,
        )
    axes.set(xlabel="maximal ε", ylabel="largest relative difference of three solutions")
    axes.grid(alpha=0.25)
    axes.legend(fontsize="small")
    return figure
