"""Claim M17: preconditioned methods have their own implicit bias, and so their own robustness.

    strop thesis run claim-M17

Thesis chapter 6 names it as future work. Linear classifiers of Gaussian data under the exponential
loss, by gradient descent, by descent with a fixed diagonal and a fixed full preconditioner P, by
AdaGrad and by Adam; each one's margin as a share of the best, for the l1, l2, l∞ norms of the
weights and for sqrt(w' P w). Expected: descent with P maximises the margin of sqrt(w' P w), hence
robustness against sqrt(delta' P^-1 delta); AdaGrad that of the P it ends with; Adam, where the loss
falls slowly against its memory, that of l∞, hence robustness against l1 attacks, as sign descent
does. With its usual memory of 1,000 steps the gradients die before they are forgotten: its P stays
that of the first steps, up to a factor, and its bias is that of a diagonal preconditioner. 20
seconds of one core at small.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from strop.geometry import L2
from strop.margins import SignedData, signed_data, solve
from strop.margins.risk import log_risk, pull
from strop.thesis.calls import Each, Record, one_by_one
from strop.thesis.linear_margins import ATTACKS, gaussian, rounded

METHODS = ("gd", "diagonal", "full", "adagrad", "adam", "adam-short")
NORMS = ("l1", "l2", "linf", "own P")
_ATTACK_OF = {"l1": "linf", "l2": "l2", "linf": "l1"}


@dataclass(frozen=True)
class Settings:
    """``spread`` is the largest over the smallest eigenvalue of the fixed preconditioners."""

    count: int = 20
    dimension: int = 60
    spread: float = 30.0
    iterations: int = 6_000
    rate: float = 0.01
    """Of Adam; AdaGrad takes 30 times it, Adam with a short memory (0.95) a tenth."""
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)


PRESETS = {
    "smoke": Settings(count=4, dimension=8, iterations=200, seeds=(0,)),
    "small": Settings(),
    "gpu": Settings(count=50, dimension=200, iterations=100_000),
    "paper": Settings(count=50, dimension=200, iterations=100_000),
}


def preconditioned(
    method: str,
    count: int,
    dimension: int,
    spread: float,
    iterations: int,
    rate: float,
    seed: int,
) -> Record:
    """Where a method goes: its margin over the best, norm by norm."""
    data = gaussian(count, dimension, seed)
    if method in ("gd", "diagonal", "full"):
        metric = _metric(method, dimension, spread, seed)
        weights = _descend(data, metric, iterations)
    elif method in ("adam", "adam-short", "adagrad"):
        weights, metric = _adaptive(data, method, iterations, rate)
    else:
        raise ValueError(f"expected a method of {METHODS}, came {method!r}")
    shares = {norm: _share(data, weights, ATTACKS[attack]) for norm, attack in _ATTACK_OF.items()}
    shares["own P"] = _share_in_metric(data, weights, metric)
    return {
        "method": method,
        "seed": seed,
        "log_risk": rounded(float(log_risk(data.values(weights), "exponential"))),
        "shares": {norm: rounded(share) for norm, share in shares.items()},
    }


def _metric(method: str, dimension: int, spread: float, seed: int) -> Tensor:
    """P (d, d): the identity, a diagonal, or the same eigenvalues in random directions."""
    if method == "gd":
        return torch.eye(dimension, dtype=torch.float64)
    generator = torch.Generator().manual_seed(1000 + seed)
    shares = torch.rand(dimension, generator=generator, dtype=torch.float64)
    values = spread**shares
    if method == "diagonal":
        return values.diag()
    noise = torch.randn(dimension, dimension, generator=generator, dtype=torch.float64)
    basis = torch.linalg.qr(noise).Q
    return basis @ values.diag() @ basis.T


def _descend(data: SignedData, metric: Tensor, iterations: int) -> Tensor:
    """w <- w - step P^-1 grad log L: the same direction as descent on L, at a useful pace."""
    inverse = torch.linalg.inv(metric)
    longest = max(float(row @ inverse @ row) for row in data.dense())
    w = torch.zeros(data.dimension, dtype=torch.float64)
    for _ in range(iterations):
        w = w + inverse @ data.mix(pull(data.values(w), "exponential")) / longest
    return w


def _adaptive(data: SignedData, method: str, iterations: int, rate: float) -> tuple[Tensor, Tensor]:
    """torch's own optimiser on the loss itself, and the diagonal P that it ends with."""
    w = torch.zeros(data.dimension, dtype=torch.float64, requires_grad=True)
    optimizer: torch.optim.Optimizer
    if method == "adam":
        optimizer = torch.optim.Adam([w], lr=rate, eps=1e-100)
    elif method == "adam-short":
        optimizer = torch.optim.Adam([w], lr=rate / 10, betas=(0.9, 0.95), eps=1e-100)
    else:
        optimizer = torch.optim.Adagrad([w], lr=30 * rate, eps=1e-100)
    for _ in range(iterations):
        values = data.values(w.detach())
        shares = pull(values, "exponential") * log_risk(values, "exponential").exp()
        w.grad = -data.mix(shares)
        optimizer.step()
    state = optimizer.state[w]
    squares = state["sum"] if method == "adagrad" else state["exp_avg_sq"]
    return w.detach(), squares.sqrt().diag()


def _share(data: SignedData, weights: Tensor, attack: Any) -> float:
    best = solve(data, attack=attack, tol=1e-7).margin
    return float(data.values(weights).min()) / data.measure(attack.dual, weights) / best


def _share_in_metric(data: SignedData, weights: Tensor, metric: Tensor) -> float:
    """In u = P^1/2 w the norm is l2 and the points are P^-1/2 z."""
    values, basis = torch.linalg.eigh(metric)
    values = values.clamp(min=values.max() * 1e-12)
    half = basis @ values.sqrt().diag() @ basis.T
    moved = data.dense() @ torch.linalg.inv(half)
    seen = signed_data(moved, torch.ones(len(data)))
    return _share(seen, half @ weights, L2)


def compute(settings: Settings, each: Each = one_by_one) -> list[Record]:
    shared = {
        "count": settings.count,
        "dimension": settings.dimension,
        "spread": settings.spread,
        "iterations": settings.iterations,
        "rate": settings.rate,
    }
    return each(
        preconditioned,
        [
            shared | {"method": method, "seed": seed}
            for method in METHODS
            for seed in settings.seeds
        ],
    )


def draw(records: list[Record]) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.add_subplot()
    width = 0.8 / len(NORMS)
    for place, norm in enumerate(NORMS):
        means, lows, highs = [], [], []
        for method in METHODS:
            shares = [one["shares"][norm] for one in records if one["method"] == method]
            mean = sum(shares) / len(shares)
            means.append(mean)
            lows.append(mean - min(shares))
            highs.append(max(shares) - mean)
        where = [at + (place - 1.5) * width for at in range(len(METHODS))]
        axes.bar(where, means, width, yerr=[lows, highs], capsize=2, label=f"margin in {norm}")
    axes.axhline(1, color="0.5", lw=1)
    axes.set_xticks(range(len(METHODS)), METHODS)
    axes.set(ylabel="margin / best margin in that norm", ylim=(0, 1.15))
    axes.legend(fontsize="small", ncol=4)
    return figure
