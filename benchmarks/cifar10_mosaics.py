"""CIFAR-10 small enough to carry to a machine without network: mosaics of a thousand pictures.

    PYTHONPATH=src python benchmarks/cifar10_mosaics.py .cache/cifar10-mosaics

The 50,000 training pictures become JPEG 95 without chroma subsampling (41 MB, an error of 2.6 of
255 root mean square, and no block crosses from one picture into another), the first 2,000 test
pictures PNG (4 MB, exact: what is measured is measured on the true pictures).
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from strop.data import LabelledImages, read_images
from strop.data.classification_door import CIFAR10_CLASSES

ROWS, COLUMNS, SIDE = 25, 40, 32


def pack(folder: Path, *, quality: int = 95, test: int = 2000) -> None:
    """Write the mosaics of ``cifar10`` and the labels, one byte each."""
    folder.mkdir(parents=True, exist_ok=True)
    for split, count in (("train", 50_000), ("test", test)):
        data = read_images("cifar10", split=split)
        data.labels[:count].to(torch.uint8).numpy().tofile(folder / f"{split}-labels.bin")
        for index, pixels in enumerate(data.images[:count].split(ROWS * COLUMNS)):
            picture = Image.fromarray(_mosaic(pixels))
            name = folder / f"{split}-{index:02d}"
            if split == "train":
                picture.save(name.with_suffix(".jpg"), quality=quality, subsampling=0)
            else:
                picture.save(name.with_suffix(".png"), optimize=True)


def unpack(folder: Path, *, split: str) -> LabelledImages:
    """The pictures of a split, as far as they were packed."""
    labels = torch.from_numpy(np.fromfile(folder / f"{split}-labels.bin", dtype=np.uint8).copy())
    files = sorted((*folder.glob(f"{split}-*.jpg"), *folder.glob(f"{split}-*.png")))
    pixels = torch.cat([_pictures(Image.open(file)) for file in files])
    record = {"step": "read", "format": "CIFAR-10, mosaics", "split": split}
    return LabelledImages.from_tensors(pixels, labels, class_names=CIFAR10_CLASSES, record=record)


def _mosaic(pixels: Tensor) -> np.ndarray:
    grid = pixels.reshape(-1, COLUMNS, 3, SIDE, SIDE).permute(0, 3, 1, 4, 2)
    return grid.reshape(-1, COLUMNS * SIDE, 3).numpy()


def _pictures(mosaic: Image.Image) -> Tensor:
    grid = torch.from_numpy(np.asarray(mosaic.convert("RGB")).copy())
    tiles = grid.reshape(-1, SIDE, COLUMNS, SIDE, 3).permute(0, 2, 4, 1, 3)
    return tiles.reshape(-1, 3, SIDE, SIDE).contiguous()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    pack(parser.parse_args().folder)
