"""Captions in tables: CSV, TSV, JSON lines or a JSON list, one row per caption or per image."""

import csv
import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any, Unpack

from strop.data.captions import ImageCaptions
from strop.data.captions_assemble import (
    FileOptions,
    NoSuchSplitError,
    PathLike,
    assemble,
    image_folder,
    part_name,
    part_names,
    read_text,
)
from strop.data.captions_splits import choose_split
from strop.support import InputError

IMAGE_COLUMNS = (
    *("image", "file_name", "filename", "image_name", "image_path", "img_path", "image_file"),
    *("img", "filepath", "file_path", "path", "file", "name", "image_id"),
)
CAPTION_COLUMNS = (
    *("caption", "captions", "text", "title", "comment", "sentence", "sentences"),
    *("description", "alt_text", "raw"),
)
_DELIMITERS = (",", "\t", ";", "|")
_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff")


@dataclass(frozen=True)
class Row:
    """One row of a table: where it stands, the image it names, its captions, its split if told."""

    line: int
    image: str
    captions: tuple[str, ...]
    split: str | None


def read_caption_table(
    path: PathLike,
    *,
    images: PathLike | None = None,
    image_column: str | None = None,
    caption_column: str | None = None,
    split: str | None = None,
    split_lists: Mapping[str, PathLike] | None = None,
    encoding: str = "utf-8-sig",
    delimiter: str | None = None,
    **options: Unpack[FileOptions],
) -> ImageCaptions:
    """Captions from a CSV or TSV file, JSON lines, or a JSON list of records.

    path: the file; ``.jsonl`` and ``.json`` are read as JSON, anything else as a table with a
        header (without one, where the first cell is already an image: image, then caption).
    images: the folder the image names are relative to; without it, one beside the file is found.
    image_column, caption_column: their names; by default the usual ones (image, file_name, path;
        caption, text, title ...). In JSON a record may hold a list of captions.
    split: a part, from a column ``split`` or from ``split_lists`` (see
        :func:`~strop.data.captions_splits.choose_split`); ``None`` reads all.
    encoding, delimiter: of the file; the delimiter is found out by default.
    """
    path = Path(path)
    text = read_text(path, what="caption file", encoding=encoding)
    columns = (image_column, caption_column)
    if path.suffix.lower() in (".jsonl", ".ndjson", ".json"):
        rows = _json_rows(text, path, columns)
    else:
        rows = _table_rows(text, path, columns, delimiter)
    kept = list(_forgiving(rows, path, skip=options.get("on_error") == "skip"))
    if not kept:
        raise InputError(f"expected captions in {path}, but the file has no rows")
    told = {row.split for row in kept if row.split is not None}
    captions: dict[str, list[str]] = {}
    for row in kept:
        if split is None or not told or row.split in part_names(split):
            captions.setdefault(row.image, []).extend(row.captions)
    if not captions:
        raise NoSuchSplitError(
            f"expected the split {split!r} in {path}, but it has {', '.join(sorted(told))}"
        )
    if split is not None and not told:
        captions = choose_split(captions, split, near=path, lists=split_lists)
    source = f"captions of {path.name}" + (f", {split}" if split else "")
    folder = image_folder(images, near=path, names=tuple(captions))
    return assemble(captions, folder=folder, source=source, **options)


def _forgiving(rows: Iterator[Row | InputError], path: Path, *, skip: bool) -> Iterator[Row]:
    wrong = []
    for row in rows:
        if isinstance(row, Row):
            yield row
        elif skip:
            wrong.append(row)
        else:
            raise row
    if wrong:
        warnings.warn(f"{path}: {len(wrong):,} rows left out; the first: {wrong[0]}", stacklevel=3)


def _table_rows(
    text: str, path: Path, columns: tuple[str | None, str | None], delimiter: str | None
) -> Iterator[Row | InputError]:
    first = text.split("\n", 1)[0]
    if not first.strip():
        raise InputError(
            f"expected a header in the caption file {path}, but its first line is empty"
        )
    headers = {
        each: [cell.strip() for cell in next(csv.reader([first], delimiter=each))]
        for each in ((delimiter,) if delimiter else _DELIMITERS)
    }
    headerless = {
        each: cells
        for each, cells in headers.items()
        if columns == (None, None) and len(cells) == 2 and cells[0].lower().endswith(_SUFFIXES)
    }
    if headerless:
        used, header = next((each, ["image", "caption"]) for each in headerless)
        columns = ("image", "caption")
    else:
        fitting = [each for each, cells in headers.items() if _columns(cells, columns)]
        used = (fitting or sorted(headers, key=lambda each: -len(headers[each])))[0]
        header = headers[used]
    found = _columns(header, columns)
    if found is None:
        raise _no_such_column(header, columns, f"the header of {path}")
    image, caption = (header.index(name) for name in found)
    splits = [at for at, name in enumerate(header) if name.lower() == "split"]
    reader = csv.reader(StringIO(text, newline=""), delimiter=used, strict=True)
    if not headerless:
        next(reader)
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield InputError(f"expected a table in {path}, but line {reader.line_num}: {error}")
            continue
        if not any(cell.strip() for cell in cells):
            continue
        if len(cells) != len(header):
            yield InputError(
                f"expected {len(header)} cells a row in {path}, but line {reader.line_num} has "
                f"{len(cells)}; put captions that contain {used!r} in double quotes"
            )
            continue
        told = part_name(cells[splits[0]]) if splits else None
        yield Row(reader.line_num, cells[image].strip(), (cells[caption],), told)


def _json_rows(
    text: str, path: Path, columns: tuple[str | None, str | None]
) -> Iterator[Row | InputError]:
    for line, record in _records(text, path):
        if isinstance(record, InputError):
            yield record
            continue
        found = _columns(list(record), columns)
        if found is None:
            yield _no_such_column(list(record), columns, f"record {line} of {path}")
            continue
        image, captions = (record[name] for name in found)
        listed = captions if isinstance(captions, list) else [captions]
        if not isinstance(image, (str, int)) or not all(isinstance(one, str) for one in listed):
            yield InputError(
                f"expected an image name and caption texts in record {line} of {path}, but "
                f"{found[0]} is {image!r} and {found[1]} is {captions!r}"
            )
            continue
        told = record.get("split")
        yield Row(line, str(image), tuple(listed), part_name(str(told)) if told else None)


def _records(text: str, path: Path) -> Iterator[tuple[int, dict[str, Any] | InputError]]:
    if path.suffix.lower() == ".json":
        try:
            values = json.loads(text)
        except json.JSONDecodeError as error:
            raise InputError(
                f"expected JSON in {path}, but line {error.lineno}: {error.msg}"
            ) from error
        if not isinstance(values, list):
            raise InputError(
                f"expected a list of records in {path}, but it holds one {type(values).__name__}; "
                f"read COCO files with read_coco_captions, Karpathy's with read_karpathy"
            )
        numbered: Iterator[tuple[int, Any]] = enumerate(values, start=1)
    else:
        numbered = _lines(text, path)
    for line, value in numbered:
        if isinstance(value, (dict, InputError)):
            yield line, value
        else:
            yield line, InputError(f"expected an object in record {line} of {path}: {value!r}")


def _lines(text: str, path: Path) -> Iterator[tuple[int, Any]]:
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                yield number, json.loads(line)
            except json.JSONDecodeError as error:
                yield number, InputError(f"expected JSON on line {number} of {path}: {error.msg}")


def _columns(header: Sequence[str], asked: tuple[str | None, str | None]) -> tuple[str, str] | None:
    """The columns of images and captions, by the names asked for or the usual ones."""
    lowered = {name.lower(): name for name in reversed(header)}
    found = []
    for name, usual in zip(asked, (IMAGE_COLUMNS, CAPTION_COLUMNS), strict=True):
        wanted = usual if name is None else (name.lower(),)
        found.append(next((lowered[each] for each in wanted if each in lowered), None))
    image, caption = found
    return None if image is None or caption is None else (image, caption)


def _no_such_column(
    header: Sequence[str], asked: tuple[str | None, str | None], where: str
) -> InputError:
    image, caption = asked
    return InputError(
        f"expected a column of images ({image or 'image, file_name, path ...'}) and one of "
        f"captions ({caption or 'caption, text, title ...'}) in {where}, but its columns are "
        f"{', '.join(header)}; name them with image_column= and caption_column="
    )
