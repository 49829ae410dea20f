"""Changes to image-caption data: captions that belong to another image."""

from dataclasses import replace

import torch

from strop.data.captions import ImageCaptions
from strop.support import InputError


def wrong_captions(
    data: ImageCaptions, *, share: float, generator: torch.Generator
) -> ImageCaptions:
    """``share`` of the captions, drawn at random, each given to the image of another of them.

    >>> data = ImageCaptions(torch.zeros(4, 1), tuple("abcd"), tuple("ABCD"), torch.arange(4))
    >>> noisy = wrong_captions(data, share=0.5, generator=torch.Generator().manual_seed(0))
    >>> int((noisy.image_of_caption != data.image_of_caption).sum())
    2
    """
    if not 0 <= share <= 1:
        raise InputError(f"expected a share of the captions between 0 and 1, but it is {share}")
    count = round(share * len(data.captions))
    chosen = torch.randperm(len(data.captions), generator=generator)[:count]
    owners = data.image_of_caption.clone()
    owners[chosen] = owners[chosen.roll(1)]
    return replace(
        data, image_of_caption=owners, source=f"{data.source}, {share:.0%} of captions wrong"
    )
