"""``read_images``: one door to every format, which says what it found behind it."""

import os
from enum import Enum
from functools import partial
from pathlib import Path

from strop.data.classification import LabelledImages
from strop.data.classification_formats import (
    concatenated,
    find_image_classes,
    find_splits,
    pickled_names,
    read_cifar_binary,
    read_cifar_pickle,
    read_idx_pair,
    read_image_classes,
    read_pickled_table,
)
from strop.data.sources import find_data
from strop.support import InputError

DIGITS = tuple("0123456789")
GARMENTS = (
    *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
    *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
)
CIFAR10_CLASSES = (
    *("airplane", "automobile", "bird", "cat", "deer"),
    *("dog", "frog", "horse", "ship", "truck"),
)
IDX_PREFIXES = {"train": "train", "test": "t10k"}
CIFAR10_BATCHES = {
    "train": tuple(f"data_batch_{number}" for number in range(1, 6)),
    "test": ("test_batch",),
}


class ImageFormat(Enum):
    """The formats :func:`read_images` knows, by the words it uses for them."""

    IDX = "IDX files"
    CIFAR10_BINARY = "CIFAR-10, binary version"
    CIFAR10_PYTHON = "CIFAR-10, python version"
    CIFAR100_BINARY = "CIFAR-100, binary version"
    CIFAR100_PYTHON = "CIFAR-100, python version"
    FOLDER = "a folder of images"


def recognise_images(path: str | os.PathLike[str]) -> ImageFormat:
    """The format of the data set in a folder, by the names of its files."""
    folder = find_data(path)
    if folder.is_file():
        raise InputError(
            f"expected the folder of a data set, but {folder} is a file; "
            "give the folder that holds it, unpacked if it is an archive"
        )
    names = {entry.name for entry in folder.iterdir() if entry.is_file()}
    batches = {*CIFAR10_BATCHES["train"], *CIFAR10_BATCHES["test"]}
    if _idx_folder(folder) is not None:
        return ImageFormat.IDX
    if names & {f"{batch}.bin" for batch in batches}:
        return ImageFormat.CIFAR10_BINARY
    if names & batches:
        return ImageFormat.CIFAR10_PYTHON
    if names & {"train.bin", "test.bin"}:
        return ImageFormat.CIFAR100_BINARY
    if names & {"train", "test"}:
        return ImageFormat.CIFAR100_PYTHON
    return ImageFormat.FOLDER


def read_images(
    path: str | os.PathLike[str],
    *,
    split: str | None = "train",
    coarse: bool = False,
    size: int | None = None,
    mode: str = "RGB",
) -> LabelledImages:
    """The images and labels of one split of a data set, whatever format its folder holds.

    Recognised: MNIST and Fashion-MNIST (IDX, gzipped or not), CIFAR-10 and CIFAR-100 (binary and
    python versions), and folders of images, ``path/split/class/image.png``, or
    ``path/class/image.png`` with ``split=None``. What was recognised stands in the result's
    ``record`` and ``repr``.

    Args:
        path: the folder, or the name of a known data set (see :func:`~strop.data.find_data`).
        split: ``"train"`` or ``"test"``; for folders of images the name of the split's folder.
        coarse: CIFAR-100 only: its 20 superclasses instead of its 100 classes.
        size: folders of images only: see :class:`~strop.data.ImageFiles`.
        mode: folders of images only: ``"RGB"`` or ``"L"`` (grey).
    """
    folder = find_data(path)
    kind = recognise_images(folder)
    if coarse and kind not in (ImageFormat.CIFAR100_BINARY, ImageFormat.CIFAR100_PYTHON):
        raise InputError(f"coarse labels are of CIFAR-100, but {folder} holds {kind.value}")
    if (size is not None or mode != "RGB") and kind is not ImageFormat.FOLDER:
        raise InputError(f"size and mode are for folders of images, but {folder} is {kind.value}")
    if kind is ImageFormat.FOLDER:
        return _read_folder(folder, split, size=size, mode=mode)
    if split not in ("train", "test"):
        raise InputError(
            f"expected the split 'train' or 'test' of {kind.value} in {folder}, but came {split!r}"
        )
    if kind is ImageFormat.IDX:
        return _read_idx(folder, split)
    if kind in (ImageFormat.CIFAR10_BINARY, ImageFormat.CIFAR10_PYTHON):
        return _read_cifar10(folder, split, kind)
    if kind in (ImageFormat.CIFAR100_BINARY, ImageFormat.CIFAR100_PYTHON):
        return _read_cifar100(folder, split, kind, coarse=coarse)
    raise AssertionError(kind)


def _read_idx(folder: Path, split: str) -> LabelledImages:
    where = _idx_folder(folder) or folder
    prefix = IDX_PREFIXES[split]
    images, labels = read_idx_pair(
        _idx_file(where, f"{prefix}-images", 3), _idx_file(where, f"{prefix}-labels", 1)
    )
    fashion = "fashion" in f"{folder.parent.name}/{folder.name}".lower()
    count = max(int(labels.max()) + 1, 10) if len(labels) else 10
    names = GARMENTS if fashion and count == 10 else DIGITS if count == 10 else range(count)
    return LabelledImages.from_tensors(
        images,
        labels,
        class_names=[str(name) for name in names],
        record=_read_step(folder, ImageFormat.IDX, split),
    )


def _read_cifar10(folder: Path, split: str, kind: ImageFormat) -> LabelledImages:
    binary = kind is ImageFormat.CIFAR10_BINARY
    paths = [folder / (f"{name}.bin" if binary else name) for name in CIFAR10_BATCHES[split]]
    read = (
        partial(read_cifar_binary, label_bytes=1, label_byte=0)
        if binary
        else partial(read_cifar_pickle, label_key="labels")
    )
    images, labels = concatenated(paths, read)
    return LabelledImages.from_tensors(
        images,
        labels,
        class_names=CIFAR10_CLASSES,
        record=_read_step(folder, kind, split),
    )


def _read_cifar100(folder: Path, split: str, kind: ImageFormat, *, coarse: bool) -> LabelledImages:
    which, count = ("coarse", 20) if coarse else ("fine", 100)
    if kind is ImageFormat.CIFAR100_BINARY:
        images, labels = read_cifar_binary(
            folder / f"{split}.bin", label_bytes=2, label_byte=0 if coarse else 1
        )
        listing = folder / f"{which}_label_names.txt"
        names = tuple(listing.read_text("utf-8").split()) if listing.is_file() else ()
    else:
        images, labels = read_cifar_pickle(folder / split, label_key=f"{which}_labels")
        meta = folder / "meta"
        names = (
            pickled_names(read_pickled_table(meta), f"{which}_label_names", path=meta)
            if meta.is_file()
            else ()
        )
    return LabelledImages.from_tensors(
        images,
        labels,
        class_names=names or [str(number) for number in range(count)],
        record=_read_step(folder, kind, split) | {"labels": which},
    )


def _read_folder(folder: Path, split: str | None, *, size: int | None, mode: str) -> LabelledImages:
    if mode not in ("RGB", "L"):
        raise InputError(f"expected the mode 'RGB' or 'L' (grey), but came {mode!r}")
    splits = find_splits(folder)
    if split is None:
        where = folder
    elif split in splits:
        where = folder / split
    elif splits:
        raise InputError(
            f"expected the split {split!r} in {folder}, but its splits are {', '.join(splits)}"
        )
    elif find_image_classes(folder):
        raise InputError(
            f"expected the split {split!r} in {folder}, but it has classes and no splits; "
            "pass split=None to read all of it"
        )
    else:
        where = folder
    classes = find_image_classes(where)
    if not classes:
        raise InputError(
            f"expected a data set in {where}, but there are neither IDX nor CIFAR files in it nor "
            "a folder of images for each class; check the path, or bring the data with "
            "`strop data get`"
        )
    images, labels = read_image_classes(classes, size=size, mode=mode)
    return LabelledImages.from_tensors(
        images,
        labels,
        class_names=tuple(classes),
        record=_read_step(folder, ImageFormat.FOLDER, split) | {"size": size, "mode": mode},
    )


def _read_step(folder: Path, kind: ImageFormat, split: str | None) -> dict[str, object]:
    return {"step": "read", "format": kind.value, "path": folder.as_posix(), "split": split}


def _idx_folder(folder: Path) -> Path | None:
    for candidate in (folder, folder / "raw"):  # torchvision keeps IDX files in a folder "raw"
        for prefix in IDX_PREFIXES.values():
            if _idx_file(candidate, f"{prefix}-images", 3).is_file():
                return candidate
    return None


def _idx_file(folder: Path, stem: str, dimensions: int) -> Path:
    """The IDX file in any of its common spellings; where there is none, the usual spelling."""
    spellings = [
        folder / f"{stem}{dot}idx{dimensions}-ubyte{suffix}"
        for dot in ("-", ".")
        for suffix in ("", ".gz")
    ]
    return next((path for path in spellings if path.is_file()), spellings[0])
