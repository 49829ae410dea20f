"""Views of pictures: the crops of the thesis, and mild changes for small pictures.

Thesis section 3.3: a picture of 256 x 256 is seen through one central window of 224 x 224 (1C),
through ten at fixed places whose features are averaged (10C), or through one at random (RC).

A batch holds pictures of one size, uint8 or floating, with values in 0..255, on any device. Where
there is chance, each picture draws its own numbers from the generator, on the generator's device:
the same seed gives the same views on every device.

Index legend: b picture, v view, c channel, h and w pixels.
"""

import math
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from strop.support import InputError

View = Literal["whole", "1C", "10C"]
"""The whole picture, its centre, or the mean over ten crops."""


def view_features(
    compute: Callable[[Tensor], Tensor], pictures: Tensor, view: View, *, size: int
) -> Tensor:
    """What ``compute`` makes of a view of each picture; for ten crops the mean."""
    if view == "whole":
        return compute(pictures)
    if view == "1C":
        return compute(centre_crop(pictures, size=size))
    if view == "10C":
        crops = ten_crops(pictures, size=size)
        return compute(crops.flatten(0, 1)).unflatten(0, crops.shape[:2]).mean(dim=1)
    raise InputError(f"expected the view 'whole', '1C' or '10C', but got {view!r}")


def centre_crop(pictures: Tensor, *, size: int = 224) -> Tensor:
    """The middle ``size x size`` pixels of each picture (thesis section 3.3, 1C).

    >>> centre_crop(torch.zeros(2, 3, 256, 256)).shape
    torch.Size([2, 3, 224, 224])
    """
    height, width = _room(pictures, size)
    top, left = height // 2, width // 2
    return pictures[..., top : top + size, left : left + size]


def ten_crops(pictures: Tensor, *, size: int = 224) -> Tensor:
    """The four corners, the centre, and the same five mirrored, as (b, 10, c, size, size).

    Thesis section 3.3, 10C: a picture's features are the mean over its ten views.

    >>> ten_crops(torch.zeros(2, 3, 256, 256)).shape
    torch.Size([2, 10, 3, 224, 224])
    """
    height, width = _room(pictures, size)
    corners = [(0, 0), (0, width), (height, 0), (height, width), (height // 2, width // 2)]
    crops = [pictures[..., top : top + size, left : left + size] for top, left in corners]
    five = torch.stack(crops, dim=1)
    return torch.cat([five, five.flip(-1)], dim=1)


def random_crop(
    pictures: Tensor, *, size: int = 224, flip: bool = True, generator: torch.Generator
) -> Tensor:
    """A window at a random place of each picture, every second one mirrored (section 3.3, RC).

    >>> generator = torch.Generator().manual_seed(0)
    >>> random_crop(torch.zeros(2, 3, 256, 256), generator=generator).shape
    torch.Size([2, 3, 224, 224])
    """
    height, width = _room(pictures, size)
    count, device = len(pictures), pictures.device
    window = torch.arange(size, device=device)
    rows = _whole_numbers(count, height, generator).to(device)[:, None] + window
    columns = _whole_numbers(count, width, generator).to(device)[:, None] + window
    if flip:
        mirrored = _whole_numbers(count, 1, generator).to(device, torch.bool)
        columns = torch.where(mirrored[:, None], columns.flip(1), columns)
    picture = torch.arange(count, device=device)[:, None, None, None]
    channel = torch.arange(pictures.shape[1], device=device)[:, None, None]
    return pictures[picture, channel, rows[:, None, :, None], columns[:, None, None, :]]


def augment(
    pictures: Tensor,
    *,
    shift: float = 0.08,
    scale: float = 0.1,
    rotation: float = 8.0,
    brightness: float = 0.15,
    colour: float = 0.05,
    flip: bool = False,
    generator: torch.Generator,
) -> Tensor:
    """Each picture moved, scaled, turned and tinted a little; the edges are continued outwards.

    Uniform draws: a shift of at most ``shift`` of the side, a size between ``1 - scale`` and
    ``1 + scale``, at most ``rotation`` degrees either way, brightness times at most
    ``1 + brightness``, each channel times at most ``1 + colour`` (and as much below 1). Mirroring
    must be asked for: a caption may speak of left and right.

    >>> generator = torch.Generator().manual_seed(0)
    >>> pictures = torch.full((2, 3, 32, 32), 255, dtype=torch.uint8)
    >>> augment(pictures, brightness=0, colour=0, generator=generator).min()
    tensor(255, dtype=torch.uint8)
    """
    _check(pictures)
    working = torch.promote_types(pictures.dtype, torch.float32)
    sizes = {"shift": shift, "scale": scale, "brightness": brightness, "colour": colour}
    for name, value in sizes.items():
        if not 0 <= value < 1:
            raise InputError(f"expected {name} in [0, 1), but it is {value}")

    def uniform(*shape: int) -> Tensor:
        drawn = torch.rand(len(pictures), *shape, generator=generator, device=generator.device)
        return (2 * drawn - 1).to(pictures.device, working)

    angle = uniform() * math.radians(rotation)
    zoom = 1 / (1 + uniform() * scale)
    mirror = torch.ones_like(angle)
    if flip:
        mirror = torch.where(uniform() < 0, -mirror, mirror)
    # affine_grid counts in half sides, each axis in its own: turning an oblong picture without
    # shearing it needs the ratio of its sides.
    ratio = pictures.shape[3] / pictures.shape[2]
    cosine, sine = zoom * angle.cos(), zoom * angle.sin()
    linear = torch.stack(
        [
            torch.stack([mirror * cosine, -sine / ratio], dim=1),
            torch.stack([mirror * sine * ratio, cosine], dim=1),
        ],
        dim=1,
    )
    where = torch.cat([linear, 2 * shift * uniform(2)[:, :, None]], dim=2)
    grid = F.affine_grid(where, list(pictures.shape), align_corners=False)
    moved = F.grid_sample(pictures.to(working), grid, padding_mode="border", align_corners=False)
    gain = (1 + brightness * uniform(1)) * (1 + colour * uniform(pictures.shape[1]))
    tinted = (moved * gain[:, :, None, None]).clamp(0, 255)
    return (tinted if pictures.is_floating_point() else tinted.round()).to(pictures.dtype)


def _whole_numbers(count: int, highest: int, generator: torch.Generator) -> Tensor:
    """Uniform in 0..highest, both included."""
    return torch.randint(highest + 1, (count,), generator=generator, device=generator.device)


def _room(pictures: Tensor, size: int) -> tuple[int, int]:
    """How far a window of ``size`` can move down and to the right."""
    _check(pictures)
    height, width = pictures.shape[2:]
    if min(height, width) < size:
        raise InputError(
            f"a crop of {size} x {size} needs pictures at least that large, but they are "
            f"{height} x {width}: resize them first, or ask for a smaller size"
        )
    return height - size, width - size


def _check(pictures: Tensor) -> None:
    if pictures.ndim != 4:
        raise InputError(
            f"expected pictures of shape (batch, channels, height, width), "
            f"but they have shape {tuple(pictures.shape)}"
        )
    if pictures.dtype != torch.uint8 and not pictures.is_floating_point():
        raise InputError(f"expected pictures of uint8 or floating type, but got {pictures.dtype}")
