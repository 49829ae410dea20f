"""Convolutions in one, two and three dimensions: patches, or one grouped convolution."""

import torch
from torch import Tensor, nn

from strop.gradients.per_example import Dense, Factored, PerExample, widen
from strop.support import InputError

AnyConvolution = nn.Conv1d | nn.Conv2d | nn.Conv3d

SCRATCH_ELEMENTS = 2**18
"""Numbers of activations correlated at a time: the convolution copies its inputs on the way."""


def convolution(
    layer: AnyConvolution, activations: Tensor, gradients: Tensor
) -> dict[str, PerExample]:
    """Any stride, padding, dilation and groups: (n, channels, *space) and (n, outputs, *space).

    >>> layer = nn.Conv1d(1, 1, 2)
    >>> found = convolution(layer, torch.tensor([[[1.0, 2.0, 3.0]]]), torch.ones(1, 1, 2))
    >>> found["weight"].materialise()
    tensor([[[[3., 5.]]]])
    """
    if activations.ndim != layer.weight.ndim:
        raise InputError(
            f"expected a batch of {layer.weight.ndim} dimensions for {type(layer).__name__}, but "
            f"came {tuple(activations.shape)}: add the dimension of examples in front"
        )
    found: dict[str, PerExample] = {}
    if layer.weight.requires_grad:
        found["weight"] = Convolution(layer, activations, gradients)
    if layer.bias is not None and layer.bias.requires_grad:
        found["bias"] = Dense(widen(gradients).flatten(2).sum(2))
    return found


class Convolution(Factored):
    """Thesis appendix A.2.1: ``g_n = sum_t d_nt a_nt^T`` where a_nt is the patch at position t.

    The factors are patches, cut out when they are asked for. Whole gradients come from them where
    they are few, else from a grouped convolution in which every example is a group of its own, and
    projections of patches from a
    convolution with the directions as filters: neither cuts patches.
    """

    def __init__(self, layer: AnyConvolution, activations: Tensor, gradients: Tensor) -> None:
        self.shape, self.groups = layer.weight.shape, layer.groups
        self.stride, self.dilation = list(layer.stride), list(layer.dilation)
        self.images, self.padding = widen(activations), [0] * len(self.stride)
        margins = layer._reversed_padding_repeated_twice  # before and after, from the last axis on
        if layer.padding_mode == "zeros" and margins[::2] == margins[1::2]:
            self.padding = margins[::-2]
        elif any(margins):
            mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
            self.images = nn.functional.pad(self.images, margins, mode=mode)
        self.d = widen(gradients)
        self.examples, self.positions = len(gradients), gradients[0, 0].numel()
        self.outputs = self.shape[0] // self.groups
        self.inputs = self.shape[1:].numel()

    def factors(self) -> tuple[Tensor, Tensor]:
        margins = [margin for margin in reversed(self.padding) for _ in range(2)]
        patches = nn.functional.pad(self.images, margins) if any(margins) else self.images
        kernel = self.shape[2:]
        for axis, size in enumerate(kernel):
            reach = self.dilation[axis] * (size - 1) + 1
            patches = patches.unfold(2 + axis, reach, self.stride[axis])
            patches = patches[..., :: self.dilation[axis]]
        space = len(kernel)
        patches = patches.unflatten(1, (self.groups, -1)).movedim(2, 2 + space)
        a = patches.reshape(self.examples, self.groups, self.positions, self.inputs)
        return a, self._grouped_gradients().mT

    def block(self, start: int, stop: int) -> Tensor:
        if self.positions <= self.outputs:  # few patches, each for many outputs: cutting them pays
            a, d = self.factors()
            return d[..., start:stop].mT @ a
        return self._correlate(self.d.unflatten(1, (self.groups, -1))[:, :, start:stop])

    def mean_activations(self) -> Tensor:
        even = self.d.new_full((), 1 / (self.positions * self.groups))
        return self._correlate(even.expand(self.examples, self.groups, 1, *self.d.shape[2:])).sum(
            (1, 2)
        )

    def summed_gradients(self) -> Tensor:
        return self.d.flatten(2).sum(2)

    def _correlate(self, rows: Tensor) -> Tensor:
        """``sum_t rows_nt a_nt^T`` by a grouped convolution: (n, g, rows, i)."""
        step = max(1, SCRATCH_ELEMENTS // self.images[0].numel()) if self.examples else 1
        parts = zip(rows.split(step), self.images.split(step), strict=True)
        return torch.cat([self._correlate_some(*part) for part in parts])

    def _correlate_some(self, rows: Tensor, images: Tensor) -> Tensor:
        space, groups = rows.shape[3:], len(rows) * self.groups
        filters = self.d.new_empty(1).expand(groups * rows.shape[2], *self.shape[1:])
        _, values, _ = torch.ops.aten.convolution_backward(
            rows.reshape(1, -1, *space),
            images.reshape(1, -1, *images.shape[2:]),
            filters,
            None,
            self.stride,
            self.padding,
            self.dilation,
            False,
            [0] * len(space),
            groups,
            [False, True, False],
        )
        return values.reshape(len(rows), self.groups, rows.shape[2], self.inputs)

    def rank_one_by_factors(self, left: Tensor, right: Tensor) -> Tensor:
        filters = right.reshape(-1, *self.shape[1:]).repeat(self.groups, *[1] * (self.d.ndim - 1))
        sizes = (self.stride, self.padding, self.dilation)
        a = torch.convolution(
            self.images, filters, None, *sizes, False, [0] * len(self.stride), self.groups
        )
        a = a.reshape(self.examples, self.groups, len(right), self.positions)
        d = torch.einsum("ngot,kgo->ngkt", self._grouped_gradients(), left)
        return (a * d).sum((1, 3))

    def _grouped_gradients(self) -> Tensor:
        return self.d.reshape(self.examples, self.groups, self.outputs, self.positions)
