"""Pictures and captions to vectors, in batches, without changing the model.

Index legend: n picture or caption, d joint dimension.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor

from strop.data import Images
from strop.retrieval.encoders import PrecomputedFeatures
from strop.retrieval.model import JointEmbedding
from strop.retrieval.pictures import Picture, picture_tensor
from strop.support import InputError
from strop.training import measuring

Report = Callable[[int, int], None]
"""Told how many are done, of how many."""

Skip = Callable[[int, InputError], None]
"""Told which picture cannot be read, and why."""


def embed_images(
    model: JointEmbedding,
    images: Tensor | Images | Sequence[Picture],
    *,
    size: int | None = None,
    batch_size: int = 64,
    report: Report | None = None,
    skip: Skip | None = None,
) -> Tensor:
    """Pictures or features to vectors (n, d), as the model gives them, on the CPU.

    ``images`` are pictures (n, 3, h, w), features (n, f), the images of a data set, or files, bytes
    and Pillow images, which are brought to ``size x size`` pixels, by default what the model takes.
    A picture that cannot be read is an error, unless ``skip`` is told of it: it is then left out.
    """
    batches: Iterable[Tensor]
    if isinstance(images, Tensor):
        batches = images.split(batch_size)
    elif isinstance(images, Images):
        batches = map(images.batch, torch.arange(len(images)).split(batch_size))
    else:
        side = _side(model, size)
        batches = _decoded(images, side=side, batch_size=batch_size, skip=skip)
    return _embedded(model, batches, len(images), model.embed_images, report)


def embed_captions(
    model: JointEmbedding,
    captions: Sequence[str],
    *,
    batch_size: int = 256,
    report: Report | None = None,
) -> Tensor:
    """Captions to vectors (n, d), as the model gives them, on the CPU."""
    starts = range(0, len(captions), batch_size)
    batches = (model.tokens(captions[start : start + batch_size]) for start in starts)
    return _embedded(model, batches, len(captions), model.embed_captions, report)


def _embedded(
    model: JointEmbedding,
    batches: Iterable[Any],
    total: int,
    embed: Callable[[Any], Tensor],
    report: Report | None,
) -> Tensor:
    device = next(model.parameters()).device
    vectors = [torch.empty(0, model.embedding_dim)]
    done = 0
    with measuring(model):
        for batch in batches:
            if len(batch):
                vectors.append(embed(batch.to(device)).float().cpu())
            done += len(batch)
            if report is not None:
                report(done, total)
    return torch.cat(vectors)


def _decoded(
    pictures: Sequence[Picture], *, side: int, batch_size: int, skip: Skip | None
) -> Iterator[Tensor]:
    """Batches (b, 3, side, side), in order; the next is decoded while the model has this one."""

    def decode(picture: Picture) -> Tensor:
        return picture_tensor(picture, size=side)

    starts = range(0, len(pictures), batch_size)
    with ThreadPoolExecutor() as pool:
        waiting: list[tuple[int, list[Future[Tensor]]]] = []
        for start in starts:
            part = pictures[start : start + batch_size]
            waiting.append((start, [pool.submit(decode, picture) for picture in part]))
            if len(waiting) == 2:
                yield _gathered(*waiting.pop(0), side=side, skip=skip)
        for start, futures in waiting:
            yield _gathered(start, futures, side=side, skip=skip)


def _gathered(
    start: int, futures: Sequence[Future[Tensor]], *, side: int, skip: Skip | None
) -> Tensor:
    tensors = []
    for number, future in enumerate(futures, start):
        try:
            tensors.append(future.result())
        except InputError as error:
            if skip is None:
                raise
            skip(number, error)
    return torch.stack(tensors) if tensors else torch.empty(0, 3, side, side)


def _side(model: JointEmbedding, size: int | None) -> int:
    """The side of the pictures that the model takes, in pixels."""
    encoder = model.image_encoder
    if isinstance(encoder, PrecomputedFeatures):
        raise InputError(
            f"this model takes {encoder.output_dim} features of a frozen network, not pictures: "
            "give the features as a tensor, or train a model on pictures"
        )
    own = getattr(encoder, "read_at", None) or getattr(encoder, "image_size", None)
    known = size if size is not None else own
    if known is None:
        raise InputError(
            "the model does not say how large its pictures are: pass size=…, the side in pixels of "
            "the pictures it was trained on"
        )
    return int(known)
