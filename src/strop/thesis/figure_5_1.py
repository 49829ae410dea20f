"""Figure 5.1: perturbations in l∞ and Fourier-l∞, by band.

    strop thesis run figure-5.1

Thesis section 5.3.3. CIFAR-10 pictures under l∞, Fourier-l∞, high- and low-frequency Fourier-l∞
attacks on a standard network (8/255, for low frequencies 50/255), and for standard and robust
networks the shortest perturbation of each picture, by band. Expected: high-frequency attacks
succeed at a smaller epsilon than low-frequency ones (claim M9). At small 85 seconds of one core.
"""

from dataclasses import dataclass, field
from typing import Any

from strop.thesis.calls import Each, Record, one_by_one
from strop.thesis.image_models import data_at_hand, has_file
from strop.thesis.perturbations import (
    TITLES,
    attacked,
    draw_pictures,
    lengths,
    standard_or_robust,
)
from strop.thesis.small_trainings import CIFAR_RESNET, DIGITS, training_of

BUDGETS = {"linf": 8 / 255, "fourier-linf": 8 / 255, "high": 8 / 255, "low": 50 / 255}
DIGITS_BUDGETS = {"linf": 0.2, "fourier-linf": 0.2, "high": 0.2, "low": 0.8}
ATTACKS = ("linf", "fourier-linf", "high", "low")
FILES = ("resnet20-standard", "resnet20-adversarial", "cnn-a-adv4")


@dataclass(frozen=True)
class Settings:
    """``count`` pictures measured, ``shown`` drawn; models as published, by file, or trained."""

    data: str = "auto"
    models: tuple[str, ...] = FILES
    published: tuple[tuple[str, str], ...] = ()
    """RobustBench names and threats, in place of the files."""
    count: int = 60
    shown: int = 3
    steps: int = 15
    training: dict[str, object] = field(default_factory=lambda: dict(DIGITS))


PRESETS = {
    "smoke": Settings(
        data="digits", count=6, shown=1, steps=2, training=DIGITS | {"epochs": 2, "inner_steps": 1}
    ),
    "small": Settings(),
    "gpu": Settings(count=1000, steps=100, training=dict(CIFAR_RESNET)),
    "paper": Settings(
        data="cifar10",
        published=(
            ("Standard", "Linf"),
            ("Carmon2019Unlabeled", "Linf"),
            ("Augustin2020Adversarial", "L2"),
        ),
        count=1000,
        steps=100,
    ),
}


def compute(settings: Settings, each: Each = one_by_one) -> list[Record]:
    data = data_at_hand(settings.data)
    models = _models(settings, data)
    budgets = BUDGETS if data == "cifar10" else DIGITS_BUDGETS
    shown = {"data": data, "budgets": budgets, "count": settings.shown}
    drawn = each(attacked, [shown | {"model": models[0], "steps": 2 * settings.steps}])
    calls = [
        {
            "model": model,
            "data": data,
            "attack": attack,
            "count": settings.count,
            "eps": 20 / 255 if data == "cifar10" else 1.0,
            "steps": settings.steps,
        }
        for model in models
        for attack in ATTACKS
    ]
    return drawn + each(lengths, calls)


def _models(settings: Settings, data: str) -> list[Record]:
    if settings.published:
        return [{"robustbench": name, "threat": threat} for name, threat in settings.published]
    files = [{"file": name} for name in settings.models if has_file(name)]
    if data == "cifar10" and files:
        return files
    base = dict(settings.training)
    return [
        standard_or_robust(kind, data, training=training_of(kind, data, base), examples=None)
        for kind in ("standard", "linf")
    ]


def draw(records: list[Record]) -> list[Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.6), layout="constrained")
    measured = [one for one in records if "lengths" in one]
    models = list(dict.fromkeys(one["model"] for one in measured))
    for axes, model in zip(figure.subplots(1, len(models), squeeze=False)[0], models, strict=True):
        for one in (some for some in measured if some["model"] == model):
            found = sorted(255 * size for size in one["lengths"] if size)
            total = len(one["lengths"])
            left = [one["clean"] - place / total for place in range(1, len(found) + 1)]
            axes.step([0, *found], [one["clean"], *left], where="post", label=TITLES[one["attack"]])
        axes.set(title=f"{model}, {measured[0]['data']}", xlabel="ε, in 1/255", xscale="symlog")
        axes.set(ylim=(0, 1), xlim=(0, None))
        axes.grid(alpha=0.25)
    figure.axes[0].set_ylabel("accuracy")
    figure.axes[0].legend(fontsize="small")
    return [draw_pictures(records[0], attacks=ATTACKS), figure]
