"""The losses written out densely, slow and obvious, for the fast ones to be held against."""

import torch
from torch import Tensor
from torch.nn import functional


def scores(images: Tensor, captions: Tensor, similarity: str) -> Tensor:
    if similarity == "cosine":
        return functional.normalize(images, dim=1) @ functional.normalize(captions, dim=1).T
    if similarity == "dot":
        return images @ functional.normalize(captions, dim=1).T
    images, captions = functional.normalize(images, dim=1), functional.normalize(captions, dim=1)
    if similarity == "order-abs":
        images, captions = images.abs(), captions.abs()
    return -(captions[None] - images[:, None]).clamp(min=0).pow(2).sum(-1)


def hinge_loss(
    images: Tensor,
    captions: Tensor,
    *,
    mining: str,
    similarity: str = "cosine",
    margin: float = 0.2,
    k: int | None = None,
    temperature: float = 0.1,
    image_ids: Tensor | None = None,
    extra: tuple[Tensor, Tensor, Tensor] | None = None,
) -> Tensor:
    """Query by query, negative by negative; summed over the batch and both directions."""
    size = len(images)
    ids = torch.arange(size) if image_ids is None else image_ids
    all_images, all_captions, all_ids = images, captions, ids
    if extra is not None:
        all_images = torch.cat([images, extra[0]])
        all_captions = torch.cat([captions, extra[1]])
        all_ids = torch.cat([ids, extra[2]])
    table = scores(all_images, all_captions, similarity)
    total = table.new_zeros(())
    for query in range(size):
        positive = table[query, query]
        others = [other for other in range(len(all_ids)) if all_ids[other] != ids[query]]
        if not others:
            continue
        for row in (table[query, others], table[others, query]):
            total = total + _query_loss(row, positive, mining, margin, k, temperature)
    return total


def _query_loss(
    negatives: Tensor,
    positive: Tensor,
    mining: str,
    margin: float,
    k: int | None,
    temperature: float,
) -> Tensor:
    violations = margin - positive + negatives
    hinges = violations.clamp(min=0)
    if mining == "sum":
        return hinges.sum()
    if mining == "max":
        return hinges.max()
    if mining == "topk":
        return hinges.sort(descending=True).values[:k].sum()
    if mining == "softmax":
        return (hinges * (violations.detach() / temperature).softmax(0)).sum()
    if mining == "semi-hard":
        easier = negatives < positive
        return hinges[easier].max() if easier.any() else hinges.new_zeros(())
    raise ValueError(mining)
