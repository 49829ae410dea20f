"""Table 3.1: VSE++ variants, on slices of the test images and on all of them.

    strop thesis run table-3.1

Thesis section 3.3.3, table 3.1 (COCO; 1K: the mean over five slices of 1,000 test images; 5K:
all). Expected: more data, a stronger image network and fine-tuning each add to R@1, and a slice is
easier than the whole. `small` and `gpu`: Flickr8k with frozen features, slices of 200 of its 1,000
test images; the printed rows are grey there. The runs are those of table 3.2. Two minutes of one
core at `small`, nothing where table 3.2 has been run; smoke a second.
"""

from dataclasses import dataclass, field, replace

from strop.thesis.calls import Each, Record, one_by_one
from strop.thesis.drawing import Table
from strop.thesis.retrieval_runs import FOLDS, SCALES, Scale, trainings
from strop.thesis.retrieval_tables import COLUMNS, heading, is_of, ours, printed, variants


@dataclass(frozen=True)
class Settings:
    """On which data, with which encoder and schedule."""

    scale: Scale = field(default_factory=lambda: replace(SCALES["small"], seeds=10, first_seed=5))


PRESETS = {
    "smoke": Settings(SCALES["smoke"]),
    "small": Settings(),
    "gpu": Settings(SCALES["gpu"]),
    "paper": Settings(SCALES["coco"]),
}

SLICES = (
    ("1.1", "VSE (Kiros et al., GitHub)", "1C (1 fold)", "43.4 75.7 85.8 2 31.0 66.7 79.9 3"),
    ("1.2", "Order (Vendrov et al.)", "10C+rV", "46.7 - 88.9 2.0 37.9 - 85.9 2.0"),
    ("1.3", "Embedding Net (Wang et al.)", "10C+rV", "50.4 79.3 69.4 - 39.8 75.3 86.6 -"),
    ("1.4", "sm-LSTM (Huang et al.)", "?", "53.2 83.1 91.5 1 40.7 75.8 87.4 2"),
    ("1.5", "2WayNet (Eisenschtat & Wolf)", "10C+rV", "55.8 75.2 - - 39.7 63.3 - -"),
    ("1.6", "VSE++", "1C (1 fold)", "43.6 74.8 84.6 2.0 33.7 68.8 81.0 3.0"),
    ("1.7", "VSE++", "RC", "49.0 79.8 88.4 1.8 37.1 72.2 83.8 2.0"),
    ("1.8", "VSE++", "RC+rV", "51.9 81.5 90.4 1.0 39.5 74.1 85.6 2.0"),
    ("1.9", "VSE++ (FT)", "RC+rV", "57.2 86.0 93.3 1.0 45.9 79.4 89.1 2.0"),
    ("1.10", "VSE++ (ResNet)", "RC+rV", "58.3 86.1 93.3 1.0 43.6 77.6 87.8 2.0"),
    ("1.11", "VSE++ (ResNet, FT)", "RC+rV", "64.6 90.0 95.7 1.0 52.0 84.3 92.0 1.0"),
)
WHOLE = (
    ("1.12", "Order (Vendrov et al.)", "10C+rV", "23.3 - 65.0 5.0 18.0 - 57.6 7.0"),
    ("1.13", "VSE++ (FT)", "RC+rV", "32.9 61.7 74.7 3.0 24.1 52.8 66.2 5.0"),
    ("1.14", "VSE++ (ResNet, FT)", "RC+rV", "41.3 71.1 81.2 2.0 30.3 59.4 72.4 4.0"),
)


def compute(settings: Settings, each: Each = one_by_one) -> list[Record]:
    runs = [variant.run("VSE++") for variant in variants(settings.scale)]
    return trainings(settings.scale, runs, each, folds=True)


def draw(records: list[Record]) -> Table:
    names = list(dict.fromkeys(one["run"] for one in records))
    same = is_of(records, "COCO")
    rows = (
        heading(f"slices: the mean over {FOLDS} (the thesis: of 1,000 images)"),
        *printed(SLICES, same=same),
        *ours(records, names, by_folds=True),
        heading("all test images (the thesis: 5,000)"),
        *printed(WHOLE, same=same),
        *ours(records, names),
    )
    return Table(COLUMNS, rows, caption=f"VSE++. Here: {records[-1]['data']}")
