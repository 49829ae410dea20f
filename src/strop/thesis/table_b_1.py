"""Table B.1: hyper-parameter ranges of chapter 5.

    strop thesis run table-B.1

Thesis appendix B.5.1: what the linear experiments try. Expected: the thesis's ranges, and beside
them the settings of figures 5.2 to 5.4 at the preset that is run. At once at every preset.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from strop.thesis import figure_5_2, figure_5_3, figure_5_4
from strop.thesis.calls import Each, Record, one_by_one
from strop.thesis.drawing import Row, Table

THESIS = {
    "random seed": "0, 1, 2",
    "d": "100",
    "d/n": "1, 2, 4, 8, 16, 32",
    "training steps": "10000",
    "learning rate": "1e-5 … 50, 19 values",
    "regularisation coefficient": "1e-7 … 10, 15 values",
    "line search: largest step": "1, 10, 100, 1000",
    "adversarial training: steps": "10",
    "adversarial training: learning rate": "0.1",
}


@dataclass(frozen=True)
class Settings:
    """The preset whose settings are shown."""

    preset: str = "small"


PRESETS = {name: Settings(name) for name in ("smoke", "small", "gpu", "paper")}


def compute(settings: Settings, each: Each = one_by_one) -> list[Record]:
    lines = figure_5_2.PRESETS[settings.preset]
    network = figure_5_3.PRESETS[settings.preset]
    trades = figure_5_4.PRESETS[settings.preset]
    here = {
        "random seed": _list(lines.seeds),
        "d": str(lines.dimension),
        "d/n": _list(lines.ratios),
        "training steps": f"{lines.iterations}; regularisation {lines.proximal_iterations}",
        "learning rate": f"{_list(lines.steps)} times the safe one (CD, SignGD); conv net "
        + _list(sorted({step for _, step in network.networks})),
        "regularisation coefficient": f"continued from the largest down; figure 5.4: "
        f"{_list(trades.lambda_ratios)} of the largest",
        "line search: largest step": "1000",
        "adversarial training: steps": "exact: the worst perturbation has a closed form",
        "adversarial training: learning rate": f"{_list(trades.steps)} times the safe one",
    }
    return [
        {"parameter": name, "thesis": value, "here": here[name], "preset": settings.preset}
        for name, value in THESIS.items()
    ]


def draw(records: list[Record]) -> Table:
    return Table(
        ("hyper-parameter", "thesis", "here"),
        tuple(Row((one["parameter"], one["thesis"], one["here"])) for one in records),
        caption=f"Linear experiments of chapter 5, preset {records[0]['preset']}",
    )


def _list(values: Iterable[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)
