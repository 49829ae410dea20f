"""Precomputed features in place of pictures.

Legend: N images, M captions, D features.
"""

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from strop.data.captions import ImageCaptions
from strop.data.captions_assemble import (
    NoSuchSplitError,
    PathLike,
    part_name,
    part_named_in,
    read_text,
)
from strop.data.images import TensorImages
from strop.support import InputError


def read_caption_features(
    path: PathLike, *, split: str | None = None, encoding: str = "utf-8-sig"
) -> ImageCaptions:
    """``train_ims.npy`` (N, D) and ``train_caps.txt``, the same number of captions per image.

    path: the folder of several such pairs, of which ``split`` names one, or one ``*_ims.npy``.
    Where every image is repeated once per caption, as the published features of COCO's test set
    are, equal neighbours are made one image again.
    """
    features = _feature_file(Path(path), split)
    captions_path = features.with_name(features.name.replace("_ims.npy", "_caps.txt"))
    values = load_features(features)
    lines = read_text(captions_path, what="captions of the features", encoding=encoding)
    captions = [line.strip() for line in lines.splitlines() if line.strip()]
    if len(values) == len(captions):
        values = _once_each(values)
    if len(values) == 0 or len(captions) % len(values):
        raise InputError(
            f"expected the same number of captions for each image, but {features} has "
            f"{len(values):,} images and {captions_path} has {len(captions):,} captions, which "
            f"is no multiple of it"
        )
    part = part_named_in(features.name) or features.stem.removesuffix("_ims")
    return ImageCaptions(
        images=TensorImages(values),
        names=tuple(f"{part}/{at}" for at in range(len(values))),
        captions=tuple(captions),
        image_of_caption=torch.arange(len(captions)) // (len(captions) // len(values)),
        source=f"features of {features.name}",
    )


def with_features(
    data: ImageCaptions, path: PathLike, *, values: str = "x", names: str = "names"
) -> ImageCaptions:
    """The same data with features in place of the pictures, matched by name.

    path: an ``.npz`` file with an array of features (N, D) and one of image names, which may name
        more images than ``data`` has. Features come as float32.
    """
    path = Path(path)
    with _opened(path) as archive:
        if not isinstance(archive, np.lib.npyio.NpzFile) or not {values, names} <= set(archive):
            held = ", ".join(archive) if isinstance(archive, np.lib.npyio.NpzFile) else "one array"
            raise InputError(
                f"expected the arrays {values!r} and {names!r} in {path}, but it holds {held}; "
                f"name them with values= and names="
            )
        matrix = _as_features(archive[values], path)
        row_of = {str(name): row for row, name in enumerate(archive[names].tolist())}
    if len(row_of) != len(matrix):
        raise InputError(
            f"expected a name of its own for each row of {path}, but there are {len(matrix):,} "
            f"rows and {len(row_of):,} different names"
        )
    missing = [name for name in data.names if name not in row_of]
    if missing:
        raise InputError(
            f"expected features of every image in {path}, but {len(missing):,} of "
            f"{len(data.names):,} have none, such as {missing[0]!r}; compute them, or take the "
            f"subset of images that have"
        )
    rows = torch.tensor([row_of[name] for name in data.names], dtype=torch.long)
    return ImageCaptions(
        images=TensorImages(matrix[rows]),
        names=data.names,
        captions=data.captions,
        image_of_caption=data.image_of_caption,
        fields=data.fields,
        source=f"{data.source}, features of {path.name}",
    )


def load_features(path: PathLike) -> Tensor:
    """The one array of an ``.npy`` file as float32 (N, D); pickled objects are refused."""
    with _opened(Path(path)) as array:
        if not isinstance(array, np.ndarray):
            raise InputError(f"expected one array in {path}, but it is an archive of several")
        return _as_features(array, Path(path))


@contextmanager
def _opened(path: Path) -> Iterator[NDArray[np.generic] | np.lib.npyio.NpzFile]:
    """``np.load`` without pickle, its failures as sentences."""
    try:
        loaded = np.load(path, allow_pickle=False)
    except FileNotFoundError as error:
        raise InputError(f"expected features at {path}, but there is no such file") from error
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(
            f"expected features in {path} as written by numpy.save or numpy.savez, but they "
            f"cannot be read ({error})"
        ) from error
    if isinstance(loaded, np.ndarray):
        yield loaded
    else:
        with loaded:
            yield loaded


def _as_features(array: NDArray[np.generic], path: Path) -> Tensor:
    if array.ndim < 2 or array.dtype.kind != "f":
        raise InputError(
            f"expected features as a matrix (N, D) of floating-point numbers in {path}, but it is "
            f"{array.dtype} of shape {array.shape}"
        )
    try:
        return TensorImages(torch.from_numpy(array.astype(np.float32))).values
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _once_each(values: Tensor) -> Tensor:
    """One row of each run of equal rows if all runs are equally long; else all rows."""
    flat = values.flatten(1)
    starts = torch.cat((torch.tensor([True]), (flat[1:] != flat[:-1]).any(dim=1)))
    first = torch.nonzero(starts).flatten()
    lengths = torch.diff(first, append=torch.tensor([len(values)]))
    return values[first] if len(set(lengths.tolist())) == 1 else values


def _feature_file(path: Path, split: str | None) -> Path:
    if path.is_file():
        if split is not None and part_named_in(path.name) != part_name(split):
            raise NoSuchSplitError(
                f"expected the features of the split {split!r}, but {path} is one file, and its "
                "name is not of that part; leave split out, or name the folder"
            )
        return path
    files = sorted(path.glob("*_ims.npy"))
    if split is not None:
        wanted = part_name(split)
        files = [file for file in files if part_name(file.name.removesuffix("_ims.npy")) == wanted]
    if len(files) != 1:
        found = ", ".join(file.name for file in sorted(path.glob("*_ims.npy"))) or "no *_ims.npy"
        asked = "one *_ims.npy" if split is None else f"the features of the split {split!r}"
        raise NoSuchSplitError(
            f"expected {asked} in {path}, but it has {found}; name one with split="
        )
    return files[0]
