"""Claim N2: how often a mini-batch misses the hardest decile.

    strop thesis run claim-N2

Thesis section 3.2.2 (the probability that a mini-batch of M has no negative among the hardest
share): 0.9^(M-1) for the 90th percentile, 0.999^(M-1) for the 99.9th. Expected: the simulation
agrees. The thesis says the first falls under 1 % for M >= 44 and the second for M >= 6905; by the
formula it is M >= 45 and M >= 4604. Seconds at every preset.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch

from strop.thesis.calls import Each, Record, one_by_one


@dataclass(frozen=True)
class Settings:
    """Batches of several sizes drawn from ranks 0 … 1, the hardest being 0."""

    sizes: tuple[int, ...] = (2, 5, 10, 20, 30, 44, 45, 60)
    share: float = 0.1
    draws: int = 200_000
    seed: int = 0


PRESETS = {
    "smoke": Settings(draws=20_000),
    "small": Settings(),
    "gpu": Settings(draws=1_000_000),
    "paper": Settings(draws=1_000_000),
}


def missed(size: int, share: float, draws: int, seed: int) -> Record:
    """How many of so many batches hold no negative of the hardest share."""
    generator = torch.Generator().manual_seed(seed)
    count = 0
    for block in range(0, draws, 10_000):
        ranks = torch.rand(min(10_000, draws - block), size - 1, generator=generator)
        count += int((ranks > share).all(dim=1).sum())
    return {
        "size": size,
        "share": share,
        "draws": draws,
        "missed": count / draws,
        "formula": (1 - share) ** (size - 1),
    }


def first_under(share: float, probability: float) -> int:
    """The least M with (1 - share)^(M-1) < probability.

    >>> first_under(0.1, 0.01), first_under(0.001, 0.01), first_under(0.001, 0.001)
    (45, 4604, 6906)
    """
    return math.floor(math.log(probability) / math.log1p(-share)) + 2


def compute(settings: Settings, each: Each = one_by_one) -> list[Record]:
    shared = {"share": settings.share, "draws": settings.draws, "seed": settings.seed}
    return each(missed, [shared | {"size": size} for size in settings.sizes])


def draw(records: list[Record]) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.5, 4), layout="constrained")
    axes = figure.add_subplot()
    sizes = range(2, max(record["size"] for record in records) + 1)
    share = records[0]["share"]
    axes.semilogy(sizes, [(1 - share) ** (size - 1) for size in sizes], label="formula")
    axes.semilogy(
        [record["size"] for record in records],
        [record["missed"] for record in records],
        "o",
        label="simulation",
    )
    axes.axhline(0.01, color="0.6", lw=1)
    axes.axvline(first_under(share, 0.01), color="0.6", lw=1)
    axes.annotate(
        f"under 1 % from M = {first_under(share, 0.01)}", (0.55, 0.75), xycoords="axes fraction"
    )
    axes.set(xlabel="batch size M", ylabel=f"misses the hardest {share:.0%}")
    axes.legend()
    return figure
