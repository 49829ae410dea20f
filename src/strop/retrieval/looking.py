"""Looking at a joint embedding: its hard negatives, its mistakes, its spread of similarities.

Each function computes plain records from embeddings, so that any model can be looked at;
``figures`` draws them. Records hold JSON values alone: ``settings_to_dict`` writes them.

Index legend: b pair of a batch, i image, j caption, d joint dimension.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from strop.retrieval.similarity import Similarity, SimilarityName, similarity_from_name
from strop.support import InputError

Direction = Literal["image to text", "text to image"]


@dataclass(frozen=True)
class Embedded:
    """A model's embeddings of images (i, d) and captions (j, d), and how it compares them."""

    images: Tensor
    captions: Tensor
    similarity: SimilarityName | Similarity = "cosine"

    def scores(self, rows: Tensor | None = None) -> Tensor:
        """The similarities of the images numbered ``rows``, or of all, to all captions."""
        similarity = similarity_from_name(self.similarity)
        images = self.images if rows is None else self.images[rows]
        return similarity.matrix(
            similarity.prepare_images(images.float()),
            similarity.prepare_captions(self.captions.float()),
        )


@dataclass(frozen=True)
class HardNegative:
    """A query of a batch, its hardest negative, and what that costs.

    ``query``, ``positive`` and ``negative`` are rows of the batch: of an image and two captions, or
    of a caption and two images. ``cost`` is the hinge of thesis eq. (3.6), [margin - s(query,
    positive) + s(query, negative)]_+, between 0 and 2 + margin for the cosine.
    """

    direction: Direction
    query: int
    positive: int
    negative: int
    cost: float


@dataclass(frozen=True)
class TopCaption:
    """What a model puts first for an image, and the rank of the best caption that is true of it.

    The rank counts from 1; where scores are equal it is the mean over their orders.
    """

    model: str
    caption: int
    rank: float
    right: bool


@dataclass(frozen=True)
class ImageAnswers:
    """An image, one of its true captions, and what each model answers."""

    image: int
    truth: int
    answers: tuple[TopCaption, ...]


@dataclass(frozen=True)
class SimilarityDistribution:
    """Similarities of a few images to all captions: of negatives and of positives.

    ``negatives`` and ``positives`` are densities over the bins between ``edges``. ``mean``,
    ``deviation`` and ``skewness`` are those of the negatives, ``hardest`` the mean over images of
    the largest; ``positive_mean`` is the mean of the positives.
    """

    label: str
    edges: tuple[float, ...]
    negatives: tuple[float, ...]
    positives: tuple[float, ...]
    mean: float
    deviation: float
    skewness: float
    hardest: float
    positive_mean: float


def hard_negatives(
    batch: Embedded,
    *,
    margin: float = 0.2,
    image_ids: Tensor | None = None,
    direction: Direction = "image to text",
) -> tuple[HardNegative, ...]:
    """The hardest negative of every query of a batch of pairs, costliest first (figure 3.3).

    For an image i with caption c: c' = argmax_{d != c} s(i, d), and its cost
    [margin - s(i, c) + s(i, c')]_+; likewise for captions. Thesis section 3.2.2, eq. (3.6). Pairs
    with equal ``image_ids`` are no negatives of one another.

    >>> batch = Embedded(torch.eye(2), torch.tensor([[1.0, 0.0], [1.0, 0.1]]))
    >>> [(found.query, found.negative, round(found.cost, 3)) for found in hard_negatives(batch)]
    [(0, 1, 0.195), (1, 0, 0.1)]
    """
    if len(batch.images) != len(batch.captions):
        raise InputError(
            f"expected pairs, but there are {len(batch.images)} images and {len(batch.captions)} "
            "captions"
        )
    if direction not in ("image to text", "text to image"):
        raise InputError(f"expected 'image to text' or 'text to image', but got {direction!r}")
    scores = batch.scores() if direction == "image to text" else batch.scores().T
    ids = torch.arange(len(scores)) if image_ids is None else image_ids
    same = ids[:, None] == ids[None, :]
    if bool(same.all()):
        raise InputError("every pair of the batch shows the same image: there are no negatives")
    best, negative = scores.masked_fill(same, -torch.inf).max(dim=1)
    costs = (margin - scores.diagonal() + best).clamp(min=0)
    order = costs.argsort(descending=True, stable=True)
    return tuple(
        HardNegative(direction, row, row, int(negative[row]), float(costs[row]))
        for row in order.tolist()
        if best[row] > -torch.inf
    )


def top_captions(
    models: Mapping[str, Embedded], image_of_caption: Tensor, *, images: Sequence[int]
) -> tuple[ImageAnswers, ...]:
    """The first caption of each model for each of ``images``, side by side (figure 3.4).

    ``image_of_caption`` (j,) says which image each caption belongs to; images without a caption of
    their own have no rank and are refused.
    """
    rows = torch.as_tensor(images, dtype=torch.long)
    right = image_of_caption[None, :] == rows[:, None]
    lonely = (~right.any(dim=1)).nonzero().flatten().tolist()
    if lonely:
        raise InputError(f"image {images[lonely[0]]} has no caption, so there is no rank to show")
    columns = {
        name: _first_and_rank(embedded.scores(rows), right) for name, embedded in models.items()
    }
    return tuple(
        ImageAnswers(
            image=int(image),
            truth=int(right[row].int().argmax()),
            answers=tuple(
                TopCaption(name, int(first[row]), float(rank[row]), bool(right[row, first[row]]))
                for name, (first, rank) in columns.items()
            ),
        )
        for row, image in enumerate(images)
    )


def similarity_distribution(
    embedded: Embedded,
    image_of_caption: Tensor,
    *,
    label: str,
    images: Sequence[int],
    bins: int = 60,
    limits: tuple[float, float] = (-1.0, 1.0),
) -> SimilarityDistribution:
    """How similar captions are to fixed ``images``: others' captions and their own (figure 3.5).

    The densities are averages over ``images``; scores outside ``limits`` count in the outermost
    bins. Thesis section 3.3.4 takes ten images of the training set.
    """
    rows = torch.as_tensor(images, dtype=torch.long)
    scores = embedded.scores(rows).cpu()
    right = image_of_caption.cpu()[None, :] == rows[:, None]
    edges = torch.linspace(*limits, bins + 1)
    wrong = scores[~right]
    if wrong.numel() == 0 or not bool(right.any()):
        raise InputError("these images have no negatives or no positives among the captions")
    centred = wrong.double() - wrong.double().mean()
    deviation = float(centred.square().mean().sqrt())
    skewness = float((centred**3).mean()) / deviation**3 if deviation > 0 else 0.0
    return SimilarityDistribution(
        label=label,
        edges=tuple(edges.tolist()),
        negatives=_density(wrong, edges),
        positives=_density(scores[right], edges),
        mean=float(wrong.double().mean()),
        deviation=deviation,
        skewness=skewness,
        hardest=float(scores.masked_fill(right, -torch.inf).amax(dim=1).mean()),
        positive_mean=float(scores[right].double().mean()),
    )


def _first_and_rank(scores: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    best = scores.masked_fill(~right, -torch.inf).amax(dim=1, keepdim=True)
    above = ((scores > best) & ~right).sum(dim=1)
    tied_wrong = ((scores == best) & ~right).sum(dim=1)
    tied_right = ((scores == best) & right).sum(dim=1)
    rank = above + (tied_wrong + tied_right + 1) / (tied_right + 1)
    return scores.argmax(dim=1), rank


def _density(values: Tensor, edges: Tensor) -> tuple[float, ...]:
    inside = values.float().clamp(float(edges[0]), float(edges[-1]))
    counts, _ = torch.histogram(inside, edges)
    return tuple((counts / (counts.sum() * edges.diff())).tolist())
