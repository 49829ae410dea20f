"""The hinges behind the ranking loss, summed over a batch and both directions.

Index letters: b the batch, n its candidates.
"""

import warnings

import torch
from torch import Tensor

from strop.retrieval.mining import ChoosingMining, MaxOfHinges, WeightedMining
from strop.retrieval.mining_candidates import Candidates, choose_negatives
from strop.retrieval.similarity import at_least_float32
from strop.retrieval.similarity_pairs import ChosenPairs


def chosen_hinges(
    candidates: Candidates,
    mining: ChoosingMining,
    margin: float,
    caption_subset: Tensor | None,
    image_subset: Tensor | None,
) -> Tensor:
    """One hinge per query, against the negative that the mining chooses."""
    positives = candidates.positives().detach()
    captions, images = choose_negatives(
        candidates,
        mining,
        positives=positives,
        caption_subset=caption_subset,
        image_subset=image_subset,
    )
    if mining == MaxOfHinges():
        _warn_without_negatives(captions.scores, images.scores)
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


def weighted_hinges(
    candidates: Candidates,
    mining: WeightedMining,
    margin: float,
    caption_subset: Tensor | None,
    image_subset: Tensor | None,
) -> Tensor:
    """Hinges of all negatives, weighted by the mining.

    An open hinge is linear in the scores: sum_bn a_bn (margin - s_bb + s_bn). So the coefficients a
    are found first, without gradient, and then the sum is taken with it.
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


def _warn_without_negatives(*scores: Tensor) -> None:
    # Looking at the values of a GPU would stall it, so only the CPU is asked.
    if scores[0].device.type == "cpu" and all(bool(one.amax() == -torch.inf) for one in scores):
        warnings.warn(
            "no pair of this batch has a negative (a single pair, or all of one image): its loss "
            "is zero; draw batches from several images",
            stacklevel=4,
        )
