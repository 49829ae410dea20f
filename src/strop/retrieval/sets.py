"""The parts of an image-caption data set that a training needs, from a name or a path."""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from strop.data import (
    ImageCaptions,
    NoSuchSplitError,
    load_emoji,
    read_captions,
    with_features,
)
from strop.data.emoji import Split
from strop.support import InputError

SMALL_PICTURES = 64  # pixels: what is read for a network that is trained from scratch
LARGE_PICTURES = 256  # pixels: what is read for a pretrained network, before crops of 224


@dataclass(frozen=True)
class DataSettings:
    """How the data are read."""

    images: Path | None = None
    """The folder of the pictures, where it is not beside the captions."""
    features: tuple[Path, ...] = ()
    """`.npz` files of features to use in place of the pictures; several are put side by side."""
    size: int | None = None
    """Side of the pictures in pixels; without it 64, or 256 for a pretrained image network."""
    encoding: str = "utf-8-sig"
    """Of the captions' file."""
    cache: Path | None = None
    """A folder that keeps decoded pictures for the next run."""
    on_error: Literal["raise", "skip"] = "raise"
    """At a broken or missing picture: stop, or leave it out and say so."""
    validation_share: float = 0.1
    """Share of the images held out for validation, where the data name no part for it."""
    languages: tuple[str, ...] = ("en",)
    """Of the emoji's captions."""
    emoji_split: Split = "compositional"
    """What the held-out emoji have in common with those trained on."""


@dataclass(frozen=True)
class Parts:
    """What to train on, what to choose the best weights by."""

    train: ImageCaptions
    validation: ImageCaptions


def load_parts(
    data: str, settings: DataSettings, *, seed: int = 0, pretrained: bool = False
) -> Parts:
    """The training and validation parts of ``data``: ``"emoji"``, a known name, or a path.

    Where the data name no parts, a share of the images is held out at random, by ``seed``.
    """
    try:
        return Parts(
            load_part(data, "train", settings, pretrained=pretrained),
            load_part(data, "validation", settings, pretrained=pretrained),
        )
    except NoSuchSplitError:
        whole = load_part(data, None, settings, pretrained=pretrained)
    return hold_out(whole, share=settings.validation_share, seed=seed)


def load_part(
    data: str, part: str | None, settings: DataSettings, *, pretrained: bool = False
) -> ImageCaptions:
    """One part of ``data``, or all of it."""
    if data == "emoji":
        return load_emoji(
            split=settings.emoji_split,
            part=part or "all",  # type: ignore[arg-type]
            languages=settings.languages if part in (None, "train") else settings.languages[:1],
            size=settings.size or SMALL_PICTURES,
        )
    size = settings.size or (LARGE_PICTURES if pretrained else SMALL_PICTURES)
    captions = read_captions(
        data,
        split=part,
        images=settings.images,
        encoding=settings.encoding,
        size=size,
        cache=settings.cache,
        on_error=settings.on_error,
        check="no" if settings.features else "exists",
    )
    return _with_all_features(captions, settings.features)


def _with_all_features(data: ImageCaptions, files: tuple[Path, ...]) -> ImageCaptions:
    """Features of several networks side by side, each of unit length, so that none drowns another.

    They are joined by the names of the images.
    """
    if not files:
        return data
    columns: list[Tensor] = []
    for file in files:
        one = with_features(data, file)
        columns.append(F.normalize(one.images.batch(range(len(one.images))).float(), dim=1))
    return replace(data, images=torch.cat(columns, dim=1))  # type: ignore[arg-type]


def hold_out(data: ImageCaptions, *, share: float, seed: int) -> Parts:
    """``share`` of the images at random, with all their captions, for validation.

    >>> from strop.data import load_emoji
    >>> parts = hold_out(load_emoji(part="test", size=1), share=0.1, seed=0)
    >>> len(parts.train.images), len(parts.validation.images)
    (450, 50)
    """
    if not 0 < share < 1:
        raise InputError(f"validation_share must lie between 0 and 1, but is {share}")
    count = len(data.images)
    held = max(1, math.floor(share * count))
    if count - held < 2:
        raise InputError(
            f"{count} images are too few to train on and hold some out: give more pictures"
        )
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    return Parts(data.subset(order[held:].sort().values), data.subset(order[:held].sort().values))
