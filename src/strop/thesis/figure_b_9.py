"""Figure B.9: unit balls in 3-D with their shadows.

    strop thesis run figure-B.9

Thesis appendix B. l2, l1, l∞ and Fourier-l∞ balls of R^3 in red, shadows in green. Expected: the
round ball, the octahedron, the cube, and a body that is round about the axis (1, 1, 1): in three
dimensions the transform has one real coefficient and one complex pair. Seconds at every preset.
"""

from dataclasses import dataclass
from typing import Any

from strop.geometry import L1, L2, Fourier, Linf, Norm
from strop.margins.plots import draw_ball
from strop.thesis.calls import Each, Record, one_by_one

BALLS: dict[str, Norm] = {"l2": L2, "l1": L1, "linf": Linf, "fourier-linf": Fourier(Linf, dims=1)}


@dataclass(frozen=True)
class Settings:
    """Which balls, and how finely."""

    balls: tuple[str, ...] = tuple(BALLS)
    resolution: int = 80


PRESETS = {
    "smoke": Settings(balls=("l1",), resolution=12),
    "small": Settings(),
    "gpu": Settings(),
    "paper": Settings(),
}


def compute(settings: Settings, each: Each = one_by_one) -> list[Record]:
    return [{"ball": name, "resolution": settings.resolution} for name in settings.balls]


def draw(records: list[Record]) -> list[Any]:
    return [draw_ball(BALLS[one["ball"]], resolution=one["resolution"]) for one in records]
