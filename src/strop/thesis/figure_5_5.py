"""Figure 5.5: maximal Fourier-l∞ epsilon of CIFAR-10 classifiers.

    strop thesis run figure-5.5

Thesis section 5.5.3. The largest epsilon at which accuracy is at most 1 point below the clean one,
and the accuracy at 20/255. Expected: almost no accuracy at 20/255 for any model (claim M10);
training for corruptions alone gives about as much as adversarial training (claim M11). The models
are the files at hand (table B.2); for M11 small networks are trained on the spot on scikit-learn's
digits, five seeds of each kind of training, since no corruption-trained CIFAR-10 model is at hand.
Every length is an upper bound: that of a perturbation found, within the budget in float64.
At small two minutes of one core.
"""

from dataclasses import dataclass, field
from typing import Any

from strop.support import InputError
from strop.thesis.calls import Each, Record, one_by_one
from strop.thesis.image_models import data_at_hand, has_file
from strop.thesis.perturbations import lengths
from strop.thesis.small_trainings import CIFAR_RESNET20, DIGITS, training_of
from strop.thesis.table_b_2 import FILES, MODELS

KINDS = ("standard", "corruptions", "l2", "linf")
COLOURS = {
    "standard": "tab:gray",
    "corruptions": "tab:green",
    "l2": "tab:orange",
    "linf": "tab:blue",
}
MARKERS = {"standard": "s", "corruptions": "^", "l2": "D", "linf": "o"}


@dataclass(frozen=True)
class Settings:
    """Files or published models on CIFAR-10, and networks trained on the spot."""

    data: str = "auto"
    files: tuple[str, ...] = (
        "resnet20-standard",
        "resnet20-standard-raw",
        "resnet20-adversarial",
        "resnet38-adversarial",
        "cnn-a-adv",
        "cnn-a-adv4",
        "cnn-a-mix4",
    )
    published: bool = False
    count: int = 100
    steps: int = 15
    eps: float = 20 / 255
    trained_on: str = "digits"
    trained_count: int = 200
    trained_eps: float = 1.0
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    training: dict[str, object] = field(default_factory=lambda: dict(DIGITS))


PRESETS = {
    "smoke": Settings(
        data="digits",
        trained_count=10,
        steps=3,
        seeds=(0,),
        training=DIGITS | {"epochs": 2, "inner_steps": 1},
    ),
    "small": Settings(),
    "gpu": Settings(
        data="cifar10",
        files=FILES,
        count=1000,
        steps=50,
        trained_on="cifar10",
        trained_count=1000,
        trained_eps=20 / 255,
        seeds=(0, 1, 2),
        training=dict(CIFAR_RESNET20),
    ),
    "paper": Settings(data="cifar10", published=True, count=10_000, steps=20, seeds=()),
}


def compute(settings: Settings, each: Each = one_by_one) -> list[Record]:
    data = data_at_hand(settings.data)
    whole = {"attack": "fourier-linf", "steps": settings.steps}
    known = {"data": data, "count": settings.count, "eps": settings.eps}
    own = {
        "data": settings.trained_on,
        "count": settings.trained_count,
        "eps": settings.trained_eps,
    }
    calls = [{"model": model} | known | whole for model in _known(settings, data)]
    calls += [
        {"model": _trained(settings, kind, seed)} | own | whole
        for kind in KINDS
        for seed in settings.seeds
    ]
    if not calls:
        raise InputError("expected models to measure, came none: see table-B.2 for what is sought")
    return each(lengths, calls)


def _known(settings: Settings, data: str) -> list[Record]:
    if settings.published:
        return [
            {"robustbench": name, "threat": "Linf" if training == "-" else training}
            for name, training in MODELS
        ]
    if data != "cifar10":
        return []
    return [{"file": name} for name in settings.files if has_file(name)]


def _trained(settings: Settings, kind: str, seed: int) -> Record:
    base = dict(settings.training)
    chosen = training_of(kind, settings.trained_on, base, seed=seed)
    return {"training": kind, "data": settings.trained_on, "settings": chosen}


def draw(records: list[Record]) -> Any:
    from matplotlib.figure import Figure

    sets = list(dict.fromkeys(one["data"] for one in records))
    figure = Figure(figsize=(6.2 * len(sets), 4.4), layout="constrained")
    for axes, data in zip(figure.subplots(1, len(sets), squeeze=False)[0], sets, strict=True):
        some = [one for one in records if one["data"] == data and one["max_epsilon"] is not None]
        some.sort(key=lambda one: one["max_epsilon"])
        for place, one in enumerate(some):
            low, high = (
                255 * (one["max_epsilon"] if end is None else end) for end in one["interval"]
            )
            colour = COLOURS[one["kind"]]
            axes.plot([low, high], [place, place], color=colour, lw=1)
            axes.plot(255 * one["max_epsilon"], place, MARKERS[one["kind"]], color=colour)
            axes.annotate(
                f"{one['accuracy_at_eps']:.0%} at {255 * one['eps']:.0f}/255",
                (1.01, place),
                xycoords=("axes fraction", "data"),
                fontsize="x-small",
                va="center",
            )
        for kind in dict.fromkeys(one["kind"] for one in some):
            axes.plot([], [], MARKERS[kind], color=COLOURS[kind], label=kind)
        names = [f"{one['model']} ({one['clean']:.0%})" for one in some]
        axes.set_yticks(range(len(some)), names, fontsize="x-small")
        axes.set(xlabel="maximal Fourier-l∞ ε, in 1/255 (95 % interval)", title=data)
        axes.set_xlim(0, None)
        axes.legend(fontsize="small", loc="lower right")
    return figure
