"""Pictures from files, uploads or Pillow, as the image encoders take them."""

import warnings
from io import BytesIO
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor

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
    """A whole, upright picture; ``name`` is what the error calls bytes that are none."""
    if isinstance(picture, Image.Image):
        return ImageOps.exif_transpose(picture)
    shown = name or ("the file" if isinstance(picture, bytes) else str(picture))
    try:
        with warnings.catch_warnings():
            # Pillow only warns at first; a picture of that size would fill the memory all the same.
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(BytesIO(picture) if isinstance(picture, bytes) else picture) as opened:
                opened.load()
                return ImageOps.exif_transpose(_eight_bits(opened))
    except (FileNotFoundError, IsADirectoryError) as error:
        raise InputError(f"expected a picture at {shown}, but there is no such file") from error
    except UnidentifiedImageError as error:
        raise InputError(
            f"{shown} is not a picture in a format that can be read: give a JPEG, PNG or WebP file"
        ) from error
    except (Image.DecompressionBombWarning, Image.DecompressionBombError) as error:
        raise InputError(
            f"{shown} has more than {Image.MAX_IMAGE_PIXELS:,} pixels: make it smaller first"
        ) from error
    except (OSError, SyntaxError, ValueError, EOFError) as error:
        raise InputError(f"{shown} is a damaged picture: {error}") from error


def picture_tensor(image: Image.Image, *, size: int) -> Tensor:
    """The square in the middle at ``size x size`` pixels, (3, size, size) in 0..255 (uint8).

    What is transparent becomes white.

    >>> picture_tensor(Image.new("RGBA", (8, 4)), size=2).unique()
    tensor([255], dtype=torch.uint8)
    """
    if image.has_transparency_data:
        layer = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer)
    fitted = ImageOps.fit(image.convert("RGB"), (size, size), Image.Resampling.BICUBIC)
    return torch.from_numpy(np.array(fitted)).permute(2, 0, 1).contiguous()


def _eight_bits(image: Image.Image) -> Image.Image:
    """Grey of 16 bits brought to 8, where Pillow's own conversion would cut it off at 255."""
    if not image.mode.startswith("I;16"):
        return image
    return Image.fromarray((np.asarray(image).astype(np.uint16) // 257).astype(np.uint8))
