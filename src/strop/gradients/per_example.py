"""Gradients of single examples, kept as factors: their geometry without the gradients themselves.

A weight used at positions t has, for example n, the gradient ``g_n = sum_t d_nt a_nt^T``: output
gradients times activations (thesis appendix A.2). What is asked of many g_n (inner products, norms,
projections) follows from the factors, or from the g_n of a few output rows at a time; each method
counts the multiplications of both ways and goes the cheaper.

Legend: n, m examples; g groups of channels; t, s positions; o outputs and i inputs of one group;
k centres. Parameters are seen as matrices: the first dimension by all others.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

BLOCK_ELEMENTS = 2**24
"""Numbers of per-example gradients held at a time: 64 MiB in single precision."""


def widen(values: Tensor) -> Tensor:
    """Half precision to single, so that sums over positions keep their digits."""
    return values.float() if values.dtype in (torch.float16, torch.bfloat16) else values


def matrix_shape(shape: Sequence[int]) -> tuple[int, int]:
    """A parameter's shape as rows and columns.

    >>> matrix_shape((8, 3, 5, 5)), matrix_shape((8,)), matrix_shape(())
    ((8, 75), (8, 1), (1, 1))
    """
    rows = shape[0] if len(shape) else 1
    return rows, torch.Size(shape[1:]).numel()


class PerExample(ABC):
    """The gradients g_n of n examples with respect to one parameter.

    Attributes:
        examples: how many examples.
        shape: the parameter's shape.
    """

    examples: int
    shape: torch.Size

    @abstractmethod
    def squared_norms(self) -> Tensor:
        """``||g_n||^2``, (n,)."""

    @abstractmethod
    def gram(self) -> Tensor:
        """``<g_n, g_m>``, (n, n)."""

    @abstractmethod
    def inner(self, centres: Tensor) -> Tensor:
        """``<C_k, g_n>`` for centres (k, *shape), as (n, k)."""

    @abstractmethod
    def inner_rank_one(self, left: Tensor, right: Tensor) -> Tensor:
        """``<l_k r_k^T, g_n>`` for left (k, rows) and right (k, columns), as (n, k).

        Thesis appendix A.2.1, which displays both ways to compute it. With random signs for l
        and r it is a random projection.
        """

    def rank_one_and_norms(self, left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
        """``inner_rank_one`` and ``squared_norms``, sharing what they have in common."""
        return self.inner_rank_one(left, right), self.squared_norms()

    @abstractmethod
    def materialise(self) -> Tensor:
        """The gradients themselves, (n, *shape)."""

    def inner_with_sum(self) -> tuple[Tensor, Tensor]:
        """``||g_n||^2`` and ``<g_n, sum_m g_m>``, (n,) each: what a variance is made of."""
        gram = self.gram()
        return gram.diagonal(), gram.sum(1)


class Dense(PerExample):
    """Gradients of small parameters (biases, scales), as they are: (n, *shape)."""

    def __init__(self, values: Tensor) -> None:
        self.values = widen(values)
        self.examples, self.shape = len(values), values.shape[1:]

    def squared_norms(self) -> Tensor:
        return self.values.flatten(1).square().sum(1) if self.shape else self.values.square()

    def gram(self) -> Tensor:
        flat = self.values.reshape(self.examples, -1)
        return flat @ flat.T

    def inner(self, centres: Tensor) -> Tensor:
        return self.values.reshape(self.examples, -1) @ centres.reshape(len(centres), -1).T

    def inner_rank_one(self, left: Tensor, right: Tensor) -> Tensor:
        rows, columns = matrix_shape(self.shape)
        matrices = self.values.reshape(self.examples, rows, columns)
        if columns == 1:  # a vector: the product below would hold (n, rows, k) for nothing
            return matrices.squeeze(2) @ (left * right).T
        return torch.einsum("nok,ko->nk", matrices @ right.T, left)

    def materialise(self) -> Tensor:
        return self.values

    def inner_with_sum(self) -> tuple[Tensor, Tensor]:
        flat = self.values.reshape(self.examples, -1)
        return flat.square().sum(1), flat @ flat.sum(0)


class Factored(PerExample):
    """``g_n = sum_t d_nt a_nt^T`` in each group, from factors that a subclass holds.

    Attributes:
        groups, positions, outputs, inputs: the sizes of g, t, o and i.
    """

    groups: int
    positions: int
    outputs: int
    inputs: int

    @abstractmethod
    def factors(self) -> tuple[Tensor, Tensor]:
        """Activations (n, g, t, i) and output gradients (n, g, t, o)."""

    @abstractmethod
    def block(self, start: int, stop: int) -> Tensor:
        """Rows ``start:stop`` of each group of every gradient, (n, g, stop - start, i)."""

    def mean_activations(self) -> Tensor:
        """Activations averaged over positions and groups, (n, i)."""
        return self.factors()[0].mean((1, 2))

    def summed_gradients(self) -> Tensor:
        """Output gradients summed over positions, (n, rows of the weight)."""
        return self.factors()[1].sum(2).flatten(1)

    def sums_by(self, owner: Tensor, *, count: int) -> Tensor:
        """The gradients added up by the owner (n,) of each example, (count, *shape)."""
        shape = (count, self.groups, self.outputs, self.inputs)
        sums: Tensor | None = None
        for start, stop, block in self.blocks():
            sums = block.new_zeros(shape) if sums is None else sums
            sums[:, :, start:stop].index_add_(0, owner, block)
        assert sums is not None
        return sums.reshape(count, *self.shape)

    def rank_one_by_factors(self, left: Tensor, right: Tensor) -> Tensor:
        """Project both factors, then sum over positions (the second form there); left (k, g, o)."""
        a, d = self.factors()
        return torch.einsum("ngtk,ngtk->nk", a @ right.T, torch.einsum("ngto,kgo->ngtk", d, left))

    def squared_norms(self) -> Tensor:
        if self._norms_by_factors():
            a, d = self.factors()
            return ((a @ a.mT) * (d @ d.mT)).sum((1, 2, 3))
        return self._over_blocks([_squares(block) for _, _, block in self.blocks()])

    def rank_one_and_norms(self, left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
        if self._norms_by_factors() or self._rank_one_by_factors(len(left)):
            return super().rank_one_and_norms(left, right)
        left = left.reshape(len(left), self.groups, self.outputs)
        pairs = [
            (_project(block, left[:, :, start:stop], right), _squares(block))
            for start, stop, block in self.blocks()
        ]
        inner, norms = zip(*pairs, strict=True)
        return self._over_blocks(list(inner)), self._over_blocks(list(norms))

    def gram(self) -> Tensor:
        n, t = self.examples, self.positions
        if self._gram_by_factors():
            a, d = (x.transpose(0, 1).reshape(self.groups, n * t, -1) for x in self.factors())
            products = (a @ a.mT) * (d @ d.mT)
            return products.reshape(self.groups, n, t, n, t).sum((0, 2, 4))
        flat = (block.reshape(n, -1) for _, _, block in self.blocks())
        return self._over_blocks([rows @ rows.T for rows in flat])

    def inner(self, centres: Tensor) -> Tensor:
        c = centres.reshape(len(centres), self.groups, self.outputs, self.inputs)
        k, t = len(centres), self.positions
        if k * t * (self.inputs + 1) <= (t + k) * self.inputs:
            a, d = self.factors()
            return torch.stack([((a @ centre.mT) * d).sum((1, 2, 3)) for centre in c], dim=1)
        return self._over_blocks(
            [
                block.reshape(self.examples, -1) @ c[:, :, start:stop].reshape(k, -1).T
                for start, stop, block in self.blocks()
            ]
        )

    def inner_rank_one(self, left: Tensor, right: Tensor) -> Tensor:
        left = left.reshape(len(left), self.groups, self.outputs)
        if self._rank_one_by_factors(len(left)):
            return self.rank_one_by_factors(left, right)
        return self._over_blocks(
            [_project(block, left[:, :, start:stop], right) for start, stop, block in self.blocks()]
        )

    def materialise(self) -> Tensor:
        return self.block(0, self.outputs).reshape(self.examples, *self.shape)

    def inner_with_sum(self) -> tuple[Tensor, Tensor]:
        if self._gram_by_factors():
            return super().inner_with_sum()
        flat = (block.reshape(self.examples, -1) for _, _, block in self.blocks())
        pairs = [torch.stack([rows.square().sum(1), rows @ rows.sum(0)]) for rows in flat]
        squares, inner = self._over_blocks(pairs)
        return squares, inner

    def _gram_by_factors(self) -> bool:
        n, t, size = self.examples, self.positions, self.inputs * self.outputs
        return n * t**2 * (self.inputs + self.outputs) <= (t + n) * size

    def blocks(self) -> Iterator[tuple[int, int, Tensor]]:
        """``start, stop, self.block(start, stop)``, a bounded number of values at a time."""
        step = max(1, BLOCK_ELEMENTS // max(1, self.examples * self.groups * self.inputs))
        for start in range(0, self.outputs, step):
            stop = min(start + step, self.outputs)
            yield start, stop, self.block(start, stop)

    def _norms_by_factors(self) -> bool:
        """Whether ``T^2 (i + o)`` multiplications are fewer than ``T i o``."""
        return self.positions * (self.inputs + self.outputs) <= self.inputs * self.outputs

    def _rank_one_by_factors(self, k: int) -> bool:
        """Whether ``k T (i + o)`` multiplications are fewer than ``(T + k) i o``."""
        size, t = self.inputs * self.outputs, self.positions
        return k * t * (self.inputs + self.outputs) <= (t + k) * size

    @staticmethod
    def _over_blocks(terms: list[Tensor]) -> Tensor:
        return torch.stack(terms).sum(0) if len(terms) > 1 else terms[0]


def _squares(block: Tensor) -> Tensor:
    return torch.linalg.vector_norm(block.flatten(1), dim=1).square()  # without a copy of squares


def _project(block: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """``<l_k r_k^T, rows>``: rows (n, g, o, i), left (k, g, o), right (k, i), as (n, k)."""
    return torch.einsum("ngok,kgo->nk", block @ right.T, left)


class Outer(Factored):
    """Factors as they are: activations (n, g, t, i) and output gradients (n, g, t, o)."""

    def __init__(self, activations: Tensor, output_gradients: Tensor, shape: torch.Size) -> None:
        self.a, self.d = widen(activations), widen(output_gradients)
        self.shape = shape
        self.examples, self.groups, self.positions, self.inputs = activations.shape
        self.outputs = output_gradients.shape[-1]

    def factors(self) -> tuple[Tensor, Tensor]:
        return self.a, self.d

    def block(self, start: int, stop: int) -> Tensor:
        return self.d[..., start:stop].mT @ self.a


class Shared(Factored):
    """One weight used several times: contributions are added before any inner product."""

    def __init__(self, parts: Sequence[Factored]) -> None:
        first = parts[0]
        self.parts = parts
        self.shape, self.examples, self.groups = first.shape, first.examples, first.groups
        self.outputs, self.inputs = first.outputs, first.inputs
        self.positions = sum(part.positions for part in parts)

    def factors(self) -> tuple[Tensor, Tensor]:
        pairs = [part.factors() for part in self.parts]
        return torch.cat([a for a, _ in pairs], dim=2), torch.cat([d for _, d in pairs], dim=2)

    def block(self, start: int, stop: int) -> Tensor:
        return self._over_blocks([part.block(start, stop) for part in self.parts])

    def rank_one_by_factors(self, left: Tensor, right: Tensor) -> Tensor:
        return self._over_blocks([part.rank_one_by_factors(left, right) for part in self.parts])


def add(parts: Sequence[PerExample]) -> PerExample:
    """The sum of several contributions to the gradients of one parameter.

    >>> gradients = add([Dense(torch.tensor([[1.0, 2.0]])), Dense(torch.tensor([[3.0, 0.0]]))])
    >>> gradients.squared_norms()
    tensor([20.])
    """
    if len(parts) == 1:
        return parts[0]
    factored = [part for part in parts if isinstance(part, Factored)]
    if len(factored) == len(parts) and len({part.groups for part in factored}) == 1:
        return Shared(factored)
    return Dense(torch.stack([part.materialise() for part in parts]).sum(0))
