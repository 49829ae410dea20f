"""Figure 5.2: maximal epsilon against d/n for l∞, l2 and l1 attacks.

    strop thesis run figure-5.2

Thesis section 5.5.1. Linear classifiers of Gaussian data, trained by coordinate descent, gradient
descent with line search, sign descent, and l1, l2, l∞ regularisation; the largest epsilon found by
carrying out the attack. Expected: for each attack one optimiser and one regularisation come near
the exact line, the others stay below, by more as d/n grows (claims M2, M3, M4). At small 150
seconds of one core.
"""

from dataclasses import dataclass
from typing import Any

from strop.thesis.calls import Each, Record, one_by_one
from strop.thesis.linear_margins import draw_against_ratio, exact, trained

METHODS = ("cd", "gd+ls", "signgd", "l1", "l2", "linf")
STEPPED = ("cd", "signgd")
ATTACKS = ("linf", "l2", "l1")


@dataclass(frozen=True)
class Settings:
    """Points of ``dimension`` d, d / ratio of them; iterations of descent and of regularisation."""

    dimension: int = 100
    ratios: tuple[int, ...] = (1, 2, 4, 8, 16, 32)
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    iterations: int = 3_000
    proximal_iterations: int = 1_500
    steps: tuple[float, ...] = (1.0, 3.0, 10.0)
    """Of coordinate and sign descent, times the safe one; the best is kept, as in the thesis."""


PRESETS = {
    "smoke": Settings(
        dimension=20, ratios=(2, 4), seeds=(0,), iterations=40, proximal_iterations=40
    ),
    "small": Settings(),
    "gpu": Settings(iterations=10_000, proximal_iterations=10_000),
    "paper": Settings(
        seeds=(0, 1, 2),
        iterations=10_000,
        proximal_iterations=10_000,
        steps=(0.3, 1.0, 2.0, 3.0, 6.0, 9.0, 10.0, 20.0, 30.0, 50.0),
    ),
}


def problems(settings: Any) -> list[Record]:
    """The data of every ratio and seed."""
    return [
        {"count": settings.dimension // ratio, "dimension": settings.dimension, "seed": seed}
        for ratio in settings.ratios
        for seed in settings.seeds
    ]


def runs_of(settings: Settings, method: str) -> list[Record]:
    """The calls of one method."""
    proximal = method in ("l1", "l2", "linf")
    iterations = settings.proximal_iterations if proximal else settings.iterations
    steps = list(settings.steps) if method in STEPPED else [None]
    shared = {"method": method, "iterations": iterations, "steps": steps, "scale": 1.0}
    return [problem | shared for problem in problems(settings)]


def compute(settings: Settings, each: Each = one_by_one) -> list[Record]:
    best = each(exact, problems(settings))
    calls = [call for method in METHODS for call in runs_of(settings, method)]
    return best + each(trained, calls)


def draw(records: list[Record]) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 4), layout="constrained")
    lines = [one | {"attacked": one.get("attacked", one["margins"])} for one in records]
    for axes, attack in zip(figure.subplots(1, 3), ATTACKS, strict=True):
        draw_against_ratio(axes, lines, attack=attack, what="attacked", methods=("exact", *METHODS))
    figure.axes[0].set_ylabel("maximal ε, attack carried out")
    figure.axes[0].legend(fontsize="small")
    return figure
