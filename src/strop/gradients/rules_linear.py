"""Weights that are matrices: Linear and Embedding."""

import torch
from torch import Tensor, nn

from strop.gradients.per_example import Dense, Factored, Outer, PerExample, widen
from strop.support import InputError


def linear(layer: nn.Linear, activations: Tensor, gradients: Tensor) -> dict[str, PerExample]:
    """``y = W x + b`` at every position: activations (n, ..., i), output gradients (n, ..., o).

    >>> layer = nn.Linear(2, 1)
    >>> found = linear(layer, torch.tensor([[3.0, 4.0]]), torch.tensor([[2.0]]))
    >>> found["weight"].squared_norms(), found["bias"].squared_norms()
    (tensor([100.]), tensor([4.]))
    """
    a = activations.reshape(len(activations), 1, -1, activations.shape[-1])
    d = gradients.reshape(len(gradients), 1, -1, gradients.shape[-1])
    found: dict[str, PerExample] = {}
    if layer.weight.requires_grad:
        found["weight"] = Outer(a, d, layer.weight.shape)
    if layer.bias is not None and layer.bias.requires_grad:
        found["bias"] = Dense(widen(d).sum((1, 2)))
    return found


def embedding(layer: nn.Embedding, activations: Tensor, gradients: Tensor) -> dict[str, PerExample]:
    """Rows of a table: indices (n, ...), output gradients (n, ..., i)."""
    if layer.scale_grad_by_freq:
        raise InputError(
            "an Embedding with scale_grad_by_freq=True divides by counts over the whole batch, so "
            "an example has no gradient of its own: set it to False"
        )
    indices = activations.reshape(len(activations), -1)
    d = gradients.reshape(len(gradients), -1, gradients.shape[-1])
    return {"weight": Rows(indices, d, layer.weight.shape, skip=layer.padding_idx)}


class Rows(Factored):
    """The gradient of a table: each example adds its output gradients to the rows it looked up.

    Rows of one example are added up first, so all but the Gram matrix cost what is looked up.
    As factors, the activations are the output gradients and the output gradients are one-hot.
    """

    def __init__(
        self, indices: Tensor, gradients: Tensor, shape: torch.Size, *, skip: int | None
    ) -> None:
        self.shape, self.groups = shape, 1
        self.outputs, self.inputs = shape
        self.examples, self.positions = indices.shape
        d = widen(gradients)
        if skip is not None:
            d = d * (indices != skip).unsqueeze(-1)
        self.indices, self.d = indices, d
        example = torch.arange(self.examples, device=indices.device).unsqueeze(1)
        keys, place = torch.unique(example * self.outputs + indices, return_inverse=True)
        self.owner, self.row = keys // self.outputs, keys % self.outputs
        self.sums = d.new_zeros(len(keys), self.inputs)
        self.sums.index_add_(0, place.reshape(-1), d.reshape(-1, self.inputs))

    def factors(self) -> tuple[Tensor, Tensor]:
        hot = nn.functional.one_hot(self.indices, self.outputs).to(self.d.dtype)
        return self.d.unsqueeze(1), hot.unsqueeze(1)

    def block(self, start: int, stop: int) -> Tensor:
        values = self.d.new_zeros(self.examples, 1, stop - start, self.inputs)
        inside = (self.row >= start) & (self.row < stop)
        values[self.owner[inside], 0, self.row[inside] - start] = self.sums[inside]
        return values

    def squared_norms(self) -> Tensor:
        return self._by_owner(self.sums.square().sum(1))

    def gram(self) -> Tensor:
        present, column = torch.unique(self.row, return_inverse=True)
        if len(self.sums) ** 2 <= self.examples**2 * len(present):
            products = (self.sums @ self.sums.T) * (column == column.unsqueeze(1))
            return self._by_owner(self._by_owner(products).T)
        values = self.d.new_zeros(self.examples, len(present), self.inputs)
        values[self.owner, column] = self.sums
        flat = values.flatten(1)
        return flat @ flat.T

    def inner(self, centres: Tensor) -> Tensor:
        return torch.stack([self._by_owner((self.sums * c[self.row]).sum(1)) for c in centres], 1)

    def inner_rank_one(self, left: Tensor, right: Tensor) -> Tensor:
        return self._by_owner((self.sums @ right.T) * left[:, self.row].T)

    def rank_one_by_factors(self, left: Tensor, right: Tensor) -> Tensor:
        return self.inner_rank_one(left.flatten(1), right)

    def _by_owner(self, values: Tensor) -> Tensor:
        sums = values.new_zeros(self.examples, *values.shape[1:])
        return sums.index_add_(0, self.owner, values)
