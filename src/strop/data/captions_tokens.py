"""The token files of Flickr8k and Flickr30K: ``name.jpg#0``, a tab, the caption."""

import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Unpack

from strop.data.captions import ImageCaptions
from strop.data.captions_assemble import (
    FileOptions,
    PathLike,
    assemble,
    grouped,
    image_folder,
    read_text,
)
from strop.data.captions_splits import choose_split
from strop.support import InputError

TOKEN_LINE = re.compile(r"(?P<image>.+)#\d+\t(?P<caption>.*)")


def read_flickr_tokens(
    path: PathLike,
    *,
    split: str | None = None,
    split_lists: Mapping[str, PathLike] | None = None,
    images: PathLike | None = None,
    encoding: str = "utf-8-sig",
    **options: Unpack[FileOptions],
) -> ImageCaptions:
    """A token file, ``Flickr8k.token.txt`` or ``results_20130124.token``.

    split: a part, by the lists beside the file (``Flickr_8k.trainImages.txt``) or those of
        ``split_lists``; ``None`` reads all. Flickr8k has captions of a picture that was never
        published: read all of it with ``on_error="skip"``.
    images: the folder of the pictures; without it, one beside the file is found.
    """
    path = Path(path)
    rows: list[tuple[str, str]] = []
    wrong = []
    text = read_text(path, what="token file", encoding=encoding)
    for number, line in enumerate(text.splitlines(), start=1):
        found = TOKEN_LINE.fullmatch(line)
        if found:
            rows.append((found["image"].strip(), found["caption"]))
        elif line.strip():
            wrong.append(
                f"expected image.jpg#number, a tab and a caption on line {number} of {path}, but "
                f"it is {line[:60]!r}"
            )
    if wrong and options.get("on_error") == "skip":
        warnings.warn(f"{len(wrong):,} lines left out; the first: {wrong[0]}", stacklevel=2)
    elif wrong:
        raise InputError(wrong[0])
    captions = grouped(rows)
    if not captions:
        raise InputError(f"expected captions in the token file {path}, but it is empty")
    if split is not None:
        captions = choose_split(captions, split, near=path, lists=split_lists)
    source = f"Flickr captions of {path.name}" + (f", {split}" if split else "")
    folder = image_folder(images, near=path, names=tuple(captions))
    return assemble(captions, folder=folder, source=source, **options)
