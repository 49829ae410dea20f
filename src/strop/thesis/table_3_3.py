"""Table 3.3: VSE0 against VSE++ on a smaller set.

    strop thesis run table-3.3

Thesis section 3.3.4, table 3.3 (Flickr30K). Expected: VSE++ ahead of VSE0 in R@1 of both ways
(claim N3); the third row, SH with both sides normalised, differs from VSE++ by the loss alone.
`small` and `gpu`: Flickr8k with frozen ResNet-50 features, the printed rows grey. The records of
`gpu` are those of benchmarks/retrieval_flickr8k.py. A minute and a half of one core at `small`;
two minutes for one training on an H200; smoke a second.
"""

from dataclasses import dataclass, field

from strop.thesis.calls import Each, Record, one_by_one
from strop.thesis.drawing import Table
from strop.thesis.retrieval_runs import SCALES, Run, Scale, trainings
from strop.thesis.retrieval_tables import COLUMNS, is_of, ours, printed, variants


@dataclass(frozen=True)
class Settings:
    """On which data, with which encoder and schedule."""

    scale: Scale = field(default_factory=lambda: SCALES["small"])


PRESETS = {
    "smoke": Settings(SCALES["smoke"]),
    "small": Settings(),
    "gpu": Settings(SCALES["gpu"]),
    "paper": Settings(SCALES["flickr30k"]),
}

RUNS = (
    Run("VSE0", "vse0"),
    Run("VSE++"),
    Run("SH, both normalised", changes={"mining": "sum"}),
)
PUBLISHED = (
    ("3.1", "VSE (Kiros et al.)", "1C", "23.0 50.7 62.9 5 16.8 42.0 56.5 8"),
    ("3.2", "VSE (GitHub)", "1C", "29.8 58.4 70.5 4 22.0 47.9 59.3 6"),
    ("3.3", "Embedding Net (Wang et al.)", "10C", "40.7 69.7 79.2 - 29.2 59.6 71.7 -"),
    ("3.4", "DAN (Nam et al.)", "?", "41.4 73.5 82.5 2 31.8 61.7 72.5 3"),
    ("3.5", "sm-LSTM (Huang et al.)", "?", "42.5 71.9 81.5 2 30.2 60.4 72.3 3"),
    ("3.6", "2WayNet (Eisenschtat & Wolf)", "10C", "49.8 67.5 - - 36.0 55.6 - -"),
    ("3.7", "DAN (ResNet)", "?", "55.0 81.8 89.0 1 39.4 69.2 79.1 2"),
    ("3.8", "VSE0", "1C", "29.8 59.8 71.9 3.0 23.0 48.8 61.0 6.0"),
    ("3.9", "VSE0", "RC", "31.6 59.3 71.7 4.0 21.6 50.7 63.8 5.0"),
    ("3.10", "VSE++", "1C", "31.9 58.4 68.0 4.0 23.1 49.2 60.7 6.0"),
    ("3.11", "VSE++", "RC", "38.6 64.6 74.6 2.0 26.8 54.9 66.8 4.0"),
    ("3.12", "VSE0 (FT)", "RC", "37.4 65.4 77.2 3.0 26.8 57.6 69.5 4.0"),
    ("3.13", "VSE++ (FT)", "RC", "41.3 69.1 77.9 2.0 31.4 60.0 71.2 3.0"),
    ("3.14", "VSE0 (ResNet)", "RC", "36.6 67.3 78.4 3.0 23.3 52.6 66.0 5.0"),
    ("3.15", "VSE++ (ResNet)", "RC", "43.7 71.9 82.1 2.0 32.3 60.9 72.1 3.0"),
    ("3.16", "VSE0 (ResNet, FT)", "RC", "42.1 73.2 84.0 2.0 31.8 62.6 74.1 3.0"),
    ("3.17", "VSE++ (ResNet, FT)", "RC", "52.9 80.5 87.2 1.0 39.6 70.1 79.5 2.0"),
)


def compute(settings: Settings, each: Each = one_by_one) -> list[Record]:
    if settings.scale.data.name != "flickr30k":
        return trainings(settings.scale, RUNS, each)
    rows = variants(settings.scale)
    runs = [variant.run(model) for variant in rows for model in ("VSE0", "VSE++")]
    return trainings(settings.scale, runs, each)


def draw(records: list[Record]) -> Table:
    names = list(dict.fromkeys(one["run"] for one in records))
    rows = printed(PUBLISHED, same=is_of(records, "Flickr30K")) + ours(records, names)
    return Table(COLUMNS, rows, caption=f"Here: {records[0]['data']}")
