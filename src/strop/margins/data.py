"""Signed data: what every method here works on.

Legend: n points, d features (flattened), Z the rows y_i x_i.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from strop.geometry import Norm
from strop.support import InputError

__all__ = ["SignedData", "signed_data"]

_BLOCK_ENTRIES = 2**25


@dataclass(frozen=True, eq=False)
class SignedData:
    """Points times their labels, Z = diag(y) X, dense or sparse (CSR), with or without intercept.

    With an intercept the classifier is x -> w.x + b with b free; without, b = 0.
    """

    rows: Tensor
    """(n, d) y_i x_i."""
    signs: Tensor
    """(n,) y_i = -1 or +1, of the dtype of the rows."""
    shape: tuple[int, ...]
    """Of one point: what a norm over pictures needs."""
    intercept: bool = False

    def __len__(self) -> int:
        return int(self.rows.shape[0])

    @property
    def dimension(self) -> int:
        return int(self.rows.shape[1])

    @property
    def sparse(self) -> bool:
        return self.rows.layout != torch.strided

    def values(self, weights: Tensor) -> Tensor:
        """Z w, (n,), in the precision of ``weights``."""
        return self._product(weights, transposed=False)

    def mix(self, mixture: Tensor) -> Tensor:
        """Z^T q, (d,), in the precision of ``mixture``."""
        return self._product(mixture, transposed=True)

    def _product(self, vector: Tensor, *, transposed: bool) -> Tensor:
        rows = self.rows
        if self.sparse:
            return (self._columns if transposed else rows).to(vector.dtype) @ vector
        if rows.dtype == vector.dtype:
            return rows.T @ vector if transposed else rows @ vector
        # Raised a block at a time: a float64 copy of large data may not fit.
        size = max(1, _BLOCK_ENTRIES // max(1, self.dimension))
        blocks = [slice(start, start + size) for start in range(0, len(self), size)]
        if not transposed:
            return torch.cat([rows[block].to(vector.dtype) @ vector for block in blocks])
        mixed = torch.zeros(self.dimension, dtype=vector.dtype, device=vector.device)
        for block in blocks:
            mixed += rows[block].to(vector.dtype).T @ vector[block]
        return mixed

    @cached_property
    def _columns(self) -> Tensor:
        """Z^T in rows of its own: torch has no product with a transposed sparse matrix."""
        return self.rows.to_sparse_coo().t().to_sparse_csr()

    def measure(self, norm: Norm, vector: Tensor) -> float:
        """The norm of one flattened vector."""
        return float(norm(vector.reshape(1, *self.shape)))

    def groups(self) -> Iterator[tuple[Tensor, float]]:
        """Which points share how much of a mixture: all of it, or half for each class."""
        if self.intercept:
            yield self.signs > 0, 0.5
            yield self.signs < 0, 0.5
        else:
            yield torch.ones_like(self.signs, dtype=torch.bool), 1.0

    def dense(self) -> Tensor:
        return self.rows.to_dense() if self.sparse else self.rows

    def scale(self, norm: Norm) -> float:
        """The largest norm of a point: the yardstick for what counts as zero."""
        if not self.sparse:
            return float(norm(self.rows.reshape(len(self), *self.shape)).max())
        size = max(1, _BLOCK_ENTRIES // max(1, self.dimension))
        picks = torch.eye(len(self), dtype=self.rows.dtype, device=self.rows.device)
        largest = 0.0
        for part in picks.split(size):
            block = (self._columns @ part.T).T
            largest = max(largest, float(norm(block.reshape(len(part), *self.shape)).max()))
        return largest


def signed_data(points: Any, labels: Any, *, intercept: bool = False) -> SignedData:
    """Points (n, …) and labels -1 or +1 (n,) as :class:`SignedData`.

    Args:
        points: a tensor or array, or a sparse matrix of torch or scipy; float32 or float64 is kept,
            anything else becomes float64.
        labels: -1 and +1.
        intercept: whether the classifier has one; both labels must then occur, since else every
            point lies as far on the right side as one likes.

    >>> data = signed_data([[1.0, 2.0], [3.0, -1.0]], [1, -1])
    >>> data.rows
    tensor([[ 1.,  2.], [-3.,  1.]], dtype=torch.float64)
    """
    rows, shape = _as_rows(points)
    signs = torch.as_tensor(labels).to(device=rows.device, dtype=rows.dtype)
    if signs.shape != (rows.shape[0],):
        raise InputError(
            f"expected one label for each of the {rows.shape[0]} points, came shape "
            f"{tuple(signs.shape)}: pass a vector of -1 and +1"
        )
    if not bool((signs.abs() == 1).all()):
        raise InputError("expected labels -1 and +1, came others: map the classes to signs first")
    if rows.shape[0] == 0 or rows.shape[1] == 0:
        raise InputError(f"expected at least one point with one feature, came {tuple(rows.shape)}")
    if intercept and len(signs.unique()) < 2:
        raise InputError(
            "expected both classes, but all labels are the same, and with an intercept no margin "
            "is the largest: bring points of the other class, or leave the intercept out"
        )
    return SignedData(_scaled_rows(rows, signs), signs, shape, intercept)


def _as_rows(points: Any) -> tuple[Tensor, tuple[int, ...]]:
    if hasattr(points, "tocsr"):  # scipy's sparse matrices, without importing scipy
        matrix = points.tocsr()
        values = np.asarray(matrix.data)
        values = values if values.dtype in (np.float32, np.float64) else values.astype(np.float64)
        with warnings.catch_warnings():
            # What is used of them here is tested here.
            warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
            rows = torch.sparse_csr_tensor(
                torch.from_numpy(matrix.indptr.astype(np.int64)),
                torch.from_numpy(matrix.indices.astype(np.int64)),
                torch.from_numpy(values.copy()),
                size=matrix.shape,
                check_invariants=True,
            )
        if not bool(rows.values().isfinite().all()):
            raise InputError("expected finite points, came NaN or infinity: drop or impute them")
        return rows, (int(matrix.shape[1]),)
    tensor = points if isinstance(points, Tensor) else torch.as_tensor(np.asarray(points))
    if tensor.dtype not in (torch.float32, torch.float64):
        tensor = tensor.to(torch.float64)
    if tensor.ndim < 2:
        raise InputError(
            f"expected points of shape (n, features…), came {tuple(tensor.shape)}: write x[None] "
            "for one point, x[:, None] for one feature"
        )
    if tensor.layout == torch.sparse_coo:
        tensor = tensor.to_sparse_csr()
    if tensor.layout == torch.sparse_csr:
        return tensor, tuple(tensor.shape[1:])
    shape = tuple(tensor.shape[1:])
    if not bool(tensor.isfinite().all()):
        raise InputError("expected finite points, came NaN or infinity: drop or impute them")
    return tensor.reshape(tensor.shape[0], math.prod(shape)), shape


def _scaled_rows(rows: Tensor, signs: Tensor) -> Tensor:
    if rows.layout == torch.strided:
        return rows * signs[:, None]
    counts = rows.crow_indices().diff()
    return torch.sparse_csr_tensor(
        rows.crow_indices(),
        rows.col_indices(),
        rows.values() * signs.repeat_interleave(counts),
        size=rows.shape,
        check_invariants=False,  # the pattern is that of checked rows
    )
