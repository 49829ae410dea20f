"""Ranking losses for a joint space of images and captions.

Index letters: b the batch; row b of the images belongs to row b of the captions.
"""

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from strop.retrieval.losses_hinges import chosen_hinges, weighted_hinges
from strop.retrieval.mining import (
    MaxOfHinges,
    Mining,
    MiningName,
    SemiHardHinges,
    TopKHinges,
    mining_from_name,
)
from strop.retrieval.mining_candidates import Candidates, gather_candidates, random_subsets
from strop.retrieval.mining_gathered import with_other_processes
from strop.retrieval.queue import NegativesLike, negatives_from
from strop.retrieval.similarity import (
    Similarity,
    SimilarityName,
    at_least_float32,
    similarity_from_name,
)
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
    gather: bool = False,
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
        gather: take the batches of all other processes as negatives too. The mean over processes of
            the losses, and of the gradients, is then that of one process with the whole batch.

    >>> images = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> captions = torch.tensor([[1.0, 0.0], [1.0, 1.0]])
    >>> loss = contrastive_hinge_loss(images, captions, mining="max", reduction="sum")
    >>> round(loss.item(), 4)  # to the second caption the first image is as near as its own
    0.2
    """
    score = similarity_from_name(similarity)
    chosen_mining = mining_from_name(mining, k=k, temperature=temperature)
    if chosen_mining == TopKHinges(1):
        chosen_mining = MaxOfHinges()
    extra, processes = negatives_from(negatives), 1
    if gather:
        extra, processes = with_other_processes(images, captions, image_ids, extra)
    candidates = gather_candidates(
        images, captions, similarity=score, image_ids=image_ids, negatives=extra
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
        loss = chosen_hinges(candidates, chosen_mining, margin, caption_subset, image_subset)
    else:
        loss = weighted_hinges(candidates, chosen_mining, margin, caption_subset, image_subset)
    return _reduce(loss, len(images), reduction, processes)


def info_nce_loss(
    images: Tensor,
    captions: Tensor,
    *,
    temperature: float | Tensor = 0.05,
    image_ids: Tensor | None = None,
    reduction: Reduction = "mean",
    similarity: SimilarityName | Similarity = "cosine",
    negatives: NegativesLike | None = None,
    gather: bool = False,
) -> Tensor:
    """Cross-entropy of finding each pair among its negatives, both ways.

    -sum_b log softmax_n(s(b, n) / temperature)_b over captions n, and the same over images.
    ``"mean"`` divides by the 2 B queries, as CLIP does. Captions of one image are no negatives.
    ``negatives`` and ``gather`` as in ``contrastive_hinge_loss``.

    >>> same = torch.ones(4, 3)
    >>> round(info_nce_loss(same, same, temperature=0.1).exp().item(), 4)
    4.0
    """
    extra_negatives, processes = negatives_from(negatives), 1
    if gather:
        extra_negatives, processes = with_other_processes(
            images, captions, image_ids, extra_negatives
        )
    candidates = gather_candidates(
        images,
        captions,
        similarity=similarity_from_name(similarity),
        image_ids=image_ids,
        negatives=extra_negatives,
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
    return _reduce(entropies[0] + entropies[1], 2 * len(images), reduction, processes)


def _positives_and_negatives(candidates: Candidates, rows: slice, columns: slice) -> Tensor:
    scores = candidates.similarity.matrix(candidates.images[rows], candidates.captions[columns])
    if candidates.image_ids is None:
        return at_least_float32(scores)
    excluded = candidates.excluded(rows, columns)
    if rows.start == 0:
        excluded.fill_diagonal_(False)
    return at_least_float32(scores).masked_fill(excluded, -torch.inf)


def _reduce(loss: Tensor, count: int, reduction: Reduction, processes: int) -> Tensor:
    if reduction == "mean":
        return loss / count
    if reduction == "sum":
        return loss * processes  # so that the mean over processes is the sum over all
    raise InputError(f"reduction must be 'mean' or 'sum', but is {reduction!r}")


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
        gather: bool = False,
    ) -> None:
        super().__init__()
        self.margin = margin
        self.mining = mining_from_name(mining, k=k, temperature=temperature)
        self.similarity = similarity_from_name(similarity)
        self.reduction: Reduction = reduction
        self.negative_set_size = negative_set_size
        self.generator = generator
        self.gather = gather

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
            gather=self.gather,
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
        gather: bool = False,
    ) -> None:
        super().__init__()
        self.temperature = temperature
        self.reduction: Reduction = reduction
        self.similarity = similarity_from_name(similarity)
        self.gather = gather

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
            gather=self.gather,
        )

    def extra_repr(self) -> str:
        return f"temperature={self.temperature}"
