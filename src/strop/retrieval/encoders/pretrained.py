"""Image encoders that came trained: ``phi(i; theta_phi)`` of thesis section 3.2.

The thesis takes VGG-19 and ResNet-152, frozen at first and then fine-tuned (section 3.3).

Index legend: b example, c channel, h and w pixels, f feature.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from strop.retrieval.encoders.tuning import Mode, Tuned
from strop.retrieval.views import View, view_features
from strop.support import InputError


@dataclass(frozen=True)
class Pixels:
    """What a network was trained to see: squares of ``size``, as ``(x / 255 - mean) / std``."""

    size: int
    mean: tuple[float, ...]
    std: tuple[float, ...]


@dataclass(frozen=True)
class Backbone:
    """A network from normalised pictures to features, and where it can be had again.

    ``source`` is of plain JSON values, from which the network is built again without its weights.
    """

    network: nn.Module
    source: dict[str, Any]
    pixels: Pixels


class PretrainedImages(Tuned):
    """A trained network without its classifier; features are scaled to unit length.

    Takes pictures in 0..255. Those of another size than the network was trained at are resized, or,
    where ``view`` says so, brought to a (shorter) side of ``read_at`` and seen through the crops
    that it was trained with. ``dropout`` zeroes features in training.
    ``features`` are what ``PrecomputedFeatures`` expects: training may begin on stored features of
    the frozen network, and go on with the network itself and the same projection.
    """

    scale: Tensor
    offset: Tensor

    def __init__(
        self,
        backbone: Backbone,
        *,
        mode: Mode = "frozen",
        lora_rank: int = 8,
        dropout: float = 0.0,
        output_dim: int | None = None,
        view: View = "whole",
        read_at: int | None = None,
    ) -> None:
        size = backbone.pixels.size
        if output_dim is None:
            with torch.no_grad():
                output_dim = backbone.network.eval()(torch.zeros(1, 3, size, size)).shape[1]
        super().__init__(backbone.network, mode=mode, lora_rank=lora_rank)
        self.output_dim = output_dim
        self.dropout = nn.Dropout(dropout)
        self.source = backbone.source
        self.pixels = backbone.pixels
        self.image_size = size
        self.look(view, read_at=read_at or size)
        scale = 1 / (255 * torch.tensor(self.pixels.std))
        offset = torch.tensor(self.pixels.mean) / torch.tensor(self.pixels.std)
        self.register_buffer("scale", scale[:, None, None], persistent=False)
        self.register_buffer("offset", offset[:, None, None], persistent=False)

    def look(self, view: View, *, read_at: int) -> None:
        """See pictures, read at a side of so many pixels, as in training."""
        self.view, self.read_at = view, read_at

    def features(self, images: Tensor) -> Tensor:
        """What the network's classifier would read of the whole pictures, as it is (b, f)."""
        size = self.pixels.size
        images = self._numbers(images)
        if images.shape[2:] != (size, size):
            images = _resized(images, size)
        return self.backbone(images * self.scale - self.offset)

    def forward(self, images: Tensor) -> Tensor:
        size = self.pixels.size
        images = self._numbers(images)
        if self.view == "whole" or images.shape[2:] == (size, size):  # or a crop already
            features = self.features(images)
        else:
            if min(images.shape[2:]) != self.read_at:
                images = _resized(images, self.read_at)
            features = view_features(self.features, images, self.view, size=size)
        return self.dropout(F.normalize(features, dim=1))

    def _numbers(self, images: Tensor) -> Tensor:
        if images.ndim != 4 or images.shape[1] != 3:
            raise InputError(
                f"expected colour pictures of shape (batch, 3, height, width), "
                f"but they have shape {tuple(images.shape)}"
            )
        return images.to(self.scale.dtype)

    def config(self) -> dict[str, Any]:
        return {
            "source": self.source,
            "size": self.pixels.size,
            "mean": list(self.pixels.mean),
            "std": list(self.pixels.std),
            "output_dim": self.output_dim,
            "dropout": self.dropout.p,
            "view": self.view,
            "read_at": self.read_at,
            **self.tuning_config(),
        }


def _resized(images: Tensor, side: int) -> Tensor:
    return F.interpolate(images, size=(side, side), mode="bicubic", antialias=True).clamp(0, 255)
