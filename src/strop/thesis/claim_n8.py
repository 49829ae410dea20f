"""Claim N8: batch size against training time.

    strop thesis run claim-N8

Thesis section 3.3.6: "mini-batches of size 128 or 256 exceeded the performance of the SH loss
within the same training time", and very large ones start slowly. Expected: by the time that VSE0
takes, MH with 128 and 256 is ahead of it on the validation images; the largest batch is behind 128
early on. Seconds are of the processor, or by the clock on a GPU. `small`, `gpu`: Flickr8k; `small`
has three times the epochs of the other experiments, as MH overtakes after a thousand steps or
more. Eight minutes of one core at `small`, ten seeds; smoke a second.
"""

from dataclasses import dataclass, field, replace
from typing import Any

from strop.thesis.calls import Each, Record, one_by_one
from strop.thesis.retrieval_runs import SCALES, Run, Scale, trainings

BATCH = 128


@dataclass(frozen=True)
class Settings:
    """MH at several batch sizes, the learning rate the same, beside VSE0 at 128."""

    scale: Scale = field(
        default_factory=lambda: replace(SCALES["small"], epochs=36, seeds=10, first_seed=5)
    )
    batches: tuple[int, ...] = (128, 256, 1024)
    longer: float = 1.5
    """Times the epochs for the larger batches, whose epochs take less time."""


PRESETS = {
    "smoke": Settings(SCALES["smoke"], batches=(32, 64)),
    "small": Settings(),
    "gpu": Settings(SCALES["gpu"], batches=(128, 256, 2048)),
    "paper": Settings(SCALES["flickr30k"], batches=(128, 256, 512, 1800)),
}


def compute(settings: Settings, each: Each = one_by_one) -> list[Record]:
    more = {"crop": "RC"} if settings.scale.data.name == "flickr30k" else {}
    runs = [Run("VSE0", "vse0", more)]
    for size in settings.batches:
        epochs = round(settings.longer * settings.scale.epochs)
        changed = {} if size == BATCH else {"batch_size": size, "epochs": epochs}
        runs.append(Run(f"MH, {size}", changes=changed | more))
    return trainings(settings.scale, runs, each)


def by_time(record: Record) -> list[tuple[float, float]]:
    """Seconds at the end of each epoch, and the sum of R@1 of both ways there.

    >>> by_time({"seconds": 4.0, "epochs": [[1.0, 2.0, 50.0], [3.0, 4.0, 60.0]]})
    [(2.0, 3.0), (4.0, 7.0)]
    """
    each = record["seconds"] / len(record["epochs"])
    return [(each * at, one[0] + one[1]) for at, one in enumerate(record["epochs"], 1)]


def best_within(record: Record, seconds: float) -> float:
    """The best sum of R@1 that a run reached in so many seconds; nothing reached is zero."""
    return max((value for at, value in by_time(record) if at <= seconds * 1.0001), default=0.0)


def draw(records: list[Record]) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.add_subplot()
    names = list(dict.fromkeys(one["run"] for one in records))
    for number, name in enumerate(names):
        runs = [by_time(one) for one in records if one["run"] == name]
        length = min(map(len, runs))
        seconds = [sum(run[at][0] for run in runs) / len(runs) for at in range(length)]
        values = [sum(run[at][1] for run in runs) / len(runs) for at in range(length)]
        style = "--" if name == "VSE0" else "-"
        axes.plot(seconds, values, style, color=f"C{number}", label=name)
    axes.set(
        xlabel="seconds of training",
        ylabel="R@1, sum of both ways, validation",
        title=f"{records[0]['data']}, mean over seeds",
    )
    axes.title.set_fontsize("small")
    axes.legend(fontsize="small", frameon=False)
    return figure
