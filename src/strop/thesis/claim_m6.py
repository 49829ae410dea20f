"""Claim M6: the closed-form Fourier-l∞ step, and the dual of Fourier-l1.

    strop thesis run claim-M6

Thesis appendix B.3.2 and proof B.2.2. For a linear loss <g, v> over ||F v||∞ <= 1 the step
F^-1(F g / |F g|) is compared with CVXPY's maximum and with the best of many extreme points of the
ball drawn at random. Expected: the step meets CVXPY's value and no random point exceeds it; CVXPY's
maximum over the Fourier-l1 ball is the Fourier-l∞ norm of g. A band counts its frequencies alone.
Two seconds of one core at small.
"""

from dataclasses import dataclass
from typing import Any

import torch

from strop.geometry import L1, Fourier, Linf, Norm, low_band
from strop.margins.joint import weight_norm
from strop.support import require
from strop.thesis.calls import Each, Record, one_by_one


@dataclass(frozen=True)
class Settings:
    """Shapes of the gradients: signals, and pictures with channels; random points of the ball."""

    shapes: tuple[tuple[int, ...], ...] = ((9,), (32,), (3, 6, 6))
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    draws: int = 20_000


PRESETS = {
    "smoke": Settings(shapes=((9,), (1, 4, 4)), seeds=(0,), draws=500),
    "small": Settings(),
    "gpu": Settings(draws=200_000),
    "paper": Settings(draws=200_000),
}


def step(shape: list[int], band: str, seed: int, draws: int) -> Record:
    """The value of the step, of CVXPY, and of the best random point, for one gradient."""
    generator = torch.Generator().manual_seed(seed)
    gradient = torch.randn(1, *shape, generator=generator, dtype=torch.float64)
    dims = 1 if len(shape) == 1 else 2
    mask = low_band(shape[-dims:], 0.25) if band == "low" else None
    ball, other = Fourier(Linf, dims=dims, band=mask), Fourier(L1, dims=dims)
    best = -torch.inf
    for block in range(0, draws, 1000):
        noise = torch.randn(min(1000, draws - block), *shape, generator=generator).double()
        best = max(best, float((ball.steepest(noise) * gradient).flatten(1).sum(dim=1).max()))
    return {
        "shape": shape,
        "band": band,
        "seed": seed,
        "closed_form": float((ball.steepest(gradient) * gradient).sum()),
        "cvxpy": None if mask is not None else _largest(gradient, ball),
        "random": best,
        "dual_of_fourier_l1": _largest(gradient, other),
        "fourier_linf": float(Fourier(Linf, dims=dims)(gradient)),
    }


def _largest(gradient: torch.Tensor, ball: Norm) -> float:
    """max <g, v> over the ball, by a cone solver that knows no closed form."""
    cp = require("cvxpy", extra="solvers", purpose="the largest value over a ball")
    point = cp.Variable(gradient.numel())
    size = weight_norm(cp, point, ball.dual, tuple(gradient.shape[1:]))
    problem = cp.Problem(cp.Maximize(gradient.flatten().numpy() @ point), [size <= 1])
    problem.solve(solver="CLARABEL")
    return float(problem.value)


def compute(settings: Settings, each: Each = one_by_one) -> list[Record]:
    return each(
        step,
        [
            {"shape": list(shape), "band": band, "seed": seed, "draws": settings.draws}
            for shape in settings.shapes
            for band in ("full", "low")
            for seed in settings.seeds
        ],
    )


def draw(records: list[Record]) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.add_subplot()
    groups = sorted({(tuple(one["shape"]), one["band"]) for one in records})
    names = [f"{'x'.join(map(str, shape))}\n{band}" for shape, band in groups]
    for place, (shape, band) in enumerate(groups):
        some = [one for one in records if (tuple(one["shape"]), one["band"]) == (shape, band)]
        shares = [one["random"] / one["closed_form"] for one in some]
        axes.plot([place] * len(some), shares, "o", color="tab:orange", ms=4)
        solved = [one["cvxpy"] / one["closed_form"] for one in some if one["cvxpy"] is not None]
        axes.plot([place] * len(solved), solved, "x", color="black")
    axes.axhline(1, color="tab:blue", label="closed form")
    axes.plot([], [], "x", color="black", label="CVXPY")
    axes.plot([], [], "o", color="tab:orange", label="best random extreme point")
    axes.set_xticks(range(len(groups)), names, fontsize="small")
    axes.set(ylabel="<g, v> / that of the step", ylim=(0, 1.1))
    axes.legend(fontsize="small")
    return figure
