"""Figure 3.6: R@1 against the size of the negative set, at batches of 128.

    strop thesis run figure-3.6

Thesis section 3.3.9, figure 3.6 (Flickr30K, sizes 2 to 512). Expected: a peak near 128; 2 slightly
under VSE0; 512 under the peak and over VSE0 (claim N10). A smaller set is drawn from the batch for
each query; a larger one is the batch with further random pairs. The line is VSE0. `small` and
`gpu`: Flickr8k. Five minutes of one core at `small`, ten seeds; smoke two seconds.
"""

from dataclasses import dataclass, field, replace
from typing import Any

from strop.thesis.calls import Each, Record, one_by_one
from strop.thesis.retrieval_runs import SCALES, Run, Scale, trainings
from strop.thesis.retrieval_tables import WAYS
from strop.thesis.verdicts import interval_of

BATCH = 128


@dataclass(frozen=True)
class Settings:
    """Sizes of the negative set, the batch being 128."""

    scale: Scale = field(default_factory=lambda: replace(SCALES["small"], seeds=10))
    sizes: tuple[int, ...] = (2, 32, 128, 512)


PRESETS = {
    "smoke": Settings(SCALES["smoke"], sizes=(2, 128, 256)),
    "small": Settings(),
    "gpu": Settings(SCALES["gpu"]),
    "paper": Settings(SCALES["flickr30k"], sizes=(2, 4, 8, 16, 32, 64, 128, 256, 512)),
}


def run_of(size: int) -> Run:
    """MH with a negative set of this size."""
    if size < BATCH:
        return Run(str(size), changes={"negative_set_size": size})
    return Run(str(size), further=size - BATCH or None)


def compute(settings: Settings, each: Each = one_by_one) -> list[Record]:
    runs = [Run("VSE0", "vse0"), *map(run_of, settings.sizes)]
    if settings.scale.data.name == "flickr30k":
        runs = [
            Run(run.name, run.preset, {**run.changes, "crop": "RC"}, further=run.further)
            for run in runs
        ]
    return trainings(settings.scale, runs, each)


def draw(records: list[Record]) -> Any:
    from matplotlib.figure import Figure

    sizes = sorted({int(one["run"]) for one in records if one["run"] != "VSE0"})
    figure = Figure(figsize=(9, 3.8), layout="constrained")
    for axes, way in zip(figure.subplots(1, 2), WAYS, strict=True):
        found = {
            name: interval_of(one[way]["recall"]["1"] for one in records if one["run"] == name)
            for name in ("VSE0", *map(str, sizes))
        }
        means = [found[str(size)].mean for size in sizes]
        halves = [found[str(size)].high - found[str(size)].mean for size in sizes]
        axes.errorbar(sizes, means, halves, fmt="o-", color="tab:red", capsize=3, label="MH")
        base = found["VSE0"]
        axes.axhline(base.mean, color="tab:blue", label="VSE0 (SH)")
        axes.axhspan(base.low, base.high, color="tab:blue", alpha=0.12)
        axes.set_xscale("log", base=2)
        axes.set_xticks(sizes, labels=[str(size) for size in sizes])
        axes.set(
            xlabel="negatives of a query", ylabel="R@1 on test images", title=way.replace("_", " ")
        )
        axes.legend(fontsize="small", frameon=False)
    figure.suptitle(f"{records[0]['data']}; mean and 95 % interval over seeds", fontsize="small")
    return figure
