"""An index of embeddings by name: search, grow, shrink, save, load.

Index legend: q query, n stored embedding, d joint dimension, k rank.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self, cast

import torch
from torch import Tensor

from strop.retrieval.index_engines import (
    Engine,
    EngineName,
    Exact,
    Score,
    Searcher,
    engine_from_name,
    exact_top_k,
    new_searcher,
)
from strop.retrieval.index_files import read_index, write_index
from strop.retrieval.similarity import SimilarityName, similarity_from_name, to_unit_sphere
from strop.support import InputError

Holds = Literal["images", "captions"]


@dataclass(frozen=True)
class SearchResult:
    """For each query the best matches, best first: places in the index and scores, (q, k)."""

    indices: Tensor
    scores: Tensor
    names: list[list[str]]


class EmbeddingIndex:
    """Embeddings of one modality, found by embeddings of the other, or of their own.

    Made by ``build`` or ``load``. ``holds`` says what is stored: "images" are searched by captions
    and "captions" by images, with the model's own ``similarity``, best score first.

    >>> index = EmbeddingIndex.build(
    ...     torch.tensor([[2.0, 0.0], [0.0, 3.0]]), ["cat.jpg", "dog.jpg"], model_fingerprint="m1"
    ... )
    >>> index.search(torch.tensor([[0.1, 1.0]]), k=1).names
    [['dog.jpg']]
    """

    def __init__(
        self,
        prepared: Tensor,
        names: Sequence[str],
        *,
        model_fingerprint: str,
        similarity: str,
        engine: Engine,
        holds: Holds,
        root: Path | None,
        searcher: Searcher | None = None,
    ) -> None:
        if holds not in ("images", "captions"):
            raise InputError(f"an index holds 'images' or 'captions', not {holds!r}")
        if not isinstance(engine, Exact) and similarity != "cosine":
            raise InputError(
                f"{type(engine).__name__} finds neighbours by the cosine, but this model scores by "
                f"{similarity!r}, for which its shortcuts do not hold: use engine='exact'"
            )
        # FAISS and Milvus work on the CPU; exact search works where the embeddings lie.
        self.embeddings = prepared if isinstance(engine, Exact) else prepared.cpu()
        self.names = list(names)
        self.model_fingerprint = model_fingerprint
        self.similarity = similarity
        self.engine = engine
        self.holds: Holds = holds
        self.root = root
        self._score = similarity_from_name(cast(SimilarityName, similarity))
        self._searcher = searcher or self._new_searcher()

    @classmethod
    def build(
        cls,
        embeddings: Tensor,
        names: Iterable[str | Path],
        *,
        model_fingerprint: str,
        similarity: str = "cosine",
        engine: Engine | EngineName = "exact",
        holds: Holds = "images",
        root: str | Path | None = None,
    ) -> Self:
        """An index of ``embeddings`` (n, d), as the model gives them, under unique ``names``.

        ``engine`` is "exact", "faiss", or a value with its own settings (``Exact``, ``Faiss``,
        ``Milvus``). ``root`` is the folder from which names that are paths start.
        """
        if embeddings.ndim != 2:
            raise InputError(
                f"expected embeddings of shape (n, d), but they have {tuple(embeddings.shape)}"
            )
        index = cls(
            embeddings.new_empty(0, embeddings.shape[1], dtype=torch.float32),
            [],
            model_fingerprint=model_fingerprint,
            similarity=similarity,
            engine=engine_from_name(engine),
            holds=holds,
            root=None if root is None else Path(root),
        )
        index.add(embeddings, names)
        return index

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __repr__(self) -> str:
        return (
            f"EmbeddingIndex({len(self):,} {self.holds}, {self.dimension} dimensions, "
            f"{self.similarity}, {self.engine})"
        )

    @property
    def dimension(self) -> int:
        """The joint dimension d."""
        return self.embeddings.shape[1]

    def search(self, queries: Tensor, k: int = 10) -> SearchResult:
        """The best ``k`` for queries (q, d) of the other modality; fewer if fewer are stored.

        Images are searched by embeddings of captions, captions by those of images.
        """

        def score(queries: Tensor, block: Tensor) -> Tensor:
            if self.holds == "images":
                return self._score.matrix(block, queries).T
            return self._score.matrix(queries, block)

        return self._best(self._prepare_other(self._checked(queries, "query")), k, score)

    def search_alike(self, queries: Tensor, k: int = 10) -> SearchResult:
        """The best ``k`` for queries (q, d) of the stored modality, by cosine: more like this.

        The cosine whatever the model's similarity: an order between an image and a caption says
        nothing of two images.
        """

        def score(queries: Tensor, block: Tensor) -> Tensor:
            return queries @ to_unit_sphere(block).T

        return self._best(to_unit_sphere(self._prepare(self._checked(queries, "query"))), k, score)

    def add(self, embeddings: Tensor, names: Iterable[str | Path]) -> None:
        """Add embeddings (n, d) under new names; a name that is there already is refused."""
        new = [str(name) for name in names]
        if len(new) != len(embeddings):
            raise InputError(f"there are {len(new)} names for {len(embeddings)} embeddings")
        name, times = Counter([*self.names, *new]).most_common(1)[0] if new else ("", 1)
        if times > 1:
            raise InputError(
                f"names must be unique, but {name!r} comes {times} times: remove the old one first"
            )
        prepared = self._prepare(self._checked(embeddings, "embedding", new)).contiguous()
        self.embeddings = torch.cat([self.embeddings, prepared]) if self.names else prepared
        self.names += new
        if self._searcher is None:
            self._searcher = self._new_searcher()
        else:
            self._searcher.add(prepared)

    def remove(self, names: Iterable[str | Path]) -> None:
        """Forget these names; the shortcuts of an approximate engine are built afresh."""
        gone = {str(name) for name in names}
        unknown = sorted(gone.difference(self.names))
        if unknown:
            raise InputError(f"the index has no {unknown[0]!r}, so it cannot be removed")
        kept = [place for place, name in enumerate(self.names) if name not in gone]
        self.embeddings = self.embeddings[kept].contiguous()
        self.names = [self.names[place] for place in kept]
        self._searcher = self._new_searcher()

    def save(self, folder: str | Path) -> None:
        """Write the index to ``folder``: a reader finds the old one or the new, whole."""
        write_index(
            Path(folder),
            self.embeddings,
            engine=self.engine,
            searcher=self._searcher,
            description={
                "model_fingerprint": self.model_fingerprint,
                "similarity": self.similarity,
                "holds": self.holds,
                "root": None if self.root is None else str(self.root),
                "names": self.names,
            },
        )

    @classmethod
    def load(
        cls,
        folder: str | Path,
        *,
        fingerprint: str | None = None,
        engine: Engine | EngineName | None = None,
        root: str | Path | None = None,
        device: str | torch.device = "cpu",
    ) -> Self:
        """What ``save`` wrote; refused unless the model with this ``fingerprint`` made it.

        ``engine`` and ``root`` replace what was saved: any engine goes over the same embeddings,
        and pictures may have moved.
        """
        chosen = None if engine is None else engine_from_name(engine)
        saved = read_index(Path(folder), fingerprint=fingerprint, engine=chosen, device=device)
        place = root if root is not None else saved.description["root"]
        return cls(
            saved.embeddings,
            saved.description["names"],
            model_fingerprint=saved.description["model_fingerprint"],
            similarity=saved.description["similarity"],
            engine=saved.engine,
            holds=saved.description["holds"],
            root=None if place is None else Path(place),
            searcher=saved.searcher,
        )

    def _best(self, prepared: Tensor, k: int, score: Score) -> SearchResult:
        if k < 1:
            raise InputError(f"k must be at least 1, but is {k}")
        k = min(k, len(self))
        if self._searcher is None or len(prepared) == 0:
            scores, places = self._exact(prepared, k, score)
        else:
            scores, places = self._searcher.top_k(prepared, k)
            short = (places < 0).any(dim=1)  # the shortcut led to fewer than k: take the long way
            if short.any():
                scores[short], places[short] = self._exact(prepared[short], k, score)
        names = [[self.names[place] for place in row] for row in places.tolist()]
        return SearchResult(indices=places, scores=scores, names=names)

    def _exact(self, prepared: Tensor, k: int, score: Score) -> tuple[Tensor, Tensor]:
        limit = self.engine.scores_at_once if isinstance(self.engine, Exact) else 2**24
        return exact_top_k(prepared, self.embeddings, k=k, score=score, scores_at_once=limit)

    def _new_searcher(self) -> Searcher | None:
        """None for an empty index too: the engine chooses its kind by the first embeddings."""
        return new_searcher(self.engine, self.embeddings) if self.names else None

    def _prepare(self, embeddings: Tensor) -> Tensor:
        if self.holds == "images":
            return self._score.prepare_images(embeddings)
        return self._score.prepare_captions(embeddings)

    def _prepare_other(self, embeddings: Tensor) -> Tensor:
        if self.holds == "images":
            return self._score.prepare_captions(embeddings)
        return self._score.prepare_images(embeddings)

    def _checked(self, rows: Tensor, what: str, names: Sequence[str] | None = None) -> Tensor:
        """``rows`` as float32 on the index's device, or the reason why they cannot be used."""
        if rows.ndim != 2 or rows.shape[1] != self.dimension:
            raise InputError(
                f"expected {what} vectors of shape (number, {self.dimension}), but they have "
                f"shape {tuple(rows.shape)}"
            )
        broken = (~rows.isfinite().all(dim=1)).nonzero().flatten().tolist()
        if broken:
            which = f"number {broken[0]}" if names is None else repr(names[broken[0]])
            raise InputError(
                f"the {what} {which} has a value that is not finite: look at the model's weights "
                "and at its input"
            )
        return rows.detach().to(self.embeddings.device, torch.float32)
