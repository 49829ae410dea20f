"""Figure 3.2: R@1 along training, SH against MH.

    strop thesis run figure-3.2

Thesis section 3.3.6, figure 3.2 (Flickr30K, RC). Expected: VSE0 is ahead for the first few epochs,
then VSE++ overtakes for good (claim N6); the curriculum, SH for two epochs and then MH, ends no
better than MH alone (claim N7). Caption retrieval on the validation images, mean and range over
seeds. `small` and `gpu`: Flickr8k with frozen ResNet-50 features; the records of `gpu` are those
of benchmarks/retrieval_flickr8k.py. A minute and a half of one core at `small`; two minutes for
one training on an H200; smoke a second.
"""

from dataclasses import dataclass, field
from typing import Any

from strop.thesis.calls import Each, Record, one_by_one
from strop.thesis.retrieval_runs import SCALES, Run, Scale, trainings

SH, MH, CURRICULUM = "VSE0", "VSE++", "SH for 2 epochs, then MH"
COLOURS = {SH: "tab:blue", MH: "tab:red", CURRICULUM: "tab:olive"}


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

RUNS = (Run(SH, "vse0"), Run(MH), Run(CURRICULUM, changes={"warmup_sum_epochs": 2}))


def compute(settings: Settings, each: Each = one_by_one) -> list[Record]:
    if settings.scale.data.name != "flickr30k":
        return trainings(settings.scale, RUNS, each)
    crops = [Run(run.name, run.preset, {**run.changes, "crop": "RC"}) for run in RUNS]
    return trainings(settings.scale, crops, each)


def draw(records: list[Record]) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.8), layout="constrained")
    for axes, column, title in zip(
        figure.subplots(1, 2), (0, 1), ("caption retrieval", "image retrieval"), strict=True
    ):
        for name, colour in COLOURS.items():
            curves = [[at[column] for at in one["epochs"]] for one in records if one["run"] == name]
            length = min(len(curve) for curve in curves)
            at_epoch = list(zip(*(curve[:length] for curve in curves), strict=True))
            epochs = range(1, length + 1)
            mean = [sum(values) / len(values) for values in at_epoch]
            axes.plot(epochs, mean, color=colour, label=f"{name} ({len(curves)} seeds)")
            axes.fill_between(
                epochs, [*map(min, at_epoch)], [*map(max, at_epoch)], color=colour, alpha=0.15
            )
        axes.set(xlabel="epoch", ylabel="R@1 on validation images", title=title)
        axes.legend(fontsize="small", frameon=False)
    figure.suptitle(records[0]["data"], fontsize="small")
    return figure
