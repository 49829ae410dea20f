"""Figure B.2: margins that match figure 5.3.

    strop thesis run figure-B.2

Thesis appendix B.5.3. The classifiers of figure 5.3 by their Fourier-l1 margin, beside CVXPY's
solution and adversarial training that is told the maximal epsilon. Expected: as figure 5.3, CVXPY
the upper line (claims M4, M5).
"""

from dataclasses import dataclass
from typing import Any

from strop.thesis import figure_5_3
from strop.thesis.calls import Each, Record, one_by_one
from strop.thesis.figure_5_2 import problems
from strop.thesis.figure_5_3 import ATTACK, METHODS, thesis_network
from strop.thesis.linear_margins import adversarially, cvxpy, draw_against_ratio


@dataclass(frozen=True)
class Settings(figure_5_3.Settings):
    """Those of figure 5.3, and those of adversarial training at the maximal epsilon."""

    adversarial_iterations: int = 1_500
    adversarial_steps: tuple[float, ...] = (0.1, 1.0, 10.0)


PRESETS = {
    "smoke": Settings(
        dimension=20,
        ratios=(2, 4),
        seeds=(0,),
        iterations=40,
        proximal_iterations=40,
        adversarial_iterations=40,
    ),
    "small": Settings(),
    "gpu": Settings(iterations=30_000, proximal_iterations=10_000, adversarial_iterations=10_000),
    "paper": Settings(
        seeds=(0, 1, 2),
        iterations=10_000,
        proximal_iterations=10_000,
        adversarial_iterations=10_000,
    ),
}


def compute(settings: Settings, each: Each = one_by_one) -> list[Record]:
    shared = figure_5_3.compute(settings, each)
    drawn = problems(settings)
    solved = each(cvxpy, [problem | {"attacks": [ATTACK]} for problem in drawn])
    told = {
        "attack": ATTACK,
        "iterations": settings.adversarial_iterations,
        "steps": list(settings.adversarial_steps),
        "share": 1.0,
    }
    return [*shared, *solved, *each(adversarially, [problem | told for problem in drawn])]


def draw(records: list[Record]) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.5, 4.2), layout="constrained")
    axes = figure.add_subplot()
    first = thesis_network(records)
    shown = [
        one for one in records if one["method"] != "convnet" or (one["scale"], one["step"]) == first
    ]
    methods = ("cvxpy", *METHODS, f"adversarial-{ATTACK}")
    draw_against_ratio(axes, shown, attack=ATTACK, what="margins", methods=methods)
    axes.set_ylabel("Fourier-l1 margin")
    axes.legend(fontsize="small")
    return figure
