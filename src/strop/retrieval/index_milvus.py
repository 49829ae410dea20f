"""Milvus as the engine of an index: a server, or Milvus Lite's file.

The vectors are kept by Milvus, under their places in the index; names stay in the index.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from strop.support import InputError, require

ROWS_AT_ONCE = 1000
MOST_HITS = 16_384
"""Milvus answers no more than this; the index finds the rest by itself."""


@dataclass(frozen=True)
class Milvus:
    """Where Milvus is: ``uri`` is a server's address, or the path of a Milvus Lite file.

    Building an index replaces the collection of this name. A server's token is taken from the
    environment variable MILVUS_TOKEN, so that no index file holds a secret.
    """

    uri: str
    collection: str = "strop"


class MilvusSearcher:
    """A Milvus collection of unit vectors."""

    def __init__(self, settings: Milvus) -> None:
        self.settings = settings
        milvus = require("pymilvus", extra="milvus", purpose="an index with the engine Milvus")
        try:
            self._client: Any = milvus.MilvusClient(
                uri=settings.uri, token=os.environ.get("MILVUS_TOKEN", "")
            )
        except Exception as error:  # pymilvus raises many kinds: no server, no file, no rights
            raise InputError(
                f"Milvus does not answer at {settings.uri}: start the server, or give the path of "
                f"a Milvus Lite file ({error})"
            ) from error

    @classmethod
    def build(cls, settings: Milvus, embeddings: Tensor) -> Self:
        searcher = cls(settings)
        client, collection = searcher._client, settings.collection
        if client.has_collection(collection):
            client.drop_collection(collection)
        client.create_collection(
            collection,
            dimension=embeddings.shape[1],
            metric_type="IP",
            consistency_level="Strong",
        )
        searcher.add(embeddings)
        return searcher

    def __len__(self) -> int:
        collection = self.settings.collection
        if not self._client.has_collection(collection):
            return 0
        counted = self._client.query(collection, filter="", output_fields=["count(*)"])
        return int(counted[0]["count(*)"])

    def add(self, embeddings: Tensor) -> None:
        place = len(self)
        for part in _parts(embeddings):
            rows = [
                {"id": place + offset, "vector": vector}
                for offset, vector in enumerate(part.tolist())
            ]
            self._client.insert(self.settings.collection, rows)
            place += len(rows)

    def top_k(self, queries: Tensor, k: int) -> tuple[Tensor, Tensor]:
        scores, places = [], []
        for part in _parts(queries):
            hits = self._client.search(
                self.settings.collection,
                data=part.tolist(),
                limit=min(k, MOST_HITS),
                output_fields=["id"],
            )
            for row in hits:
                missing = k - len(row)
                scores.append([hit["distance"] for hit in row] + [float("-inf")] * missing)
                places.append([hit["id"] for hit in row] + [-1] * missing)
        return torch.tensor(scores), torch.tensor(places)


def _parts(rows: Tensor) -> Iterator[Tensor]:
    yield from rows.split(ROWS_AT_ONCE) if len(rows) else ()
