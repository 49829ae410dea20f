"""Claim N12: image embeddings normalised or not.

    strop thesis run claim-N12

Thesis section 3.3: "not normalizing the image embedding helped the baseline, VSE0, to find a
better solution. However, VSE++ is not significantly affected". Expected: SH gains R@1 without the
normalisation, MH changes by less than a point. `small` and `gpu`: Flickr8k. Six minutes of
one core at `small`, twenty seeds; smoke a second.
"""

from dataclasses import dataclass, field, replace
from typing import Any

from strop.thesis.calls import Each, Record, one_by_one
from strop.thesis.drawing import Row, Table
from strop.thesis.retrieval_runs import SCALES, Run, Scale, trainings
from strop.thesis.retrieval_tables import WAYS, mean_and_half

RUNS = (
    Run("SH, images not normalised", "vse0"),
    Run("SH, both normalised", changes={"mining": "sum"}),
    Run("MH, images not normalised", changes={"similarity": "dot"}),
    Run("MH, both normalised"),
)


@dataclass(frozen=True)
class Settings:
    """On which data, with which encoder and schedule."""

    scale: Scale = field(default_factory=lambda: replace(SCALES["small"], seeds=20, first_seed=10))


PRESETS = {
    "smoke": Settings(SCALES["smoke"]),
    "small": Settings(),
    "gpu": Settings(SCALES["gpu"]),
    "paper": Settings(SCALES["flickr30k"]),
}


def compute(settings: Settings, each: Each = one_by_one) -> list[Record]:
    return trainings(settings.scale, RUNS, each)


def draw(records: list[Record]) -> Any:
    rows = []
    for run in RUNS:
        chosen = [one for one in records if one["run"] == run.name]
        recalls = [mean_and_half([one[way]["recall"]["1"] for one in chosen]) for way in WAYS]
        rows.append(Row((run.name, *recalls, str(len(chosen)))))
    columns = ("loss", "caption R@1", "image R@1", "seeds")
    return Table(columns, tuple(rows), caption=f"Here: {records[0]['data']}")
