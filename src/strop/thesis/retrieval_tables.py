"""Tables 3.1 to 3.4 in the thesis's layout: its printed rows, and ours as means over seeds."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from strop.data import find_data
from strop.thesis.calls import Record
from strop.thesis.drawing import Row
from strop.thesis.retrieval_runs import Run, Scale
from strop.thesis.verdicts import interval_of

WAYS = ("image_to_text", "text_to_image")
COLUMNS = (
    "#",
    "model",
    "training set",
    *(f"{way} {name}" for way in ("caption", "image") for name in ("R@1", "R@5", "R@10", "Med r")),
)
"""Caption retrieval (an image looks for captions), then image retrieval."""

Printed = tuple[str, str, str, str]
"""Number, model and training set of a printed row; then its eight figures, parted by spaces."""


@dataclass(frozen=True)
class Variant:
    """A row of tables 3.1 to 3.3: what is changed for both losses alike."""

    model: str
    trainset: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    finetune: bool = False

    def run(self, model: str) -> Run:
        """The run of "VSE0" or "VSE++" with these changes."""
        return Run(
            self.label(model), model.lower(), self.changes, self.data, finetune=self.finetune
        )

    def label(self, model: str) -> str:
        return f"{model}{self.model} | {self.trainset}"


FEATURES = ("resnet50", "efficientnet_lite0")
WHOLE = Variant("", "all the images")
STRONGER = Variant(" (two networks)", "all the images", data={"features": list(FEATURES)})
_RESNET = {"image_encoder": "torchvision:resnet152", "crop": "RC"}


def paper(*, more: bool) -> tuple[Variant, ...]:
    """The rows of the thesis: VGG19 and ResNet-152, crops, fine-tuning; ``more``: COCO's rV."""
    part = {"train_part": "train+restval"} if more else {}
    named = "RC+rV" if more else "RC"
    random: dict[str, Any] = {"crop": "RC"}
    extra = (Variant("", named, random, part),) if more else ()
    return (
        Variant("", "1C", {"crop": "1C"}),
        Variant("", "RC", random),
        *extra,
        Variant(" (FT)", named, random, part, finetune=True),
        Variant(" (ResNet)", named, _RESNET, part),
        Variant(" (ResNet, FT)", named, _RESNET, part, finetune=True),
    )


def variants(scale: Scale) -> tuple[Variant, ...]:
    """The rows at a scale."""
    if scale.data.name == "coco":
        return paper(more=True)
    if scale.data.name == "flickr30k":
        return paper(more=False)
    whole = scale.data.images
    third = Variant("", "a third of the images", data={"images": (whole or 6000) // 3})
    if whole:
        return third, WHOLE, STRONGER
    frozen, tuned = _lite()
    return third, frozen, WHOLE, STRONGER, tuned


def _lite() -> tuple[Variant, Variant]:
    """EfficientNet-Lite0 on the pictures themselves: its weights are a file of the data folders.

    Frozen it sees centre crops, once; only then, fine-tuned, random ones.
    """
    weights = find_data("efficientnet-lite0") / "efficientnet-lite0-57934424.pth"
    network = {"image_encoder": f"efficientnet-lite0:{weights}", "crop": "1C", "precision": "bf16"}
    frozen = Variant(" (Lite0)", "all the images", network, {"features": []})
    return frozen, replace(frozen, model=" (Lite0, FT)", finetune=True)


def printed(rows: Iterable[Printed], *, same: bool) -> tuple[Row, ...]:
    """Rows as the thesis prints them, grey unless data, encoder and split are the ``same``."""
    return tuple(
        Row((number, f"{model} [thesis]", trainset, *figures.split()), grey=not same)
        for number, model, trainset, figures in rows
    )


def ours(
    records: Sequence[Record], names: Iterable[str], *, by_folds: bool = False
) -> tuple[Row, ...]:
    """One row for each run: means over the seeds, with half the 95 % interval."""
    rows = []
    for name in names:
        chosen = [one for one in records if one["run"] == name]
        if not chosen:
            continue
        tested = [one["by_folds"] if by_folds else one for one in chosen]
        collapsed = sum(one["collapsed"] for one in chosen)
        seeds = f"{len(chosen)} seed{'s' if len(chosen) > 1 else ''}"
        note = f"; {collapsed} collapsed" if collapsed else ""
        model, _, trainset = name.partition(" | ")
        label = f"{model} [here, {seeds}{note}]"
        rows.append(Row(("", label, trainset or "all the images", *_figures(tested))))
    return tuple(rows)


def _figures(tested: Sequence[Record]) -> list[str]:
    cells = []
    for way in WAYS:
        columns = [[one[way]["recall"][k] for one in tested] for k in ("1", "5", "10")]
        columns.append([one[way]["median_rank"] for one in tested])
        cells += [mean_and_half(column) for column in columns]
    return cells


def mean_and_half(values: Sequence[float]) -> str:
    """A mean and half its 95 % interval.

    >>> mean_and_half([1.0, 2.0, 3.0]), mean_and_half([4.0])
    ('2.0 ± 2.5', '4.0')
    """
    interval = interval_of(values)
    if len(values) < 2:
        return f"{interval.mean:.1f}"
    return f"{interval.mean:.1f} ± {interval.high - interval.mean:.1f}"


def heading(words: str) -> Row:
    """A row that parts a table."""
    return Row(("", words, *[""] * (len(COLUMNS) - 2)))


def is_of(records: Sequence[Record], data: str) -> bool:
    """Whether the records are of the thesis's own data."""
    return records[0]["data"].startswith(data)
