"""Figure 3.5: how similar negatives are, at the start, after 10 epochs and after 30.

    strop thesis run figure-3.5

Thesis section 3.3.8, figure 3.5 (Flickr30K training set, ten fixed images, SH against MH).
Expected: after 10 epochs the similarities of negatives are negatively skewed under MH, with a
sharp drop at their upper end, and near symmetric under SH (claim N9). Both losses with both sides
normalised; drawn is the first seed. `small` and `gpu`: Flickr8k. Two minutes of one core at
`small`; smoke a second.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import torch

from strop.retrieval import PRESETS as TRAININGS
from strop.retrieval import train_embedding
from strop.retrieval.assemble import assemble
from strop.retrieval.embedding import embed_captions, embed_images
from strop.retrieval.looking import Embedded, similarity_distribution
from strop.retrieval.model import JointEmbedding
from strop.thesis.calls import Each, Record, one_by_one
from strop.thesis.retrieval_runs import SCALES, Run, Scale, available, call_of, describe, load
from strop.training import seed_everything

LOSSES = {"SH": {"mining": "sum"}, "MH": {}}


@dataclass(frozen=True)
class Settings:
    """After which epochs to look, at how many fixed images."""

    scale: Scale = field(default_factory=lambda: replace(SCALES["small"], epochs=30))
    snapshots: tuple[int, ...] = (10, 30)
    images: int = 10


PRESETS = {
    "smoke": Settings(SCALES["smoke"], snapshots=(1, 2)),
    "small": Settings(),
    "gpu": Settings(SCALES["gpu"]),
    "paper": Settings(SCALES["flickr30k"]),
}


def compute(settings: Settings, each: Each = one_by_one) -> list[Record]:
    data, scale = available(settings.scale), settings.scale
    looking = {"snapshots": list(settings.snapshots), "images": settings.images}
    asked = [
        (loss, call_of(scale, data, Run(loss, changes=changes), seed) | looking)
        for loss, changes in LOSSES.items()
        for seed in range(scale.seeds)
    ]
    found = each(watch, [call for _, call in asked])
    return [
        {"loss": loss, **one}
        for (loss, _), snapshots in zip(asked, found, strict=True)
        for one in snapshots
    ]


def watch(
    *,
    data: dict[str, Any],
    preset: str,
    settings: dict[str, Any],
    seed: int,
    snapshots: list[int],
    images: int,
) -> list[Record]:
    """One training, looked at before it begins and after some of its epochs."""
    train, _, _ = load(**data)
    chosen = replace(TRAININGS[preset], **settings, seed=seed)
    rows = list(range(images))
    found: list[Record] = []

    def look(model: JointEmbedding, epoch: int) -> None:
        embedded = Embedded(
            embed_images(model, train.images), embed_captions(model, train.captions)
        )
        one = similarity_distribution(embedded, train.image_of_caption, label="", images=rows)
        scores = embedded.scores(torch.tensor(rows))
        own = train.image_of_caption[None, :] == torch.tensor(rows)[:, None]
        wrong = scores[~own]
        found.append(
            {
                "data": describe(data),
                "seed": seed,
                "epoch": epoch,
                "skewness": one.skewness,
                "above_two_deviations": float(
                    (wrong > one.mean + 2 * one.deviation).double().mean()
                ),
                "edges": [round(edge, 4) for edge in one.edges],
                "negatives": [round(value, 4) for value in one.negatives],
                "positive_mean": one.positive_mean,
            }
        )

    seed_everything(seed)
    look(assemble(train, chosen, device=torch.device("cpu")).model, 0)

    def after(state: Any) -> None:
        done = state.epoch + 1
        if done in snapshots:
            look(state.model, done)

    train_embedding(train, None, settings=chosen, on_epoch=after, progress="quiet")
    return found


def draw(records: list[Record]) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.add_subplot()
    colours = {"SH": "tab:blue", "MH": "tab:red"}
    epochs = sorted({one["epoch"] for one in records})
    first = min(one["seed"] for one in records)
    shown: list[float] = []
    for one in records:
        start = one["epoch"] == 0
        if one["seed"] != first or (start and one["loss"] == "MH"):
            continue
        middles = [(a + b) / 2 for a, b in zip(one["edges"], one["edges"][1:], strict=False)]
        style = (":", "--", "-")[min(epochs.index(one["epoch"]), 2)]
        name = "start" if start else f"{one['loss']}, epoch {one['epoch']}"
        colour = "0.5" if start else colours[one["loss"]]
        label = f"{name}: skewness {one['skewness']:+.2f}"
        axes.plot(middles, one["negatives"], style, color=colour, label=label)
        shown += [at for at, value in zip(middles, one["negatives"], strict=True) if value > 0.01]
    axes.set(
        xlabel="cosine of an image and the captions of others",
        ylabel="density",
        xlim=(min(shown) - 0.05, max(shown) + 0.05),
    )
    axes.set_title(f"{records[0]['data']}, ten images, seed {first}", fontsize="small")
    axes.legend(fontsize="small", frameon=False)
    return figure
