"""Table B.2: the models of figure 5.5.

    strop thesis run table-B.2

Thesis appendix B.5.2: RobustBench models by name and robust training. Expected: the thesis's list,
and beside it which of them, and which other CIFAR-10 classifiers, are at hand here. At once.
"""

from dataclasses import dataclass
from importlib.util import find_spec

from strop.thesis.calls import Each, Record, one_by_one
from strop.thesis.drawing import Row, Table
from strop.thesis.image_models import has_file, kind_of

MODELS: tuple[tuple[str, str], ...] = (
    ("Standard", "-"),
    ("Gowal2020Uncovering_70_16_extra", "Linf"),
    ("Gowal2020Uncovering_28_10_extra", "Linf"),
    ("Wu2020Adversarial_extra", "Linf"),
    ("Carmon2019Unlabeled", "Linf"),
    ("Sehwag2020Hydra", "Linf"),
    ("Gowal2020Uncovering_70_16", "Linf"),
    ("Gowal2020Uncovering_34_20", "Linf"),
    ("Wang2020Improving", "Linf"),
    ("Wu2020Adversarial", "Linf"),
    ("Hendrycks2019Using", "Linf"),
    ("Gowal2020Uncovering_extra", "L2"),
    ("Gowal2020Uncovering", "L2"),
    ("Wu2020Adversarial", "L2"),
    ("Augustin2020Adversarial", "L2"),
    ("Engstrom2019Robustness", "L2"),
    ("Rice2020Overfitting", "L2"),
    ("Rony2019Decoupling", "L2"),
    ("Ding2020MMA", "L2"),
    ("Hendrycks2020AugMix_ResNeXt", "corruptions"),
    ("Hendrycks2020AugMix_WRN", "corruptions"),
    ("Kireev2021Effectiveness_RLATAugMixNoJSD", "corruptions"),
    ("Kireev2021Effectiveness_AugMixNoJSD", "corruptions"),
    ("Kireev2021Effectiveness_Gauss50percent", "corruptions"),
    ("Kireev2021Effectiveness_RLAT", "corruptions"),
)
"""The thesis's rows; it prints Rice2020Overfitting (L2) twice."""

FILES = (
    "resnet20-standard",
    "resnet20-standard-raw",
    "resnet32-standard",
    "resnet44-standard",
    "resnet56-standard",
    "resnet20-adversarial",
    "resnet38-adversarial",
    "cnn-a-adv",
    "cnn-a-adv4",
    "cnn-a-mix4",
)
"""Classifiers that are looked for in the ``models`` folder of the data folders."""


@dataclass(frozen=True)
class Settings:
    """Nothing to set."""


PRESETS = {name: Settings() for name in ("smoke", "small", "gpu", "paper")}


def compute(settings: Settings, each: Each = one_by_one) -> list[Record]:
    package = find_spec("robustbench") is not None
    published = [
        {"name": name, "training": training, "thesis": True, "here": package}
        for name, training in MODELS
    ]
    own = [
        {"name": name, "training": kind_of({"file": name}), "thesis": False, "here": has_file(name)}
        for name in FILES
    ]
    return published + own


def draw(records: list[Record]) -> Table:
    return Table(
        ("model", "robust training", "in the thesis", "at hand"),
        tuple(
            Row(
                (
                    one["name"],
                    one["training"],
                    "yes" if one["thesis"] else "no",
                    "yes" if one["here"] else "no",
                ),
                grey=not one["here"],
            )
            for one in records
        ),
        caption="The thesis's models need the package robustbench and its weights (preset paper)",
    )
