"""The order violation of all pairs in slices, so that no b x n x d array ever exists.

Index letters: b image rows, n caption rows, d the joint dimension.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor


def order_scores(images: Tensor, captions: Tensor) -> Tensor:
    """-||max(0, captions_n - images_b)||² for every pair, (b, d), (n, d) -> (b, n).

    >>> order_scores(torch.zeros(1, 2), torch.tensor([[1.0, -1.0], [1.0, 2.0]])).tolist()
    [[-1.0, -5.0]]
    """
    scores: Tensor = _OrderScores.apply(images, captions)
    return scores


def weighted_order_sum(images: Tensor, captions: Tensor, weights: Tensor) -> Tensor:
    """sum_bn weights_bn order_scores_bn, the weights held constant."""
    # The sum is linear in the scores: with its gradient at hand the scores themselves are not kept.
    total: Tensor = _WeightedOrderSum.apply(images, captions, weights)
    return total


def _excess_slices(images: Tensor, captions: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """max(0, captions_n - images_b) for a few images at a time, in one buffer used again."""
    # About the second-level cache of a core; a GPU wants enough work per launch.
    elements = 2**19 if images.device.type == "cpu" else 2**26
    rows = max(1, elements // max(1, captions.numel()))
    buffer = images.new_empty(min(rows, len(images)), *captions.shape)
    for start in range(0, len(images), rows):
        part = slice(start, min(start + rows, len(images)))
        excess = buffer[: part.stop - part.start]
        torch.sub(captions, images[part, None], out=excess)
        yield part, excess.clamp_(min=0)


def _gradients(images: Tensor, captions: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of sum_bn weights_bn order_scores_bn with respect to images and captions."""
    image_gradient, caption_gradient = torch.empty_like(images), torch.zeros_like(captions)
    for part, excess in _excess_slices(images, captions):
        weight = weights[part]
        image_gradient[part] = torch.bmm(weight[:, None], excess)[:, 0]
        caption_gradient -= torch.einsum("bn,bnd->nd", weight, excess)
    return image_gradient.mul_(2), caption_gradient.mul_(2)


class _OrderScores(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, images: Tensor, captions: Tensor) -> Tensor:
        ctx.save_for_backward(images, captions)
        scores = images.new_empty(len(images), len(captions))
        for part, excess in _excess_slices(images, captions):
            torch.sum(excess.square_(), dim=-1, out=scores[part])
        return scores.neg_()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        images, captions = ctx.saved_tensors
        return _gradients(images, captions, gradient)


class _WeightedOrderSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, images: Tensor, captions: Tensor, weights: Tensor) -> Tensor:
        image_gradient, caption_gradient = _gradients(images, captions, weights)
        ctx.save_for_backward(image_gradient, caption_gradient)
        # The score is homogeneous of degree two in (images, captions): Euler gives the value.
        return ((images * image_gradient).sum() + (captions * caption_gradient).sum()) / 2

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        image_gradient, caption_gradient = ctx.saved_tensors
        return gradient * image_gradient, gradient * caption_gradient, None
