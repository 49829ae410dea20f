"""Figure B.5: l∞-trained model, every frequency.

    strop thesis run figure-B.5

Thesis appendix B.5.4. Perturbations by APGD at 8/255 (digits: 0.2). Expected: l∞ ones look like
noise, Fourier-l∞ ones gather on the object, and |F(delta)| meets the constraint nearly everywhere.
The network is resnet20-adversarial where the data folders hold it, else one trained on the spot.
Six seconds of one core at small, with figure B.6.
"""

from typing import Any

from strop.thesis.band_figures import FULL, Settings, compute_pictures, presets
from strop.thesis.calls import Each, Record, one_by_one
from strop.thesis.perturbations import draw_pictures

PRESETS = presets("linf")


def compute(settings: Settings, each: Each = one_by_one) -> list[Record]:
    return compute_pictures(settings, each, attacks=FULL)


def draw(records: list[Record]) -> Any:
    return draw_pictures(records[0], attacks=FULL)
