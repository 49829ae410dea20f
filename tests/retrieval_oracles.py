"""Losses and ranks written out, slow and obvious, for the fast ones to be held against."""

import itertools
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional


def embeddings(size: int, dimension: int = 5, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    images = torch.randn(size, dimension, generator=generator, dtype=torch.float64)
    noise = torch.randn(size, dimension, generator=generator, dtype=torch.float64)
    return images.requires_grad_(), (images.detach() + noise).requires_grad_()


def gradients(loss: Tensor, *inputs: Tensor) -> list[Tensor]:
    return list(torch.autograd.grad(loss, inputs))


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


def published_ranks(images: np.ndarray, captions: np.ndarray, each: int = 5) -> tuple[Any, Any]:
    """Ranks from 0 by one argsort a query, ``each`` captions an image, as is common in print."""
    from_images = np.zeros(len(images))
    for i, image in enumerate(images):
        order = np.argsort(captions @ image)[::-1]
        places = [np.where(order == j)[0][0] for j in range(each * i, each * i + each)]
        from_images[i] = min(places)
    from_captions = np.zeros(len(captions))
    for j, caption in enumerate(captions):
        order = np.argsort(images @ caption)[::-1]
        from_captions[j] = np.where(order == j // each)[0][0]
    return from_images, from_captions


def expected_first_ranks(scores: np.ndarray, right: np.ndarray) -> list[list[int]]:
    """For each query (row) the rank of the first right candidate in every order of all candidates
    that the scores allow, each order once for every way to get there."""
    outcomes = []
    for row, truth in zip(scores, right, strict=True):
        ranks = []
        for priority in itertools.permutations(range(len(row))):
            order = sorted(range(len(row)), key=lambda n: (-row[n], priority[n]))
            ranks.append(1 + min(place for place, n in enumerate(order) if truth[n]))
        outcomes.append(ranks)
    return outcomes
