"""For every query, how many wrong candidates score above its best right one, and how many as much.

One product of images and captions serves both directions and is never kept: block by block, scores
are compared with the right one's and counted. Index letters: i images, j captions.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from strop.retrieval.similarity import Similarity

# Small enough that counting finds the scores of a product still in the cache.
BLOCK_ROWS, BLOCK_COLUMNS = 512, 2048
# A score is a sum of D products; its rounding error stays within a few units in the last place of
# the product of the two lengths. Closer than that, two scores are looked at again in float64.
ROUNDING_UNITS = 8.0


@dataclass(frozen=True)
class Counts:
    """Per query: wrong candidates above the best right one, as good as it, and right ones so good.

    ``tied_right`` is 0 for a query without a right candidate.
    """

    above: Tensor
    tied_wrong: Tensor
    tied_right: Tensor


def count_both_ways(
    images: Tensor, captions: Tensor, image_of_caption: Tensor, *, similarity: Similarity
) -> tuple[Counts, Counts]:
    """Counts of image queries among captions, and of caption queries among images.

    Args:
        images, captions: prepared embeddings, finite, float32 or float64.
        image_of_caption: the image of each caption, -1 for none.
    """
    positive = _positive_scores(images, captions, image_of_caption, similarity)
    best = positive.new_full((len(images),), -torch.inf)
    owned = image_of_caption >= 0
    best.scatter_reduce_(0, image_of_caption[owned], positive[owned], reduce="amax")

    length_i = torch.linalg.vector_norm(images, dim=1).double()
    length_j = torch.linalg.vector_norm(captions, dim=1).double()
    scale_i = length_i * length_j.amax()
    scale_j = length_j * length_i.amax()
    by_image = _Tally.of(best, scale_i, images.dtype)
    by_caption = _Tally.of(positive, scale_j, images.dtype)

    for rows, columns in _blocks(len(images), len(captions)):
        scores = similarity.matrix(images[rows], captions[columns])
        row = image_of_caption[columns] - rows.start
        here = ((row >= 0) & (row < len(scores))).nonzero()[:, 0]
        scores[row[here], here] = -torch.inf
        exact = _Exact(images[rows], captions[columns], similarity, scores.numel())
        by_image.add(rows, scores, exact)
        by_caption.add(columns, scores.T, exact.transposed())

    as_good = (
        positive
        >= best[image_of_caption.clamp(min=0)] - by_image.tolerance[image_of_caption.clamp(min=0)]
    )
    tied_captions = torch.zeros_like(by_image.above)
    tied_captions.index_add_(0, image_of_caption[owned], as_good[owned].long())
    return (
        Counts(by_image.above, by_image.tied, tied_captions),
        Counts(by_caption.above, by_caption.tied, owned.long()),
    )


def _positive_scores(
    images: Tensor, captions: Tensor, image_of_caption: Tensor, similarity: Similarity
) -> Tensor:
    """s of each caption with its image in float64, -inf where it has none."""
    scores = torch.full((len(captions),), -torch.inf, dtype=torch.float64, device=images.device)
    owned = (image_of_caption >= 0).nonzero()[:, 0]
    for part in owned.split(BLOCK_COLUMNS):
        partners = images[image_of_caption[part]].double()
        scores[part] = similarity.pairs(partners, captions[part].double())
    return scores


def _blocks(rows: int, columns: int) -> Iterator[tuple[slice, slice]]:
    for top in range(0, rows, BLOCK_ROWS):
        for left in range(0, columns, BLOCK_COLUMNS):
            yield (
                slice(top, min(top + BLOCK_ROWS, rows)),
                slice(left, min(left + BLOCK_COLUMNS, columns)),
            )


@dataclass(frozen=True)
class _Exact:
    """Scores of a block once more, in float64, where float32 could not tell."""

    images: Tensor
    captions: Tensor
    similarity: Similarity
    elements: int
    swapped: bool = False

    def transposed(self) -> "_Exact":
        return _Exact(self.images, self.captions, self.similarity, self.elements, not self.swapped)

    def at(self, queries: Tensor, others: Tensor) -> Tensor:
        rows, columns = (others, queries) if self.swapped else (queries, others)
        # When nearly all scores are alike (a collapsed model), a product is cheaper than pairs.
        if 64 * len(rows) > self.elements:
            whole = self.similarity.matrix(self.images.double(), self.captions.double())
            return whole[rows, columns]
        parts = zip(rows.split(BLOCK_COLUMNS), columns.split(BLOCK_COLUMNS), strict=True)
        pairs = [
            self.similarity.pairs(self.images[i].double(), self.captions[j].double())
            for i, j in parts
        ]
        return torch.cat(pairs) if pairs else self.images.new_zeros(0, dtype=torch.float64)


@dataclass(frozen=True)
class _Tally:
    """Running counts of one direction against a threshold per query."""

    threshold: Tensor  # the exact score of the best right candidate
    tolerance: Tensor  # below it, float64 scores count as equal
    low: Tensor  # between low and high, scores are looked at again
    high: Tensor
    above: Tensor
    tied: Tensor

    @staticmethod
    def of(threshold: Tensor, scale: Tensor, dtype: torch.dtype) -> "_Tally":
        band = ROUNDING_UNITS * torch.finfo(dtype).eps * scale
        # A query with no right candidate must count nothing.
        threshold = threshold.masked_fill(threshold == -torch.inf, torch.inf)
        zeros = torch.zeros(len(threshold), dtype=torch.int64, device=threshold.device)
        return _Tally(
            threshold=threshold,
            tolerance=ROUNDING_UNITS * torch.finfo(torch.float64).eps * scale,
            low=(threshold - band).to(dtype),
            high=(threshold + band).to(dtype),
            above=zeros,
            tied=zeros.clone(),
        )

    def add(self, queries: slice, scores: Tensor, exact: _Exact) -> None:
        """Count a block (queries, candidates) whose right candidates stand at -inf."""
        low, high = self.low[queries, None], self.high[queries, None]
        surely_above = (scores > high).sum(1)
        self.above[queries] += surely_above
        open_rows = ((scores >= low).sum(1) > surely_above).nonzero()[:, 0]
        near = scores[open_rows]
        unsure = (near >= low[open_rows]) & (near <= high[open_rows])
        row, other = unsure.nonzero(as_tuple=True)
        query = open_rows[row]
        difference = exact.at(query, other) - self.threshold[queries][query]
        tolerance = self.tolerance[queries][query]
        self.above[queries].index_add_(0, query, (difference > tolerance).long())
        self.tied[queries].index_add_(0, query, (difference.abs() <= tolerance).long())
