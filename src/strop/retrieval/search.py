"""Pictures by words and by picture: index, search."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from strop.retrieval.embedding import Report, embed_captions, embed_images
from strop.retrieval.hits import Hit, SearchHits
from strop.retrieval.index import EmbeddingIndex, SearchResult
from strop.retrieval.index_engines import Engine, EngineName, engine_from_name
from strop.retrieval.model import JointEmbedding
from strop.retrieval.pictures import Picture, find_pictures, open_picture
from strop.support import InputError


@dataclass(frozen=True)
class Indexing:
    """An index, and the pictures that could not be read with the reason for each."""

    index: EmbeddingIndex
    skipped: tuple[tuple[str, str], ...] = ()


def build_index(
    model: JointEmbedding,
    images: str | Path | Tensor,
    *,
    names: Sequence[str] | None = None,
    root: str | Path | None = None,
    size: int | None = None,
    engine: Engine | EngineName = "exact",
    batch_size: int = 64,
    report: Report | None = None,
) -> Indexing:
    """An index of a folder of pictures, named by their paths in it; broken ones are left out.

    A tensor of pictures or features needs ``names``, which are paths from ``root`` if the pictures
    themselves are to be shown.
    """
    index = EmbeddingIndex.build(
        torch.empty(0, model.embedding_dim),
        [],
        model_fingerprint=model.fingerprint(),
        similarity=model.similarity,
        engine=engine,
        root=root,
    )
    if isinstance(images, Tensor):
        if names is None:
            raise InputError("pictures given as a tensor need names=…, one for each")
        vectors = embed_images(model, images, batch_size=batch_size, report=report)
        index.add(vectors, names)
        return Indexing(index)
    if names is not None or root is not None:
        raise InputError("the pictures of a folder name themselves: leave out names and root")
    index.root = Path(images).resolve()
    return update_index(model, index, size=size, batch_size=batch_size, report=report)


def update_index(
    model: JointEmbedding,
    index: EmbeddingIndex,
    *,
    size: int | None = None,
    batch_size: int = 64,
    report: Report | None = None,
) -> Indexing:
    """Bring an index up to date with its folder: pictures that came, pictures that went.

    A file changed under its old name is not noticed: remove the name first.
    """
    check_maker(model, index)
    if index.root is None:
        raise InputError("this index was not built from a folder, so there is none to look into")
    found = find_pictures(index.root)
    known = set(index.names)
    came = [name for name in found if name not in known]
    skipped: dict[str, str] = {}
    vectors = embed_images(
        model,
        [index.root / name for name in came],
        size=size,
        batch_size=batch_size,
        report=report,
        skip=lambda number, error: skipped.update({came[number]: str(error)}),
    )
    index.remove(known.difference(found))
    index.add(vectors, [name for name in came if name not in skipped])
    return Indexing(index, tuple(skipped.items()))


def index_pictures(
    model: JointEmbedding,
    pictures: str | Path,
    place: str | Path,
    *,
    size: int | None = None,
    engine: Engine | EngineName = "exact",
    batch_size: int = 64,
    report: Report | None = None,
) -> Indexing:
    """Index a folder of pictures in the folder ``place``; called again, embed only what is new.

    What was indexed there of another folder, by another model, or for another engine is replaced.
    """
    try:
        index = EmbeddingIndex.load(place, fingerprint=model.fingerprint())
        fits = index.root == Path(pictures).resolve() and index.engine == engine_from_name(engine)
    except InputError:  # there is none, or none that this model can use
        fits = False
    if fits:
        done = update_index(model, index, size=size, batch_size=batch_size, report=report)
    else:
        done = build_index(
            model, pictures, size=size, engine=engine, batch_size=batch_size, report=report
        )
    done.index.save(place)
    return done


def search_text(
    model: JointEmbedding, index: EmbeddingIndex, query: str, k: int = 10
) -> SearchHits:
    """What in the index fits the words best."""
    check_maker(model, index)
    return find_text(model, index, query, k)


def search_image(
    model: JointEmbedding,
    index: EmbeddingIndex,
    picture: Picture,
    k: int = 10,
    *,
    size: int | None = None,
) -> SearchHits:
    """What in the index fits the picture best: pictures like it, or captions of it."""
    check_maker(model, index)
    return find_image(model, index, picture, k, size=size)


def find_text(model: JointEmbedding, index: EmbeddingIndex, query: str, k: int = 10) -> SearchHits:
    """``search_text`` without ``check_maker``, which reads all the model's weights."""
    if not query.strip():
        raise InputError("the query is empty: say in a few words what the picture shows")
    search = index.search if index.holds == "images" else index.search_alike
    return SearchHits(query, _hits(index, search(embed_captions(model, [query]), k)))


def find_image(
    model: JointEmbedding,
    index: EmbeddingIndex,
    picture: Picture,
    k: int = 10,
    *,
    size: int | None = None,
) -> SearchHits:
    """``search_image`` without ``check_maker``, which reads all the model's weights."""
    search = index.search_alike if index.holds == "images" else index.search
    hits = _hits(index, search(embed_images(model, [picture], size=size), k))
    shown = str(picture) if isinstance(picture, str | Path) else "a picture"
    return SearchHits(shown, hits, picture=open_picture(picture))


def find_like(index: EmbeddingIndex, number: int, k: int = 10) -> SearchHits:
    """What in the index is most like its entry ``number``, which itself is left out."""
    result = index.search_alike(index.embeddings[number : number + 1], k + 1)
    others = [hit for hit in _hits(index, result) if hit.name != index.names[number]][:k]
    ranked = tuple(replace(hit, rank=rank) for rank, hit in enumerate(others, start=1))
    return SearchHits(index.names[number], ranked, like=True)


def check_maker(model: JointEmbedding, index: EmbeddingIndex) -> None:
    """Refuse an index that another model made."""
    fingerprint = model.fingerprint()
    if index.model_fingerprint != fingerprint:
        raise InputError(
            f"this index was made by another model ({index.model_fingerprint}; the one at hand is "
            f"{fingerprint}), and vectors of one model mean nothing to another: build the index "
            "again with this model"
        )


def _hits(index: EmbeddingIndex, result: SearchResult) -> tuple[Hit, ...]:
    folder = index.root if index.holds == "images" else None
    best = zip(result.names[0], result.scores[0].tolist(), strict=True)
    return tuple(
        Hit(rank, name, score, None if folder is None else folder / name)
        for rank, (name, score) in enumerate(best, start=1)
    )
