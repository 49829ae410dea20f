"""Wide residual networks (Zagoruyko and Komodakis 2016), normalised before each convolution."""

import torch
from torch import Tensor, nn

from strop.models.layers import Normalisation, initialise, normalisation_layer
from strop.support import InputError


class WideBlock(nn.Module):
    """conv(ReLU(norm(conv(ReLU(norm(x)))))) + shortcut, the shortcut after the first ReLU."""

    def __init__(
        self, *, inputs: int, outputs: int, stride: int, normalisation: Normalisation
    ) -> None:
        super().__init__()
        self.bn1 = normalisation_layer(normalisation, inputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
        self.bn2 = normalisation_layer(normalisation, outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.convShortcut = (
            nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False) if inputs != outputs else None
        )

    def forward(self, images: Tensor) -> Tensor:
        active = torch.relu(self.bn1(images))
        hidden = self.conv2(torch.relu(self.bn2(self.conv1(active))))
        return hidden + (images if self.convShortcut is None else self.convShortcut(active))


class WideResNet(nn.Module):
    """WRN-depth-width: three stages of (depth - 4) / 6 wide blocks, 16 width, 32 width, 64 width.

    The parameters are named ``conv1 block{s}.layer.{i}.{bn1,conv1,bn2,conv2[,convShortcut]} bn1
    fc``, as in the weights that are commonly published.

    >>> WideResNet(depth=10, width=1)(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 10])
    """

    def __init__(
        self,
        *,
        depth: int = 28,
        width: int = 10,
        classes: int = 10,
        channels: int = 3,
        normalisation: Normalisation = "batch",
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if depth < 10 or (depth - 4) % 6 or min(width, classes, channels) < 1:
            raise InputError(
                "expected a depth of 6 m + 4 (10, 16, 22, 28, 34 …) and positive width, classes "
                f"and channels, but came {depth}, {width}, {classes} and {channels}"
            )
        self.depth, self.width = depth, width
        self.normalisation: Normalisation = normalisation
        self.conv1 = nn.Conv2d(channels, 16, 3, padding=1, bias=False)
        inputs = 16
        for stage in (1, 2, 3):
            outputs = 16 * width * 2 ** (stage - 1)
            layer = nn.Sequential()
            for block in range((depth - 4) // 6):
                stride = 2 if stage > 1 and block == 0 else 1
                layer.append(
                    WideBlock(
                        inputs=inputs, outputs=outputs, stride=stride, normalisation=normalisation
                    )
                )
                inputs = outputs
            self.add_module(f"block{stage}", nn.ModuleDict({"layer": layer}))
        self.bn1 = normalisation_layer(normalisation, inputs)
        self.fc = nn.Linear(inputs, classes)
        initialise(self, generator=generator)

    def forward(self, images: Tensor) -> Tensor:
        """(n, channels, h, w) images to (n, classes) logits."""
        hidden = self.conv1(images)
        for stage in (1, 2, 3):
            hidden = self.get_submodule(f"block{stage}.layer")(hidden)
        return self.fc(torch.relu(self.bn1(hidden)).mean(dim=(2, 3)))
