"""Claim N14: wrong captions, negatives of the batch against the hardest of the training set.

    strop thesis run claim-N14

Thesis sections 3.2.2 and 3.3.9: because the hardest negative of the whole training set is seldom
in a mini-batch, MH on mini-batches is robust to wrong captions. A share of the training captions
is given to another image. Expected: with wrong captions MH loses less R@1 when its negatives are
those of the batch than when they are the hardest of the training set. SH stands beside. `small`:
Flickr8k, 800 training images, 0 and 30 % wrong. Two and a half minutes of one core at `small`;
smoke two seconds.
"""

from dataclasses import dataclass, field
from typing import Any

from strop.thesis.calls import Each, Record, one_by_one
from strop.thesis.retrieval_runs import SCALES, Run, Scale, trainings
from strop.thesis.retrieval_tables import WAYS
from strop.thesis.verdicts import interval_of

BATCH, HARDEST, SH = "MH, batch", "MH, hardest of the training set", "SH"


@dataclass(frozen=True)
class Settings:
    """Shares of wrong captions, and how many images to train on."""

    scale: Scale = field(default_factory=lambda: SCALES["small"])
    images: int | None = 800
    shares: tuple[float, ...] = (0.0, 0.3)


PRESETS = {
    "smoke": Settings(SCALES["smoke"], images=40),
    "small": Settings(),
    "gpu": Settings(SCALES["gpu"], images=None),
    "paper": Settings(SCALES["flickr30k"], images=None, shares=(0.0, 0.1, 0.2, 0.3)),
}


def compute(settings: Settings, each: Each = one_by_one) -> list[Record]:
    data = {} if settings.images is None else {"images": settings.images}
    rows: list[Record] = []
    for share in settings.shares:
        runs = (
            Run(BATCH, data=data, wrong=share),
            Run(HARDEST, data=data, wrong=share, further="hardest"),
            Run(SH, changes={"mining": "sum"}, data=data, wrong=share),
        )
        rows += [{"wrong": share, **one} for one in trainings(settings.scale, runs, each)]
    return rows


def draw(records: list[Record]) -> Any:
    from matplotlib.figure import Figure

    shares = sorted({one["wrong"] for one in records})
    figure = Figure(figsize=(9, 3.8), layout="constrained")
    for axes, way in zip(figure.subplots(1, 2), WAYS, strict=True):
        for name in (BATCH, HARDEST, SH):
            found = [
                interval_of(
                    one[way]["recall"]["1"]
                    for one in records
                    if (one["run"], one["wrong"]) == (name, share)
                )
                for share in shares
            ]
            axes.errorbar(
                [100 * share for share in shares],
                [one.mean for one in found],
                [one.high - one.mean for one in found],
                fmt="o-",
                capsize=3,
                label=name,
            )
        axes.set(
            xlabel="wrong captions, %", ylabel="R@1 on test images", title=way.replace("_", " ")
        )
        axes.legend(fontsize="small", frameon=False)
    figure.suptitle(f"{records[0]['data']}; mean and 95 % interval over seeds", fontsize="small")
    return figure
