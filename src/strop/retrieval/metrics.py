"""How well images find their captions and captions their images: recall at k, median and mean rank.

Index letters: i images, j captions, q queries of one direction.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from strop.retrieval.metrics_counts import Counts, Rows, count_both_ways
from strop.retrieval.similarity import (
    Similarity,
    SimilarityName,
    similarity_from_name,
)
from strop.support import InputError, require

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class RankedQueries:
    """The ranks in one direction; ties count as the expectation over breaking them at random.

    Of a query's candidates, ``above`` wrong ones score higher than the best right one, and
    ``tied_wrong`` as high; ``tied_right`` right ones are that good. The first right one is at place
    above + X, where P(X > x) = C(tied_wrong, x) / C(tied_wrong + tied_right, x).
    """

    queries: Array  # which images or captions were asked, those with a right answer
    images: Array  # the image each query belongs to
    folds: Array  # the fold each query was ranked in
    above: Array
    tied_wrong: Array
    tied_right: Array
    skipped: int  # queries without a right answer, left out
    ks: tuple[int, ...]

    @property
    def n_queries(self) -> int:
        return len(self.queries)

    @property
    def ranks(self) -> Array:
        """Expected rank of the first right answer, from 1; fractional where scores are tied."""
        tied = self.tied_wrong + self.tied_right
        return self.above + (tied + 1) / (self.tied_right + 1)

    def hits(self, k: int) -> Array:
        """The probability of each query to have a right answer among its first ``k``."""
        missed = np.ones(self.n_queries)
        for place in range(k):
            drawn = place - self.above  # how many of the tied were looked at before this place
            wrong_left = np.clip(self.tied_wrong - drawn, 0, None)
            chance = wrong_left / np.maximum(wrong_left + self.tied_right, 1)
            missed *= np.where(drawn >= 0, chance, 1.0)
        return 1.0 - missed

    @property
    def recall(self) -> dict[int, float]:
        """R@k in percent, averaged over folds."""
        return {k: 100 * self._over_folds(self.hits(k), np.mean) for k in self.ks}

    @property
    def median_rank(self) -> float:
        """The median rank rounded down, as it is published; averaged over folds."""
        return self._over_folds(self.ranks, lambda ranks: np.floor(np.median(ranks)))

    @property
    def mean_rank(self) -> float:
        """The mean rank, averaged over folds."""
        return self._over_folds(self.ranks, np.mean)

    def _over_folds(self, values: Array, statistic: Any) -> float:
        if not len(values):
            return float("nan")
        return float(np.mean([statistic(values[self.folds == f]) for f in np.unique(self.folds)]))

    def to_dict(self) -> dict[str, Any]:
        """The numbers as JSON values, None where there was no query."""
        empty = not self.n_queries
        return {
            "recall": {str(k): None if empty else value for k, value in self.recall.items()},
            "median_rank": None if empty else self.median_rank,
            "mean_rank": None if empty else self.mean_rank,
            "queries": self.n_queries,
            "skipped": self.skipped,
        }


@dataclass(frozen=True)
class RetrievalScores:
    """Both directions of retrieval; ``rsum`` is the sum of all recalls, which picks a snapshot."""

    image_to_text: RankedQueries
    text_to_image: RankedQueries

    @property
    def rsum(self) -> float:
        return sum(self.image_to_text.recall.values()) + sum(self.text_to_image.recall.values())

    def to_dict(self) -> dict[str, Any]:
        """The numbers as JSON values."""
        directions = (self.image_to_text, self.text_to_image)
        return {
            "image_to_text": self.image_to_text.to_dict(),
            "text_to_image": self.text_to_image.to_dict(),
            "rsum": self.rsum if all(one.n_queries for one in directions) else None,
            "folds": len(np.unique(np.concatenate([one.folds for one in directions]))),
        }

    def to_pandas(self) -> Any:
        """A row for each direction, a column for each number."""
        pandas = require("pandas", extra="dev", purpose="a table of retrieval metrics")
        rows = {
            name: {
                **{f"R@{k}": value for k, value in one.recall.items()},
                "median rank": one.median_rank,
                "mean rank": one.mean_rank,
                "queries": one.n_queries,
                "skipped": one.skipped,
            }
            for name, one in (
                ("image to text", self.image_to_text),
                ("text to image", self.text_to_image),
            )
        }
        return pandas.DataFrame.from_dict(rows, orient="index")

    def table(self) -> str:
        """Text laid out as the thesis's tables: captions found by images, images found by captions.

        >>> eye = torch.eye(12)
        >>> print(retrieval_metrics(eye, eye, torch.arange(12)).table())
                   Caption retrieval          |           Image retrieval
        R@1   R@5  R@10  Med r  Mean r |   R@1   R@5  R@10  Med r  Mean r
        100.0 100.0 100.0    1.0     1.0 | 100.0 100.0 100.0    1.0     1.0
        """
        names = [f"{f'R@{k}':>5}" for k in self.image_to_text.ks] + ["Med r", " Mean r"]
        head = " ".join(names)
        values = [
            " ".join(
                [f"{value:5.1f}" for value in one.recall.values()]
                + [f"{one.median_rank:5.1f}", f"{one.mean_rank:7.1f}"]
            )
            for one in (self.image_to_text, self.text_to_image)
        ]
        width = len(head)
        titles = f"{'Caption retrieval':^{width}} | {'Image retrieval':^{width}}".rstrip()
        return "\n".join([titles, f"{head} | {head}", f"{values[0]} | {values[1]}"])


def retrieval_metrics(
    images: Tensor | Array,
    captions: Tensor | Array,
    image_of_caption: Tensor | Array | Sequence[int],
    *,
    similarity: SimilarityName | Similarity = "cosine",
    folds: int | None = None,
    ks: Sequence[int] = (1, 5, 10),
) -> RetrievalScores:
    """Rank every caption for each image and every image for each caption.

    The rank of an image is that of the best of its captions. Where scores are equal, all orders are
    taken as equally likely, and recall and ranks are their expectation: a model that maps
    everything to one point scores chance. A query without a right answer is left out and counted in
    ``skipped``. Scores are made and counted in blocks, so that memory does not grow with
    images x captions.
    Thesis section 3.1 (R@K) and the tables of section 3.3.

    Args:
        images: embeddings (I, D), not normalised; the similarity does what it needs.
        captions: embeddings (J, D).
        image_of_caption: for each caption the row of its image, or -1 for a caption of none.
        folds: average over this many consecutive slices of the images, each with its own captions
            alone (captions of no image are then left out): 5 gives the thesis's 1K test images.
        ks: the cutoffs of recall.

    >>> images = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> captions = torch.tensor([[2.0, 0.0], [1.0, 0.9], [0.0, 1.0]])
    >>> scores = retrieval_metrics(images, captions, [0, 1, 1], ks=(1,))
    >>> scores.image_to_text.recall, scores.text_to_image.ranks.tolist()
    ({1: 100.0}, [1.0, 2.0, 1.0])
    """
    score = similarity_from_name(similarity)
    images, captions = _embeddings(images, "images"), _embeddings(captions, "captions")
    if images.shape[1] != captions.shape[1]:
        raise InputError(
            f"expected images and captions of one dimension, but images have {images.shape[1]} "
            f"and captions {captions.shape[1]}"
        )
    captions = captions.to(images)
    owner = torch.as_tensor(image_of_caption)
    _check_owner(owner, len(images), len(captions))
    owner = owner.to(images.device, torch.int64)
    if not ks or min(ks) < 1:
        raise InputError(f"expected cutoffs ks of at least 1, but got {tuple(ks)}")
    if folds is not None and not 1 <= folds <= len(images):
        raise InputError(f"expected 1 to {len(images)} folds of the images, but got {folds}")

    from_images, from_captions = [], []
    for start, stop, members in _folds(owner, len(images), folds):
        by_image, by_caption = count_both_ways(
            Rows(images[start:stop], score.prepare_images),
            Rows(captions, score.prepare_captions, index=None if folds is None else members),
            torch.where(owner[members] < 0, -1, owner[members] - start),
            similarity=score,
        )
        from_images.append((torch.arange(start, stop), by_image))
        from_captions.append((members.cpu(), by_caption))
    owners = owner.cpu().numpy()
    return RetrievalScores(
        _ranked(from_images, np.arange(len(images)), len(images), tuple(ks)),
        _ranked(from_captions, owners, len(captions), tuple(ks)),
    )


def _folds(owner: Tensor, n_images: int, folds: int | None) -> list[tuple[int, int, Tensor]]:
    """Slices of the images with captions, and the captions that each is ranked against."""
    if folds is None:
        return [(0, n_images, torch.arange(len(owner), device=owner.device))]
    edges = [n_images * fold // folds for fold in range(folds + 1)]
    slices = [
        (start, stop, ((owner >= start) & (owner < stop)).nonzero()[:, 0])
        for start, stop in pairwise(edges)
    ]
    return [fold for fold in slices if len(fold[2])]


def _ranked(
    parts: Sequence[tuple[Tensor, Counts]], owners: Array, total: int, ks: tuple[int, ...]
) -> RankedQueries:
    empty = torch.zeros(0, dtype=torch.int64)
    queries = torch.cat([empty, *(members for members, _ in parts)]).numpy()
    folds = np.repeat(np.arange(len(parts)), [len(members) for members, _ in parts])
    columns = {
        name: torch.cat([empty, *(getattr(counts, name).cpu() for _, counts in parts)]).numpy()
        for name in ("above", "tied_wrong", "tied_right")
    }
    order = np.argsort(queries)
    order = order[columns["tied_right"][order] > 0]
    return RankedQueries(
        queries=queries[order],
        images=owners[queries[order]],
        folds=folds[order],
        skipped=total - len(order),
        ks=ks,
        **{name: column[order] for name, column in columns.items()},
    )


def _embeddings(given: Tensor | Array, name: str) -> Tensor:
    values = torch.as_tensor(given).detach()
    if values.ndim != 2 or not values.numel():
        raise InputError(
            f"expected {name} as embeddings (rows, dimension), but their shape is "
            f"{tuple(values.shape)}"
        )
    if not values.is_floating_point():
        raise InputError(f"expected {name} as floating point embeddings, but got {values.dtype}")
    # A sum is finite only if all are; it may overflow, so that one that is not proves nothing yet.
    suspects = (~values.sum(1).isfinite()).nonzero()[:, 0]
    bad = suspects[~values[suspects].isfinite().all(1)]
    if len(bad):
        row = int(bad[0])
        raise InputError(
            f"expected finite embeddings, but row {row} of the {name} holds NaN or infinity; "
            "training may have diverged"
        )
    return values


def _check_owner(owner: Tensor, n_images: int, n_captions: int) -> None:
    if owner.shape != (n_captions,):
        raise InputError(
            f"expected image_of_caption to name an image for each of the {n_captions} captions, "
            f"but its shape is {tuple(owner.shape)}"
        )
    if owner.is_floating_point() or owner.dtype == torch.bool:
        raise InputError(f"expected image_of_caption as integers, but got {owner.dtype}")
    if int(owner.min()) < -1 or int(owner.max()) >= n_images:
        raise InputError(
            f"expected image_of_caption between -1 (no image) and {n_images - 1}, but it runs "
            f"from {int(owner.min())} to {int(owner.max())}"
        )
