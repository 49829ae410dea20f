"""What figures B.3 to B.8 are: one classifier under four attacks, two of them shown in each."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from strop.thesis.calls import Each, Record
from strop.thesis.image_models import data_at_hand
from strop.thesis.perturbations import attacked, standard_or_robust
from strop.thesis.small_trainings import CIFAR_RESNET20, CIFAR_SMALL, DIGITS, training_of

BUDGETS = {"linf": 8 / 255, "fourier-linf": 8 / 255, "high": 15 / 255, "low": 45 / 255}
"""The thesis's: 8/255, and 15/255 and 45/255 for high and low frequencies."""
DIGITS_BUDGETS = {"linf": 0.2, "fourier-linf": 0.2, "high": 0.3, "low": 0.6}
FULL, BANDS = ("linf", "fourier-linf"), ("high", "low")
_PAPER = {
    "standard": {"robustbench": "Standard", "threat": "Linf"},
    "linf": {"robustbench": "Carmon2019Unlabeled", "threat": "Linf"},
    "l2": {"robustbench": "Augustin2020Adversarial", "threat": "L2"},
}


@dataclass(frozen=True)
class Settings:
    """Which classifier, on which pictures; ``auto`` is CIFAR-10, or digits where it is not."""

    kind: str = "standard"
    data: str = "auto"
    count: int = 4
    steps: int = 40
    examples: int | None = 6_000
    """For a classifier that is trained on the spot: so many training pictures."""
    training: Mapping[str, object] = field(default_factory=lambda: dict(CIFAR_SMALL))
    published: bool = False
    """Take the thesis's RobustBench model."""


def presets(kind: str) -> dict[str, Settings]:
    """The presets of one classifier's figures."""
    here = Settings(kind=kind)
    return {
        "smoke": replace(
            here, data="digits", count=1, steps=3, training=DIGITS | {"epochs": 2, "inner_steps": 1}
        ),
        # At 0.5, that of l2 elsewhere, so small a network learns nothing in eight epochs.
        "small": replace(here, training=CIFAR_SMALL | {"eps": 0.25}) if kind == "l2" else here,
        "gpu": replace(here, steps=100, examples=None, training=dict(CIFAR_RESNET20)),
        "paper": replace(here, data="cifar10", steps=100, published=True),
    }


def compute_pictures(settings: Settings, each: Each, *, attacks: tuple[str, ...]) -> list[Record]:
    """One call for all attacks, so that two figures of a classifier share it; each keeps its."""
    data = data_at_hand(settings.data)
    base = dict(settings.training)
    if data == "digits" and settings.data == "auto":
        base = dict(DIGITS)
    model = (
        _PAPER[settings.kind]
        if settings.published
        else standard_or_robust(
            settings.kind,
            data,
            training=training_of(settings.kind, data, base),
            examples=settings.examples if data == "cifar10" else None,
        )
    )
    budgets = BUDGETS if data == "cifar10" else DIGITS_BUDGETS
    call = {"model": model, "data": data, "budgets": budgets}
    found = each(attacked, [call | {"count": settings.count, "steps": settings.steps}])
    return [one | {"attacks": {name: one["attacks"][name] for name in attacks}} for one in found]
