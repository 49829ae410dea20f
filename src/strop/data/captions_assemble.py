"""What all readers of caption files share: texts, splits, and pictures that may be missing."""

import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypedDict, Unpack

import torch

from strop.data.captions import ImageCaptions
from strop.data.image_files import Fit, ImageFiles
from strop.support import InputError

PathLike = str | os.PathLike[str]

_PARTS = {
    **dict.fromkeys(("train", "training", "trn"), "train"),
    **dict.fromkeys(("val", "valid", "validation", "dev"), "validation"),
    **dict.fromkeys(("test", "testing"), "test"),
}


class NoSuchSplitError(InputError):
    """The data name their parts, or none, and not the one that was asked for."""


class FileOptions(TypedDict, total=False):
    """What every reader of pictures takes besides.

    size, fit, cache, threads: see :class:`~strop.data.ImageFiles`.
    check: ``"exists"`` (the default) looks whether each file is there; ``"decode"`` decodes each
        once, so that a broken one is found now and not in the ninth epoch; ``"no"`` trusts.
    on_error: ``"raise"`` (the default) stops at a missing or broken picture or an unreadable row;
        ``"skip"`` leaves it out and says so in a warning.
    """

    size: int | None
    fit: Fit
    cache: PathLike | None
    threads: int | None
    check: Literal["exists", "decode", "no"]
    on_error: Literal["raise", "skip"]


def part_name(split: str) -> str:
    """The usual name of a part: ``val``, ``dev`` and ``valid`` are all ``validation``.

    >>> part_name("Dev"), part_name("restval")
    ('validation', 'restval')
    """
    return _PARTS.get(split.strip().lower(), split.strip().lower())


def part_names(split: str) -> frozenset[str]:
    """The parts of a split asked for; several are joined by a plus.

    >>> sorted(part_names("train+restval"))
    ['restval', 'train']
    """
    return frozenset(part_name(name) for name in split.split("+"))


def part_named_in(file: str) -> str | None:
    """The part that a file's name speaks of.

    >>> part_named_in("Flickr_8k.devImages.txt"), part_named_in("captions.txt")
    ('validation', None)
    """
    found = {part for word, part in _PARTS.items() if word in file.lower()}
    return found.pop() if len(found) == 1 else None


def read_text(path: PathLike, *, what: str, encoding: str = "utf-8-sig") -> str:
    """The text of a file, or a sentence that says what is wrong with it."""
    path = Path(path)
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise InputError(f"expected the {what} at {path}, but there is no such file") from error
    except IsADirectoryError as error:
        raise InputError(f"expected the {what} at {path}, but that is a folder") from error
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        sixteen = data.startswith((b"\xff\xfe", b"\xfe\xff"))
        likely = "utf-16" if sixteen else "cp1252"
        raise InputError(
            f"expected the {what} {path} in {encoding.removesuffix('-sig').upper()}, but byte "
            f"{error.start} is not; say how it is written, such as encoding={likely!r}"
        ) from error
    except LookupError as error:
        raise InputError(f"expected a known encoding, but came {encoding!r}") from error


def grouped(rows: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Captions by image, images in the order of their first caption."""
    captions: dict[str, list[str]] = {}
    for name, caption in rows:
        captions.setdefault(name, []).append(caption)
    return captions


def image_folder(images: PathLike | None, *, near: Path, names: Sequence[str]) -> Path:
    """The folder that holds ``names``: ``images`` if given, or one found beside the captions."""
    if images is not None:
        if not Path(images).is_dir():
            raise InputError(f"expected the folder of the images at {images}, but it is no folder")
        return Path(images)
    beside = near.parent.absolute()
    for folder in (beside, *_folders(beside), beside.parent, *_folders(beside.parent)):
        if any((folder / name).is_file() for name in names[:5]):
            return folder
    return beside


def _folders(folder: Path) -> list[Path]:
    try:
        return sorted(child for child in folder.iterdir() if child.is_dir())
    except OSError:
        return []


def assemble(
    captions: Mapping[str, Sequence[str]],
    *,
    folder: Path,
    source: str,
    fields: Mapping[str, Sequence[str]] | None = None,
    **options: Unpack[FileOptions],
) -> ImageCaptions:
    """Image files in ``folder`` and their captions; blank captions are left out."""
    if not captions:
        raise InputError(f"expected images with captions, but {source} has none")
    names = tuple(captions)
    cache = options.get("cache")
    files = ImageFiles(
        tuple(folder / name for name in names),
        size=options.get("size"),
        fit=options.get("fit", "crop"),
        cache=None if cache is None else Path(cache),
        threads=options.get("threads"),
    )
    texts = [[text.strip() for text in captions[name] if text.strip()] for name in names]
    data = ImageCaptions(
        images=files,
        names=names,
        captions=tuple(text for each in texts for text in each),
        image_of_caption=torch.repeat_interleave(
            torch.arange(len(names)), torch.tensor([len(each) for each in texts])
        ),
        fields={key: tuple(values) for key, values in (fields or {}).items()},
        source=source,
    )
    return check_images(
        data, check=options.get("check", "exists"), on_error=options.get("on_error", "raise")
    )


def check_images(
    data: ImageCaptions,
    *,
    check: Literal["exists", "decode", "no"] = "decode",
    on_error: Literal["raise", "skip"] = "raise",
) -> ImageCaptions:
    """The same data, once every picture is known to be there (or to be whole).

    With ``on_error="skip"`` the pictures that are not are left out, with a warning that names one.
    """
    if check not in ("exists", "decode", "no"):
        raise InputError(f"expected check to be 'exists', 'decode' or 'no', but came {check!r}")
    if on_error not in ("raise", "skip"):
        raise InputError(f"expected on_error to be 'raise' or 'skip', but came {on_error!r}")
    files = data.images
    if check == "no" or not isinstance(files, ImageFiles):
        return data
    if check == "exists":
        wrong = {
            at: f"expected an image at {path}, but there is no such file"
            for at, path in enumerate(files.paths)
            if not path.is_file()
        }
    else:
        wrong = {broken.index: broken.reason for broken in files.broken()}
    if not wrong:
        return data
    reason = next(iter(wrong.values()))
    tally = f"{len(wrong):,} of {len(files):,} images cannot be read; the first: {reason}"
    if on_error == "raise" or len(wrong) == len(files):
        raise InputError(
            f"{data.source}: {tally} (name the folder with images=..., or leave such images out "
            f"with on_error='skip')"
        )
    warnings.warn(f"{data.source}: {tally}; they are left out", stacklevel=3)
    return data.subset([at for at in range(len(files)) if at not in wrong])
