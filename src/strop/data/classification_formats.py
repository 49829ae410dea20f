"""Readers of the files that image classification data come in: IDX, CIFAR, folders of images."""

import gzip
import math
import os
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from strop.data.classification_pickles import PickledArray, load_plain_pickle
from strop.data.image_files import ImageFiles
from strop.support import InputError

CIFAR_SHAPE = (3, 32, 32)
CIFAR_PIXELS = math.prod(CIFAR_SHAPE)
IMAGE_SUFFIXES = frozenset(
    {".png", ".jpg", ".jpeg", ".bmp", ".webp", ".gif", ".ppm", ".pgm", ".tif", ".tiff"}
)


def read_idx(path: str | os.PathLike[str]) -> Tensor:
    """The uint8 tensor in an IDX file, plain or gzipped (by content, whatever its name).

    An IDX file is two zero bytes, a type byte (8: unsigned byte), the number of dimensions, each
    dimension as a big-endian 32-bit number, then the values, the last dimension fastest.
    """
    path = Path(path)
    content = _read_bytes(path)
    if content[:2] == b"\x1f\x8b":
        try:
            content = gzip.decompress(content)
        except (EOFError, OSError, zlib.error) as error:
            raise InputError(
                f"expected a whole gzip file in {path}, but it is cut short or damaged ({error}); "
                "bring it again"
            ) from error
    if len(content) < 4 or content[:3] != b"\x00\x00\x08":
        raise InputError(
            f"expected an IDX file of unsigned bytes, which begins 00 00 08, in {path}, "
            f"but it begins {content[:4].hex(' ') or 'with nothing'}; check that the file is the "
            "data and not a web page or another format"
        )
    start = 4 + 4 * content[3]
    shape = (
        tuple(np.frombuffer(content[4:start], dtype=">u4").tolist())
        if start <= len(content)
        else ()
    )
    if len(shape) != content[3] or len(content) != start + math.prod(shape):
        raise InputError(
            f"expected {start + math.prod(shape):,} bytes in the IDX file {path} "
            f"by its header {' x '.join(map(str, shape)) or '(cut short)'}, "
            f"but it has {len(content):,}; bring it again"
        )
    return torch.frombuffer(bytearray(content), dtype=torch.uint8)[start:].reshape(shape)


def read_idx_pair(images: Path, labels: Path) -> tuple[Tensor, Tensor]:
    """Images (n, 1, h, w) and labels (n,) from two IDX files."""
    pixels, classes = read_idx(images), read_idx(labels)
    if pixels.ndim != 3 or classes.ndim != 1 or len(pixels) != len(classes):
        raise InputError(
            f"expected {images} to hold n images of h x w and {labels} n labels, "
            f"but they hold {tuple(pixels.shape)} and {tuple(classes.shape)}; "
            "check that both files are of the same set and split"
        )
    return pixels.unsqueeze(1), classes.to(torch.long)


def read_cifar_binary(path: Path, *, label_bytes: int, label_byte: int) -> tuple[Tensor, Tensor]:
    """Images (n, 3, 32, 32) and labels (n,) of one file of CIFAR's binary version.

    A record is ``label_bytes`` labels (CIFAR-10: one; CIFAR-100: coarse, fine) and then the red,
    green and blue planes; ``label_byte`` is the label to take.
    """
    content = _read_bytes(path)
    record = label_bytes + CIFAR_PIXELS
    if not content or len(content) % record:
        raise InputError(
            f"expected whole records of {record:,} bytes in {path}, "
            f"but its {len(content):,} bytes are not a multiple of that; bring it again, "
            "or check that it is of this data set's binary version"
        )
    rows = torch.frombuffer(bytearray(content), dtype=torch.uint8).reshape(-1, record)
    images = rows[:, label_bytes:].reshape(-1, *CIFAR_SHAPE).contiguous()
    return images, rows[:, label_byte].to(torch.long)


def read_cifar_pickle(path: Path, *, label_key: str) -> tuple[Tensor, Tensor]:
    """Images (n, 3, 32, 32) and labels (n,) of one file of CIFAR's python version.

    The file is a pickle. Only plain values and byte arrays are let in: nothing in it is run.
    """
    batch = read_pickled_table(path)
    data, labels = batch.get("data"), batch.get(label_key)
    if not isinstance(data, PickledArray) or not isinstance(labels, list):
        raise InputError(
            f"expected the array 'data' and the list {label_key!r} in {path}, "
            f"but it has {', '.join(batch) or 'nothing'}; check that it is a batch of this data set"
        )
    if data.shape != (len(labels), CIFAR_PIXELS) or not all(type(x) is int for x in labels):
        raise InputError(
            f"expected {len(labels)} x {CIFAR_PIXELS} bytes and as many whole-number labels in "
            f"{path}, but 'data' is {' x '.join(map(str, data.shape))}; bring it again"
        )
    return data.tensor().reshape(-1, *CIFAR_SHAPE).contiguous(), torch.tensor(
        labels, dtype=torch.long
    )


def read_pickled_table(path: Path) -> Mapping[str, Any]:
    """The dictionary in a pickle of plain values, its keys as text."""
    table = load_plain_pickle(_read_bytes(path), source=path)
    if not isinstance(table, dict):
        raise InputError(f"expected a dictionary in {path}, but came {type(table).__name__}")
    return {_text(key): value for key, value in table.items()}


def pickled_names(table: Mapping[str, Any], key: str, *, path: Path) -> tuple[str, ...]:
    names = table.get(key)
    if not isinstance(names, list):
        raise InputError(f"expected the list {key!r} in {path}, but it has {', '.join(table)}")
    return tuple(_text(name) for name in names)


def find_image_classes(folder: Path) -> dict[str, tuple[Path, ...]]:
    """Image files by class: every subfolder that holds images, sorted; deeper folders count."""
    classes = {}
    for child in sorted(path for path in folder.iterdir() if path.is_dir()):
        files = sorted(path for path in child.rglob("*") if _is_image(path))
        if files:
            classes[child.name] = tuple(files)
    return classes


def find_splits(folder: Path) -> list[str]:
    """Subfolders that hold classes; none where any subfolder holds images itself."""
    children = sorted(path for path in folder.iterdir() if path.is_dir())
    if any(_is_image(path) for child in children for path in child.iterdir()):
        return []
    return [child.name for child in children if find_image_classes(child)]


def read_image_classes(
    classes: Mapping[str, Sequence[Path]], *, size: int | None, mode: str
) -> tuple[ImageFiles, Tensor]:
    """Lazily decoded images and their labels (n,), the classes in the mapping's order."""
    counts = torch.tensor([len(files) for files in classes.values()])
    paths = tuple(path for files in classes.values() for path in files)
    labels = torch.arange(len(classes)).repeat_interleave(counts)
    return ImageFiles(paths, size=size, mode=mode), labels


def concatenated(
    paths: Sequence[Path], read: Callable[[Path], tuple[Tensor, Tensor]]
) -> tuple[Tensor, Tensor]:
    """The images and labels of several files, one after another."""
    parts = [read(path) for path in paths]
    return torch.cat([images for images, _ in parts]), torch.cat([labels for _, labels in parts])


def _is_image(path: Path) -> bool:
    return path.suffix.lower() in IMAGE_SUFFIXES and not path.name.startswith(".")


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise InputError(
            f"expected the file {path}, but there is no such file; "
            "bring the data set again or check the path"
        ) from error
    except OSError as error:
        raise InputError(
            f"expected to read the file {path}, but it cannot be: {error.strerror}"
        ) from error


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
