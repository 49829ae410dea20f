"""How an index finds the best k: every score in blocks, or FAISS's shortcuts.

Index legend: q query, n stored embedding, d joint dimension, k rank.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, Self

import torch
from torch import Tensor

from strop.retrieval.index_milvus import Milvus, MilvusSearcher
from strop.support import InputError, require

Score = Callable[[Tensor, Tensor], Tensor]
"""Queries (q, d) and stored embeddings (n, d) to scores (q, n)."""

FLAT_BELOW = 100_000
GRAPH_BELOW = 500_000


@dataclass(frozen=True)
class Exact:
    """Every score is computed, and at most ``scores_at_once`` of them are held in memory."""

    scores_at_once: int = 2**24


@dataclass(frozen=True)
class Faiss:
    """FAISS, for cosine only.

    "auto" compares with all below 100,000 embeddings, where shortcuts are not worth their building.
    It builds a graph (HNSW) below 500,000, and from there on cells (IVF), which find somewhat less
    but are built in a fraction of the time.

    ``effort`` trades time for recall: candidates kept by a graph (128 unless given), or cells
    looked into (an eighth of them unless given).
    """

    kind: Literal["auto", "flat", "hnsw", "ivf"] = "auto"
    effort: int | None = None


Engine = Exact | Faiss | Milvus
EngineName = Literal["exact", "faiss"]


class Searcher(Protocol):
    """The shortcuts of an approximate engine over prepared embeddings."""

    def __len__(self) -> int: ...

    def add(self, embeddings: Tensor) -> None:
        """Take in (n, d) at the next places."""

    def top_k(self, queries: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """As ``exact_top_k``; a place of -1 says that fewer than k were found."""
        ...


def engine_from_name(engine: Engine | EngineName) -> Engine:
    """The engine behind a name, with its defaults; an engine stays what it is."""
    if isinstance(engine, Exact | Faiss | Milvus):
        return engine
    if engine == "exact":
        return Exact()
    if engine == "faiss":
        return Faiss()
    raise InputError(
        f"engine must be 'exact' or 'faiss' or a value such as Faiss(), not {engine!r}"
    )


def new_searcher(engine: Engine, embeddings: Tensor) -> Searcher | None:
    """The engine's shortcuts, built over ``embeddings``; None where every score is computed."""
    if isinstance(engine, Exact):
        return None
    if isinstance(engine, Faiss):
        return FaissSearcher.build(engine, embeddings)
    if isinstance(engine, Milvus):
        return MilvusSearcher.build(engine, embeddings)
    raise InputError(f"expected an engine (Exact, Faiss, Milvus), but got {engine!r}")


def exact_top_k(
    queries: Tensor, embeddings: Tensor, *, k: int, score: Score, scores_at_once: int = 2**24
) -> tuple[Tensor, Tensor]:
    """The k best scores of each query, best first, and where they are: two (q, k).

    Equal scores come in the order of the embeddings.

    >>> scores, places = exact_top_k(
    ...     torch.eye(2), torch.eye(2), k=1, score=lambda queries, block: queries @ block.T
    ... )
    >>> places.tolist()
    [[0], [1]]
    """
    rows = max(1, min(len(queries), 1024))
    columns = max(1, scores_at_once // rows)
    found = [
        _top_k_of_rows(part, embeddings, k=k, score=score, columns=columns)
        for part in queries.split(rows)
    ]
    if not found:
        empty = embeddings.new_empty(0, k)
        return empty, empty.long()
    return torch.cat([scores for scores, _ in found]), torch.cat([places for _, places in found])


def _top_k_of_rows(
    queries: Tensor, embeddings: Tensor, *, k: int, score: Score, columns: int
) -> tuple[Tensor, Tensor]:
    best = embeddings.new_empty(len(queries), 0)
    places = torch.empty_like(best, dtype=torch.long)
    for start in range(0, len(embeddings), columns):
        scores = score(queries, embeddings[start : start + columns])
        top, inside = scores.topk(min(k, scores.shape[1]), dim=1)
        best, places = torch.cat([best, top], dim=1), torch.cat([places, inside + start], dim=1)
        best, kept = best.topk(min(k, best.shape[1]), dim=1)
        places = places.gather(1, kept)
    places, order = places.sort(dim=1)
    best, order = best.gather(1, order).sort(dim=1, descending=True, stable=True)
    return best, places.gather(1, order)


class FaissSearcher:
    """A FAISS index over unit vectors."""

    def __init__(self, settings: Faiss, index: Any) -> None:
        self.settings = settings
        self._index = index

    @classmethod
    def build(cls, settings: Faiss, embeddings: Tensor) -> Self:
        return cls(settings, _build_faiss(settings, embeddings))

    @classmethod
    def read(cls, path: Path, settings: Faiss) -> Self:
        """What ``write`` wrote."""
        try:
            return cls(settings, _faiss().read_index(str(path)))
        except RuntimeError as error:
            raise InputError(
                f"{path} is not a readable FAISS file: load the index with engine='exact', which "
                "does not need it, or build it again"
            ) from error

    def write(self, path: Path) -> None:
        _faiss().write_index(self._index, str(path))

    def __len__(self) -> int:
        return int(self._index.ntotal)

    def add(self, embeddings: Tensor) -> None:
        self._index.add(embeddings.numpy())

    def top_k(self, queries: Tensor, k: int) -> tuple[Tensor, Tensor]:
        faiss = _faiss()
        effort = self.settings.effort
        if isinstance(self._index, faiss.IndexHNSW):
            self._index.hnsw.efSearch = max(effort or 128, k)
        elif isinstance(self._index, faiss.IndexIVF):
            self._index.nprobe = min(effort or max(8, self._index.nlist // 8), self._index.nlist)
        scores, places = self._index.search(queries.contiguous().numpy(), k)
        return torch.from_numpy(scores), torch.from_numpy(places)


def _build_faiss(settings: Faiss, embeddings: Tensor) -> Any:
    faiss = _faiss()
    count, dim = embeddings.shape
    kind = settings.kind
    if kind == "auto":
        kind = "flat" if count < FLAT_BELOW else "hnsw" if count < GRAPH_BELOW else "ivf"
    if kind == "flat":
        index = faiss.IndexFlatIP(dim)
    elif kind == "hnsw":
        index = faiss.IndexHNSWFlat(dim, 32, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction = 80
    elif kind == "ivf":
        cells = max(1, min(round(4 * count**0.5), count // 39))  # FAISS asks for 39 points a cell
        index = faiss.IndexIVFFlat(faiss.IndexFlatIP(dim), dim, cells, faiss.METRIC_INNER_PRODUCT)
        index.cp.max_points_per_centroid = 64  # a quarter of FAISS's own, a quarter of the time
        index.train(embeddings.numpy())
    else:
        raise InputError(f"a FAISS index is of kind 'auto', 'flat', 'hnsw' or 'ivf', not {kind!r}")
    index.add(embeddings.numpy())
    return index


def _faiss() -> Any:
    return require("faiss", extra="index", purpose="an index with engine='faiss'")
