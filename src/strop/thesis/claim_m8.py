"""Claim M8: as epsilon grows the saddle point becomes the constant majority predictor p*.

    strop thesis run claim-M8

Thesis section 5.2: argmin_p n_- zeta(-p) + n_+ zeta(p). The saddle-point problem (5.3) is solved
exactly by a cone solver at growing epsilon, for l∞ and l2 attacks, exponential and logistic loss.
Expected: ||w|| reaches zero and b reaches p*. Beyond the thesis: that happens at a finite epsilon,
half the distance between the means of the classes in the attack norm, whatever the loss (there the
gradient of the loss at w = 0 is as long as the pull of the perturbations). Three seconds of one
core at small.
"""

from dataclasses import dataclass
from typing import Any

import torch

from strop.margins import signed_data
from strop.margins.equivalences import constant_limit, saddle_point
from strop.thesis.calls import Each, Record, one_by_one
from strop.thesis.linear_margins import ATTACKS, rounded


@dataclass(frozen=True)
class Settings:
    """``shares`` of the epsilon at which the weights should vanish."""

    positives: int = 30
    negatives: int = 10
    dimension: int = 5
    attacks: tuple[str, ...] = ("linf", "l2")
    losses: tuple[str, ...] = ("exponential", "logistic")
    shares: tuple[float, ...] = (0.5, 0.7, 0.8, 0.9, 0.95, 1.05, 1.2, 1.5, 2.0)
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)


PRESETS = {
    "smoke": Settings(attacks=("linf",), losses=("logistic",), shares=(0.5, 1.1), seeds=(0,)),
    "small": Settings(),
    "gpu": Settings(),
    "paper": Settings(),
}


def saddle(
    attack: str, loss: Any, positives: int, negatives: int, dimension: int, share: float, seed: int
) -> Record:
    """The saddle point of two Gaussian classes that overlap."""
    generator = torch.Generator().manual_seed(seed)
    count = positives + negatives
    signs = torch.ones(count)
    signs[positives:] = -1
    points = torch.randn(count, dimension, generator=generator) + 0.8 * signs[:, None]
    data = signed_data(points.double(), signs, intercept=True)
    apart = points[:positives].mean(dim=0) - points[positives:].mean(dim=0)
    vanishing = float(ATTACKS[attack](apart[None].double())) / 2
    weights, offset = saddle_point(data, attack=ATTACKS[attack], eps=share * vanishing, loss=loss)
    return {
        "attack": attack,
        "loss": loss,
        "seed": seed,
        "share": share,
        "eps": rounded(share * vanishing),
        "size": rounded(float(weights.norm())),
        "offset": rounded(offset),
        "limit": rounded(constant_limit(positives, negatives, loss=loss)),
    }


def compute(settings: Settings, each: Each = one_by_one) -> list[Record]:
    shared = {
        "positives": settings.positives,
        "negatives": settings.negatives,
        "dimension": settings.dimension,
    }
    return each(
        saddle,
        [
            shared | {"attack": attack, "loss": loss, "share": share, "seed": seed}
            for attack in settings.attacks
            for loss in settings.losses
            for share in settings.shares
            for seed in settings.seeds
        ],
    )


def draw(records: list[Record]) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    for attack, loss in sorted({(one["attack"], one["loss"]) for one in records}):
        some = [one for one in records if (one["attack"], one["loss"]) == (attack, loss)]
        shares = sorted({one["share"] for one in some})
        for axes, value in (
            (left, lambda one: one["size"]),
            (right, lambda one: abs(one["offset"] - one["limit"])),
        ):
            mean = [
                sum(value(one) for one in some if one["share"] == share)
                / sum(one["share"] == share for one in some)
                for share in shares
            ]
            axes.plot(shares, mean, "o-", ms=4, label=f"{attack}, {loss}")
    left.set(ylabel="||w||")
    right.set(ylabel="|b - p*|")
    for axes in (left, right):
        axes.axvline(1, color="0.6", lw=1)
        axes.set(xlabel="ε / half the distance of the means")
    left.legend(fontsize="small")
    return figure
