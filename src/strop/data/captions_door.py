"""``read_captions``: one door to every format of image-caption data, which says what it found."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any, Unpack

from strop.data.captions import ImageCaptions
from strop.data.captions_assemble import (
    FileOptions,
    NoSuchSplitError,
    PathLike,
    part_named_in,
    part_names,
    read_text,
)
from strop.data.captions_features import read_caption_features, with_features
from strop.data.captions_json import coco_captions, is_coco, is_karpathy, karpathy_captions
from strop.data.captions_tables import read_caption_table
from strop.data.captions_tokens import TOKEN_LINE, read_flickr_tokens
from strop.data.sources import find_data
from strop.support import InputError, read_json


class CaptionFormat(Enum):
    """The formats :func:`read_captions` knows, by the words it uses for them."""

    FEATURES = "features with captions (*_ims.npy, *_caps.txt)"
    KARPATHY = "a Karpathy split file"
    COCO = "a COCO caption file"
    TOKENS = "a Flickr token file"
    TABLE = "a table of captions"


@dataclass(frozen=True)
class RecognisedCaptions:
    """What :func:`recognise_captions` found: the format, and the file that holds the captions."""

    format: CaptionFormat
    path: Path
    stored: Any = None  # the value of a JSON file, which is large enough not to be read twice

    def __str__(self) -> str:
        return f"{self.path} is {self.format.value}"


def recognise_captions(path: PathLike, *, split: str | None = None) -> RecognisedCaptions:
    """Which format a file or folder holds. In a folder with a file per part, ``split`` chooses."""
    place = find_data(path)
    if place.is_file():
        return _recognise_file(place)
    if any(place.glob("*_ims.npy")):
        return RecognisedCaptions(CaptionFormat.FEATURES, place)
    candidates = _caption_files(place)
    if len(candidates) > 1 and split is not None:
        fitting = [file for file in candidates if part_named_in(file.name) in part_names(split)]
        candidates = fitting or candidates
    if not candidates:
        raise InputError(
            f"expected captions in the folder {place}, but it holds no *_ims.npy, no token file, "
            f"no JSON and no table (.csv, .tsv, .jsonl, captions.txt); name the caption file itself"
        )
    if len(candidates) > 1:
        names = ", ".join(sorted(file.name for file in candidates))
        raise InputError(
            f"expected one caption file in {place}, but there are {names}; name the one to read"
        )
    return _recognise_file(candidates[0])


def read_captions(
    path: PathLike,
    *,
    split: str | None = None,
    images: PathLike | None = None,
    features: PathLike | None = None,
    split_lists: Mapping[str, PathLike] | None = None,
    image_column: str | None = None,
    caption_column: str | None = None,
    encoding: str = "utf-8-sig",
    **options: Unpack[FileOptions],
) -> ImageCaptions:
    """Image-caption data in whatever format a file or folder holds them.

    Recognised: features with captions, Karpathy split files, COCO caption files, the token files
    of Flickr8k and Flickr30K, and tables (CSV, TSV, JSON lines, a JSON list) with or without split
    lists. What was recognised stands in the result's ``source`` and in its :meth:`describe`.

    path: the file, its folder, or the name of a known data set (see
        :func:`~strop.data.find_data`).
    split: a part: ``"train"``, ``"validation"``, ``"test"``, ``"train+restval"``; ``None`` for all.
    images: the folder of the pictures; without it, one beside the captions is found.
    features: an ``.npz`` file to use in place of the pictures, relative to the captions' folder.
    split_lists, image_column, caption_column, encoding: see
        :func:`~strop.data.read_caption_table`.
    options: see :class:`~strop.data.captions_assemble.FileOptions`.
    """
    found = recognise_captions(path, split=split)
    if features is not None:
        options["check"] = "no"
    match found.format:
        case CaptionFormat.FEATURES:
            data = read_caption_features(found.path, split=split, encoding=encoding)
        case CaptionFormat.KARPATHY:
            data = karpathy_captions(found.stored, found.path, split, images, **options)
        case CaptionFormat.COCO:
            _refuse_other_part(found.path, split)
            data = coco_captions(found.stored, found.path, images, **options)
        case CaptionFormat.TOKENS:
            data = read_flickr_tokens(
                found.path,
                split=split,
                split_lists=split_lists,
                images=images,
                encoding=encoding,
                **options,
            )
        case CaptionFormat.TABLE:
            named = part_named_in(found.path.name)
            whole = split is not None and named is not None and part_names(split) == {named}
            data = read_caption_table(
                found.path,
                images=images,
                image_column=image_column,
                caption_column=caption_column,
                split=None if whole else split,
                split_lists=split_lists,
                encoding=encoding,
                **options,
            )
        case other:
            raise AssertionError(other)
    if features is not None:
        data = with_features(data, found.path.parent / features)
    return replace(data, source=f"{data.source} ({found.format.value})")


def _caption_files(folder: Path) -> list[Path]:
    """The files of a folder that may hold captions, the surest kind alone."""
    tokens = [file for file in _files(folder, "*.token", "*.token.txt") if "lemma" not in file.name]
    if tokens:
        return tokens
    tables = _files(folder, "captions.txt", "*.csv", "*.tsv", "*.jsonl", "*.ndjson")
    return tables or _files(folder, "*.json", "annotations/captions_*.json")


def _files(folder: Path, *patterns: str) -> list[Path]:
    found = {file for pattern in patterns for file in folder.glob(pattern)}
    return sorted(file for file in found if file.is_file() and not file.name.startswith("."))


def _recognise_file(path: Path) -> RecognisedCaptions:
    if path.name.endswith("_ims.npy"):
        return RecognisedCaptions(CaptionFormat.FEATURES, path)
    if path.suffix.lower() == ".json":
        stored = read_json(path, what="caption file")
        if is_karpathy(stored):
            return RecognisedCaptions(CaptionFormat.KARPATHY, path, stored)
        if is_coco(stored):
            return RecognisedCaptions(CaptionFormat.COCO, path, stored)
        return RecognisedCaptions(CaptionFormat.TABLE, path)
    if path.suffix.lower() in (".token", ".txt"):
        text = read_text(path, what="caption file", encoding="latin-1")
        if TOKEN_LINE.match(text):
            return RecognisedCaptions(CaptionFormat.TOKENS, path)
    return RecognisedCaptions(CaptionFormat.TABLE, path)


def _refuse_other_part(path: Path, split: str | None) -> None:
    """A COCO file is one part: asking it for another must not give the wrong one in silence."""
    named = part_named_in(path.name)
    if split is not None and part_names(split) != {named}:
        raise NoSuchSplitError(
            f"expected the split {split!r}, but {path} is a COCO caption file, which holds one "
            f"part ({named or 'its name does not tell which'}); leave split out, or name "
            f"the file of that part"
        )
