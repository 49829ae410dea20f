"""Figure 3.4: the caption that VSE0 and VSE++ put first, and the rank of a true one.

    strop thesis run figure-3.4

Thesis section 3.3.7, figure 3.4 (COCO test images, ResNet, fine-tuned). Expected: VSE++ ranks a
true caption higher for most images, and its mistakes are nearer in meaning. Without the data of a
preset the emoji stand in; pictures that are not at hand are grey. Twenty seconds of one core at
`small`; smoke a second.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import torch

from strop.retrieval import PRESETS as TRAININGS
from strop.retrieval import train_embedding
from strop.retrieval.embedding import embed_captions, embed_images
from strop.retrieval.figures import draw_top_captions
from strop.retrieval.looking import Embedded, ImageAnswers, TopCaption, top_captions
from strop.thesis.calls import Each, Record, one_by_one
from strop.thesis.retrieval_pictures import picture
from strop.thesis.retrieval_runs import SCALES, Run, Scale, available, call_of, load

MODELS = {"VSE0": "vse0", "VSE++": "vse++"}


@dataclass(frozen=True)
class Settings:
    """How many random test images to show."""

    scale: Scale = field(default_factory=lambda: SCALES["small"])
    shown: int = 8


PRESETS = {
    "smoke": Settings(SCALES["smoke"], shown=2),
    "small": Settings(),
    "gpu": Settings(SCALES["gpu"]),
    "paper": Settings(SCALES["coco"]),
}


def compute(settings: Settings, each: Each = one_by_one) -> list[Record]:
    data = available(settings.scale)
    calls = [
        call_of(settings.scale, data, Run(name, preset), 0) | {"shown": settings.shown}
        for name, preset in MODELS.items()
    ]
    found = each(first_captions, calls)
    return [
        {**images[0], "answers": dict(zip(MODELS, (one["answer"] for one in images), strict=True))}
        for images in zip(*found, strict=True)
    ]


def first_captions(
    *, data: dict[str, Any], preset: str, settings: dict[str, Any], seed: int, shown: int
) -> list[Record]:
    """Train, and see what comes first for some test images."""
    train, validation, test = load(**data)
    chosen = replace(TRAININGS[preset], **settings, seed=seed)
    model = train_embedding(train, validation, settings=chosen, progress="quiet").model
    embedded = Embedded(
        embed_images(model, test.images), embed_captions(model, test.captions), model.similarity
    )
    generator = torch.Generator().manual_seed(seed)
    images = torch.randperm(len(test.images), generator=generator)[:shown].tolist()
    return [
        {
            "data": data["name"],
            "picture": test.names[one.image],
            "truth": test.captions[one.truth],
            "answer": {
                "caption": test.captions[one.answers[0].caption],
                "rank": one.answers[0].rank,
                "right": one.answers[0].right,
            },
        }
        for one in top_captions({preset: embedded}, test.image_of_caption, images=images)
    ]


def draw(records: list[Record]) -> Any:
    captions: list[str] = []

    def number(caption: str) -> int:
        captions.append(caption)
        return len(captions) - 1

    found = [
        ImageAnswers(
            image=at,
            truth=number(one["truth"]),
            answers=tuple(
                TopCaption(name, number(answer["caption"]), answer["rank"], answer["right"])
                for name, answer in one["answers"].items()
            ),
        )
        for at, one in enumerate(records)
    ]
    pictures = [picture(one["data"], one["picture"]) for one in records]
    return draw_top_captions(found, captions=captions, pictures=pictures)
