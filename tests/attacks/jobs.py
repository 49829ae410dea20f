"""What tests of evaluations share, and what they run in other processes."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from strop.attacks import (
    Attack,
    AttackResult,
    accuracy_curve,
    apgd,
    max_epsilon,
    quick_suite,
    robust_accuracy,
    square,
)
from strop.geometry import L2, Fourier, Linf, Norm

SHAPE = (1, 4, 4)
EPS = (0.02, 0.05, 0.1)


class Killed(BaseException):
    """What a signal from outside is to a run."""


def small_problem(count: int = 30) -> tuple[nn.Module, tuple[Tensor, Tensor]]:
    """A small network of five classes and pictures, a few of which it gets wrong."""
    with torch.random.fork_rng():
        torch.manual_seed(3)
        model = nn.Sequential(nn.Flatten(), nn.Linear(16, 12), nn.ReLU(), nn.Linear(12, 5)).eval()
    x = torch.rand(count, *SHAPE, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        y = model(4 * x - 2).argmax(dim=1)
    return nn.Sequential(Scaled(), model), (x, torch.where(torch.arange(count) < 3, (y + 1) % 5, y))


class Scaled(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return 4 * x - 2


def suite() -> tuple[Attack, ...]:
    """Few steps, one attack that draws."""

    def blind(model: Any, x: Tensor, y: Tensor, **options: Any) -> AttackResult:
        return square(model, x, y, queries=10, **options)

    def drawn(model: Any, x: Tensor, y: Tensor, **options: Any) -> AttackResult:
        return apgd(model, x, y, steps=3, restarts=2, **options)

    return (Attack("blind", blind), Attack("drawn", drawn), *quick_suite(steps=4))


def evaluate(kind: str, out: Path | None = None, **options: Any) -> Any:
    model, data = small_problem()
    norm: Norm = Fourier(Linf, dims=2) if kind == "curve" else L2
    options = {"attacks": suite(), "batch_size": 4, "check": "off", "progress": "quiet"} | options
    if kind == "accuracy":
        return robust_accuracy(model, data, norm=norm, eps=0.3, out=out, **options)
    if kind == "curve":
        return accuracy_curve(model, data, norm=norm, eps=EPS, out=out, **options)
    if kind == "maximum":
        return max_epsilon(model, data, norm=norm, drop=0.1, out=out, **options)
    raise AssertionError(kind)


def distances(kind: str, out: Path | None = None, resume: bool = False) -> list[float]:
    result = evaluate(kind, out, resume=resume)
    return result.distances.tolist()
