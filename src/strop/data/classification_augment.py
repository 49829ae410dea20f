"""Random crops and mirror images: what CIFAR is commonly trained with."""

import torch
from torch import Tensor
from torch.nn.functional import pad

from strop.support import InputError


def crop_and_flip(
    images: Tensor, *, generator: torch.Generator, padding: int = 4, flip: bool = True
) -> Tensor:
    """Each image shifted by up to ``padding`` pixels, zeros coming in, and mirrored half the time.

    The shift is even over the (2 padding + 1)^2 possible ones, which is a random crop of the image
    with ``padding`` zeros around it. The images keep their shape, dtype and device; the random
    numbers come from ``generator``, which may be the CPU's.

    >>> image = torch.ones(1, 1, 2, 2)
    >>> crop_and_flip(image, generator=torch.Generator(), padding=0).equal(image)
    True
    """
    if images.ndim != 4 or padding < 0:
        raise InputError(
            "expected images (n, channels, height, width) and a padding of 0 or more, "
            f"but came {tuple(images.shape)} and {padding}"
        )
    count, _, height, width = images.shape
    top, left = _draw(2 * padding + 1, (2, count, 1), generator).to(images.device)
    mirror = _draw(2, (count, 1), generator).to(images.device, torch.bool) & flip
    rows = top + torch.arange(height, device=images.device)
    across = torch.arange(width, device=images.device).expand(count, -1)
    columns = left + torch.where(mirror, across.flip(1), across)
    padded = pad(images, (padding,) * 4)
    example = torch.arange(count, device=images.device)[:, None, None]
    # Indices on both sides of the channel slice put the channels last.
    return (
        padded[example, :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2).contiguous()
    )


def _draw(high: int, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    return torch.randint(high, shape, generator=generator, device=generator.device)
