"""For every query, how many wrong candidates score above its best right one, and how many as much.

One product of images and captions serves both directions and is never kept: block by block, scores
are compared with the right one's and counted. Index letters: i images, j captions.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from strop.retrieval.similarity import Similarity, at_least_float32

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


@dataclass(frozen=True)
class Rows:
    """Embeddings, all or those at ``index``, prepared for the score when they are asked for."""

    values: Tensor
    prepare: Callable[[Tensor], Tensor]
    index: Tensor | None = None

    def __len__(self) -> int:
        return len(self.values if self.index is None else self.index)

    def block(self, rows: slice) -> Tensor:
        """In the precision they came in, at least float32."""
        return self.prepare(at_least_float32(self._take(rows)))

    def exact(self, rows: slice | Tensor) -> Tensor:
        return self.prepare(self._take(rows).double())

    def lengths(self) -> Tensor:
        parts = _slices(len(self), BLOCK_COLUMNS)
        norm = torch.linalg.vector_norm
        return torch.cat([norm(self.block(part), dim=1) for part in parts]).double()

    def _take(self, rows: slice | Tensor) -> Tensor:
        return self.values[rows if self.index is None else self.index[rows]]


def count_both_ways(
    images: Rows, captions: Rows, image_of_caption: Tensor, *, similarity: Similarity
) -> tuple[Counts, Counts]:
    """Counts of image queries among captions, and of caption queries among images.

    ``image_of_caption`` is the image of each caption, -1 for none.
    """
    owned = image_of_caption >= 0
    positive = _positive_scores(images, captions, image_of_caption, similarity)
    best = positive.new_full((len(images),), -torch.inf)
    best.scatter_reduce_(0, image_of_caption[owned], positive[owned], reduce="amax")

    length_i, length_j = images.lengths(), captions.lengths()
    dtype = torch.promote_types(images.values.dtype, torch.float32)
    by_image = _Tally.of(best, length_i * length_j.amax(), dtype)
    by_caption = _Tally.of(positive, length_j * length_i.amax(), dtype)

    for columns in _slices(len(captions), BLOCK_COLUMNS):
        some_captions = captions.block(columns)
        for rows in _slices(len(images), BLOCK_ROWS):
            scores = similarity.matrix(images.block(rows), some_captions)
            row = image_of_caption[columns] - rows.start
            here = ((row >= 0) & (row < len(scores))).nonzero()[:, 0]
            scores[row[here], here] = -torch.inf
            exact = _Exact(images, rows, captions, columns, similarity)
            by_image.add(rows, scores, exact.at)
            by_caption.add(columns, scores.T, exact.at_swapped)

    owner = image_of_caption.clamp(min=0)
    as_good = positive >= best[owner] - by_image.tolerance[owner]
    tied_captions = torch.zeros_like(by_image.above)
    tied_captions.index_add_(0, image_of_caption[owned], as_good[owned].long())
    return (
        Counts(by_image.above, by_image.tied, tied_captions),
        Counts(by_caption.above, by_caption.tied, owned.long()),
    )


def _slices(length: int, step: int) -> Iterator[slice]:
    for start in range(0, length, step):
        yield slice(start, min(start + step, length))


def _positive_scores(
    images: Rows, captions: Rows, image_of_caption: Tensor, similarity: Similarity
) -> Tensor:
    """s of each caption with its image in float64, -inf where it has none."""
    device = image_of_caption.device
    scores = torch.full((len(captions),), -torch.inf, dtype=torch.float64, device=device)
    owned = (image_of_caption >= 0).nonzero()[:, 0]
    for part in owned.split(BLOCK_COLUMNS):
        partners = images.exact(image_of_caption[part])
        scores[part] = similarity.pairs(partners, captions.exact(part))
    return scores


@dataclass(frozen=True)
class _Exact:
    """Scores of a block once more, in float64, where a product could not tell."""

    images: Rows
    rows: slice
    captions: Rows
    columns: slice
    similarity: Similarity

    def at_swapped(self, j: Tensor, i: Tensor) -> Tensor:
        return self.at(i, j)

    def at(self, i: Tensor, j: Tensor) -> Tensor:
        height, width = self.rows.stop - self.rows.start, self.columns.stop - self.columns.start
        # When nearly all scores are alike (a collapsed model), a product is cheaper than pairs.
        if 64 * len(i) > height * width:
            images, captions = self.images.exact(self.rows), self.captions.exact(self.columns)
            return self.similarity.matrix(images, captions)[i, j]
        scores = torch.empty(len(i), dtype=torch.float64, device=i.device)
        for part in _slices(len(i), BLOCK_COLUMNS):
            images = self.images.exact(i[part] + self.rows.start)
            captions = self.captions.exact(j[part] + self.columns.start)
            scores[part] = self.similarity.pairs(images, captions)
        return scores


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

    def add(
        self, queries: slice, scores: Tensor, exact: Callable[[Tensor, Tensor], Tensor]
    ) -> None:
        """Count a block (queries, candidates) whose right candidates stand at -inf."""
        low, high = self.low[queries, None], self.high[queries, None]
        surely_above = (scores > high).sum(1)
        self.above[queries] += surely_above
        open_rows = ((scores >= low).sum(1) > surely_above).nonzero()[:, 0]
        near = scores[open_rows]
        unsure = (near >= low[open_rows]) & (near <= high[open_rows])
        row, other = unsure.nonzero(as_tuple=True)
        query = open_rows[row]
        difference = exact(query, other) - self.threshold[queries][query]
        tolerance = self.tolerance[queries][query]
        self.above[queries].index_add_(0, query, (difference > tolerance).long())
        self.tied[queries].index_add_(0, query, (difference.abs() <= tolerance).long())
