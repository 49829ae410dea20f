"""An index on disk: one JSON file that says which data files are the current ones."""

import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from strop.retrieval.index_engines import Engine, Exact, Faiss, FaissSearcher, Searcher
from strop.retrieval.index_milvus import Milvus, MilvusSearcher
from strop.support import InputError, read_json, write_json, writing

FORMAT = 1
INDEX_FILE = "index.json"
FIELDS = ("model_fingerprint", "similarity", "holds", "root", "names", "engine", "files")


@dataclass(frozen=True)
class SavedIndex:
    """What a folder held: the description is of plain JSON values."""

    embeddings: Tensor
    engine: Engine
    searcher: Searcher | None
    description: Mapping[str, Any]


def write_index(
    folder: Path,
    embeddings: Tensor,
    *,
    engine: Engine,
    searcher: Searcher | None,
    description: Mapping[str, Any],
) -> None:
    """Data files under fresh names, then the JSON file that points to them, then a tidy-up.

    An interruption leaves the old JSON file with the old data files, or the new with the new.
    """
    token = secrets.token_hex(4)
    files = {"embeddings": f"embeddings-{token}.safetensors"}
    with writing(folder / files["embeddings"]) as partial:
        save_file({"embeddings": embeddings.cpu()}, partial, metadata={"format": "pt"})
    if isinstance(searcher, FaissSearcher):
        files["faiss"] = f"faiss-{token}.index"
        with writing(folder / files["faiss"]) as partial:
            searcher.write(partial)
    settings = {"type": type(engine).__name__, **asdict(engine)}
    stamped = {"format": FORMAT, **description, "engine": settings, "files": files}
    write_json(folder / INDEX_FILE, stamped)
    for stale in [*folder.glob("embeddings-*.safetensors"), *folder.glob("faiss-*.index")]:
        if stale.name not in files.values():
            stale.unlink(missing_ok=True)


def read_index(
    folder: Path, *, fingerprint: str | None, engine: Engine | None, device: str | torch.device
) -> SavedIndex:
    """What ``write_index`` wrote, or a sentence that says why it cannot be used."""
    saved = read_json(folder / INDEX_FILE, what="index of embeddings")
    found = saved.get("format") if isinstance(saved, dict) else None
    if found != FORMAT:
        raise InputError(
            f"the index in {folder} has format {found!r}, but this version of strop reads format "
            f"{FORMAT}: build the index again"
        )
    missing = [field for field in FIELDS if field not in saved]
    if missing:
        raise InputError(f"the index in {folder} lacks {missing[0]!r}: build the index again")
    maker = saved["model_fingerprint"]
    if fingerprint is not None and maker != fingerprint:
        raise InputError(
            f"the index in {folder} was made by another model ({maker}; the one at hand is "
            f"{fingerprint}), and vectors of one model mean nothing to another: build the index "
            "again with this model"
        )
    embeddings = _read_embeddings(folder / saved["files"]["embeddings"], device=device)
    if embeddings.ndim != 2 or len(embeddings) != len(saved["names"]):
        raise InputError(
            f"the index in {folder} names {len(saved['names'])} embeddings, but its data have "
            f"shape {tuple(embeddings.shape)}: copy the whole folder again"
        )
    written = _engine_from_json(saved["engine"])
    searcher: Searcher | None = None
    if len(embeddings) == 0 or engine not in (None, written):
        pass  # an empty index has no shortcuts yet; those of another engine are built anew
    elif isinstance(written, Faiss):
        searcher = FaissSearcher.read(folder / saved["files"]["faiss"], written)
    elif isinstance(written, Milvus):
        searcher = MilvusSearcher(written)
    if searcher is not None and len(searcher) != len(embeddings):
        raise InputError(
            f"the index in {folder} has {len(embeddings)} embeddings, but its search engine has "
            f"{len(searcher)}: load it with engine='exact', or build the index again"
        )
    return SavedIndex(embeddings, engine or written, searcher, saved)


def _read_embeddings(path: Path, *, device: str | torch.device) -> Tensor:
    try:
        return load_file(path, device=str(device))["embeddings"]
    except FileNotFoundError as error:
        raise InputError(
            f"the index needs its file {path.name}, which is not in {path.parent}: copy the whole "
            "folder"
        ) from error
    except Exception as error:  # safetensors has no public error class for a torn file
        raise InputError(f"{path} is not a readable file of embeddings: {error}") from error


def _engine_from_json(described: Mapping[str, Any]) -> Engine:
    settings = {key: value for key, value in described.items() if key != "type"}
    match described.get("type"):
        case "Exact":
            return Exact(**settings)
        case "Faiss":
            return Faiss(**settings)
        case "Milvus":
            return Milvus(**settings)
        case other:
            raise InputError(f"this version of strop has no search engine {other!r}")
