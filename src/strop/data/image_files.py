"""Image files: decoded when asked for, many at a time, kept decoded on disk if wished.

Legend: N files, B of them in a batch, C channels, H x W pixels.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageOps
from torch import Tensor

from strop.data.images import Indices, TensorImages, as_indices
from strop.support import InputError, writing

Fit = Literal["crop", "stretch"]
T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True)
class BrokenImage:
    """A file that cannot be decoded: which of the collection, where it lies, and why."""

    index: int
    path: Path
    reason: str


@dataclass(frozen=True, eq=False)
class ImageFiles:
    """Image files that are decoded when they are asked for, as uint8 (C, H, W).

    Turned upright as their EXIF data say; what is transparent is put on white. A batch is decoded
    by several threads. Files that cannot be decoded raise an error with their path; to know before
    a long training, ask :meth:`broken` first.

    paths: the files.
    size: pictures become ``size x size``; ``None`` leaves each as it is, so that a batch can only
        hold pictures of one size.
    mode: ``"RGB"``, or ``"L"`` for one grey channel.
    fit: ``"crop"`` brings the shorter side to ``size`` and keeps the square in the middle;
        ``"stretch"`` squeezes the whole picture into the square.
    cache: a folder that keeps the decoded pixels, so that the next run or epoch only reads them.
        A changed file (path, time or length) or another size is decoded anew.
    threads: decoders at work at a time; ``None`` for as many as there are processors.
    """

    paths: tuple[Path, ...]
    size: int | None = None
    mode: str = "RGB"
    fit: Fit = "crop"
    cache: Path | None = None
    threads: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "paths", tuple(Path(path) for path in self.paths))
        if self.cache is not None:
            object.__setattr__(self, "cache", Path(self.cache).expanduser())
        if self.mode not in ("RGB", "L"):
            raise InputError(f"expected the mode 'RGB' or 'L' (grey), but came {self.mode!r}")
        if self.fit not in ("crop", "stretch"):
            raise InputError(f"expected fit to be 'crop' or 'stretch', but came {self.fit!r}")
        if self.size is not None and self.size < 1:
            raise InputError(f"expected a size of at least 1 pixel, but it is {self.size}")

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int, /) -> Tensor:
        path = self.paths[index]
        pixels = self._decode(path) if self.cache is None else self._from_cache(path, self.cache)
        return torch.from_numpy(pixels)

    def batch(self, indices: Indices, /) -> Tensor:
        """The pictures at ``indices``, uint8 (B, C, H, W), decoded side by side."""
        chosen = as_indices(indices, length=len(self), of="images").tolist()
        shape = torch.Size((3 if self.mode == "RGB" else 1, self.size or 0, self.size or 0))
        pictures = torch.empty(0, *shape, dtype=torch.uint8)
        for row, picture in enumerate(in_threads(self.__getitem__, chosen, threads=self.threads)):
            if row == 0:
                shape = picture.shape
                pictures = torch.empty(len(chosen), *shape, dtype=torch.uint8)
            if picture.shape != shape:
                raise InputError(
                    f"expected pictures of one size in a batch, but {self.paths[chosen[row]]} is "
                    f"{tuple(picture.shape[1:])} and the first {tuple(shape[1:])}; give "
                    f"ImageFiles a size"
                )
            pictures[row] = picture
        return pictures

    def select(self, indices: Indices, /) -> "ImageFiles":
        chosen = as_indices(indices, length=len(self), of="images").tolist()
        return replace(self, paths=tuple(self.paths[index] for index in chosen))

    def describe(self) -> str:
        if self.size is None:
            return "picture files of their own sizes"
        how = "cut" if self.fit == "crop" else "stretched"
        return f"picture files {how} to {self.size} x {self.size}"

    def broken(self) -> tuple[BrokenImage, ...]:
        """Every file that cannot be decoded. Decodes all of them, and so fills the cache."""

        def reason(index: int) -> str | None:
            try:
                self[index]
            except InputError as error:
                return str(error)
            return None

        reasons = in_threads(reason, range(len(self)), threads=self.threads)
        return tuple(
            BrokenImage(index, self.paths[index], reason)
            for index, reason in enumerate(reasons)
            if reason is not None
        )

    def in_memory(self) -> TensorImages:
        """All pictures, decoded now."""
        return TensorImages(self.batch(range(len(self))))

    def _decode(self, path: Path) -> NDArray[np.uint8]:
        return decode_image(path, size=self.size, mode=self.mode, fit=self.fit)

    def _from_cache(self, path: Path, cache: Path) -> NDArray[np.uint8]:
        try:
            facts = path.stat()
        except OSError:
            return self._decode(path)  # raises, with the reason
        settings = [self.size, self.mode, self.fit, _DECODING]
        key = [str(path.absolute()), facts.st_mtime_ns, facts.st_size, settings]
        digest = hashlib.sha256(json.dumps(key).encode()).hexdigest()
        kept = cache / digest[:2] / f"{digest[2:34]}.npy"
        try:
            return np.load(kept, allow_pickle=False)
        except (OSError, ValueError, EOFError):
            pixels = self._decode(path)
        try:
            with writing(kept) as partial, partial.open("wb") as file:
                np.save(file, pixels, allow_pickle=False)
        except OSError as error:
            raise InputError(
                f"expected to keep decoded pictures in {cache}, but {error.strerror}; make room, "
                f"name another cache, or do without one"
            ) from error
        return pixels


_DECODING = 1  # Raise it whenever the same file would give other pixels: old caches then rest.


def decode_image(
    path: str | os.PathLike[str], *, size: int | None = None, mode: str = "RGB", fit: Fit = "crop"
) -> NDArray[np.uint8]:
    """The pixels of one file, uint8 (C, H, W); see :class:`ImageFiles`."""
    path = Path(path)
    try:
        with Image.open(path) as file:
            _refuse_bombs(file, path)
            if size is not None:
                # A JPEG can leave out detail that the smaller picture would not show.
                file.draft(None, (2 * size, 2 * size))
            return picture_pixels(file, where=str(path), size=size, mode=mode, fit=fit)
    except InputError:
        raise
    except FileNotFoundError as error:
        raise InputError(f"expected an image at {path}, but there is no such file") from error
    except (OSError, ValueError, SyntaxError, EOFError, Image.DecompressionBombError) as error:
        empty = path.is_file() and path.stat().st_size == 0
        why = "the file is empty" if empty else f"it cannot be decoded ({error})"
        raise InputError(
            f"expected an image in {path}, but {why}; replace the file or leave it out"
        ) from error


def picture_pixels(
    picture: Image.Image, *, where: str, size: int | None, mode: str = "RGB", fit: Fit = "crop"
) -> NDArray[np.uint8]:
    """The pixels of an opened picture, uint8 (C, H, W); ``where`` names it in errors."""
    picture = _on_white(ImageOps.exif_transpose(picture), where).convert(mode)
    if size is not None and fit == "crop":
        picture = ImageOps.fit(picture, (size, size), Image.Resampling.BICUBIC)
    elif size is not None:
        picture = picture.resize((size, size), Image.Resampling.BICUBIC)
    pixels = np.array(picture)
    return np.ascontiguousarray(pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1))


def _refuse_bombs(file: Image.Image, path: Path) -> None:
    """Pillow warns of a picture over its limit and refuses one over twice it; we refuse both."""
    limit = Image.MAX_IMAGE_PIXELS
    if limit is not None and file.width * file.height > limit:
        raise InputError(
            f"expected an image of at most {limit:,} pixels, but {path} has {file.width:,} x "
            f"{file.height:,}: it may be made to fill the memory; scale it down, or raise "
            f"PIL.Image.MAX_IMAGE_PIXELS if you trust it"
        )


def _on_white(picture: Image.Image, where: str) -> Image.Image:
    if picture.mode.startswith(("I", "F")):
        raise InputError(
            f"expected 8 bits per channel, but {where} is in Pillow's mode {picture.mode!r}, whose "
            f"range is not known; convert it to an 8-bit image"
        )
    if not picture.has_transparency_data:
        return picture
    drawn = picture.convert("RGBA")
    white = Image.new("RGBA", drawn.size, "white")
    white.alpha_composite(drawn)
    return white


def in_threads(
    function: Callable[[T], U], items: Iterable[T], *, threads: int | None = None
) -> Iterator[U]:
    """``map(function, items)`` by several threads, results in the order of ``items``.

    >>> list(in_threads(abs, [-1, 2, -3], threads=2))
    [1, 2, 3]
    """
    rows: Sequence[T] = list(items)
    workers = min(threads or _processors(), len(rows))
    if workers <= 1:
        yield from map(function, rows)
        return
    with ThreadPoolExecutor(workers) as pool:
        yield from pool.map(function, rows)


def _processors() -> int:
    """The processors this process may use, which can be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
