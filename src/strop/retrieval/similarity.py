"""How alike an image and a caption are in the joint space.

Index letters: b, i image rows; n, j caption rows; d the joint dimension.
"""

from dataclasses import dataclass
from typing import Literal, Protocol, get_args

import torch
from torch import Tensor

from strop.retrieval.similarity_order import order_scores, weighted_order_sum
from strop.retrieval.similarity_pairs import ChosenPairs, chosen_products
from strop.support import InputError

SimilarityName = Literal["cosine", "dot", "order", "order-abs"]
SIMILARITIES: tuple[str, ...] = get_args(SimilarityName)


class Similarity(Protocol):
    """A score s(i, c): what is done to each embedding alone, then to all or to given pairs."""

    def prepare_images(self, images: Tensor) -> Tensor:
        """Image embeddings as the score takes them, (b, d) -> (b, d)."""

    def prepare_captions(self, captions: Tensor) -> Tensor:
        """Caption embeddings as the score takes them, (n, d) -> (n, d)."""

    def matrix(self, images: Tensor, captions: Tensor) -> Tensor:
        """All scores of prepared embeddings, (b, d), (n, d) -> (b, n)."""

    def pairs(self, images: Tensor, captions: Tensor) -> Tensor:
        """Scores of prepared embeddings row by row, (b, d), (b, d) -> (b,), at least float32."""

    def weighted_sum(self, images: Tensor, captions: Tensor, weights: Tensor) -> Tensor:
        """sum_ij weights_ij s(i, j) for constant weights, without keeping the scores."""

    def chosen_sum(self, images: Tensor, captions: Tensor, pairs: ChosenPairs) -> Tensor:
        """The weighted sum that ``pairs`` stand for, its gradient through those pairs alone."""


@dataclass(frozen=True)
class InnerProduct:
    """s(i, c) = f(i) · g(c), captions on the unit sphere, images there too or as they come.

    With both normalised it is the cosine of VSE++. Without ``normalise_images`` it is the score of
    VSE and VSE0, where the length of an image embedding weighs its samples.
    Thesis section 3.2.1 and section 3.3.

    >>> images, captions = torch.tensor([[3.0, 0.0]]), torch.tensor([[2.0, 0.0], [0.0, 5.0]])
    >>> for score in (InnerProduct(), InnerProduct(normalise_images=False)):
    ...     prepared = score.prepare_images(images), score.prepare_captions(captions)
    ...     print(score.matrix(*prepared).tolist())
    [[1.0, 0.0]]
    [[3.0, 0.0]]
    """

    normalise_images: bool = True

    def prepare_images(self, images: Tensor) -> Tensor:
        return to_unit_sphere(images) if self.normalise_images else images

    def prepare_captions(self, captions: Tensor) -> Tensor:
        return to_unit_sphere(captions)

    def matrix(self, images: Tensor, captions: Tensor) -> Tensor:
        return images @ captions.T

    def pairs(self, images: Tensor, captions: Tensor) -> Tensor:
        return (at_least_float32(images) * at_least_float32(captions)).sum(-1)

    def weighted_sum(self, images: Tensor, captions: Tensor, weights: Tensor) -> Tensor:
        # (A c) is the gradient of the images, so backward needs one further product and no more.
        return self.pairs(weights.to(captions.dtype) @ captions, images).sum()

    def chosen_sum(self, images: Tensor, captions: Tensor, pairs: ChosenPairs) -> Tensor:
        return chosen_products(at_least_float32(images), at_least_float32(captions), pairs)


@dataclass(frozen=True)
class OrderViolation:
    """s(i, c) = -||max(0, g(c) - f(i))||², both on the unit sphere; not symmetric.

    Zero when the caption lies below the image in every coordinate: the caption is then more general
    than the image. ``absolute`` takes |f| and |g| first, as the order embeddings of Vendrov et al.
    ``squared=False`` takes the norm itself, as published code of the thesis's Order++ does.
    Thesis section 3.3.5.

    >>> score = OrderViolation(normalise=False)
    >>> score.matrix(torch.tensor([[1.0, 2.0]]), torch.tensor([[0.5, 1.0], [3.0, 1.0]])).tolist()
    [[-0.0, -4.0]]
    """

    absolute: bool = False
    normalise: bool = True
    squared: bool = True

    def prepare_images(self, images: Tensor) -> Tensor:
        embeddings = to_unit_sphere(images) if self.normalise else images
        return embeddings.abs() if self.absolute else embeddings

    def prepare_captions(self, captions: Tensor) -> Tensor:
        return self.prepare_images(captions)

    def matrix(self, images: Tensor, captions: Tensor) -> Tensor:
        return self._scaled(order_scores(at_least_float32(images), at_least_float32(captions)))

    def pairs(self, images: Tensor, captions: Tensor) -> Tensor:
        excess = (at_least_float32(captions) - at_least_float32(images)).clamp(min=0)
        return self._scaled(-excess.square().sum(-1))

    def weighted_sum(self, images: Tensor, captions: Tensor, weights: Tensor) -> Tensor:
        images, captions = at_least_float32(images), at_least_float32(captions)
        if self.squared:
            return weighted_order_sum(images, captions, weights)
        with torch.no_grad():
            length = order_scores(images, captions).neg_().sqrt_()
            weights = torch.where(length > 0, weights / (2 * length), 0.0)
        # sum w |v| has the gradient of sum (w / 2|v|) |v|² with those weights held, and twice its
        # value.
        half = weighted_order_sum(images, captions, weights)
        return half + half.detach()

    def chosen_sum(self, images: Tensor, captions: Tensor, pairs: ChosenPairs) -> Tensor:
        size = len(pairs.own)
        own = self.pairs(images[:size], captions[:size])
        with_caption = self.pairs(images[:size], captions.index_select(0, pairs.caption))
        with_image = self.pairs(images.index_select(0, pairs.image), captions[:size])
        return (
            pairs.own * own + pairs.with_caption * with_caption + pairs.with_image * with_image
        ).sum()

    def _scaled(self, scores: Tensor) -> Tensor:
        if self.squared:
            return scores
        # The root has no gradient at zero; zero is one of its subgradients there.
        violated = scores < 0
        return -torch.where(violated, -scores, 1.0).sqrt() * violated


def similarity_from_name(similarity: SimilarityName | Similarity) -> Similarity:
    """The score behind a name; a score stays what it is.

    >>> similarity_from_name("dot")
    InnerProduct(normalise_images=False)
    """
    if not isinstance(similarity, str):
        return similarity
    if similarity == "cosine":
        return InnerProduct()
    if similarity == "dot":
        return InnerProduct(normalise_images=False)
    if similarity == "order":
        return OrderViolation()
    if similarity == "order-abs":
        return OrderViolation(absolute=True)
    raise InputError(f"similarity must be one of {', '.join(SIMILARITIES)}, but is {similarity!r}")


def to_unit_sphere(embeddings: Tensor) -> Tensor:
    """Each row divided by its Euclidean length; a zero row stays zero, with a finite gradient.

    >>> to_unit_sphere(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    tensor([[0.6000, 0.8000],
            [0.0000, 0.0000]])
    """
    wide = at_least_float32(embeddings)
    length = torch.linalg.vector_norm(wide, dim=-1, keepdim=True)
    return (wide / torch.where(length > 0, length, 1.0)).to(embeddings.dtype)


def at_least_float32(values: Tensor) -> Tensor:
    """Half precision widened to float32: sums over a batch need more than eight bits."""
    return values.float() if values.dtype in (torch.bfloat16, torch.float16) else values
