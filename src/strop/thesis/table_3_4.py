"""Table 3.4: order embeddings with the hardest negative.

    strop thesis run table-3.4

Thesis section 3.3.5, table 3.4 (COCO, ten crops, rV): s(i, c) = -|max(0, g(c) - f(i))|^2.
Expected: Order++ over Order0 by more than VSE++ over VSE0 (claim N5). `small` and `gpu`: Flickr8k
with frozen ResNet-50 features; there MH on this similarity collapses from scratch, so a run with
two epochs of SH first stands beside it. The records of `gpu` are those of
benchmarks/retrieval_flickr8k.py. A minute and a half of one core at `small`; six minutes for one
training on an H200; smoke a second.
"""

from dataclasses import dataclass, field

from strop.thesis.calls import Each, Record, one_by_one
from strop.thesis.drawing import Table
from strop.thesis.retrieval_runs import SCALES, Run, Scale, trainings
from strop.thesis.retrieval_tables import COLUMNS, is_of, ours, printed


@dataclass(frozen=True)
class Settings:
    """On which data, with which encoder and schedule."""

    scale: Scale = field(default_factory=lambda: SCALES["small"])


PRESETS = {
    "smoke": Settings(SCALES["smoke"]),
    "small": Settings(),
    "gpu": Settings(SCALES["gpu"]),
    "paper": Settings(SCALES["coco"]),
}

RUNS = (
    Run("VSE0", "vse0"),
    Run("Order0", "order0"),
    Run("VSE++"),
    Run("Order++", "order++"),
    Run("Order++ after 2 epochs of SH", "order++", {"warmup_sum_epochs": 2}),
)
PUBLISHED = (
    ("4.1", "Order (Vendrov et al.)", "10C+rV", "46.7 - 88.9 2.0 37.9 - 85.9 2.0"),
    ("4.2", "VSE0", "10C+rV", "49.5 81.0 90.0 1.8 38.1 73.3 85.1 2.0"),
    ("4.3", "Order0", "10C+rV", "48.5 80.9 90.3 1.8 39.6 75.3 86.7 2.0"),
    ("4.4", "VSE++", "10C+rV", "51.3 82.2 91.0 1.2 40.1 75.3 86.1 2.0"),
    ("4.5", "Order++", "10C+rV", "53.0 83.4 91.9 1.0 42.3 77.4 88.1 2.0"),
)


def compute(settings: Settings, each: Each = one_by_one) -> list[Record]:
    if settings.scale.data.name != "coco":
        return trainings(settings.scale, RUNS, each)
    crops = [
        Run(run.name, run.preset, {**run.changes, "crop": "10C"}, {"train_part": "train+restval"})
        for run in RUNS
    ]
    return trainings(settings.scale, crops, each)


def draw(records: list[Record]) -> Table:
    names = list(dict.fromkeys(one["run"] for one in records))
    rows = printed(PUBLISHED, same=is_of(records, "COCO")) + ours(records, names)
    return Table(COLUMNS, rows, caption=f"Here: {records[0]['data']}")
