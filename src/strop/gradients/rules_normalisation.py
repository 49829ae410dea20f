"""Scales and shifts of normalisation layers: small, so their gradients are taken as they are."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from strop.gradients.per_example import Dense, PerExample, widen
from strop.support import InputError


def layer_norm(
    layer: nn.LayerNorm, activations: Tensor, gradients: Tensor
) -> dict[str, PerExample]:
    """Activations (n, ..., *normalised) of a LayerNorm."""
    shape = list(layer.normalized_shape)
    normalised = nn.functional.layer_norm(widen(activations), shape, eps=layer.eps)
    return _affine(layer, *_positions(normalised, gradients, trailing=len(shape)))


def rms_norm(layer: nn.RMSNorm, activations: Tensor, gradients: Tensor) -> dict[str, PerExample]:
    """Activations (n, ..., *normalised) of an RMSNorm.

    >>> layer = nn.RMSNorm(2, eps=0.0)
    >>> found = rms_norm(layer, torch.tensor([[1.0, 1.0]]), torch.tensor([[2.0, 3.0]]))
    >>> found["weight"].materialise()
    tensor([[2., 3.]])
    """
    shape = list(layer.normalized_shape)
    # With eps=None the layer takes the epsilon of the input's own type, so it is not widened first.
    normalised = widen(nn.functional.rms_norm(activations, shape, eps=layer.eps))
    return _affine(layer, *_positions(normalised, gradients, trailing=len(shape)))


def group_norm(
    layer: nn.GroupNorm, activations: Tensor, gradients: Tensor
) -> dict[str, PerExample]:
    """Activations (n, channels, ...) of a GroupNorm."""
    normalised = nn.functional.group_norm(widen(activations), layer.num_groups, eps=layer.eps)
    return _affine(layer, *_channels(normalised, gradients))


def batch_norm(layer: _BatchNorm, activations: Tensor, gradients: Tensor) -> dict[str, PerExample]:
    """Activations (n, channels, ...) of a BatchNorm in evaluation mode."""
    if layer.training or layer.running_mean is None:
        raise InputError(
            f"{type(layer).__name__} normalises by the batch, so an example has no gradient of "
            "its own: call eval() on the layer, or use GroupNorm"
        )
    normalised = nn.functional.batch_norm(
        widen(activations), layer.running_mean, layer.running_var, eps=layer.eps
    )
    return _affine(layer, *_channels(normalised, gradients))


def _positions(normalised: Tensor, gradients: Tensor, *, trailing: int) -> tuple[Tensor, Tensor]:
    """Both as (n, positions, *shape)."""
    shape = normalised.shape[normalised.ndim - trailing :]
    n = len(normalised)
    return normalised.reshape(n, -1, *shape), widen(gradients).reshape(n, -1, *shape)


def _channels(normalised: Tensor, gradients: Tensor) -> tuple[Tensor, Tensor]:
    """Both as (n, positions, channels)."""
    n, channels = normalised.shape[:2]
    shape = (n, channels, -1)
    return normalised.reshape(shape).mT, widen(gradients).reshape(shape).mT


def _affine(layer: Any, normalised: Tensor, gradients: Tensor) -> dict[str, PerExample]:
    found: dict[str, PerExample] = {}
    bias = getattr(layer, "bias", None)
    if layer.weight is not None and layer.weight.requires_grad:
        found["weight"] = Dense(torch.einsum("nt...,nt...->n...", normalised, gradients))
    if bias is not None and bias.requires_grad:
        found["bias"] = Dense(gradients.sum(1))
    return found
