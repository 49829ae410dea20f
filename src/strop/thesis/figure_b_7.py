"""Figure B.7: l2-trained model, every frequency.

    strop thesis run figure-B.7

Thesis appendix B.5.4. Perturbations by APGD at 8/255 (digits: 0.2). Expected: l∞ ones look like
noise, Fourier-l∞ ones gather on the object, and |F(delta)| meets the constraint nearly everywhere.
The network is trained on the spot, adversarially in l2, unless the data folders hold resnet-l2.
"""

from typing import Any

from strop.thesis.band_figures import FULL, Settings, compute_pictures, presets
from strop.thesis.calls import Each, Record, one_by_one
from strop.thesis.perturbations import draw_pictures

PRESETS = presets("l2")


def compute(settings: Settings, each: Each = one_by_one) -> list[Record]:
    return compute_pictures(settings, each, attacks=FULL)


def draw(records: list[Record]) -> Any:
    return draw_pictures(records[0], attacks=FULL)
