"""The image side of image-caption data: pictures or features, behind one small protocol.

Legend: N images, B of them in a batch, pictures of 3 x H x W, features of D numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from strop.support import InputError

Indices = Tensor | Sequence[int]


@runtime_checkable
class Images(Protocol):
    """What every part of the library asks of a collection of images.

    ``images[i]`` is one image: a uint8 picture (3, H, W) or a float vector of features (D,).
    """

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Tensor: ...

    def batch(self, indices: Indices, /) -> Tensor:
        """The images at ``indices``, stacked: (B, 3, H, W) or (B, D)."""

    def select(self, indices: Indices, /) -> "Images":
        """The collection of the images at ``indices``, in that order, still unread."""

    def describe(self) -> str:
        """What one image is, in a few words: ``pictures of 64 x 64``."""


@dataclass(frozen=True, eq=False)
class TensorImages:
    """Images that are in memory: uint8 pictures (N, 3, H, W) or floating features (N, D).

    Features may have more dimensions than two (regions, patches); all must be finite.

    >>> pictures = TensorImages(torch.zeros(5, 3, 8, 8, dtype=torch.uint8))
    >>> pictures.batch([0, 3]).shape, pictures.describe()
    (torch.Size([2, 3, 8, 8]), 'pictures of 8 x 8')
    >>> TensorImages(torch.randn(5, 16)).describe()
    'features of 16 numbers'
    """

    values: Tensor

    def __post_init__(self) -> None:
        values = self.values
        if values.dtype == torch.uint8:
            if values.ndim != 4 or values.shape[1] != 3:
                raise InputError(
                    f"expected pictures as a uint8 tensor (N, 3, H, W), but its shape is "
                    f"{tuple(values.shape)}; move the colour channels to dimension 1"
                )
        elif values.is_floating_point():
            _check_features(values)
        else:
            raise InputError(
                f"expected uint8 pictures or floating-point features, but the tensor is "
                f"{values.dtype}; convert it to one of the two"
            )

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: int, /) -> Tensor:
        return self.values[index]

    def batch(self, indices: Indices, /) -> Tensor:
        chosen = as_indices(indices, length=len(self), of="images")
        return self.values[chosen.to(self.values.device)]

    def select(self, indices: Indices, /) -> "TensorImages":
        return TensorImages(self.batch(indices))

    def describe(self) -> str:
        shape = self.values.shape
        if self.values.dtype == torch.uint8:
            return f"pictures of {shape[2]} x {shape[3]}"
        return f"features of {' x '.join(f'{side:,}' for side in shape[1:])} numbers"


def _check_features(values: Tensor) -> None:
    if values.ndim < 2:
        raise InputError(
            f"expected features as a matrix (N, D), but the tensor has the shape "
            f"{tuple(values.shape)}; give one row per image"
        )
    finite = torch.isfinite(values.flatten(1)).all(dim=1)
    if not bool(finite.all()):
        broken = torch.nonzero(~finite).flatten()
        raise InputError(
            f"expected finite features, but {len(broken):,} of {len(values):,} rows hold NaN or "
            f"infinity, the first of them row {int(broken[0])}; compute those rows again or leave "
            f"those images out"
        )


def as_images(images: Images | Tensor) -> Images:
    """``images`` as they are, a bare tensor as :class:`TensorImages`."""
    if isinstance(images, Tensor):
        return TensorImages(images)
    if isinstance(images, Images):
        return images
    raise InputError(
        f"expected images as a tensor or as a collection with len, [i], batch, select and "
        f"describe, but they are of type {type(images).__name__}; wrap arrays with "
        f"torch.from_numpy, files with ImageFiles"
    )


def as_indices(indices: Indices, *, length: int, of: str) -> Tensor:
    """``indices`` as a long tensor on the CPU, each in 0 .. length - 1; a mask gives its true ones.

    >>> as_indices(torch.tensor([True, False, True]), length=3, of="images")
    tensor([0, 2])
    """
    chosen = torch.as_tensor(indices).cpu()
    if chosen.dtype == torch.bool:
        if chosen.shape != (length,):
            raise InputError(
                f"expected a mask over {length} {of}, but its shape is {tuple(chosen.shape)}"
            )
        return torch.nonzero(chosen).flatten()
    if chosen.numel() == 0:
        return torch.empty(0, dtype=torch.long)
    if chosen.ndim != 1 or chosen.is_floating_point():
        raise InputError(
            f"expected a list of whole numbers as indices of {of}, but came a tensor of "
            f"{chosen.dtype} and shape {tuple(chosen.shape)}"
        )
    outside = (chosen < 0) | (chosen >= length)
    if bool(outside.any()):
        raise InputError(
            f"expected indices of {length} {of} in 0 .. {length - 1}, but one is "
            f"{int(chosen[outside][0])}"
        )
    return chosen.long()
