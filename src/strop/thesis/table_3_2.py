"""Table 3.2: VSE0 against VSE++ with more data, a stronger image network, and fine-tuning.

    strop thesis run table-3.2

Thesis section 3.3.3, table 3.2 (COCO). Expected: VSE++ ahead in every row (claim N3), by more as
data and image network grow and with fine-tuning (claim N4). `small`: Flickr8k, a third of the
images, all, and two networks side by side, without fine-tuning; `gpu` adds EfficientNet-Lite0 on
the pictures, frozen and fine-tuned, whose weights must be in the data folders (efficientnet-lite0).
Four minutes of one core at `small`, ten seeds; smoke a second.
"""

from dataclasses import dataclass, field, replace

from strop.thesis.calls import Each, Record, one_by_one
from strop.thesis.drawing import Table
from strop.thesis.retrieval_runs import SCALES, Scale, trainings
from strop.thesis.retrieval_tables import COLUMNS, is_of, ours, printed, variants


@dataclass(frozen=True)
class Settings:
    """On which data, with which encoder and schedule."""

    scale: Scale = field(default_factory=lambda: replace(SCALES["small"], seeds=10, first_seed=5))


PRESETS = {
    "smoke": Settings(SCALES["smoke"]),
    "small": Settings(),
    "gpu": Settings(replace(SCALES["gpu"], seeds=3)),
    "paper": Settings(SCALES["coco"]),
}

MODELS = ("VSE0", "VSE++")
PUBLISHED = (
    ("2.1", "VSE0", "1C (1 fold)", "43.2 73.9 85.0 2.0 33.0 67.4 80.7 3.0"),
    ("1.6", "VSE++", "1C (1 fold)", "43.6 74.8 84.6 2.0 33.7 68.8 81.0 3.0"),
    ("2.2", "VSE0", "RC", "43.1 77.0 87.1 2.0 32.5 68.3 82.1 3.0"),
    ("1.7", "VSE++", "RC", "49.0 79.8 88.4 1.8 37.1 72.2 83.8 2.0"),
    ("2.3", "VSE0", "RC+rV", "46.8 78.8 89.0 1.8 34.2 70.4 83.6 2.6"),
    ("1.8", "VSE++", "RC+rV", "51.9 81.5 90.4 1.0 39.5 74.1 85.6 2.0"),
    ("2.4", "VSE0 (FT)", "RC+rV", "50.1 81.5 90.5 1.6 39.7 75.4 87.2 2.0"),
    ("1.9", "VSE++ (FT)", "RC+rV", "57.2 86.0 93.3 1.0 45.9 79.4 89.1 2.0"),
    ("2.5", "VSE0 (ResNet)", "RC+rV", "52.7 83.0 91.8 1.0 36.0 72.6 85.5 2.2"),
    ("1.10", "VSE++ (ResNet)", "RC+rV", "58.3 86.1 93.3 1.0 43.6 77.6 87.8 2.0"),
    ("2.6", "VSE0 (ResNet, FT)", "RC+rV", "56.0 85.8 93.5 1.0 43.7 79.4 89.7 2.0"),
    ("1.11", "VSE++ (ResNet, FT)", "RC+rV", "64.6 90.0 95.7 1.0 52.0 84.3 92.0 1.0"),
)


def compute(settings: Settings, each: Each = one_by_one) -> list[Record]:
    rows = variants(settings.scale)
    runs = [variant.run(model) for variant in rows for model in MODELS]
    return trainings(settings.scale, runs, each)


def draw(records: list[Record]) -> Table:
    names = list(dict.fromkeys(one["run"] for one in records))
    rows = printed(PUBLISHED, same=is_of(records, "COCO")) + ours(records, names)
    return Table(COLUMNS, rows, caption=f"Here: {records[-1]['data']}")
