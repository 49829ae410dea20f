"""Batches of (picture, caption, image number) for training.

Index legend: p pair, that is one caption with its image.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from strop.support import InputError

View = Callable[[Tensor, torch.Generator], Tensor]
"""What is done to pictures before the encoder sees them, with the randomness it may use."""


@dataclass(frozen=True)
class PairBatch:
    """Rows that belong together: picture p, caption p, and the number of the image."""

    images: Tensor
    tokens: Any
    image_ids: Tensor

    def to(self, device: torch.device, *, non_blocking: bool = False) -> Self:
        return type(self)(
            self.images.to(device, non_blocking=non_blocking),
            self.tokens.to(device),
            self.image_ids.to(device, non_blocking=non_blocking),
        )

    def __len__(self) -> int:
        return len(self.image_ids)


@dataclass(frozen=True)
class Pairs:
    """All pairs of a training set; calling it with numbers of captions gives their batch.

    ``fetch_images`` takes numbers of images (on the CPU) and gives their pictures or features;
    ``concepts`` says which images show the same thing and are no negatives of one another.
    """

    fetch_images: Callable[[Tensor], Tensor]
    tokens: Any
    image_of_caption: Tensor
    concepts: Tensor
    view: View | None = None

    def __post_init__(self) -> None:
        if len(self.tokens) != len(self.image_of_caption):
            raise InputError(
                f"expected a caption for each of the {len(self.image_of_caption)} numbers of "
                f"image_of_caption, but there are {len(self.tokens)} captions"
            )

    def __len__(self) -> int:
        return len(self.image_of_caption)

    def __call__(self, rows: Tensor) -> PairBatch:
        numbers = self.image_of_caption[rows]
        images = self.fetch_images(numbers)
        if self.view is not None:
            # The loop seeds the global generator for each batch: this draw is repeatable.
            seed = int(torch.randint(2**62, ()))
            images = self.view(images, torch.Generator().manual_seed(seed))
        return PairBatch(images, self.tokens[rows], self.concepts[numbers])
