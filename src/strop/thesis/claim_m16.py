"""Claim M16: the saddle point can prefer a classifier that errs to one that does not.

    strop thesis run claim-M16

Thesis section 5.2.1, the two-model example, built: a column of negatives, one positive close to it,
and positives far away. At the maximal epsilon the maximally robust classifier has every point of
the column and the close positive on the very border of its perturbations, however it is scaled;
another gives up the close positive. Expected: the saddle-point loss is lower for the second, which
misclassifies a training point. Beyond the thesis: for linear models the preference is never strict
in the infimum. Adding t times the maximally robust weights lowers no perturbed value, since norms
are subadditive, and makes every point right for large t: the curve. Under a second.
"""

from dataclasses import dataclass
from typing import Any

import torch

from strop.geometry import L2
from strop.margins import signed_data, solve
from strop.margins.risk import log_risk
from strop.thesis.calls import Each, Record, one_by_one
from strop.thesis.linear_margins import rounded


@dataclass(frozen=True)
class Settings:
    """Points in the plane: the column at x = -0.5, one positive at 0.5, the others at ``far``."""

    column: int = 9
    others: int = 4
    far: float = 3.0
    slope: float = 2.0
    losses: tuple[str, ...] = ("exponential", "logistic")
    added: tuple[float, ...] = (0.0, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


PRESETS = {name: Settings() for name in ("smoke", "small", "gpu", "paper")}


def compare(column: int, others: int, far: float, slope: float, loss: Any, added: Any) -> Record:
    """Both classifiers' losses at the maximal epsilon, and the second with the first added."""
    spread = torch.linspace(-2, 2, column, dtype=torch.float64)
    beyond = torch.linspace(-1, 1, others, dtype=torch.float64)
    negatives = torch.stack([torch.full_like(spread, -0.5), spread], dim=1)
    positives = torch.cat(
        [
            torch.tensor([[0.5, 0.0]], dtype=torch.float64),
            torch.stack([torch.full_like(beyond, far), beyond], dim=1),
        ]
    )
    points = torch.cat([negatives, positives])
    signs = torch.cat([-torch.ones(column), torch.ones(1 + others)]).double()
    best = solve(signed_data(points, signs, intercept=True), attack=L2, tol=1e-9)
    robust, shift = best.weights.double(), best.intercept

    def values(w: torch.Tensor, b: float, eps: float) -> torch.Tensor:
        return signs * (points @ w + b) - eps * w.norm()

    def risk(w: torch.Tensor, b: float) -> float:
        return float(log_risk(values(w, b, best.margin), loss).exp())

    # Far out along the robust classifier only the points on the border cost anything.
    first = min(risk(scale * robust, scale * shift) for scale in (0.1, 1.0, 10.0, 100.0, 1000.0))
    # Giving up one for the column: n_- zeta(a) + zeta(-a) is least near a = log(n_-) / 2.
    given_up = torch.tensor(float(column)).log().item() / (2 if loss == "exponential" else 1)
    w, b = torch.tensor([slope, 0.0], dtype=torch.float64), -given_up
    curve = [
        {
            "added": t,
            "risk": rounded(risk(w + t * robust, b + t * shift)),
            "errors": int((values(w + t * robust, b + t * shift, 0.0) <= 0).sum()),
        }
        for t in added
    ]
    return {
        "loss": loss,
        "eps": rounded(best.margin),
        "points": len(points),
        "robust_risk": rounded(first),
        "robust_errors": int((values(robust, shift, 0.0) <= 0).sum()),
        "erring_risk": curve[0]["risk"],
        "erring_errors": curve[0]["errors"],
        "curve": curve,
        "drawn": {"points": points.tolist(), "signs": signs.tolist(), "w": w.tolist(), "b": b},
    }


def compute(settings: Settings, each: Each = one_by_one) -> list[Record]:
    shared = {
        "column": settings.column,
        "others": settings.others,
        "far": settings.far,
        "slope": settings.slope,
        "added": list(settings.added),
    }
    return each(compare, [shared | {"loss": loss} for loss in settings.losses])


def draw(records: list[Record]) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    plane, axes = figure.subplots(1, 2)
    drawn = records[0]["drawn"]
    for sign, colour in ((1, "tab:blue"), (-1, "tab:red")):
        some = [p for p, s in zip(drawn["points"], drawn["signs"], strict=True) if s == sign]
        plane.scatter([p[0] for p in some], [p[1] for p in some], color=colour)
    plane.axvline(0, color="black", label="errs on none (maximally robust)")
    plane.axvline(
        -drawn["b"] / drawn["w"][0], color="black", ls="--", label="errs on the close positive"
    )
    plane.legend(fontsize="small", loc="upper center")
    plane.set(xlabel="x", ylabel="y", ylim=(-2.5, 3.5))
    for one, colour in zip(records, ("tab:green", "tab:purple"), strict=False):
        axes.axhline(one["robust_risk"], color=colour, ls=":", label=f"robust, {one['loss']}")
        axes.plot(
            [1e-2 + point["added"] for point in one["curve"]],
            [point["risk"] for point in one["curve"]],
            "-",
            color=colour,
            label=f"erring + t robust, {one['loss']}",
        )
        for point in one["curve"]:
            axes.plot(
                1e-2 + point["added"],
                point["risk"],
                "x" if point["errors"] else "o",
                color=colour,
            )
    axes.set(
        xlabel="t (crosses: errs on a point)",
        ylabel=f"saddle-point loss at ε = {records[0]['eps']:g}",
        xscale="log",
    )
    axes.legend(fontsize="small", loc="center right")
    return figure
