"""Convolutions in one, two and three dimensions: patches, or one grouped convolution."""

import torch
from torch import Tensor, nn

from strop.gradients.per_example import Dense, Factored, PerExample, widen
from strop.support import InputError

AnyConvolution = nn.Conv1d | nn.Conv2d | nn.Conv3d

PATCH_ELEMENTS = 2**26
"""Numbers of patches cut at a time: 256 MiB in single precision."""

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
    they are few, else from a grouped convolution in which every example is a group of its own;
    projections of patches come from a convolution with the directions as filters.
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
        return self._patches(self.images), self._grouped_gradients().mT

    def _patches(self, images: Tensor) -> Tensor:
        margins = [margin for margin in reversed(self.padding) for _ in range(2)]
        patches = nn.functional.pad(images, margins) if any(margins) else images
        kernel = self.shape[2:]
        for axis, size in enumerate(kernel):
            reach = self.dilation[axis] * (size - 1) + 1
            patches = patches.unfold(2 + axis, reach, self.stride[axis])
            patches = patches[..., :: self.dilation[axis]]
        space = len(kernel)
        patches = patches.unflatten(1, (self.groups, -1)).movedim(2, 2 + space)
        return patches.reshape(len(images), self.groups, self.positions, self.inputs)

    def block(self, start: int, stop: int) -> Tensor:
        return self._outer(self.d.unflatten(1, (self.groups, -1))[:, :, start:stop])

    def mean_activations(self) -> Tensor:
        even = self.d.new_full((), 1 / (self.positions * self.groups))
        rows = even.expand(self.examples, self.groups, 1, *self.d.shape[2:])
        return self._outer(rows).sum((1, 2))

    def summed_gradients(self) -> Tensor:
        return self.d.flatten(2).sum(2)

    def _outer(self, rows: Tensor) -> Tensor:
        """``sum_t rows_nt a_nt^T``: (n, g, rows, *space) to (n, g, rows, i)."""
        # Few patches, each for many outputs: cutting them pays. Grouped convolutions of hundreds
        # of groups are slow on a GPU, batched products are what it is made for.
        by_patches = self.positions <= self.outputs or self.d.is_cuda
        held = self.groups * self.positions * self.inputs
        step = PATCH_ELEMENTS // held if by_patches else SCRATCH_ELEMENTS // self.images[0].numel()
        parts = [
            some.flatten(3) @ self._patches(images) if by_patches else self._correlate(some, images)
            for some, images in zip(
                rows.split(max(1, step)), self.images.split(max(1, step)), strict=True
            )
        ]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _correlate(self, rows: Tensor, images: Tensor) -> Tensor:
        """The same by a grouped convolution."""
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
