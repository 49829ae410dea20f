"""Table A.2: the hyper-parameters of chapter 4, and those of the presets here.

    strop thesis run table-A.2

Thesis appendix A.3.1. Nothing is measured: the settings that figure 4.3 runs with, read from the
code. Expected: the `paper` rows are the thesis's. Instant.
"""

from dataclasses import dataclass

from strop.thesis import figure_4_3
from strop.thesis.calls import Each, Record, one_by_one
from strop.thesis.drawing import Row, Table

PUBLISHED = (
    ("MNIST", "MLP", 128, 50_000, 500, 50, 2000, 10),
    ("CIFAR-10", "ResNet8", 128, 80_000, 500, 50, 20_000, 3),
    ("CIFAR-100", "ResNet32", 128, 80_000, 500, 50, 20_000, 3),
    ("ImageNet", "ResNet18", 128, 80_000, 1000, 10, 10_000, 3),
)


@dataclass(frozen=True)
class Settings:
    """The presets to list."""

    presets: tuple[str, ...] = ("paper", "gpu", "small")


PRESETS = {name: Settings() for name in ("smoke", "small", "gpu", "paper")}


def compute(settings: Settings, each: Each = one_by_one) -> list[Record]:
    """One record for each trajectory of each preset, after the thesis's own rows."""
    names = ("data", "model", "batch", "steps", "every", "draws", "refresh", "iterations")
    published = [{"preset": "thesis", **dict(zip(names, row, strict=True))} for row in PUBLISHED]
    ours = [
        {
            "preset": preset,
            "data": one.name,
            "model": _words(one.model, one.widths),
            "batch": one.batch,
            "steps": one.steps,
            "every": one.every,
            "draws": one.draws,
            "refresh": one.refresh,
            "iterations": one.iterations,
        }
        for preset in settings.presets
        for one in figure_4_3.PRESETS[preset].trajectories
    ]
    return published + ours


def _words(model: str, widths: tuple[int, ...]) -> str:
    return "-".join(map(str, widths)) if model == "mlp" else model


def draw(records: list[Record]) -> Table:
    heads = ("", "data", "model", "B", "T", "Log T", "Estim T", "U", "GC T")
    keys = ("preset", "data", "model", "batch", "steps", "every", "draws", "refresh", "iterations")
    return Table(
        heads,
        tuple(
            Row(
                tuple(f"{one[k]:,}" if isinstance(one[k], int) else one[k] for k in keys),
                grey=one["preset"] == "thesis",
            )
            for one in records
        ),
        caption="Steps, the interval of measuring, draws of each estimator, the interval of "
        "renewing clusters and SVRG, and iterations of clustering; grey rows are the thesis's",
    )
