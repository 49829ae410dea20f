"""Figure 3.1: two configurations that SH and MH rank in opposite order.

    strop thesis run figure-3.1

Thesis section 3.2.2. A query with its positive and its negatives on the circle: in (a) one negative
is very close, in (b) many violate the margin slightly. Expected: MH is larger in (a), SH in (b)
(claim N1). Exact; under a second at every preset.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal

import torch

from strop.retrieval import contrastive_hinge_loss
from strop.thesis.calls import Each, Record, one_by_one


@dataclass(frozen=True)
class Settings:
    """Angles to the query, in degrees; the cosine of an angle is the similarity."""

    margin: float = 0.2
    positive: float = 30.0
    one_close: tuple[float, ...] = (27.0, 95.0, 115.0, 140.0, 165.0)
    many_slight: tuple[float, ...] = (38.0, 39.5, 41.0, 42.5, 44.0, 45.5, 47.0)


MININGS: dict[str, Literal["sum", "max"]] = {"SH": "sum", "MH": "max"}
PRESETS = {name: Settings() for name in ("smoke", "small", "gpu", "paper")}


def losses(margin: float, positive: float, negatives: list[float]) -> Record:
    """SH and MH of one query against its negatives, in one direction."""
    angles = torch.deg2rad(torch.tensor([positive, *negatives], dtype=torch.float64))
    captions = torch.stack([angles.cos(), angles.sin()], dim=1)
    query = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    similarities = captions @ query[0]
    hinges = (margin - similarities[0] + similarities[1:]).clamp(min=0)
    # Negative images opposite to the caption cost nothing: the loss is of one direction.
    harmless = -captions[:1].expand(len(negatives), -1)
    values = {
        name: float(
            contrastive_hinge_loss(
                query,
                captions[:1],
                negatives=(harmless, captions[1:]),
                margin=margin,
                mining=mining,
            )
        )
        for name, mining in MININGS.items()
    }
    return {"positive": positive, "negatives": negatives, "hinges": hinges.tolist(), **values}


def compute(settings: Settings, each: Each = one_by_one) -> list[Record]:
    shared = {"margin": settings.margin, "positive": settings.positive}
    configurations = (list(settings.one_close), list(settings.many_slight))
    found = each(losses, [shared | {"negatives": angles} for angles in configurations])
    names = ("one very close", "many slight")
    return [{"configuration": name, **record} for name, record in zip(names, found, strict=True)]


def draw(records: list[Record]) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4.6), layout="constrained")
    for axes, record in zip(figure.subplots(1, 2), records, strict=True):
        turn = [math.radians(angle) for angle in (record["positive"], *record["negatives"])]
        axes.add_patch(_circle())
        axes.plot([0, 1], [0, 0], color="black", lw=1.5)
        axes.annotate("query", (1.03, -0.02), fontsize="small")
        axes.scatter(math.cos(turn[0]), math.sin(turn[0]), color="tab:blue", s=70, label="positive")
        violating = [hinge > 0 for hinge in record["hinges"]]
        for wanted, colour, label in (
            (True, "tab:red", "negative that violates the margin"),
            (False, "0.65", "negative that does not"),
        ):
            chosen = [t for t, hit in zip(turn[1:], violating, strict=True) if hit is wanted]
            axes.scatter(
                [math.cos(t) for t in chosen],
                [math.sin(t) for t in chosen],
                color=colour,
                s=40,
                label=label,
            )
        axes.set(xlim=(-1.15, 1.3), ylim=(-0.3, 1.15), aspect="equal", xticks=[], yticks=[])
        axes.set_title(
            f"{record['configuration']}: SH {record['SH']:.3f}, MH {record['MH']:.3f}",
            fontsize="medium",
        )
        axes.legend(fontsize="x-small", loc="lower left", frameon=False)
    return figure


def _circle() -> Any:
    from matplotlib.patches import Arc

    return Arc((0, 0), 2, 2, theta1=0, theta2=180, color="0.8")
