"""Figure 5.3: maximal epsilon against d/n for the Fourier-l∞ attack.

    strop thesis run figure-5.3

Thesis section 5.5.1 and 5.6.1. A two-layer linear network of circular convolutions under gradient
descent, Fourier-l1 regularisation, gradient descent on a linear model, and the exact solution.
Expected: regularisation meets the exact line; the network comes near it and leaves a gap, which
depends on the scale of its first weights and on the step (claims M4, M5). The second panel shows
that gap along training; steps by a share of the layers' own length close most of it. At small 140
seconds of one core.
"""

from dataclasses import dataclass
from typing import Any

from strop.thesis.calls import Each, Record, one_by_one
from strop.thesis.figure_5_2 import problems
from strop.thesis.linear_margins import draw_against_ratio, exact, trained

METHODS = ("fourier-l1", "convnet-relative", "convnet", "gd+ls")
ATTACK = "fourier-linf"


@dataclass(frozen=True)
class Settings:
    """As figure 5.2; ``networks`` are pairs (scale of the first weights, step) of plain descent."""

    dimension: int = 100
    ratios: tuple[int, ...] = (1, 2, 4, 8, 16, 32)
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    iterations: int = 3_000
    proximal_iterations: int = 1_500
    networks: tuple[tuple[float, float], ...] = ((1.0, 0.03), (1.0, 0.003), (0.1, 0.03))


PRESETS = {
    "smoke": Settings(
        dimension=20, ratios=(2, 4), seeds=(0,), iterations=40, proximal_iterations=40
    ),
    "small": Settings(),
    "gpu": Settings(iterations=30_000, proximal_iterations=10_000),
    "paper": Settings(seeds=(0, 1, 2), iterations=10_000, proximal_iterations=10_000),
}


def compute(settings: Settings, each: Each = one_by_one) -> list[Record]:
    drawn = problems(settings)
    long = {"iterations": settings.iterations, "scale": 1.0, "steps": [None]}
    short = long | {"iterations": settings.proximal_iterations}
    variants = [
        {"method": "convnet"} | long | {"scale": scale, "steps": [step]}
        for scale, step in settings.networks
    ]
    others = [
        {"method": "fourier-l1"} | short,
        {"method": "convnet-relative"} | long,
        {"method": "gd+ls"} | long,
    ]
    calls = [problem | one for one in variants + others for problem in drawn]
    return each(exact, drawn) + each(trained, calls)


def draw(records: list[Record]) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    first = thesis_network(records)
    shown = [
        one | {"attacked": one.get("attacked", one["margins"])}
        for one in records
        if one["method"] != "convnet" or (one["scale"], one["step"]) == first
    ]
    draw_against_ratio(left, shown, attack=ATTACK, what="attacked", methods=("exact", *METHODS))
    left.set_ylabel("maximal ε, attack carried out")
    left.legend(fontsize="small")
    _draw_gaps(right, records)
    return figure


def thesis_network(records: list[Record]) -> tuple[float, float]:
    """The scale and step of the first network: the thesis's."""
    first = next(one for one in records if one["method"] == "convnet")
    return first["scale"], first["step"]


def _draw_gaps(axes: Any, records: list[Record]) -> None:
    """The mean gap along training, at the middle d/n."""
    ratios = sorted({one["ratio"] for one in records})
    ratio = ratios[len(ratios) // 2]
    runs: dict[tuple[str, float, float | None], list[Record]] = {}
    for one in records:
        if one["method"].startswith("convnet") and one["ratio"] == ratio:
            runs.setdefault((one["method"], one["scale"], one["step"]), []).append(one)
    for (method, scale, step), some in runs.items():
        times = [time for time, _ in some[0]["gaps"]]
        mean = [
            sum(one["gaps"][place][1] for one in some) / len(some) for place in range(len(times))
        ]
        label = (
            "relative steps" if method == "convnet-relative" else f"scale {scale:g}, step {step:g}"
        )
        axes.loglog(times, mean, "o-", ms=4, label=label)
    axes.set(
        xlabel="iteration", ylabel="gap to the exact margin", title=f"the gap, d/n = {ratio:.3g}"
    )
    axes.grid(alpha=0.25)
    axes.legend(fontsize="small")
