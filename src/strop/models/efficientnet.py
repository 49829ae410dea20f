"""EfficientNet-Lite0: 4.7 million weights, 1,280 features, light enough to fine-tune on a CPU.

Index legend: b example, c channel, h and w pixels.
"""

from os import PathLike
from pathlib import Path
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from strop.support import InputError

# Inverted residual stages: blocks, kernel, stride of the first block, expansion, width.
_STAGES = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
_STEM_WIDTH = 32
_FEATURES = 1280


class EfficientNetLite0(nn.Module):
    """The EfficientNet without squeeze-and-excitation and with ReLU6, after Tan and Le (2019).

    Takes pictures (b, 3, h, w) with values in 0..255, uint8 or floating, and scales them itself to
    ``(x - 127) / 128``; it was made for 224 x 224 pixels and takes any size from 32 up.

    >>> network = EfficientNetLite0(classes=10).eval()
    >>> pictures = torch.zeros(2, 3, 64, 64, dtype=torch.uint8)
    >>> network(pictures).shape, network.features(pictures).shape
    (torch.Size([2, 10]), torch.Size([2, 1280]))
    """

    feature_dim = _FEATURES

    def __init__(self, *, classes: int = 1000) -> None:
        super().__init__()
        self.stem = _ConvNorm(3, _STEM_WIDTH, kernel=3, stride=2)
        blocks: list[nn.Module] = []
        width = _STEM_WIDTH
        for count, kernel, stride, expansion, after in _STAGES:
            for index in range(count):
                blocks.append(
                    _InvertedResidual(
                        width,
                        after,
                        kernel=kernel,
                        stride=stride if index == 0 else 1,
                        expansion=expansion,
                    )
                )
                width = after
        self.blocks = nn.Sequential(*blocks)
        self.head = _ConvNorm(width, _FEATURES, kernel=1)
        self.classifier = nn.Linear(_FEATURES, classes)

    def features(self, images: Tensor) -> Tensor:
        """What the classifier reads: the last feature maps, averaged over the picture (b, 1280)."""
        if images.ndim != 4 or images.shape[1] != 3:
            raise InputError(
                f"expected colour pictures of shape (batch, 3, height, width), "
                f"but they have shape {tuple(images.shape)}"
            )
        scaled = (images.to(self.stem.conv.weight.dtype) - 127.0) / 128.0
        maps = self.stem(scaled.contiguous(memory_format=torch.channels_last))
        return self.head(self.blocks(maps)).mean(dim=(2, 3))

    def forward(self, images: Tensor) -> Tensor:
        return self.classifier(self.features(images))

    @classmethod
    def from_checkpoint(cls, path: str | PathLike[str]) -> Self:
        """The network with the weights of a ``.pth`` file that uses the widespread names.

        That is ``_conv_stem``, ``_bn0``, ``_blocks.N._expand_conv`` and so on to ``_fc``. No code
        in the file is run.
        """
        if not Path(path).is_file():
            raise InputError(f"expected EfficientNet-Lite0 weights at {path}, but there is no file")
        try:
            loaded = torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:  # torch raises many classes for what is no weights file
            raise InputError(f"{path} is not a weights file that PyTorch can read") from error
        if not isinstance(loaded, dict) or "_fc.weight" not in loaded:
            raise InputError(
                f"expected {path} to hold EfficientNet weights with names from _conv_stem to _fc, "
                "but it does not"
            )
        network = cls(classes=len(loaded["_fc.weight"]))
        renamed = {_our_name(name): tensor for name, tensor in loaded.items()}
        try:
            network.load_state_dict(renamed)
        except RuntimeError as error:
            raise InputError(
                f"the weights in {path} are not of EfficientNet-Lite0: "
                f"{' '.join(str(error).split())[:300]}"
            ) from error
        return network


class _ConvNorm(nn.Module):
    """Convolution, batch norm, and ReLU6 unless it is to stay linear."""

    def __init__(
        self,
        before: int,
        after: int,
        *,
        kernel: int,
        stride: int = 1,
        groups: int = 1,
        linear: bool = False,
    ) -> None:
        super().__init__()
        self.conv = nn.Conv2d(
            before,
            after,
            kernel,
            stride=stride,
            padding=kernel // 2 if stride == 1 else 0,
            groups=groups,
            bias=False,
        )
        self.norm = nn.BatchNorm2d(after, eps=1e-3, momentum=0.01)
        self.linear = linear
        nn.init.kaiming_normal_(self.conv.weight, mode="fan_out")

    def forward(self, maps: Tensor) -> Tensor:
        kernel, stride = self.conv.kernel_size[0], self.conv.stride[0]
        if stride > 1:
            above, below = _same_padding(maps.shape[2], kernel, stride)
            left, right = _same_padding(maps.shape[3], kernel, stride)
            maps = F.pad(maps, (left, right, above, below))
        maps = self.norm(self.conv(maps))
        return maps if self.linear else F.relu6(maps)


class _InvertedResidual(nn.Module):
    """Widen, filter each channel apart, narrow; the narrow ends are joined where shapes allow."""

    def __init__(
        self, before: int, after: int, *, kernel: int, stride: int, expansion: int
    ) -> None:
        super().__init__()
        inner = before * expansion
        self.expand = _ConvNorm(before, inner, kernel=1) if expansion > 1 else nn.Identity()
        self.depthwise = _ConvNorm(inner, inner, kernel=kernel, stride=stride, groups=inner)
        self.project = _ConvNorm(inner, after, kernel=1, linear=True)
        self.joined = stride == 1 and before == after

    def forward(self, maps: Tensor) -> Tensor:
        filtered = self.project(self.depthwise(self.expand(maps)))
        return maps + filtered if self.joined else filtered


def _same_padding(pixels: int, kernel: int, stride: int) -> tuple[int, int]:
    """TensorFlow's "same" padding, which the weights were trained with: the odd pixel is last."""
    needed = max((-(-pixels // stride) - 1) * stride + kernel - pixels, 0)
    return needed // 2, needed - needed // 2


_NAMES = {
    "_conv_stem": "stem.conv",
    "_bn0": "stem.norm",
    "_conv_head": "head.conv",
    "_bn1": "head.norm",
    "_fc": "classifier",
}
_BLOCK_NAMES = {
    "_expand_conv": "expand.conv",
    "_bn0": "expand.norm",
    "_depthwise_conv": "depthwise.conv",
    "_bn1": "depthwise.norm",
    "_project_conv": "project.conv",
    "_bn2": "project.norm",
}


def _our_name(name: str) -> str:
    first, _, rest = name.partition(".")
    if first != "_blocks":
        return f"{_NAMES.get(first, first)}.{rest}"
    index, layer, tensor = rest.split(".", 2)
    return f"blocks.{index}.{_BLOCK_NAMES.get(layer, layer)}.{tensor}"
