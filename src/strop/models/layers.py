"""Parts that the models share: normalisation of inputs and of activations, initialisation."""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from strop.support import InputError

Normalisation = Literal["batch", "group", "none"]
"""Of activations: ``"batch"`` ties the examples of a batch together, the others do not."""

GROUPS = 8


class Normalize(nn.Module):
    """(x - mean) / std for each channel: with it inside, a model takes inputs in [0, 1].

    The statistics are buffers but no part of the state: they follow the device and are not asked
    for by ``load_state_dict``.

    >>> Normalize(mean=[0.5], std=[0.25])(torch.ones(1, 1, 1, 1))
    tensor([[[[2.]]]])
    """

    mean: Tensor
    std: Tensor

    def __init__(self, *, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        if len(mean) != len(std) or not all(value > 0 for value in std):
            raise InputError(
                f"expected a mean and a positive std for each channel, "
                f"but came mean {list(mean)} and std {list(std)}"
            )
        self.register_buffer("mean", torch.tensor(mean).reshape(-1, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(std).reshape(-1, 1, 1), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        return (images - self.mean) / self.std

    def extra_repr(self) -> str:
        values = {name: getattr(self, name).flatten().tolist() for name in ("mean", "std")}
        return ", ".join(f"{name}={value}" for name, value in values.items())


def normalisation_layer(normalisation: Normalisation, channels: int) -> nn.Module:
    """The layer after a convolution: batch norm, group norm of at most 8 groups, or none."""
    if normalisation == "batch":
        return nn.BatchNorm2d(channels)
    if normalisation == "group":
        return nn.GroupNorm(GROUPS if channels % GROUPS == 0 else 1, channels)
    if normalisation == "none":
        return nn.Identity()
    raise InputError(
        f"expected the normalisation 'batch', 'group' or 'none', but came {normalisation!r}"
    )


def initialise(model: nn.Module, *, generator: torch.Generator | None = None) -> None:
    """He's normal initialisation of convolutions and linear layers, in place; biases to 0.

    The weights w of a layer with fan-in f are drawn from N(0, 2/f), those of the last linear layer,
    which no ReLU follows, from N(0, 1/f). All of it comes from ``generator``.
    """
    layers = [module for module in model.modules() if isinstance(module, (nn.Conv2d, nn.Linear))]
    for layer in layers:
        last = layer is layers[-1] and isinstance(layer, nn.Linear)
        nn.init.kaiming_normal_(
            layer.weight, nonlinearity="linear" if last else "relu", generator=generator
        )
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)
