"""Claim M15: deeper linear convolutional networks and the Fourier 2/L quasi-norm.

    strop thesis run claim-M15

Thesis theorem 2 for L > 2. Networks of L = 2, 3, 4 circular convolutions under gradient descent by
relative steps. At a stationary point of ||F(w)||_{2/L} among the classifiers of margin one, the
layers' common spectrum |F w|^{1/L} is parallel to its own pull g |F w|^{(L-1)/L}, where g is the
spectrum of some mixture of the points on the margin; their cosine is 1. The best mixture is found
by non-negative least squares. Expected: a cosine near 1, and spectra that grow sparser with L. 18
seconds of one core at small.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from strop.geometry.fourier import half_spectrum, multiplicity
from strop.margins import SignedData
from strop.margins.convnet import train_convnet
from strop.support import require
from strop.thesis.calls import Each, Record, one_by_one
from strop.thesis.linear_margins import gaussian, rounded


@dataclass(frozen=True)
class Settings:
    """Gaussian data; ``scale`` is the length of each layer at the start."""

    count: int = 8
    dimension: int = 32
    layers: tuple[int, ...] = (2, 3, 4)
    scale: float = 0.5
    near: float = 0.1
    """Points up to this share above the margin count as on it."""
    iterations: int = 1_500
    seeds: tuple[int, ...] = tuple(range(10))


PRESETS = {
    "smoke": Settings(count=4, dimension=12, layers=(2, 3), iterations=200, seeds=(0,)),
    "small": Settings(),
    "gpu": Settings(count=25, dimension=100, iterations=30_000),
    "paper": Settings(count=25, dimension=100, iterations=30_000),
}


def deep(
    layers: int,
    count: int,
    dimension: int,
    scale: float,
    near: float,
    iterations: int,
    seed: int,
) -> Record:
    """One network: its spectrum, how sparse it is, how near to stationary."""
    data = gaussian(count, dimension, seed)
    path = train_convnet(
        data,
        layers=layers,
        scale=scale,
        method="relative",
        iterations=iterations,
        generator=torch.Generator().manual_seed(seed),
        zero_last=layers == 2,
    )
    counts = multiplicity((dimension,)).double()
    weights = path.weights.double()
    spectrum = half_spectrum(weights[None], dims=1)[0].abs()
    size = spectrum / spectrum.max()
    return {
        "layers": layers,
        "seed": seed,
        "cosine": rounded(stationarity(data, weights, layers=layers, near=near)),
        "effective": rounded(float((counts * size).sum() ** 2 / (counts * size**2).sum())),
        "above_one_percent": int(counts[size > 0.01].sum()),
        "dimension": dimension,
        "margin_l1": rounded(path.margin),
        "spectrum": [rounded(float(value)) for value in size.sort(descending=True).values],
    }


def stationarity(data: SignedData, weights: Tensor, *, layers: int, near: float) -> float:
    """The cosine of |F w|^(1/L) and its best pull by points on the margin: 1 if stationary."""
    optimize = require("scipy.optimize", extra="solvers", purpose="non-negative least squares")
    counts = multiplicity((data.dimension,)).to(weights).sqrt()
    spectrum = half_spectrum(weights[None], dims=1)[0]
    size = spectrum.abs() / spectrum.abs().max()
    values = data.values(weights)
    if not float(values.min()) > 0:
        return 0.0  # the points are not separated yet
    rows = data.dense()[values <= (1 + near) * values.min()].double()
    # Each point's spectrum in the phase of the weights', as a layer feels it.
    pulls = half_spectrum(rows, dims=1) * torch.exp(-1j * spectrum.angle())
    pulls = pulls * counts * size ** ((layers - 1) / layers)
    wanted = torch.cat([counts * size ** (1 / layers), torch.zeros_like(counts)])
    columns = torch.cat([pulls.real, pulls.imag], dim=1)
    mixture, _ = optimize.nnls(columns.T.numpy(), wanted.numpy())
    best = torch.as_tensor(mixture) @ columns
    return float(best @ wanted / (best.norm() * wanted.norm()).clamp(min=1e-300))


def compute(settings: Settings, each: Each = one_by_one) -> list[Record]:
    shared = {
        "count": settings.count,
        "dimension": settings.dimension,
        "scale": settings.scale,
        "near": settings.near,
        "iterations": settings.iterations,
    }
    return each(
        deep,
        [
            shared | {"layers": layers, "seed": seed}
            for layers in settings.layers
            for seed in settings.seeds
        ],
    )


def draw(records: list[Record]) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    colours = {2: "tab:blue", 3: "tab:orange", 4: "tab:green"}
    for one in records:
        left.semilogy(
            [max(value, 1e-6) for value in one["spectrum"]],
            color=colours[one["layers"]],
            alpha=0.6,
            lw=1,
        )
    for layers in sorted({one["layers"] for one in records}):
        some = [one for one in records if one["layers"] == layers]
        left.plot([], [], color=colours[layers], label=f"L = {layers}")
        right.plot(
            [layers] * len(some),
            [one["effective"] for one in some],
            "o",
            color=colours[layers],
            label=f"cosine {min(one['cosine'] for one in some):.4f} or more",
        )
    left.set(xlabel="frequency, by size", ylabel="|F w| / largest", ylim=(1e-6, 2))
    left.legend(fontsize="small")
    right.set(
        xlabel="layers L",
        ylabel=f"effective frequencies of {records[0]['dimension']}",
        xticks=sorted({one["layers"] for one in records}),
        ylim=(0, None),
    )
    right.legend(fontsize="small")
    return figure
