"""The gradient of inner products of a few chosen pairs, without products of all.

Index letters: b the batch, d the joint dimension.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class ChosenPairs:
    """Three weighted pairs for each b: its own, one with another caption, one with another image.

    They stand for the sum over b of

        own_b s(b, b) + with_caption_b s(b, caption_b) + with_image_b s(image_b, b),

    whose value, known from the search, is ``total``. All are (b,) and without gradient.
    """

    own: Tensor
    caption: Tensor
    with_caption: Tensor
    image: Tensor
    with_image: Tensor
    total: Tensor


def chosen_products(images: Tensor, captions: Tensor, pairs: ChosenPairs) -> Tensor:
    """The total of the pairs for s(i, c) = i · c; rows behind those of the batch are extra."""
    total: Tensor = _ChosenProducts.apply(
        images,
        captions,
        pairs.own,
        pairs.caption,
        pairs.with_caption,
        pairs.image,
        pairs.with_image,
        pairs.total,
    )
    return total


class _ChosenProducts(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        images: Tensor,
        captions: Tensor,
        own: Tensor,
        caption: Tensor,
        with_caption: Tensor,
        image: Tensor,
        with_image: Tensor,
        total: Tensor,
    ) -> Tensor:
        ctx.save_for_backward(images, captions, own, caption, with_caption, image, with_image)
        return total.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        images, captions, own, caption, with_caption, image, with_image = ctx.saved_tensors
        own, with_caption, with_image = (
            gradient * weight for weight in (own, with_caption, with_image)
        )
        by_image = by_caption = None
        if ctx.needs_input_grad[0]:
            by_image = _collect(
                captions, len(images), own, caption, with_caption, image, with_image
            )
        if ctx.needs_input_grad[1]:
            by_caption = _collect(
                images, len(captions), own, image, with_image, caption, with_caption
            )
        return by_image, by_caption, None, None, None, None, None, None


def _collect(
    others: Tensor,
    rows: int,
    own: Tensor,
    taken: Tensor,
    taken_weight: Tensor,
    given: Tensor,
    given_weight: Tensor,
) -> Tensor:
    """own_b others_b + taken_weight_b others[taken_b] in row b; the others_b to given_b."""
    size = len(own)
    batch = others[:size]
    sums = batch * own[:, None]
    sums.addcmul_(others.index_select(0, taken), taken_weight[:, None])
    if rows > size:
        sums = torch.cat([sums, sums.new_zeros(rows - size, sums.shape[1])])
    return sums.index_add_(0, given, batch * given_weight[:, None])
