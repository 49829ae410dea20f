"""The index finds what a full sort finds, and says plainly what it cannot do."""

import itertools
import json
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from strop.retrieval.index import EmbeddingIndex
from strop.retrieval.index_engines import Exact, exact_top_k
from strop.retrieval.similarity import similarity_from_name
from strop.support import InputError

SIMILARITIES = ("cosine", "dot", "order", "order-abs")


def _index(
    count: int = 30, dim: int = 6, *, device: str = "cpu", **arguments: object
) -> EmbeddingIndex:
    generator = torch.Generator().manual_seed(count)
    embeddings = torch.randn(count, dim, generator=generator).to(device)
    names = [f"{number}.jpg" for number in range(count)]
    options = {"model_fingerprint": "abc", **arguments}
    return EmbeddingIndex.build(embeddings, names, **options)  # type: ignore[arg-type]


def _sorted_by_hand(scores: Tensor, k: int) -> list[list[int]]:
    return [sorted(range(len(row)), key=lambda n: (-row[n], n))[:k] for row in scores.tolist()]


@given(
    queries=st.integers(0, 5),
    stored=st.integers(0, 40),
    k=st.integers(1, 45),
    scores_at_once=st.sampled_from([1, 7, 2**24]),
    levels=st.sampled_from([2, 1000]),
)
def test_blocked_search_equals_a_full_sort(
    queries: int, stored: int, k: int, scores_at_once: int, levels: int
) -> None:
    # few levels make many ties: there only the scores are determined, not the places
    table = torch.randint(levels, (queries, stored), generator=torch.Generator().manual_seed(k))
    places = torch.arange(stored, dtype=torch.float32)[:, None]

    def score(rows: Tensor, block: Tensor) -> Tensor:
        return table[rows[:, 0].long()][:, block[:, 0].long()].float()

    k = min(k, stored)
    rows = torch.arange(queries, dtype=torch.float32)[:, None]
    scores, found = exact_top_k(rows, places, k=k, score=score, scores_at_once=scores_at_once)
    expected = table.float().sort(dim=1, descending=True).values[:, :k]
    assert torch.equal(scores, expected)
    assert torch.equal(table.gather(1, found).float(), scores)
    for row, line in zip(found.tolist(), scores.tolist(), strict=True):
        assert len(set(row)) == k
        tied = zip(itertools.pairwise(line), itertools.pairwise(row), strict=True)
        assert all(first < second for (a, b), (first, second) in tied if a == b)


@pytest.mark.parametrize("similarity", SIMILARITIES)
@pytest.mark.parametrize("holds", ["images", "captions"])
def test_index_ranks_by_the_similarity_of_the_model(
    similarity: str, holds: str, generator: torch.Generator
) -> None:
    stored = torch.randn(25, 5, generator=generator)
    queries = torch.randn(4, 5, generator=generator)
    index = EmbeddingIndex.build(
        stored,
        map(str, range(25)),
        model_fingerprint="abc",
        similarity=similarity,  # type: ignore[arg-type]
        holds=holds,  # type: ignore[arg-type]
        engine=Exact(scores_at_once=17),
    )
    function = similarity_from_name(similarity)  # type: ignore[arg-type]
    images, captions = (stored, queries) if holds == "images" else (queries, stored)
    scores = function.matrix(function.prepare_images(images), function.prepare_captions(captions))
    scores = scores.T if holds == "images" else scores
    result = index.search(queries, k=7)
    assert result.indices.tolist() == _sorted_by_hand(scores, 7)
    assert torch.allclose(result.scores, scores.gather(1, result.indices))
    assert result.names == [[str(place) for place in row] for row in result.indices.tolist()]


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_more_like_this_finds_the_thing_itself_first(
    similarity: str, generator: torch.Generator
) -> None:
    lengths = 1 + 9 * torch.rand(25, 1, generator=generator)
    stored = lengths * torch.randn(25, 5, generator=generator)
    index = EmbeddingIndex.build(
        stored,
        map(str, range(25)),
        model_fingerprint="abc",
        similarity=similarity,  # type: ignore[arg-type]
    )
    result = index.search_alike(stored, k=1)
    assert result.indices.flatten().tolist() == list(range(25))
    assert torch.allclose(result.scores, torch.ones(25, 1))


@pytest.mark.gpu
@pytest.mark.parametrize("engine", ["exact", "faiss"])
def test_embeddings_of_a_gpu_are_searched_alike(engine: str, tmp_path: Path) -> None:
    if not torch.cuda.is_available():
        pytest.skip("there is no CUDA device")
    if engine == "faiss":
        pytest.importorskip("faiss")
    queries = torch.randn(3, 6, device="cuda")
    there = _index(device="cuda", engine=engine)
    assert there.search(queries, 4).names == _index().search(queries.cpu(), 4).names
    there.add(queries, ["a", "b", "c"])
    there.save(tmp_path)
    loaded = EmbeddingIndex.load(tmp_path, device="cuda")
    assert loaded.search_alike(queries, 1).names == [["a"], ["b"], ["c"]]


def test_more_than_there_are_gives_all() -> None:
    result = _index(3).search(torch.randn(2, 6), k=10)
    assert result.indices.shape == (2, 3)
    assert sorted(result.names[0]) == ["0.jpg", "1.jpg", "2.jpg"]


@pytest.mark.parametrize("engine", ["exact", "faiss"])
def test_an_empty_index_finds_nothing_and_can_grow(engine: str, tmp_path: Path) -> None:
    if engine == "faiss":
        pytest.importorskip("faiss")
    index = _index(0, engine=engine)
    assert index.search(torch.randn(2, 6)).names == [[], []]
    index.save(tmp_path)
    index = EmbeddingIndex.load(tmp_path)
    index.add(torch.eye(6)[:1], ["new.jpg"])
    assert index.search(torch.eye(6)[:1]).names == [["new.jpg"]]


def test_no_queries_give_no_rows() -> None:
    assert _index().search(torch.empty(0, 6), k=4).indices.shape == (0, 4)


def test_a_zero_embedding_scores_nought() -> None:
    index = EmbeddingIndex.build(torch.zeros(1, 3), ["black.png"], model_fingerprint="abc")
    assert index.search(torch.ones(1, 3)).scores.item() == 0.0


def test_half_precision_is_taken_in() -> None:
    index = EmbeddingIndex.build(torch.eye(3).half(), "abc", model_fingerprint="abc")
    assert index.search(torch.eye(3).bfloat16(), k=1).names == [["a"], ["b"], ["c"]]


def test_growing_equals_building_at_once() -> None:
    whole = _index(30)
    first = EmbeddingIndex.build(whole.embeddings[:20], whole.names[:20], model_fingerprint="abc")
    first.add(whole.embeddings[20:], whole.names[20:])
    queries = torch.randn(5, 6)
    assert first.search(queries).names == whole.search(queries).names


def test_what_was_removed_is_not_found() -> None:
    index = _index(10)
    index.remove(["3.jpg", "7.jpg"])
    assert len(index) == 8
    assert "3.jpg" not in index
    found = index.search(torch.randn(4, 6), k=10)
    assert all(len(row) == 8 and not {"3.jpg", "7.jpg"} & set(row) for row in found.names)


def test_a_name_can_be_used_again_after_removal() -> None:
    index = _index(10)
    index.remove(["3.jpg"])
    index.add(torch.ones(1, 6), ["3.jpg"])
    assert index.search(torch.ones(1, 6), k=1).names == [["3.jpg"]]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda index: index.add(torch.ones(1, 6), ["3.jpg"]), "'3.jpg' comes 2 times"),
        (lambda index: index.add(torch.ones(2, 6), ["a", "a"]), "'a' comes 2 times"),
        (lambda index: index.add(torch.ones(2, 6), ["a"]), "1 names for 2 embeddings"),
        (lambda index: index.add(torch.ones(1, 5), ["a"]), "shape"),
        (lambda index: index.add(torch.full((1, 6), torch.nan), ["a"]), "'a' has a value"),
        (lambda index: index.remove(["nobody.jpg"]), "no 'nobody.jpg'"),
        (lambda index: index.search(torch.ones(1, 5)), "shape"),
        (lambda index: index.search(torch.ones(6)), "shape"),
        (lambda index: index.search(torch.ones(1, 6), k=0), "at least 1"),
        (lambda index: index.search(torch.full((2, 6), torch.inf)), "number 0 has a value"),
    ],
)
def test_mistakes_are_named_and_leave_the_index_as_it_was(change, says: str) -> None:  # type: ignore[no-untyped-def]
    index = _index(10)
    with pytest.raises(InputError, match=says):
        change(index)
    assert len(index) == len(index.embeddings) == 10


def test_unknown_engines_and_modalities_are_refused() -> None:
    with pytest.raises(InputError, match="engine must be"):
        _index(engine="annoy")
    with pytest.raises(InputError, match="'images' or 'captions'"):
        _index(holds="sounds")


def test_saved_index_answers_as_before(tmp_path: Path) -> None:
    index = _index(similarity="order", holds="captions", root=tmp_path / "pictures")
    index.save(tmp_path / "index")
    loaded = EmbeddingIndex.load(tmp_path / "index", fingerprint="abc")
    queries = torch.randn(3, 6)
    assert torch.equal(loaded.search(queries).scores, index.search(queries).scores)
    assert (loaded.names, loaded.root, repr(loaded)) == (index.names, index.root, repr(index))


def test_saving_again_replaces_and_leaves_no_litter(tmp_path: Path) -> None:
    _index(10).save(tmp_path)
    _index(20).save(tmp_path)
    assert len(EmbeddingIndex.load(tmp_path)) == 20
    assert len(list(tmp_path.iterdir())) == 2


def test_a_save_that_breaks_off_keeps_the_old_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from strop.retrieval import index_files

    _index(10).save(tmp_path)

    def full_disk(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(index_files, "write_json", full_disk)
    with pytest.raises(OSError, match="no space"):
        _index(20).save(tmp_path)
    assert len(EmbeddingIndex.load(tmp_path)) == 10


def test_index_of_another_model_is_refused(tmp_path: Path) -> None:
    _index().save(tmp_path)
    with pytest.raises(InputError, match=r"made by another model \(abc; .* def\)"):
        EmbeddingIndex.load(tmp_path, fingerprint="def")


def test_another_format_is_refused(tmp_path: Path) -> None:
    _index().save(tmp_path)
    described = json.loads((tmp_path / "index.json").read_text())
    (tmp_path / "index.json").write_text(json.dumps({**described, "format": 99}))
    with pytest.raises(InputError, match=r"format 99.*build the index again"):
        EmbeddingIndex.load(tmp_path)


def test_damaged_folders_are_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        EmbeddingIndex.load(tmp_path)
    _index().save(tmp_path)
    description = tmp_path / "index.json"
    whole = json.loads(description.read_text())
    data = next(tmp_path.glob("*.safetensors"))
    for change, says in [
        ({"names": whole["names"][:-1]}, "names 29 embeddings"),
        ({"engine": {"type": "Oracle"}}, "no search engine 'Oracle'"),
    ]:
        description.write_text(json.dumps({**whole, **change}))
        with pytest.raises(InputError, match=says):
            EmbeddingIndex.load(tmp_path)
    description.write_text(json.dumps({k: v for k, v in whole.items() if k != "names"}))
    with pytest.raises(InputError, match="lacks 'names'"):
        EmbeddingIndex.load(tmp_path)
    description.write_text(json.dumps(whole))
    data.write_bytes(data.read_bytes()[:50])
    with pytest.raises(InputError, match="not a readable file"):
        EmbeddingIndex.load(tmp_path)
    data.unlink()
    with pytest.raises(InputError, match="copy the whole folder"):
        EmbeddingIndex.load(tmp_path)
