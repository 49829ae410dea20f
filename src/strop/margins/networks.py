"""Gradient descent on linear networks: circular convolutions, and fully connected layers.

    phi(x) = w_L . (w_{L-1} * … * (w_1 * x))        Thesis definition 3, * the circular convolution

In the orthonormal Fourier domain layers multiply, F(w) = F(w_L) conj(F(w_{L-1})) … conj(F(w_1)),
and gradient descent there is gradient descent on the layers, since the transform keeps lengths. Two
layers tend to the least Fourier-l1 norm (theorem 2, corollary 2); L layers to stationary points of
the Fourier 2/L quasi-norm.
"""

from __future__ import annotations

import itertools
import math
from typing import Literal

import torch
from torch import Tensor

from strop.geometry import L1, L2, Fourier
from strop.geometry.fourier import half_spectrum, inverse_half_spectrum, multiplicity
from strop.margins.data import SignedData
from strop.margins.path import MarginPath, Recorder
from strop.margins.result import MarginResult
from strop.margins.risk import Loss, log_risk, pull
from strop.support import InputError

__all__ = ["Method", "train_convnet", "train_deep_linear"]

Method = Literal["plain", "normalised", "search", "flow"]

_LONGER = 1.5
_HALVINGS = 40


def train_convnet(
    data: SignedData,
    *,
    layers: int = 2,
    scale: float = 1.0,
    loss: Loss = "exponential",
    step: float = 0.1,
    method: Method = "plain",
    iterations: int = 10_000,
    generator: torch.Generator,
    zero_last: bool = True,
    reference: MarginResult | None = None,
) -> MarginPath:
    """Gradient descent on an L-layer linear circular-convolutional network.

    Args:
        data: signed signals (n, d) without an intercept.
        layers: L >= 2; the last is the linear one.
        scale: the l2 norm of each layer at the start, Gaussian directions.
        loss: "exponential" (the theorem's) or "logistic".
        step: of gradient descent; for "search" only the first; for "flow" the relative change that
            a step may make.
        method: "plain" descent; "normalised", the gradient divided by the risk, so that progress
            does not die with it; "search", the same with the longest step that Armijo's rule
            allows; "flow", the gradient flow by Heun's method.
        iterations: how many.
        generator: of the initial layers.
        zero_last: start the last layer at zero, as the thesis's experiments do.
        reference: the exact minimum Fourier-l1 solution.

    >>> from strop.margins.data import signed_data
    >>> g = torch.Generator().manual_seed(0)
    >>> data = signed_data(torch.randn(3, 8, generator=g, dtype=torch.float64), [1, -1, 1])
    >>> train_convnet(data, method="search", iterations=1000, generator=g).gap < 0.1
    True
    """
    if layers < 2 or not scale > 0 or not step > 0:
        raise InputError(
            f"expected layers >= 2, scale > 0 and step > 0, came {layers}, {scale} and {step}"
        )
    attack = Fourier(L1, dims=1).dual
    recorder = Recorder(data, attack, iterations, reference)
    network = _ConvNet(data, layers, scale, loss, generator, zero_last)
    for iteration in range(1, iterations + 1):
        network.advance(step, method)
        if recorder.due(iteration):
            values = network.values()
            recorder.take(
                iteration, network.weights(), pull(values, loss), float(log_risk(values, loss))
            )
    return recorder.path(
        f"{layers}-layer convolutional network, {method}, scale {scale:g}", network.weights()
    )


class _ConvNet:
    """Layers as half spectra a_l (L, f); f frequencies."""

    def __init__(
        self,
        data: SignedData,
        layers: int,
        scale: float,
        loss: Loss,
        generator: torch.Generator,
        zero_last: bool,
    ) -> None:
        if len(data.shape) != 1:
            raise InputError(f"expected signals of one dimension, came points of {data.shape}")
        self.data, self.loss = data, loss
        drawn = torch.randn(layers, data.dimension, generator=generator, dtype=torch.float64)
        drawn = scale * drawn / drawn.norm(dim=1, keepdim=True)
        if zero_last:
            drawn[-1] = 0
        self.spectra = half_spectrum(drawn.to(data.rows), dims=1)
        self.counts = multiplicity((data.dimension,)).to(data.rows)
        self.length: float | None = None

    def weights(self, spectra: Tensor | None = None) -> Tensor:
        a = self.spectra if spectra is None else spectra
        product = a[-1] * a[:-1].conj().prod(0)
        return inverse_half_spectrum(product[None], sizes=(self.data.dimension,))[0]

    def values(self) -> Tensor:
        return self.data.values(self.weights())

    def ascent(self, spectra: Tensor) -> tuple[Tensor, float]:
        """-grad log L of the layers' spectra, and log L."""
        values = self.data.values(self.weights(spectra))
        log_loss = float(log_risk(values, self.loss))
        g = half_spectrum(self.data.mix(pull(values, self.loss))[None], dims=1)[0]
        inner, last = spectra[:-1], spectra[-1]
        others = _products_of_others(inner)
        to_inner = g.conj() * last * others.conj()
        to_last = g * inner.prod(0)
        return torch.cat([to_inner, to_last[None]]), log_loss

    def advance(self, step: float, method: Method) -> None:
        ascent, log_loss = self.ascent(self.spectra)
        if method == "plain":
            self.spectra = self.spectra + step * math.exp(log_loss) * ascent
        elif method == "normalised":
            self.spectra = self.spectra + step * ascent
        elif method == "search":
            self.search(ascent, log_loss, step)
        elif method == "flow":
            self.flow_step(step)
        else:
            raise InputError(f"expected plain, normalised, search or flow, came {method!r}")

    def search(self, ascent: Tensor, log_loss: float, first: float) -> None:
        """The longest step, from a little above the last one, that lowers log L enough."""
        length = _LONGER * (self.length or first)
        slope = float((self.counts * ascent.abs() ** 2).sum())
        for _ in range(_HALVINGS):
            moved = self.spectra + length * ascent
            values = self.data.values(self.weights(moved))
            if float(log_risk(values, self.loss)) <= log_loss - 0.5 * length * slope:
                break
            length /= 2
        self.spectra, self.length = moved, length

    def flow_step(self, change: float) -> None:
        first, _ = self.ascent(self.spectra)
        length = change * float(self.spectra.norm() / first.norm().clamp(min=1e-300))
        second, _ = self.ascent(self.spectra + length * first)
        self.spectra = self.spectra + length * (first + second) / 2


def _products_of_others(factors: Tensor) -> Tensor:
    """For each row the product of all the other rows, without dividing."""
    ones = torch.ones_like(factors[:1])
    before = torch.cat([ones, factors[:-1].cumprod(0)])
    after = torch.cat([ones, factors[1:].flip(0).cumprod(0)]).flip(0)
    return before * after


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
        data, loss, step, method, iterations, generator, reference: as in :func:`train_convnet`.
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
