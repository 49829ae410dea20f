"""The approximate engines find nearly what the exact one finds, and keep what they are given."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from strop.retrieval.index import EmbeddingIndex
from strop.retrieval.index_engines import Engine, EngineName, Faiss
from strop.retrieval.index_milvus import Milvus
from strop.support import InputError


def _clustered(count: int, dim: int = 24, *, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(count // 20, dim, generator=torch.Generator().manual_seed(9))
    chosen = torch.randint(len(centres), (count,), generator=generator)
    return centres[chosen] + 0.4 * torch.randn(count, dim, generator=generator)


def _built(embeddings: Tensor, engine: Engine | EngineName) -> EmbeddingIndex:
    names = [str(number) for number in range(len(embeddings))]
    return EmbeddingIndex.build(embeddings, names, model_fingerprint="abc", engine=engine)


def _recall(index: EmbeddingIndex, embeddings: Tensor, queries: Tensor, k: int = 10) -> float:
    truth = _built(embeddings, "exact").search(queries, k).indices.tolist()
    found = index.search(queries, k).indices.tolist()
    shared = [len(set(a) & set(b)) for a, b in zip(truth, found, strict=True)]
    return sum(shared) / (k * len(queries))


class TestFaiss:
    @pytest.fixture(autouse=True)
    def _needs_faiss(self) -> None:
        pytest.importorskip("faiss", reason='faiss is absent: pip install "strop[index]"')

    def test_small_indices_are_exact(self) -> None:
        embeddings, queries = _clustered(500), _clustered(40, seed=1)
        exact = _built(embeddings, "exact").search(queries, 20)
        found = _built(embeddings, "faiss").search(queries, 20)
        assert torch.equal(found.indices, exact.indices)
        assert torch.allclose(found.scores, exact.scores, atol=1e-5)

    @pytest.mark.parametrize("kind", ["hnsw", "ivf"])
    def test_shortcuts_find_nearly_all(self, kind: str) -> None:
        embeddings, queries = _clustered(4000), _clustered(200, seed=1)
        index = _built(embeddings, Faiss(kind=kind))  # type: ignore[arg-type]
        assert _recall(index, embeddings, queries) > 0.95

    def test_effort_buys_recall(self) -> None:
        embeddings, queries = torch.randn(4000, 24), torch.randn(200, 24)
        little = _recall(_built(embeddings, Faiss(kind="ivf", effort=1)), embeddings, queries)
        much = _recall(_built(embeddings, Faiss(kind="ivf", effort=10_000)), embeddings, queries)
        assert little < 0.6 < much == 1.0

    @pytest.mark.parametrize("kind", ["flat", "hnsw", "ivf"])
    def test_all_can_be_asked_for(self, kind: str) -> None:
        # one cell holds fewer than k, and a graph keeps fewer candidates: the rest is found exactly
        index = _built(_clustered(800), Faiss(kind=kind, effort=1))  # type: ignore[arg-type]
        found = index.search(_clustered(20, seed=1), k=1000)
        assert all(sorted(row) == list(range(800)) for row in found.indices.tolist())

    @pytest.mark.parametrize("kind", ["flat", "hnsw", "ivf"])
    def test_growing_shrinking_and_saving(self, kind: str, tmp_path: Path) -> None:
        embeddings = _clustered(600)
        engine = Faiss(kind=kind)  # type: ignore[arg-type]
        index = _built(embeddings[:500], engine)
        index.add(embeddings[500:], [f"new {number}" for number in range(100)])
        index.remove(["0", "1", "new 99"])
        index.save(tmp_path)
        loaded = EmbeddingIndex.load(tmp_path)
        assert loaded.engine == engine
        queries = embeddings[[0, 2, 550, 599]]
        assert loaded.search(queries, 5).names == index.search(queries, 5).names
        nearest = [row[0] for row in loaded.search(queries, 1).names]
        assert nearest[1:3] == ["2", "new 50"]
        assert not {"0", "new 99"} & set(nearest)

    @pytest.mark.parametrize("similarity", ["dot", "order", "order-abs"])
    def test_other_similarities_are_refused_with_the_reason(self, similarity: str) -> None:
        with pytest.raises(InputError, match=f"by the cosine, .* '{similarity}'.*engine='exact'"):
            EmbeddingIndex.build(
                torch.eye(2),
                "ab",
                model_fingerprint="abc",
                similarity=similarity,  # type: ignore[arg-type]
                engine="faiss",
            )

    def test_the_exact_engine_reads_what_faiss_wrote(self, tmp_path: Path) -> None:
        embeddings = _clustered(300)
        _built(embeddings, "faiss").save(tmp_path)
        faiss_file = next(tmp_path.glob("faiss-*.index"))
        faiss_file.write_bytes(b"torn")
        with pytest.raises(InputError, match="engine='exact'"):
            EmbeddingIndex.load(tmp_path)
        loaded = EmbeddingIndex.load(tmp_path, engine="exact")
        assert loaded.search(embeddings[:2], 1).names == [["0"], ["1"]]

    def test_unknown_kind_is_refused(self) -> None:
        with pytest.raises(InputError, match="'annoy'"):
            _built(_clustered(40), Faiss(kind="annoy"))  # type: ignore[arg-type]

    def test_picture_by_picture_goes_through_the_engine_too(self) -> None:
        embeddings = _clustered(500)
        found = _built(embeddings, "faiss").search_alike(embeddings[:9], 1)
        assert found.indices.flatten().tolist() == list(range(9))


class TestMilvus:
    @pytest.fixture
    def engine(self, tmp_path: Path) -> Milvus:
        pytest.importorskip("pymilvus", reason='pymilvus is absent: pip install "strop[milvus]"')
        pytest.importorskip("milvus_lite", reason="milvus-lite is absent: no server to try")
        return Milvus(uri=str(tmp_path / "vectors.db"))

    def test_milvus_finds_what_the_exact_engine_finds(self, engine: Milvus) -> None:
        embeddings, queries = _clustered(300), _clustered(40, seed=1)
        assert _recall(_built(embeddings, engine), embeddings, queries) > 0.95

    def test_growing_shrinking_and_saving(self, engine: Milvus, tmp_path: Path) -> None:
        embeddings = _clustered(120)
        index = _built(embeddings[:100], engine)
        index.add(embeddings[100:], [f"new {number}" for number in range(20)])
        index.remove(["0"])
        index.save(tmp_path / "index")
        loaded = EmbeddingIndex.load(tmp_path / "index")
        nearest = [row[0] for row in loaded.search(embeddings[[1, 110]], 3).names]
        assert nearest == ["1", "new 10"]

    def test_a_collection_that_changed_is_noticed(self, engine: Milvus, tmp_path: Path) -> None:
        _built(_clustered(100), engine).save(tmp_path / "index")
        _built(_clustered(40), engine)
        with pytest.raises(InputError, match="search engine has 40"):
            EmbeddingIndex.load(tmp_path / "index")
