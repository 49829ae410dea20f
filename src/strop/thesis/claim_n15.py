"""Claim N15: whether SH oscillates between the two configurations of figure 3.1.

    strop thesis run claim-N15

Thesis section 3.2.2: a step that pushes one hard negative away may cause many slight violators,
which push back, so that SH "may oscillate between two states with no reduction" of its loss, where
MH "would decrease monotonically". The toy: the query turns on the circle between one hard negative
on one side and many on the other; in between lies a gap where nothing violates the margin.
Expected: at some step sizes SH jumps over the gap for ever while MH falls into it; as steps grow
small, and so in gradient flow, along which no loss can rise, neither oscillates. `descent` steps
by the gradient, `equal` by a fixed angle against its sign. Exact; ten seconds of one core, smoke a
second.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from strop.thesis.calls import Each, Record, one_by_one


@dataclass(frozen=True)
class Settings:
    """Angles on the circle in degrees, step sizes in radians, and where the query starts."""

    margin: float = 0.2
    positive: float = 30.0
    hard: float = -27.0
    many: tuple[float, ...] = (56.0, 56.5, 57.0, 57.5, 58.0, 58.5, 59.0)
    starts: tuple[float, ...] = tuple(float(angle) for angle in range(-10, 41, 2))
    steps: tuple[float, ...] = (0.003, 0.01, 0.03, 0.06, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4)
    length: int = 600
    shown: float = 28.0
    """The start whose path is drawn."""


PRESETS = {
    "smoke": Settings(starts=(-4.0, 0.0, 28.0), steps=(0.01, 0.15), length=200),
    "small": Settings(),
    "gpu": Settings(),
    "paper": Settings(),
}

LOSSES, RULES = ("SH", "MH"), ("descent", "equal")


def compute(settings: Settings, each: Each = one_by_one) -> list[Record]:
    shared = {
        "margin": settings.margin,
        "positive": settings.positive,
        "negatives": [settings.hard, *settings.many],
        "starts": list(settings.starts),
        "shown": settings.shown,
        "length": settings.length,
    }
    return each(
        descend,
        [
            shared | {"loss": loss, "rule": rule, "step": step}
            for rule in RULES
            for step in settings.steps
            for loss in LOSSES
        ],
    )


def descend(
    *,
    margin: float,
    positive: float,
    negatives: list[float],
    starts: list[float],
    shown: float,
    length: int,
    loss: str,
    rule: str,
    step: float,
) -> Record:
    """Turn the query from every start; say which runs end in an oscillation without a fall."""
    wrong = torch.deg2rad(torch.tensor(negatives, dtype=torch.float64))
    right = torch.deg2rad(torch.tensor(positive, dtype=torch.float64))
    angle = torch.deg2rad(torch.tensor(starts, dtype=torch.float64))
    angles, losses = [angle], []
    for _ in range(length):
        value, slope = _loss_and_slope(angle, right, wrong, margin, loss)
        losses.append(value)
        angle = angle - step * (slope if rule == "descent" else slope.sign())
        angles.append(angle)
    path, values = torch.stack(angles), torch.stack(losses)
    quarter = length // 4
    late, before = values[-quarter:], values[-2 * quarter : -quarter]
    moving = path[-quarter:].diff(dim=0).abs().amax(dim=0) > 1e-9
    no_fall = late.amin(dim=0) >= before.amin(dim=0) - 1e-12
    return {
        "loss": loss,
        "rule": rule,
        "step": step,
        "oscillates": (moving & no_fall & (late.amax(dim=0) > 1e-9)).tolist(),
        "monotone": (values.diff(dim=0) <= 1e-12).all(dim=0).tolist(),
        "last": [round(one, 6) for one in values[-1].tolist()],
        "trace": [round(one, 3) for one in torch.rad2deg(path[:41, starts.index(shown)]).tolist()],
        "trace_loss": [round(one, 5) for one in values[:40, starts.index(shown)].tolist()],
    }


def _loss_and_slope(
    angle: Tensor, right: Tensor, wrong: Tensor, margin: float, loss: str
) -> tuple[Tensor, Tensor]:
    turning = angle.detach().requires_grad_()
    similarity = torch.cos(turning[:, None] - wrong[None, :])
    hinges = (margin - torch.cos(turning - right)[:, None] + similarity).clamp(min=0)
    value = hinges.sum(dim=1) if loss == "SH" else hinges.amax(dim=1)
    (slope,) = torch.autograd.grad(value.sum(), turning)
    return value.detach(), slope


def draw(records: list[Record]) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.8), layout="constrained")
    traces, counts = figure.subplots(1, 2)
    colours = {"SH": "tab:blue", "MH": "tab:red"}
    chosen = widest(records)
    for one in records:
        if one["rule"] == "descent" and one["step"] == chosen:
            traces.plot(one["trace"], ".-", color=colours[one["loss"]], label=one["loss"])
    traces.set(
        xlabel="step", ylabel="angle of the query, degrees", title=f"descent, step size {chosen}"
    )
    traces.legend(frameon=False)
    for rule, style in zip(RULES, ("-", ":"), strict=True):
        for loss in LOSSES:
            some = [one for one in records if (one["rule"], one["loss"]) == (rule, loss)]
            counts.plot(
                [one["step"] for one in some],
                [100 * sum(one["oscillates"]) / len(one["oscillates"]) for one in some],
                style,
                marker="o",
                markersize=9 if loss == "SH" else 5,  # both are seen where they coincide
                color=colours[loss],
                label=f"{loss}, {rule}",
            )
    counts.set_xscale("log")
    counts.set(xlabel="step size", ylabel="starts that end in an oscillation, %")
    counts.legend(frameon=False, fontsize="small")
    return figure


def widest(records: list[Record]) -> float:
    """The step size of ``descent`` at which SH and MH differ most."""
    of = {(one["step"], one["loss"]): one for one in records if one["rule"] == "descent"}
    steps = sorted({step for step, _ in of})
    return max(
        steps,
        key=lambda step: sum(of[step, "SH"]["oscillates"]) - sum(of[step, "MH"]["oscillates"]),
    )
