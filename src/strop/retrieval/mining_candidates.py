"""What each query of a batch is ranked against, and the search for its hardest negative.

The first B rows of images and of captions are the batch, row b of one being the positive of row b
of the other; the rows behind are further negatives.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from strop.retrieval.mining import ChoosingMining
from strop.retrieval.queue import Negatives
from strop.retrieval.similarity import Similarity
from strop.support import InputError


@dataclass(frozen=True)
class Candidates:
    """Prepared embeddings of a batch and of the negatives beyond it."""

    images: Tensor
    captions: Tensor
    batch_size: int
    image_ids: Tensor | None
    caption_ids: Tensor | None
    similarity: Similarity

    @property
    def batch(self) -> slice:
        return slice(0, self.batch_size)

    @property
    def extra_images(self) -> slice:
        return slice(self.batch_size, len(self.images))

    def positives(self) -> Tensor:
        """s(b, b), with gradient."""
        return self.similarity.pairs(self.images[self.batch], self.captions[self.batch])

    def excluded(self, rows: slice, columns: slice) -> Tensor:
        """Which images and captions belong together, so that neither is a negative of the other."""
        if self.image_ids is not None and self.caption_ids is not None:
            return self.image_ids[rows, None] == self.caption_ids[columns]
        device = self.images.device
        first = torch.arange(rows.start, rows.stop, device=device)
        second = torch.arange(columns.start, columns.stop, device=device)
        return first[:, None] == second

    def negative_scores(self, rows: slice, columns: slice) -> Tensor:
        """Scores of a block, -inf where a pair belongs together. Not differentiable."""
        with torch.no_grad():
            scores = self.similarity.matrix(self.images[rows], self.captions[columns])
            if self.image_ids is None and columns.start == 0:
                scores.diagonal(rows.start).fill_(-torch.inf)
                return scores
            return scores.masked_fill_(self.excluded(rows, columns), -torch.inf)


def gather_candidates(
    images: Tensor,
    captions: Tensor,
    *,
    similarity: Similarity,
    image_ids: Tensor | None,
    negatives: Negatives | None,
) -> Candidates:
    """Check a batch and its further negatives, prepare and join them."""
    if images.ndim != 2 or images.shape != captions.shape or not len(images):
        raise InputError(
            "expected image and caption embeddings of one shape (B, D), row b of one belonging to "
            f"row b of the other, but got {tuple(images.shape)} and {tuple(captions.shape)}"
        )
    size = len(images)
    if image_ids is not None:
        image_ids = torch.as_tensor(image_ids, device=images.device)
        if image_ids.shape != (size,):
            raise InputError(
                f"expected image_ids of shape ({size},), one for each pair of the batch, "
                f"but got {tuple(image_ids.shape)}"
            )
    all_images, all_captions = images, captions
    all_image_ids = all_caption_ids = image_ids
    if negatives is not None:
        if negatives.images.shape[1:] != images.shape[1:] or (
            negatives.captions.shape[1:] != images.shape[1:]
        ):
            raise InputError(
                f"expected negatives of the batch's dimension {images.shape[1]}, but images have "
                f"{negatives.images.shape[1]} and captions {negatives.captions.shape[1]}"
            )
        if image_ids is None and negatives.image_ids is not None:
            raise InputError("negatives have ids, but the batch has none: pass image_ids too")
        all_images = torch.cat([images, negatives.images.to(images)])
        all_captions = torch.cat([captions, negatives.captions.to(captions)])
        if image_ids is not None:
            all_image_ids = _with_more_ids(image_ids, negatives.image_ids, len(negatives.images))
            all_caption_ids = _with_more_ids(
                image_ids, negatives.caption_ids, len(negatives.captions)
            )
    return Candidates(
        images=similarity.prepare_images(all_images),
        captions=similarity.prepare_captions(all_captions),
        batch_size=size,
        image_ids=all_image_ids,
        caption_ids=all_caption_ids,
        similarity=similarity,
    )


def _with_more_ids(ids: Tensor, more: Tensor | None, count: int) -> Tensor:
    # Negatives without ids are of no image of the batch: theirs is one that it has not.
    extra = (ids.max() + 1).expand(count) if more is None else more.to(ids)
    return torch.cat([ids, extra])


def random_subsets(excluded: Tensor, *, size: int, generator: torch.Generator | None) -> Tensor:
    """For each row, ``size`` of the columns that are not excluded (all if they are fewer).

    >>> excluded = torch.eye(4, dtype=torch.bool)
    >>> random_subsets(excluded, size=2, generator=None).sum(1).tolist()
    [2, 2, 2, 2]
    """
    if size < 1:
        raise InputError(f"expected a negative_set_size of at least 1, but got {size}")
    source = excluded.device if generator is None else generator.device
    keys = torch.rand(excluded.shape, generator=generator, device=source).to(excluded.device)
    keys = keys.masked_fill_(excluded, -1.0)
    chosen = keys.topk(min(size, keys.shape[1]), dim=1).indices
    return torch.zeros_like(excluded).scatter_(1, chosen, True) & ~excluded


@dataclass(frozen=True)
class Choice:
    """One candidate per query and its score, -inf where the query has no negative to choose."""

    index: Tensor
    scores: Tensor


@torch.no_grad()
def choose_negatives(
    candidates: Candidates,
    mining: ChoosingMining,
    *,
    positives: Tensor,
    caption_subset: Tensor | None = None,
    image_subset: Tensor | None = None,
) -> tuple[Choice, Choice]:
    """For every image its hardest caption, and for every caption its hardest image.

    One product of images and captions, taken in blocks of rows and never kept: memory for b rows.
    A subset (queries, candidates) says which negatives each query may see.
    """
    size, batch = candidates.batch_size, candidates.batch
    everything = slice(0, len(candidates.captions))
    by_rows: list[Choice] = []
    images: Choice | None = None
    for rows in _row_blocks(candidates, batch):
        scores = candidates.negative_scores(rows, everything)
        eligible = mining.eligible(scores, positives[rows, None])
        if caption_subset is not None:
            eligible = eligible.masked_fill(~caption_subset[rows], -torch.inf)
        hardest = eligible.max(dim=1)
        by_rows.append(Choice(hardest.indices, hardest.values))
        images = _harder(
            images, _hardest_images(scores[:, :size], rows, mining, positives, image_subset)
        )
    for rows in _row_blocks(candidates, candidates.extra_images):
        scores = candidates.negative_scores(rows, batch)
        images = _harder(images, _hardest_images(scores, rows, mining, positives, image_subset))
    assert images is not None
    captions = Choice(
        torch.cat([one.index for one in by_rows]), torch.cat([one.scores for one in by_rows])
    )
    if captions.scores.dtype != positives.dtype:
        return _refined(candidates, captions, images)
    return captions, images


def _hardest_images(
    scores: Tensor, rows: slice, mining: ChoosingMining, positives: Tensor, subset: Tensor | None
) -> Choice:
    """For every caption (column) the hardest of the images in these rows."""
    eligible = mining.eligible(scores, positives)
    if subset is not None:
        eligible = eligible.masked_fill(~subset[:, rows].T, -torch.inf)
    hardest = eligible.max(dim=0)
    return Choice(hardest.indices + rows.start, hardest.values)


def _harder(first: Choice | None, second: Choice) -> Choice:
    if first is None:
        return second
    # Written so that a NaN, greater than nothing, is taken over and stays.
    kept = second.scores <= first.scores
    return Choice(
        torch.where(kept, first.index, second.index), torch.where(kept, first.scores, second.scores)
    )


def _refined(candidates: Candidates, captions: Choice, images: Choice) -> tuple[Choice, Choice]:
    """Choices made in half precision, their scores in float32."""
    score, batch = candidates.similarity, candidates.batch
    fine = (
        score.pairs(candidates.images[batch], candidates.captions.index_select(0, captions.index)),
        score.pairs(candidates.images.index_select(0, images.index), candidates.captions[batch]),
    )
    return (
        Choice(captions.index, torch.where(captions.scores == -torch.inf, -torch.inf, fine[0])),
        Choice(images.index, torch.where(images.scores == -torch.inf, -torch.inf, fine[1])),
    )


def _row_blocks(candidates: Candidates, rows: slice) -> Iterator[slice]:
    """Consecutive slices of image rows whose scores stay near the cache (or fill a GPU)."""
    elements = 2**19 if candidates.images.device.type == "cpu" else 2**26
    step = max(1, elements // len(candidates.captions))
    for start in range(rows.start, rows.stop, step):
        yield slice(start, min(start + step, rows.stop))
