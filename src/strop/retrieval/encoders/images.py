"""Image encoders that need no other library.

Index legend: b example, c channel, h and w pixels, f feature.
"""

from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from strop.support import InputError


class ImageEncoder(Protocol):
    """Images (b, c, h, w) in 0..255, or features (b, f), to vectors (b, ``output_dim``)."""

    output_dim: int

    def __call__(self, images: Tensor) -> Tensor: ...

    def config(self) -> dict[str, Any]:
        """Plain values from which the encoder can be built again."""
        ...


class PrecomputedFeatures(nn.Module):
    """Features of a frozen network, each scaled to unit length; nothing is learned here.

    ``widths`` says how the columns divide into the features of several networks: each part is
    normalised apart, so that none drowns the other. ``dropout`` zeroes columns in training.

    >>> encoder = PrecomputedFeatures(widths=(2, 1))
    >>> encoder(torch.tensor([[3.0, 4.0, 7.0]]))
    tensor([[0.6000, 0.8000, 1.0000]])
    """

    def __init__(self, *, widths: tuple[int, ...], dropout: float = 0.0) -> None:
        super().__init__()
        self.widths = tuple(widths)
        self.output_dim = sum(self.widths)
        self.dropout = nn.Dropout(dropout)

    def forward(self, features: Tensor) -> Tensor:
        if features.ndim != 2 or features.shape[1] != self.output_dim:
            raise InputError(
                f"expected features of shape (batch, {self.output_dim}), "
                f"but they have shape {tuple(features.shape)}"
            )
        parts = features.split(self.widths, dim=1)
        return self.dropout(torch.cat([F.normalize(part, dim=1) for part in parts], dim=1))

    def config(self) -> dict[str, Any]:
        return {"widths": list(self.widths), "dropout": self.dropout.p}


class SmallConvNet(nn.Module):
    """A residual network for pictures of 24 to 96 pixels, trained from scratch.

    One stage for each width; every stage halves the picture, so two cores do thousands of small
    pictures a second. What is left is pooled to a 2 x 2 grid, which keeps where things are.
    ``image_size`` is the side of the pictures it is trained on, for those who bring others to it.

    >>> SmallConvNet(image_size=32, widths=(8, 16))(torch.zeros(3, 3, 32, 32)).shape
    torch.Size([3, 64])
    """

    GRID = 2

    def __init__(
        self,
        *,
        image_size: int,
        widths: tuple[int, ...] = (32, 64, 128, 256),
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.image_size = image_size
        self.widths = tuple(widths)
        self.output_dim = self.widths[-1] * self.GRID**2
        stages = [
            _Stage(before, after)
            for before, after in zip((3, *self.widths), self.widths, strict=False)
        ]
        self.stages = nn.Sequential(*stages)
        self.dropout = nn.Dropout(dropout)

    def forward(self, images: Tensor) -> Tensor:
        if images.ndim != 4 or images.shape[1] != 3:
            raise InputError(
                f"expected colour pictures of shape (batch, 3, height, width), "
                f"but they have shape {tuple(images.shape)}"
            )
        scaled = images.to(next(self.parameters()).dtype) / 127.5 - 1.0
        maps = self.stages(scaled.contiguous(memory_format=torch.channels_last))
        return self.dropout(F.adaptive_avg_pool2d(maps, self.GRID).flatten(1))

    def config(self) -> dict[str, Any]:
        return {
            "image_size": self.image_size,
            "widths": list(self.widths),
            "dropout": self.dropout.p,
        }


class _Stage(nn.Module):
    """A convolution that halves the picture, then one residual convolution."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.enter = nn.Conv2d(before, after, 3, stride=2, padding=1, bias=False)
        self.enter_norm = nn.BatchNorm2d(after)
        self.refine = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.refine_norm = nn.BatchNorm2d(after)

    def forward(self, maps: Tensor) -> Tensor:
        maps = F.relu(self.enter_norm(self.enter(maps)))
        return F.relu(maps + self.refine_norm(self.refine(maps)))
