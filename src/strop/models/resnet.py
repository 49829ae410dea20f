"""Residual networks for small images (He et al. 2016), with and without batch normalisation."""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from strop.models.layers import Normalisation, initialise, normalisation_layer
from strop.support import InputError

Shortcut = Literal["conv", "pad-both", "pad-end"]
"""Where width grows: a 1x1 convolution, or every second pixel with channels of zeros added."""


class PadChannels(nn.Module):
    """Every ``stride``-th pixel, with zero channels added before and after the image's own."""

    def __init__(self, *, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.before, self.after, self.stride = before, after, stride

    def forward(self, images: Tensor) -> Tensor:
        images = images[:, :, :: self.stride, :: self.stride]
        return nn.functional.pad(images, (0, 0, 0, 0, self.before, self.after))

    def extra_repr(self) -> str:
        return f"before={self.before}, after={self.after}, stride={self.stride}"


class BasicBlock(nn.Module):
    """ReLU(norm(conv(ReLU(norm(conv(x))))) + shortcut(x)), both convolutions 3x3."""

    def __init__(
        self,
        *,
        inputs: int,
        outputs: int,
        stride: int,
        shortcut: Shortcut,
        normalisation: Normalisation,
    ) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
        self.bn1 = normalisation_layer(normalisation, outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = normalisation_layer(normalisation, outputs)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = _shortcut(shortcut, inputs, outputs, stride, normalisation)

    def forward(self, images: Tensor) -> Tensor:
        hidden = torch.relu(self.bn1(self.conv1(images)))
        return torch.relu(self.bn2(self.conv2(hidden)) + self.shortcut(images))


class ResNet(nn.Module):
    """A 3x3 convolution, stages of basic blocks, a global average, a linear layer.

    Every stage after the first begins with stride 2. The parameters are named
    ``conv1 bn1 layer{s}.{i}.{conv1,bn1,conv2,bn2[,shortcut.0,shortcut.1]} fc``.

    Args:
        blocks: number of blocks of each stage.
        widths: number of channels of each stage.
        classes: number of outputs.
        channels: number of channels of the images.
        shortcut: what the identity becomes where the shape changes.
        normalisation: ``"none"`` leaves the layers out (thesis appendix A.3.1), ``"group"`` puts
            group norm in their place; with both, per-example gradients exist in training mode.
        generator: where the initial weights come from.
    """

    def __init__(
        self,
        *,
        blocks: Sequence[int],
        widths: Sequence[int],
        classes: int = 10,
        channels: int = 3,
        shortcut: Shortcut = "conv",
        normalisation: Normalisation = "batch",
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if len(blocks) != len(widths) or not blocks or min(*blocks, *widths, classes, channels) < 1:
            raise InputError(
                "expected as many positive block counts as widths, and positive numbers of classes "
                f"and channels, but came blocks {list(blocks)}, widths {list(widths)}, "
                f"{classes} classes, {channels} channels"
            )
        self.blocks, self.widths = tuple(blocks), tuple(widths)
        self.shortcut_kind: Shortcut = shortcut
        self.normalisation: Normalisation = normalisation
        self.conv1 = nn.Conv2d(channels, widths[0], 3, padding=1, bias=False)
        self.bn1 = normalisation_layer(normalisation, widths[0])
        inputs = widths[0]
        for stage, (count, width) in enumerate(zip(blocks, widths, strict=True), start=1):
            layer = nn.Sequential()
            for block in range(count):
                layer.append(
                    BasicBlock(
                        inputs=inputs,
                        outputs=width,
                        stride=2 if stage > 1 and block == 0 else 1,
                        shortcut=shortcut,
                        normalisation=normalisation,
                    )
                )
                inputs = width
            self.add_module(f"layer{stage}", layer)
        self.fc = nn.Linear(inputs, classes)
        initialise(self, generator=generator)

    def forward(self, images: Tensor) -> Tensor:
        """(n, channels, h, w) images to (n, classes) logits."""
        hidden = torch.relu(self.bn1(self.conv1(images)))
        for stage in range(1, len(self.blocks) + 1):
            hidden = self.get_submodule(f"layer{stage}")(hidden)
        return self.fc(hidden.mean(dim=(2, 3)))


def cifar_resnet(
    depth: int,
    *,
    classes: int = 10,
    channels: int = 3,
    shortcut: Shortcut = "pad-both",
    normalisation: Normalisation = "batch",
    generator: torch.Generator | None = None,
) -> ResNet:
    """The CIFAR ResNet of 6 m + 2 layers: widths 16, 32, 64 and m blocks a stage.

    ``cifar_resnet(8, normalisation="none")`` is the CIFAR-10 model of thesis chapter 4 (table A.2),
    ``cifar_resnet(32, classes=100)`` the CIFAR-100 one.

    >>> model = cifar_resnet(8, normalisation="none")
    >>> sum(parameter.numel() for parameter in model.parameters())
    74810
    """
    if depth < 8 or (depth - 2) % 6:
        raise InputError(
            f"expected a depth of 6 m + 2 (8, 14, 20, 26, 32, 38, 44, 56 …), but came {depth}"
        )
    return ResNet(
        blocks=[(depth - 2) // 6] * 3,
        widths=(16, 32, 64),
        classes=classes,
        channels=channels,
        shortcut=shortcut,
        normalisation=normalisation,
        generator=generator,
    )


def resnet18(
    *,
    classes: int = 10,
    channels: int = 3,
    normalisation: Normalisation = "batch",
    generator: torch.Generator | None = None,
) -> ResNet:
    """ResNet-18 as it is used on 32 x 32 images: a 3x3 stem and no pooling before the stages.

    >>> sum(parameter.numel() for parameter in resnet18().parameters())
    11173962
    """
    return ResNet(
        blocks=(2, 2, 2, 2),
        widths=(64, 128, 256, 512),
        classes=classes,
        channels=channels,
        shortcut="conv",
        normalisation=normalisation,
        generator=generator,
    )


def _shortcut(
    kind: Shortcut, inputs: int, outputs: int, stride: int, normalisation: Normalisation
) -> nn.Module:
    grown = outputs - inputs
    if kind == "conv":
        return nn.Sequential(
            nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False),
            normalisation_layer(normalisation, outputs),
        )
    if kind not in ("pad-both", "pad-end"):
        raise InputError(
            f"expected the shortcut 'conv', 'pad-both' or 'pad-end', but came {kind!r}"
        )
    if grown < 0:
        raise InputError(
            f"expected widths that never shrink with the shortcut {kind!r}, but {inputs} channels "
            f"are followed by {outputs}; use shortcut='conv'"
        )
    before = grown // 2 if kind == "pad-both" else 0
    return PadChannels(before=before, after=grown - before, stride=stride)
