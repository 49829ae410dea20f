"""Claim G15: whether variance reduction pays only where zeta is above 1.

    strop thesis run claim-G15

Thesis appendix A.4 bounds a step of 1/L by ``-(1 - zeta) |grad f|^2 / 2L`` and concludes that less
variance speeds training up only for zeta above 1. Tested, not assumed: on quadratics with noise of
a fixed zeta, where expected losses follow an exact recursion, steps to a millionth of the loss at
1/L and at the best of many step sizes; then small networks on digits, batches of B and 2 B, each at
its best rate. Expected: the bound holds; what half the variance saves grows smoothly with zeta, and
is not nothing below 1. `small`: 3.5 busy minutes.
"""

from dataclasses import dataclass
from typing import Any

import torch

from strop.thesis.calls import Each, Record, one_by_one
from strop.thesis.side_by_side_networks import train


@dataclass(frozen=True)
class Settings:
    """Noise levels and spectra of the quadratics, and the trainings on digits."""

    zetas: tuple[float, ...] = (0.0625, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
    conditions: tuple[float, ...] = (1.0, 10.0, 100.0)
    batches: tuple[int, ...] = (4, 8, 16, 32, 64, 128, 256)
    rates: tuple[float, ...] = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 0.8)
    hidden: int = 32
    examples: int = 800
    steps: int = 1500
    every: int = 5
    target: float = 0.04
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)


PRESETS = {
    "smoke": Settings(
        zetas=(0.5, 1.0, 2.0),
        conditions=(10.0,),
        batches=(16, 32),
        steps=60,
        target=0.6,
        seeds=(0, 1),
    ),
    "small": Settings(),
    "gpu": Settings(),
    "paper": Settings(),
}


def compute(settings: Settings, each: Each = one_by_one) -> list[Record]:
    quadratics = [
        {"zeta": zeta, "condition": condition}
        for condition in settings.conditions
        for zeta in settings.zetas
    ]
    shared = {
        "rates": list(settings.rates),
        "hidden": settings.hidden,
        "examples": settings.examples,
        "steps": settings.steps,
        "every": settings.every,
        "target": settings.target,
        "seeds": list(settings.seeds),
    }
    trainings = each(digits_runs, [shared | {"batch": batch} for batch in settings.batches])
    return [*each(quadratic, quadratics), *(one for some in trainings for one in some)]


def quadratic(*, zeta: float, condition: float) -> Record:
    """Steps to a millionth of the expected loss at 1/L, and at the best of many step sizes.

    f = 1/2 sum_i h_i x_i^2 with h between 1/condition and 1, and noise whose covariance is
    ``zeta |grad f|^2 I / d``: then ``m_i = E x_i^2`` follows
    ``m_i <- (1 - a h_i)^2 m_i + a^2 zeta / d sum_j h_j^2 m_j`` exactly.
    """
    h = torch.logspace(-torch.tensor(condition).log10(), 0, 20, dtype=torch.float64)
    sizes = torch.cat([torch.logspace(-3, 0.29, 80), torch.ones(1)]).double()
    m = torch.ones(len(sizes), len(h), dtype=torch.float64)
    start = float(h.sum()) / 2
    steps, worst = torch.zeros(len(sizes)), 0.0
    for done in range(1, 200_001):
        square = (h**2 * m).sum(1)
        loss = (h * m).sum(1) / 2
        m = (1 - sizes[:, None] * h) ** 2 * m + (sizes**2 * zeta / len(h) * square)[:, None]
        after = (h * m).sum(1) / 2
        # The bound is for the step 1/L, the last of the sizes.
        worst = max(worst, float((after - loss + square * (1 - zeta) / 2)[-1] / square[-1]))
        steps[(steps == 0) & (after < 1e-6 * start)] = done
        fast = steps > 0
        # Once one size is there, another that takes five times as long need not be waited for.
        if (done > 5 * int(steps[fast].min()) and done > 50) if bool(fast.any()) else False:
            break
        m = m.clamp(max=1e12)
    reached = steps[steps > 0]
    last = int(steps[-1])
    return {
        "kind": "quadratic",
        "zeta": zeta,
        "condition": condition,
        "steps_at_1_over_L": last or None,
        "steps_at_best": int(reached.min()) if len(reached) else None,
        "bound_exceeded_by": max(0.0, worst),
    }


def digits_runs(
    *,
    batch: int,
    rates: list[float],
    hidden: int,
    examples: int,
    steps: int,
    every: int,
    target: float,
    seeds: list[int],
) -> list[Record]:
    """Each seed's steps to the target at its best rate, and zeta on the way."""
    torch.set_num_threads(1)
    found = train(
        "digits",
        examples=examples,
        hidden=hidden,
        batch=batch,
        rates=rates,
        seeds=seeds,
        steps=steps,
        every=every,
        target=target,
    )
    return [
        {"kind": "digits", "batch": batch, "seed": seed, **best_of(one, rates)}
        for seed, one in zip(seeds, found, strict=True)
    ]


def best_of(one: dict[str, list[float | None]], rates: list[float]) -> Record:
    """The rate that got there first, with what was measured along it.

    >>> best_of({"steps": [None, 30.0], "zeta": [None, 2.0], "variance": [None, 0.1]}, [0.1, 0.2])
    {'rate': 0.2, 'steps': 30.0, 'zeta': 2.0, 'variance': 0.1}
    """
    reached = [(count, place) for place, count in enumerate(one["steps"]) if count is not None]
    if not reached:
        return {"rate": None, "steps": None, "zeta": None, "variance": None}
    _, place = min(reached)
    return {"rate": rates[place]} | {k: one[k][place] for k in ("steps", "zeta", "variance")}


def savings(records: list[Record]) -> list[tuple[float, float, str]]:
    """(zeta, steps over steps at half the variance, of what) for every pair in the records."""
    pairs = []
    of = {(one["condition"], one["zeta"]): one for one in records if one["kind"] == "quadratic"}
    for (condition, zeta), one in of.items():
        half = of.get((condition, zeta / 2))
        if half and half["steps_at_best"] and one["steps_at_best"]:
            saved = one["steps_at_best"] / half["steps_at_best"]
            pairs.append((zeta, saved, f"quadratic, condition {condition:g}"))
    runs = {(one["batch"], one["seed"]): one for one in records if one["kind"] == "digits"}
    for (batch, seed), one in runs.items():
        half = runs.get((2 * batch, seed))
        if half and half["steps"] and one["steps"]:
            pairs.append((one["zeta"], one["steps"] / half["steps"], "digits"))
    return pairs


def draw(records: list[Record]) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.5, 4), layout="constrained")
    axes = figure.add_subplot()
    pairs = savings(records)
    for words in dict.fromkeys(what for _, _, what in pairs):
        some = sorted((zeta, saved) for zeta, saved, what in pairs if what == words)
        axes.semilogx(*zip(*some, strict=True), "." if words == "digits" else "o-", label=words)
    axes.axvline(1, color="0.5", lw=1, ls=":")
    axes.axhline(1, color="0.5", lw=1, ls=":")
    axes.set(xlabel="zeta before", ylabel="steps / steps at half the variance", ylim=(0.6, 2.2))
    axes.legend(frameon=False, fontsize="small")
    return figure
