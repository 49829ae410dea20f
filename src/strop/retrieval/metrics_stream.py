"""Metrics gathered batch by batch, and the comparison of two models on the same queries."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from strop.retrieval.metrics import RankedQueries, RetrievalScores, retrieval_metrics
from strop.retrieval.similarity import Similarity, SimilarityName
from strop.support import InputError


class RetrievalMetrics:
    """``retrieval_metrics`` of batches as they come: ``update``, then ``compute``.

    An image that comes again (once with each of its captions) is kept once, as it came first.

    >>> metrics = RetrievalMetrics(ks=(1,))
    >>> for ids in ([7, 8], [8, 9]):
    ...     batch = torch.eye(10)[ids]
    ...     metrics.update(batch, batch, image_ids=torch.tensor(ids))
    >>> metrics.compute().image_to_text.n_queries, metrics.compute().text_to_image.n_queries
    (3, 4)
    """

    def __init__(
        self,
        *,
        similarity: SimilarityName | Similarity = "cosine",
        folds: int | None = None,
        ks: Sequence[int] = (1, 5, 10),
    ) -> None:
        self.similarity = similarity
        self.folds = folds
        self.ks = tuple(ks)
        self.reset()

    def reset(self) -> None:
        """Forget all batches."""
        self._images: list[Tensor] = []
        self._captions: list[Tensor] = []
        self._row_of_image: dict[int, int] = {}
        self._caption_ids: list[int] = []

    def update(
        self,
        images: Tensor | None = None,
        captions: Tensor | None = None,
        *,
        image_ids: Tensor | Sequence[int],
    ) -> None:
        """Add embeddings (B, D) of images, of captions or of both; row b is of ``image_ids[b]``."""
        ids = [int(one) for one in image_ids]
        for name, rows in (("images", images), ("captions", captions)):
            if rows is not None and (rows.ndim != 2 or len(rows) != len(ids)):
                raise InputError(
                    f"expected {name} of shape ({len(ids)}, D), one row for each of image_ids, "
                    f"but got {tuple(rows.shape)}"
                )
        if images is not None:
            fresh = []
            for row, one in enumerate(ids):
                if one not in self._row_of_image:
                    self._row_of_image[one] = len(self._row_of_image)
                    fresh.append(row)
            self._images.append(images.detach()[fresh])
        if captions is not None:
            self._captions.append(captions.detach().clone())
            self._caption_ids.extend(ids)

    def compute(self) -> RetrievalScores:
        """The metrics of everything since the last reset; captions of unseen images are skipped."""
        if not self._images or not self._captions:
            raise InputError("expected images and captions before compute(): call update() first")
        owners = [self._row_of_image.get(one, -1) for one in self._caption_ids]
        return retrieval_metrics(
            torch.cat(self._images),
            torch.cat(self._captions),
            owners,
            similarity=self.similarity,
            folds=self.folds,
            ks=self.ks,
        )


@dataclass(frozen=True)
class RecallDifference:
    """Recall of the first model less that of the second, in percentage points."""

    difference: float
    low: float
    high: float
    confidence: float

    @property
    def decided(self) -> bool:
        """Whether the interval leaves zero out."""
        return self.low > 0 or self.high < 0


def compare_recall(
    first: RetrievalScores,
    second: RetrievalScores,
    *,
    k: int = 1,
    direction: Literal["image_to_text", "text_to_image"] = "image_to_text",
    confidence: float = 0.95,
    samples: int = 10_000,
    generator: torch.Generator | None = None,
) -> RecallDifference:
    """Paired bootstrap of R@k of two models over the same test images.

    Images are drawn with replacement, each with all its queries: the captions of one image are
    alike, so drawing them singly would make the interval too narrow.

    >>> eye, order = torch.eye(20), torch.arange(20)
    >>> good = retrieval_metrics(eye, eye, order)
    >>> bad = retrieval_metrics(eye, eye.roll(1, 0), order)
    >>> compare_recall(good, bad)
    RecallDifference(difference=100.0, low=100.0, high=100.0, confidence=0.95)
    """
    if direction not in ("image_to_text", "text_to_image"):
        raise InputError(
            f"direction must be 'image_to_text' or 'text_to_image', but is {direction!r}"
        )
    if not 0 < confidence < 1 or samples < 1:
        raise InputError(
            f"expected 0 < confidence < 1 and samples >= 1, but got {confidence} and {samples}"
        )
    one: RankedQueries = getattr(first, direction)
    other: RankedQueries = getattr(second, direction)
    if not np.array_equal(one.queries, other.queries) or not np.array_equal(
        one.images, other.images
    ):
        raise InputError(
            f"expected two models ranked on the same queries, but they have {one.n_queries} and "
            f"{other.n_queries} that differ: evaluate both on one test set"
        )
    if not one.n_queries:
        raise InputError("expected at least one query to compare, but all were skipped")
    gain = one.hits(k) - other.hits(k)
    _, group = np.unique(one.images, return_inverse=True)
    totals = np.stack([np.bincount(group, weights=gain), np.bincount(group)], axis=1)
    # A resample only matters by how often each kind of image is in it, and kinds are few.
    kinds, multiplicity = np.unique(totals, axis=0, return_counts=True)
    source = torch.randint(2**62, (), generator=generator).item()
    draws = np.random.default_rng(int(source)).multinomial(
        len(totals), multiplicity / len(totals), size=samples
    )
    resampled = draws @ kinds
    differences = 100 * resampled[:, 0] / resampled[:, 1]
    tail = 50 * (1 - confidence)
    low, high = np.percentile(differences, [tail, 100 - tail])
    return RecallDifference(100 * float(gain.mean()), float(low), float(high), confidence)
