"""Gradient descent on linear networks of circular convolutions.

    phi(x) = w_L . (w_{L-1} * … * (w_1 * x))        Thesis definition 3, * the circular convolution

In the orthonormal Fourier domain layers multiply, F(w) = F(w_L) conj(F(w_{L-1})) … conj(F(w_1)),
and gradient descent there is gradient descent on the layers, since the transform keeps lengths. Two
layers tend to the least Fourier-l1 norm (theorem 2, corollary 2); L layers to stationary points of
the Fourier 2/L quasi-norm.

How near they come depends on how long the steps are. On log L two balanced layers multiply each
frequency of w by exp(2 s |g|) in time s, g the pull of the points on it: frequencies that the
margin does not need die away as ||w|| grows, in a time of log ||w||. Steps that keep to the
curvature of the risk add about the same to ||w|| each, so that T of them make a time of log T;
steps by a share of the layers' own length make a time of that share times T. The points then take
turns, which a share that falls to zero settles; the mixture of their turns is the certificate.

Legend: b problems, n points (the most of any), f frequencies, L layers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from strop.geometry import Fourier, Linf
from strop.geometry.fourier import half_spectrum, inverse_half_spectrum, multiplicity
from strop.margins.data import SignedData
from strop.margins.path import MarginPath, Recorder
from strop.margins.result import MarginResult
from strop.margins.risk import Loss, log_risk, pull
from strop.support import InputError

__all__ = ["ConvnetMethod", "train_convnet", "train_convnets"]

ConvnetMethod = Literal["plain", "normalised", "search", "flow", "relative"]

_STEPS: dict[ConvnetMethod, float] = {"plain": 0.03, "normalised": 0.1, "search": 0.1, "flow": 0.02}
_LONGER = 1.5
_HALVINGS = 40


def train_convnet(
    data: SignedData,
    *,
    layers: int = 2,
    scale: float = 1.0,
    loss: Loss = "exponential",
    step: float | None = None,
    method: ConvnetMethod = "plain",
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
        step: of gradient descent; for "search" only the first; for "flow" and "relative" the share
            of the layers' length that a step may be. None takes the method's own.
        method: "plain" descent; "normalised", the gradient divided by the risk, so that progress
            does not die with it; "search", the same with the longest step that Armijo's rule
            allows; "flow", the gradient flow by Heun's method; "relative", steps along the gradient
            by a share of the layers' length that falls linearly from ``step`` to zero.
        iterations: how many.
        generator: of the initial layers.
        zero_last: start the last layer at zero, as the thesis's experiments do.
        reference: the exact minimum Fourier-l1 solution.

    >>> from strop.margins.data import signed_data
    >>> g = torch.Generator().manual_seed(0)
    >>> data = signed_data(torch.randn(3, 8, generator=g, dtype=torch.float64), [1, -1, 1])
    >>> train_convnet(data, method="relative", iterations=1000, generator=g).gap < 0.05
    True
    """
    (path,) = train_convnets(
        [data],
        layers=layers,
        scale=scale,
        loss=loss,
        step=step,
        method=method,
        iterations=iterations,
        generators=[generator],
        zero_last=zero_last,
        references=[reference],
    )
    return path


def train_convnets(
    problems: Sequence[SignedData],
    *,
    layers: int = 2,
    scale: float = 1.0,
    loss: Loss = "exponential",
    step: float | None = None,
    method: ConvnetMethod = "plain",
    iterations: int = 10_000,
    generators: Sequence[torch.Generator],
    zero_last: bool = True,
    references: Sequence[MarginResult | None],
) -> list[MarginPath]:
    """:func:`train_convnet` for many problems of one dimension at once, each as if alone."""
    if layers < 2 or not scale > 0 or not (step is None or step > 0):
        raise InputError(
            f"expected layers >= 2, scale > 0 and step > 0, came {layers}, {scale} and {step}"
        )
    if method not in ("plain", "normalised", "search", "flow", "relative"):
        raise InputError(
            f"expected the method plain, normalised, search, flow or relative, came {method!r}"
        )
    length = _step_of(method, step, _log_room(layers, problems[0].rows.dtype), iterations)
    attack = Fourier(Linf, dims=1)
    recorders = [
        Recorder(data, attack, iterations, reference)
        for data, reference in zip(problems, references, strict=True)
    ]
    networks = _ConvNets(problems, layers, scale, loss, generators, zero_last)
    for iteration in range(1, iterations + 1):
        left = (iterations + 1 - iteration) / iterations
        networks.advance(length * left if method == "relative" else length, method)
        if recorders[0].due(iteration):
            weights, values = networks.weights(), networks.values()
            losses = networks.log_risk(values).tolist()
            mixtures = networks.turns() if method == "relative" else pull(values, loss)
            for number, (recorder, data) in enumerate(zip(recorders, problems, strict=True)):
                mixture = mixtures[number, : len(data)]
                recorder.take(iteration, weights[number], mixture, losses[number])
    name = f"{layers}-layer convolutional network, {method}, scale {scale:g}"
    return [
        recorder.path(name, weights)
        for recorder, weights in zip(recorders, networks.weights(), strict=True)
    ]


def _log_room(layers: int, dtype: torch.dtype) -> float:
    """The log of how long layers may grow, so that the square of a gradient stays finite."""
    return 0.85 * math.log(torch.finfo(dtype).max) / (2 * layers - 2)


def _step_of(method: ConvnetMethod, step: float | None, room: float, iterations: int) -> float:
    if method != "relative":
        return _STEPS[method] if step is None else step
    longest = 2 * room / iterations  # the shares of all the steps sum to half of step * iterations
    if step is None:
        return min(3 / math.sqrt(iterations), longest)
    if step > longest:
        raise InputError(
            f"expected a relative step of at most {longest:.3g} for {iterations} iterations, since "
            f"weights else leave the range of their numbers, came {step:g}"
        )
    return step


class _ConvNets:
    """Layers as half spectra (b, L, f)."""

    def __init__(
        self,
        problems: Sequence[SignedData],
        layers: int,
        scale: float,
        loss: Loss,
        generators: Sequence[torch.Generator],
        zero_last: bool,
    ) -> None:
        shapes = {data.shape for data in problems}
        if len(shapes) != 1 or len(problems[0].shape) != 1:
            raise InputError(f"expected signals of one length, came points of {sorted(shapes)}")
        self.loss, self.dimension = loss, problems[0].dimension
        like = problems[0].rows
        drawn = torch.stack(
            [
                torch.randn(layers, self.dimension, generator=generator, dtype=torch.float64)
                for generator in generators
            ]
        )
        drawn = scale * drawn / drawn.norm(dim=2, keepdim=True)
        if zero_last:
            drawn[:, -1] = 0
        self.spectra = half_spectrum(drawn.to(like.device, like.dtype), dims=1)
        self.counts = multiplicity((self.dimension,)).to(like.device, like.dtype)
        self.points = _stacked([half_spectrum(data.dense(), dims=1) for data in problems])
        self.weighed = self.points * self.counts.repeat_interleave(2)
        sizes = torch.tensor([len(data) for data in problems], device=like.device)
        most = self.points.shape[1]
        self.absent = torch.arange(most, device=like.device) >= sizes[:, None]
        self.surplus = (most / sizes.to(like.dtype)).log()
        self.log_room = _log_room(layers, like.dtype)
        self.length: Tensor | None = None
        self.pulled = torch.zeros_like(self.absent, dtype=like.dtype)

    def turns(self) -> Tensor:
        """How much each point has pulled since this was last asked, (b, n)."""
        pulled, self.pulled = self.pulled, torch.zeros_like(self.pulled)
        return pulled

    def products(self, spectra: Tensor) -> Tensor:
        """F(w), (b, f)."""
        return spectra[:, -1] * spectra[:, :-1].conj().prod(1)

    def weights(self) -> Tensor:
        """(b, d)."""
        return inverse_half_spectrum(self.products(self.spectra), sizes=(self.dimension,))

    def values(self, spectra: Tensor | None = None) -> Tensor:
        """Z w, (b, n); infinite for the points that a problem does not have."""
        a = self.spectra if spectra is None else spectra
        w = torch.view_as_real(self.products(a)).flatten(1)
        return torch.bmm(self.weighed, w[..., None])[..., 0].masked_fill(self.absent, torch.inf)

    def log_risk(self, values: Tensor) -> Tensor:
        return log_risk(values, self.loss) + self.surplus

    def ascent(self, spectra: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """-grad log L of the layers' spectra (b, L, f), log L (b,), the points' pulls (b, n)."""
        values = self.values(spectra)
        shares = pull(values, self.loss)
        mixed = torch.bmm(shares[:, None], self.points)
        g = torch.view_as_complex(mixed.reshape(len(mixed), -1, 2))[:, None]
        inner, last = spectra[:, :-1], spectra[:, -1:]
        to_inner = g.conj() * last * _products_of_others(inner).conj()
        to_last = g * inner.prod(1, keepdim=True)
        return torch.cat([to_inner, to_last], 1), self.log_risk(values), shares

    def square(self, spectra: Tensor) -> Tensor:
        """The squared length of all the layers, (b,)."""
        return (self.counts * (spectra.real**2 + spectra.imag**2)).sum((1, 2))

    def advance(self, step: float, method: ConvnetMethod) -> None:
        ascent, log_loss, shares = self.ascent(self.spectra)
        if method == "plain":
            lengths = step * log_loss.exp()
        elif method == "normalised":
            lengths = torch.full_like(log_loss, step)
        elif method == "search":
            lengths = self.searched(ascent, log_loss, step)
        else:
            least = torch.finfo(log_loss.dtype).tiny
            ratio = self.square(self.spectra) / self.square(ascent).clamp(min=least)
            lengths = step * ratio.sqrt()
            self.pulled += step * shares
            if method == "flow":
                ahead, _, _ = self.ascent(self.spectra + lengths[:, None, None] * ascent)
                ascent = (ascent + ahead) / 2
        moved = self.spectra + lengths[:, None, None] * ascent
        # A network that has grown to the end of its number format stays as it is.
        room = self.square(moved).log() / 2 < self.log_room
        self.spectra = torch.where(room[:, None, None], moved, self.spectra)

    def searched(self, ascent: Tensor, log_loss: Tensor, first: float) -> Tensor:
        """The longest steps, from a little above the last ones, that lower log L enough."""
        last = torch.full_like(log_loss, first) if self.length is None else self.length
        lengths, slope = _LONGER * last, self.square(ascent)
        for _ in range(_HALVINGS):
            reached = self.log_risk(self.values(self.spectra + lengths[:, None, None] * ascent))
            enough = reached <= log_loss - 0.5 * lengths * slope
            if bool(enough.all()):
                break
            lengths = torch.where(enough, lengths, lengths / 2)
        self.length = lengths
        return lengths


def _stacked(spectra: list[Tensor]) -> Tensor:
    """Half spectra (n_b, f) as real pairs (b, n, 2f), zeros where a problem has fewer points."""
    pairs = [torch.view_as_real(part).flatten(1) for part in spectra]
    return torch.nn.utils.rnn.pad_sequence(pairs, batch_first=True)


def _products_of_others(factors: Tensor) -> Tensor:
    """For each layer (b, l, f) the product of all the others, without dividing."""
    ones = torch.ones_like(factors[:, :1])
    before = torch.cat([ones, factors[:, :-1].cumprod(1)], 1)
    after = torch.cat([ones, factors[:, 1:].flip(1).cumprod(1)], 1).flip(1)
    return before * after
