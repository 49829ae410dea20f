"""Pictures from files, uploads or Pillow, as the image encoders take them."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

import torch
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor

from strop.data.image_files import picture_pixels
from strop.support import InputError

SUFFIXES = frozenset({".avif", ".bmp", ".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp"})
Picture = str | Path | bytes | Image.Image


def find_pictures(folder: str | Path) -> list[str]:
    """Paths of the pictures under ``folder``, relative to it with forward slashes, sorted.

    Hidden files and folders are left out.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"expected a folder of pictures at {folder}, but there is none")
    relative = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    found = sorted(
        path.as_posix()
        for path in relative
        if path.suffix.lower() in SUFFIXES and not any(part[0] == "." for part in path.parts)
    )
    if not found:
        kinds = ", ".join(sorted(suffix[1:] for suffix in SUFFIXES))
        raise InputError(f"there is no picture under {folder}; looked for {kinds}")
    return found


def open_picture(picture: Picture, *, name: str | None = None) -> Image.Image:
    """A whole, upright picture to look at; ``name`` is what errors call bytes."""
    if isinstance(picture, Image.Image):
        return ImageOps.exif_transpose(picture)
    with _opened(picture, name) as opened:
        opened.load()
        return ImageOps.exif_transpose(opened)


def picture_tensor(picture: Picture, *, size: int, name: str | None = None) -> Tensor:
    """A picture as image encoders take it: the square in the middle, uint8 (3, size, size).

    Pixel for pixel what ``strop.data.ImageFiles`` gives for the same file.

    >>> picture_tensor(Image.new("RGBA", (8, 4)), size=2).unique()
    tensor([255], dtype=torch.uint8)
    """
    if isinstance(picture, Image.Image):
        return torch.from_numpy(picture_pixels(picture, where=name or "the picture", size=size))
    with _opened(picture, name) as opened:
        opened.draft(None, (2 * size, 2 * size))  # as files are read: a quicker decoding of JPEG
        pixels = picture_pixels(opened, where=_shown(picture, name), size=size)
    return torch.from_numpy(pixels)


@contextmanager
def _opened(picture: str | Path | bytes, name: str | None) -> Iterator[Image.Image]:
    shown = _shown(picture, name)
    try:
        with Image.open(BytesIO(picture) if isinstance(picture, bytes) else picture) as opened:
            # Pillow warns above its limit and refuses above twice that. Refused here is either;
            # making the warning an error would not do, since filters are shared by all threads.
            if opened.width * opened.height > (Image.MAX_IMAGE_PIXELS or math.inf):
                raise Image.DecompressionBombError
            yield opened
    except InputError:
        raise
    except (FileNotFoundError, IsADirectoryError) as error:
        raise InputError(f"expected a picture at {shown}, but there is no such file") from error
    except UnidentifiedImageError as error:
        raise InputError(
            f"{shown} is not a picture in a format that can be read: give a JPEG, PNG or WebP file"
        ) from error
    except Image.DecompressionBombError as error:
        raise InputError(
            f"{shown} has more than {Image.MAX_IMAGE_PIXELS:,} pixels: make it smaller first"
        ) from error
    except (OSError, SyntaxError, ValueError, EOFError) as error:
        raise InputError(f"{shown} is a damaged picture: {error}") from error


def _shown(picture: str | Path | bytes, name: str | None) -> str:
    return name or ("the file" if isinstance(picture, bytes) else str(picture))
