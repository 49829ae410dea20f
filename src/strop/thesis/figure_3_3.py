"""Figure 3.3: the hard negatives of a random mini-batch, each with its cost.

    strop thesis run figure-3.3

Thesis section 3.3.7, figure 3.3 (Flickr30K training set, a trained VSE++, batches of 128).
Expected: the hardest caption of a random batch is near in meaning to the image, at costs from 0 to
2. Without the data of a preset the emoji stand in; pictures that are not at hand are grey. Ten
seconds of one core at `small`; smoke a second.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import torch

from strop.retrieval import PRESETS as TRAININGS
from strop.retrieval import train_embedding
from strop.retrieval.embedding import embed_captions, embed_images
from strop.retrieval.figures import draw_hard_negatives
from strop.retrieval.looking import Embedded, HardNegative, hard_negatives
from strop.thesis.calls import Each, Record, one_by_one
from strop.thesis.retrieval_pictures import picture
from strop.thesis.retrieval_runs import SCALES, Run, Scale, available, call_of, load


@dataclass(frozen=True)
class Settings:
    """How large a batch, and how many of its queries to show."""

    scale: Scale = field(default_factory=lambda: SCALES["small"])
    batch: int = 128
    shown: int = 8


PRESETS = {
    "smoke": Settings(SCALES["smoke"], batch=32, shown=2),
    "small": Settings(),
    "gpu": Settings(SCALES["gpu"]),
    "paper": Settings(SCALES["flickr30k"]),
}


def compute(settings: Settings, each: Each = one_by_one) -> list[Record]:
    call = call_of(settings.scale, available(settings.scale), Run("VSE++"), 0)
    shown = {"batch": settings.batch, "shown": settings.shown}
    (found,) = each(hardest_of_a_batch, [call | shown])
    return list(found)


def hardest_of_a_batch(
    *,
    data: dict[str, Any],
    preset: str,
    settings: dict[str, Any],
    seed: int,
    batch: int,
    shown: int,
) -> list[Record]:
    """Train, draw a batch of training images with one caption each, and find what is hardest."""
    train, validation, _ = load(**data)
    chosen = replace(TRAININGS[preset], **settings, seed=seed)
    model = train_embedding(train, validation, settings=chosen, progress="quiet").model
    generator = torch.Generator().manual_seed(seed)
    some = train.subset(torch.randperm(len(train.images), generator=generator)[:batch])
    rows = torch.tensor([int(some.caption_indices_of(at)[0]) for at in range(len(some.images))])
    captions = [some.captions[row] for row in rows.tolist()]
    embedded = Embedded(embed_images(model, some.images), embed_captions(model, captions))
    ids = some.labels("concept")[0] if "concept" in some.fields else None
    order = torch.randperm(len(captions), generator=generator).tolist()
    found = {one.query: one for one in hard_negatives(embedded, image_ids=ids)}
    return [
        {
            "data": data["name"],
            "picture": some.names[at],
            "caption": captions[at],
            "negative": captions[found[at].negative],
            "cost": round(found[at].cost, 3),
        }
        for at in order[:shown]
    ]


def draw(records: list[Record]) -> Any:
    captions = [one[name] for one in records for name in ("caption", "negative")]
    found = [
        HardNegative("image to text", at, 2 * at, 2 * at + 1, one["cost"])
        for at, one in enumerate(records)
    ]
    pictures = [picture(one["data"], one["picture"]) for one in records]
    return draw_hard_negatives(found, captions=captions, pictures=pictures)
