"""Ranking losses for a joint space of images and captions.

Index letters: b the batch; row b of the images belongs to row b of the captions.
"""

import warnings
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from strop.retrieval.mining import (
    ChoosingMining,
    MaxOfHinges,
    Mining,
    MiningName,
    SemiHardHinges,
    TopKHinges,
    WeightedMining,
    mining_from_name,
)
from strop.retrieval.mining_candidates import (
    Candidates,
    choose_negatives,
    gather_candidates,
    random_subsets,
)
from strop.retrieval.queue import NegativesLike, negatives_from
from strop.retrieval.similarity import (
    Similarity,
    SimilarityName,
    at_least_float32,
    similarity_from_name,
)
from strop.retrieval.similarity_pairs import ChosenPairs
from strop.support import InputError

Reduction = Literal["mean", "sum"]


def contrastive_hinge_loss(
    images: Tensor,
    captions: Tensor,
    *,
    margin: float = 0.2,
    mining: MiningName | Mining = "softmax",
    k: int | None = None,
    temperature: float = 0.1,
    similarity: SimilarityName | Similarity = "cosine",
    image_ids: Tensor | None = None,
    reduction: Reduction = "mean",
    negatives: NegativesLike | None = None,
    negative_set_size: int | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Hinge loss of each pair against its negatives in the batch, both ways.

    sum_b sum_n w_bn [margin - s(b, b) + s(b, n)]_+  over captions n that are no caption of image b,
    and the same over images n for caption b. The weights w, held constant, are the mining:

    - ``"sum"``: 1, the SH loss, thesis eq. (3.5);
    - ``"max"``: 1 for the hardest negative alone, the MH loss, thesis eq. (3.6);
    - ``"topk"``: 1 for the ``k`` hardest;
    - ``"softmax"``: softmax of the violation over ``temperature``; towards infinity the mean of SH,
      towards zero MH;
    - ``"semi-hard"``: 1 for the hardest negative that is less similar than the positive.

    Gradients of ``"max"`` and ``"semi-hard"`` run through the chosen pairs alone, O(B D). Half
    precision comes in, float32 comes out. A batch without any negative costs nothing and, on the
    CPU, warns.

    Args:
        images, captions: embeddings (B, D), not normalised; the similarity does what it needs.
        margin: how much more similar a positive must be than a negative.
        similarity: ``"cosine"``; ``"dot"``, images not normalised (VSE0); ``"order"`` or
            ``"order-abs"``; or a Similarity.
        image_ids: (B,) the image of each pair; captions of one image are no negatives of it.
        reduction: ``"sum"`` over batch and directions as in the thesis, or ``"mean"``, that
            sum divided by B.
        negatives: further ones, (images, captions[, image_ids]), Negatives or a NegativeQueue;
            those without ids count as being of other images.
        negative_set_size: each query sees a random subset of its negatives of this size, drawn with
            ``generator`` (figure 3.6).

    >>> images = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> captions = torch.tensor([[1.0, 0.0], [1.0, 1.0]])
    >>> loss = contrastive_hinge_loss(images, captions, mining="max", reduction="sum")
    >>> round(loss.item(), 4)  # the second image is further from its caption than from the first
    0.2
    """
    score = similarity_from_name(similarity)
    chosen_mining = mining_from_name(mining, k=k, temperature=temperature)
    if chosen_mining == TopKHinges(1):
        chosen_mining = MaxOfHinges()
    candidates = gather_candidates(
        images,
        captions,
        similarity=score,
        image_ids=image_ids,
        negatives=negatives_from(negatives),
    )
    caption_subset = image_subset = None
    if negative_set_size is not None:
        everything = slice(0, len(candidates.captions)), slice(0, len(candidates.images))
        caption_subset = random_subsets(
            candidates.excluded(candidates.batch, everything[0]),
            size=negative_set_size,
            generator=generator,
        )
        image_subset = random_subsets(
            candidates.excluded(everything[1], candidates.batch).T,
            size=negative_set_size,
            generator=generator,
        )
    if isinstance(chosen_mining, MaxOfHinges | SemiHardHinges):
        loss = _chosen_hinges(candidates, chosen_mining, margin, caption_subset, image_subset)
    else:
        loss = _weighted_hinges(candidates, chosen_mining, margin, caption_subset, image_subset)
    return _reduce(loss, len(images), reduction)


def _chosen_hinges(
    candidates: Candidates,
    mining: ChoosingMining,
    margin: float,
    caption_subset: Tensor | None,
    image_subset: Tensor | None,
) -> Tensor:
    captions, images = choose_negatives(
        candidates, mining, caption_subset=caption_subset, image_subset=image_subset
    )
    if mining == MaxOfHinges():
        _warn_without_negatives(captions.scores, images.scores)
    positives = candidates.positives().detach()
    to_captions = (margin - positives + captions.scores).relu()
    to_images = (margin - positives + images.scores).relu()
    with_caption, with_image = (to_captions > 0).to(positives), (to_images > 0).to(positives)
    margins = margin * (with_caption + with_image).sum()
    pairs = ChosenPairs(
        own=-(with_caption + with_image),
        caption=captions.index,
        with_caption=with_caption,
        image=images.index,
        with_image=with_image,
        total=to_captions.sum() + to_images.sum() - margins,
    )
    return margins + candidates.similarity.chosen_sum(candidates.images, candidates.captions, pairs)


def _weighted_hinges(
    candidates: Candidates,
    mining: WeightedMining,
    margin: float,
    caption_subset: Tensor | None,
    image_subset: Tensor | None,
) -> Tensor:
    """Linear in the scores wherever a hinge is open: sum_bn a_bn (margin - s_bb + s_bn).

    So the coefficients a are found first, without gradient, and then the sum is taken with it.
    """
    size, batch, extra = candidates.batch_size, candidates.batch, candidates.extra_images
    positives = candidates.positives()
    everything = slice(0, len(candidates.captions))
    with torch.no_grad():
        to_captions = at_least_float32(candidates.negative_scores(batch, everything))
        to_images = to_captions[:, :size]
        if extra.stop > extra.start:
            more = at_least_float32(candidates.negative_scores(extra, batch))
            to_images = torch.cat([to_images, more])

        def coefficients(scores: Tensor, subset: Tensor | None) -> Tensor:
            violations = scores + (margin - positives.detach()[:, None])
            if subset is not None:
                violations.masked_fill_(~subset, -torch.inf)
            return mining.weights(violations).masked_fill_(violations <= 0, 0.0)

        _warn_without_negatives(to_captions, to_images)
        on_captions = coefficients(to_captions, caption_subset)
        on_images = coefficients(to_images.T, image_subset)
        per_pair = on_captions.sum(1) + on_images.sum(1)
        on_captions[:, :size] += on_images[:, :size].T
        beyond = on_images[:, size:].T

    images, captions, score = candidates.images, candidates.captions, candidates.similarity
    loss = (per_pair * (margin - positives)).sum()
    loss = loss + score.weighted_sum(images[batch], captions, on_captions)
    if extra.stop > extra.start:
        loss = loss + score.weighted_sum(images[extra], captions[batch], beyond)
    return loss


def info_nce_loss(
    images: Tensor,
    captions: Tensor,
    *,
    temperature: float | Tensor = 0.05,
    image_ids: Tensor | None = None,
    reduction: Reduction = "mean",
    similarity: SimilarityName | Similarity = "cosine",
    negatives: NegativesLike | None = None,
) -> Tensor:
    """Cross-entropy of finding each pair among its negatives, both ways.

    -sum_b log softmax_n(s(b, n) / temperature)_b over captions n, and the same over images.
    ``"mean"`` divides by the 2 B queries, as CLIP does. Captions of one image are no negatives.

    >>> same = torch.ones(4, 3)
    >>> round(info_nce_loss(same, same, temperature=0.1).exp().item(), 4)
    4.0
    """
    candidates = gather_candidates(
        images,
        captions,
        similarity=similarity_from_name(similarity),
        image_ids=image_ids,
        negatives=negatives_from(negatives),
    )
    batch, extra = candidates.batch, candidates.extra_images
    everything = slice(0, len(candidates.captions))
    to_captions = _positives_and_negatives(candidates, batch, everything)
    to_images = to_captions[:, batch].T
    if extra.stop > extra.start:
        more = _positives_and_negatives(candidates, extra, batch)
        to_images = torch.cat([to_images, more.T], dim=1)
    target = torch.arange(len(images), device=images.device)
    entropies = [
        functional.cross_entropy(scores / temperature, target, reduction="sum")
        for scores in (to_captions, to_images)
    ]
    return _reduce(entropies[0] + entropies[1], 2 * len(images), reduction)


def _positives_and_negatives(candidates: Candidates, rows: slice, columns: slice) -> Tensor:
    scores = candidates.similarity.matrix(candidates.images[rows], candidates.captions[columns])
    if candidates.image_ids is None:
        return at_least_float32(scores)
    excluded = candidates.excluded(rows, columns)
    if rows.start == 0:
        excluded.fill_diagonal_(False)
    return at_least_float32(scores).masked_fill(excluded, -torch.inf)


def _reduce(loss: Tensor, count: int, reduction: Reduction) -> Tensor:
    if reduction == "mean":
        return loss / count
    if reduction == "sum":
        return loss
    raise InputError(f"reduction must be 'mean' or 'sum', but is {reduction!r}")


def _warn_without_negatives(*scores: Tensor) -> None:
    # Looking at the values of a GPU would stall it, so only the CPU is asked.
    if scores[0].device.type == "cpu" and all(bool(one.amax() == -torch.inf) for one in scores):
        warnings.warn(
            "no pair of this batch has a negative (a single pair, or all of one image): its loss "
            "is zero; draw batches from several images",
            stacklevel=4,
        )


class ContrastiveHingeLoss(nn.Module):
    """``contrastive_hinge_loss`` as a module; ``mining`` may be set anew, by a schedule for one.

    >>> loss = ContrastiveHingeLoss(mining="max")
    >>> loss(torch.eye(2), torch.eye(2)).item()
    0.0
    """

    def __init__(
        self,
        *,
        margin: float = 0.2,
        mining: MiningName | Mining = "softmax",
        k: int | None = None,
        temperature: float = 0.1,
        similarity: SimilarityName | Similarity = "cosine",
        reduction: Reduction = "mean",
        negative_set_size: int | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.margin = margin
        self.mining = mining_from_name(mining, k=k, temperature=temperature)
        self.similarity = similarity_from_name(similarity)
        self.reduction: Reduction = reduction
        self.negative_set_size = negative_set_size
        self.generator = generator

    def forward(
        self,
        images: Tensor,
        captions: Tensor,
        image_ids: Tensor | None = None,
        negatives: NegativesLike | None = None,
    ) -> Tensor:
        return contrastive_hinge_loss(
            images,
            captions,
            margin=self.margin,
            mining=self.mining,
            similarity=self.similarity,
            image_ids=image_ids,
            reduction=self.reduction,
            negatives=negatives,
            negative_set_size=self.negative_set_size,
            generator=self.generator,
        )

    def extra_repr(self) -> str:
        return f"margin={self.margin}, mining={self.mining}, similarity={self.similarity}"


class InfoNCELoss(nn.Module):
    """``info_nce_loss`` as a module."""

    def __init__(
        self,
        *,
        temperature: float = 0.05,
        reduction: Reduction = "mean",
        similarity: SimilarityName | Similarity = "cosine",
    ) -> None:
        super().__init__()
        self.temperature = temperature
        self.reduction: Reduction = reduction
        self.similarity = similarity_from_name(similarity)

    def forward(
        self,
        images: Tensor,
        captions: Tensor,
        image_ids: Tensor | None = None,
        negatives: NegativesLike | None = None,
    ) -> Tensor:
        return info_nce_loss(
            images,
            captions,
            temperature=self.temperature,
            image_ids=image_ids,
            reduction=self.reduction,
            similarity=self.similarity,
            negatives=negatives,
        )

    def extra_repr(self) -> str:
        return f"temperature={self.temperature}"
