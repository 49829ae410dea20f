"""Gradient descent on fully connected linear networks."""

from __future__ import annotations

import itertools
import math
from typing import Literal

import torch
from torch import Tensor

from strop.geometry import L2
from strop.margins.data import SignedData
from strop.margins.path import MarginPath, Recorder
from strop.margins.result import MarginResult
from strop.margins.risk import Loss, log_risk, pull
from strop.support import InputError

__all__ = ["train_deep_linear"]

_LONGER = 1.5
_HALVINGS = 40


def train_deep_linear(
    data: SignedData,
    *,
    layers: int = 2,
    width: int = 32,
    scale: float = 0.1,
    loss: Loss = "exponential",
    step: float = 0.1,
    method: Literal["plain", "search"] = "search",
    iterations: int = 10_000,
    generator: torch.Generator,
    reference: MarginResult | None = None,
) -> MarginPath:
    """Gradient descent on a fully connected linear network x -> w_L' W_{L-1} … W_1 x.

    Its direction tends to the maximum l2 margin (Nacson et al. 2019; after thesis corollary 1).

    Args:
        data: signed points without an intercept.
        loss: "exponential" (the theory's) or "logistic".
        step: of gradient descent; for "search" only the first.
        method: "plain" descent, or "search", on log L with the longest step of Armijo's rule.
        iterations: how many.
        generator: of the initial layers.
        reference: the exact solution, for the gap and the direction error.
        layers: L >= 1 matrices, the last a row.
        width: of the hidden layers.
        scale: Gaussian entries times this over the square root of the layer's inputs.

    >>> from strop.margins.data import signed_data
    >>> data = signed_data([[2.0, 0.0], [0.0, 1.0]], [1, 1])
    >>> g = torch.Generator().manual_seed(0)
    >>> train_deep_linear(data, iterations=500, generator=g).gap < 0.02
    True
    """
    if layers < 1 or width < 1:
        raise InputError(f"expected layers >= 1 and width >= 1, came {layers} and {width}")
    if method not in ("plain", "search"):
        raise InputError(f"expected the method plain or search, came {method!r}")
    recorder = Recorder(data, L2, iterations, reference)
    sizes = [data.dimension, *[width] * (layers - 1), 1]
    matrices = [
        scale
        / math.sqrt(inputs)
        * torch.randn(outputs, inputs, generator=generator, dtype=torch.float64).to(data.rows)
        for inputs, outputs in itertools.pairwise(sizes)
    ]
    for iteration in range(1, iterations + 1):
        values = data.values(_product(matrices))
        log_loss = float(log_risk(values, loss))
        ascents = _ascents(matrices, data.mix(pull(values, loss))[None])
        if method == "plain":
            matrices = _moved(matrices, ascents, step * math.exp(log_loss))
        else:
            matrices, step = _searched(data, loss, matrices, ascents, log_loss, step * _LONGER)
        if recorder.due(iteration):
            w = _product(matrices)
            values = data.values(w)
            recorder.take(iteration, w, pull(values, loss), float(log_risk(values, loss)))
    return recorder.path(f"{layers}-layer linear network, scale {scale:g}", _product(matrices))


def _searched(
    data: SignedData,
    loss: Loss,
    matrices: list[Tensor],
    ascents: list[Tensor],
    log_loss: float,
    step: float,
) -> tuple[list[Tensor], float]:
    """The longest step not above ``step``, by halves, that lowers log L enough."""
    slope = sum(float((ascent**2).sum()) for ascent in ascents)
    for _ in range(_HALVINGS):
        moved = _moved(matrices, ascents, step)
        reached = float(log_risk(data.values(_product(moved)), loss))
        if reached <= log_loss - 0.5 * step * slope:
            break
        step /= 2
    return moved, step


def _moved(matrices: list[Tensor], ascents: list[Tensor], step: float) -> list[Tensor]:
    return [matrix + step * ascent for matrix, ascent in zip(matrices, ascents, strict=True)]


def _product(matrices: list[Tensor]) -> Tensor:
    product = matrices[0]
    for matrix in matrices[1:]:
        product = matrix @ product
    return product[0]


def _ascents(matrices: list[Tensor], ascent: Tensor) -> list[Tensor]:
    """-grad log L of each layer: above' (1, d) below'."""
    below = [torch.eye(matrices[0].shape[1]).to(ascent)]
    for matrix in matrices[:-1]:
        below.append(matrix @ below[-1])
    above = torch.ones(1, 1).to(ascent)
    found = []
    for matrix, under in zip(reversed(matrices), reversed(below), strict=True):
        found.append(above.T @ ascent @ under.T)
        above = above @ matrix
    return found[::-1]
