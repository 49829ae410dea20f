"""Claim M13: locally linear networks, y f(x) > eps ||grad f(x)||_dual certifies.

    strop thesis run claim-M13

Thesis lemma 2 (appendix B.4). ReLU networks on a toy in the plane and on scikit-learn's digits (odd
or even), against l∞ and l2. For each point: the gradient's radius y f(x) / ||grad f(x)||_dual, the
radius within which the network is linear, and the shortest perturbation that an attack finds.
Expected: within the linear radius the certificate is never broken, and it is exact where the
gradient's radius lies inside; outside of it the gradient's radius stops being true, for many points
by far: there it is larger than a perturbation that was found. 15 seconds of one core at small.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from strop.attacks import minimum_norm
from strop.geometry import L2, Linf, Norm
from strop.margins.locally_linear import certify_locally
from strop.thesis.calls import Each, Record, one_by_one
from strop.thesis.image_models import digits_arrays
from strop.thesis.linear_margins import rounded

NORMS: dict[str, Norm] = {"linf": Linf, "l2": L2}


@dataclass(frozen=True)
class Settings:
    """Networks of two hidden layers of ``width``; ``points`` are looked at, ``shown`` recorded."""

    data: tuple[str, ...] = ("moons", "digits")
    norms: tuple[str, ...] = ("linf", "l2")
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    width: int = 16
    epochs: int = 500
    points: int = 100
    steps: int = 60
    shown: int = 60


PRESETS = {
    "smoke": Settings(data=("moons",), norms=("linf",), seeds=(0,), epochs=50, points=20, steps=10),
    "small": Settings(),
    "gpu": Settings(points=200, steps=200),
    "paper": Settings(points=200, steps=200),
}


def certified(
    data: str,
    norm: str,
    seed: int,
    width: int,
    epochs: int,
    points: int,
    steps: int,
    shown: int,
) -> Record:
    """The certificate of one trained network against what an attack finds."""
    inputs, labels = moons(400, seed) if data == "moons" else digits_arrays(odd=True)
    network = _trained(inputs, labels, width, epochs, seed)
    x, y = inputs[:points].double(), labels[:points].double()
    found = certify_locally(network.double(), x, y, attack=NORMS[norm])
    right = found.gradient_radius > 0
    two = _TwoLogits(network)
    attack = minimum_norm(two, x, (y > 0).long(), norm=NORMS[norm], steps=steps, bounds=None)
    distance = torch.where(attack.success, attack.norm.double(), torch.inf)
    exact = found.exact
    past = _past_the_border(network, x, y, found.gradient_radius, NORMS[norm])
    slack = 1e-6
    return {
        "data": data,
        "norm": norm,
        "seed": seed,
        "right": int(right.sum()),
        "points": points,
        "broken": int((right & (distance < found.certified * (1 - slack))).sum()),
        "exact": int(exact.sum()),
        "exact_and_flipped_just_past": int((exact & past).sum()),
        "overstated": int((right & (distance < found.gradient_radius * (1 - 1e-3))).sum()),
        "overstated_inside": int((exact & (distance < found.gradient_radius * (1 - 1e-3))).sum()),
        "rows": [
            [rounded(float(g)), rounded(float(r)), rounded(float(d))]
            for g, r, d, ok in zip(
                found.gradient_radius, found.linear_radius, distance, right, strict=True
            )
            if ok and torch.isfinite(d)
        ][:shown],
    }


def moons(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Two half circles that hold each other, in the plane."""
    generator = torch.Generator().manual_seed(seed)
    angle = torch.pi * torch.rand(count, generator=generator)
    upper = torch.rand(count, generator=generator) < 0.5
    x = torch.where(upper, angle.cos(), 1 - angle.cos())
    y = torch.where(upper, angle.sin(), 0.5 - angle.sin())
    noise = 0.1 * torch.randn(count, 2, generator=generator)
    return torch.stack([x, y], dim=1) + noise, torch.where(upper, 1.0, -1.0)


class _TwoLogits(nn.Module):
    """The sign of one output as two classes."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        value: Tensor = self.network(x)
        return torch.cat([-value, value], dim=1)


def _trained(inputs: Tensor, labels: Tensor, width: int, epochs: int, seed: int) -> nn.Sequential:
    sizes = [inputs.shape[1], width, width, 1]
    layers: list[nn.Module] = []
    generator = torch.Generator().manual_seed(seed)
    for wide, narrow in pairwise(sizes):
        layer = nn.Linear(wide, narrow)
        scale = (2 / wide) ** 0.5
        layer.weight.data = scale * torch.randn(narrow, wide, generator=generator)
        layer.bias.data.zero_()
        layers += [layer, nn.ReLU()]
    network = nn.Sequential(*layers[:-1])
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    for _ in range(epochs):
        optimizer.zero_grad()
        loss = torch.nn.functional.softplus(-labels * network(inputs)[:, 0]).mean()
        loss.backward()
        optimizer.step()
    return network.eval().requires_grad_(False)


def _past_the_border(
    network: nn.Module, x: Tensor, y: Tensor, radius: Tensor, norm: Norm
) -> Tensor:
    """Whether the steepest perturbation a ten-thousandth beyond ``radius`` changes the label."""
    point = x.clone().requires_grad_()
    values = (y * network(point)[:, 0]).sum()
    (gradient,) = torch.autograd.grad(values, point)
    moved = x - (1 + 1e-4) * radius.clamp(min=0)[:, None] * norm.steepest(gradient)
    return (y * network(moved)[:, 0] < 0).detach()


def compute(settings: Settings, each: Each = one_by_one) -> list[Record]:
    shared = {
        "width": settings.width,
        "epochs": settings.epochs,
        "points": settings.points,
        "steps": settings.steps,
        "shown": settings.shown,
    }
    return each(
        certified,
        [
            shared | {"data": data, "norm": norm, "seed": seed}
            for data in settings.data
            for norm in settings.norms
            for seed in settings.seeds
        ],
    )


def draw(records: list[Record]) -> Any:
    from matplotlib.figure import Figure

    kinds = sorted({(one["data"], one["norm"]) for one in records})
    figure = Figure(figsize=(4.2 * len(kinds), 4), layout="constrained")
    for axes, (data, norm) in zip(figure.subplots(1, len(kinds), squeeze=False)[0], kinds,
                                  strict=True):  # fmt: skip
        rows = [
            row
            for one in records
            if (one["data"], one["norm"]) == (data, norm)
            for row in one["rows"]
        ]
        inside = [row for row in rows if row[0] <= row[1]]
        outside = [row for row in rows if row[0] > row[1]]
        for some, colour, shape, label in (
            (outside, "tab:orange", ".", "beyond the linear region"),
            (inside, "tab:blue", "o", "inside: exact"),
        ):
            axes.loglog(
                [row[0] for row in some], [row[2] for row in some], shape, color=colour, label=label
            )
        ends = [min(row[2] for row in rows) / 2, max(row[0] for row in rows) * 2]
        axes.plot(ends, ends, color="0.6", lw=1)
        axes.set(
            title=f"{data}, {norm}",
            xlabel="y f(x) / ||grad f(x)||",
            ylabel="shortest perturbation found",
        )
    figure.axes[0].legend(fontsize="small")
    return figure
