"""Figure B.1: margins that match figure 5.2.

    strop thesis run figure-B.1

Thesis appendix B.5.3. The classifiers of figure 5.2 by their margin, beside CVXPY's solution and
adversarial training that is told the maximal epsilon. Expected: as figure 5.2; CVXPY is the upper
line, adversarial training comes near it (claims M2, M4).
"""

from dataclasses import dataclass
from typing import Any

from strop.thesis import figure_5_2
from strop.thesis.calls import Each, Record, one_by_one
from strop.thesis.figure_5_2 import ATTACKS, METHODS, problems
from strop.thesis.linear_margins import adversarially, cvxpy, draw_against_ratio


@dataclass(frozen=True)
class Settings(figure_5_2.Settings):
    """Those of figure 5.2, and those of adversarial training at the maximal epsilon."""

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
    "gpu": Settings(iterations=10_000, proximal_iterations=10_000, adversarial_iterations=10_000),
    "paper": Settings(
        seeds=(0, 1, 2),
        iterations=10_000,
        proximal_iterations=10_000,
        steps=figure_5_2.PRESETS["paper"].steps,
        adversarial_iterations=10_000,
    ),
}


def compute(settings: Settings, each: Each = one_by_one) -> list[Record]:
    shared = figure_5_2.compute(settings, each)
    drawn = problems(settings)
    solved = each(cvxpy, [problem | {"attacks": list(ATTACKS)} for problem in drawn])
    told = {
        "iterations": settings.adversarial_iterations,
        "steps": list(settings.adversarial_steps),
        "share": 1.0,
    }
    calls = [problem | {"attack": attack} | told for attack in ATTACKS for problem in drawn]
    return [*shared, *solved, *each(adversarially, calls)]


def draw(records: list[Record]) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 4), layout="constrained")
    for axes, attack in zip(figure.subplots(1, 3), ATTACKS, strict=True):
        methods = ("cvxpy", *METHODS, f"adversarial-{attack}")
        draw_against_ratio(axes, records, attack=attack, what="margins", methods=methods)
    figure.axes[0].set_ylabel("margin")
    figure.axes[0].legend(fontsize="small")
    return figure
