"""Figure B.4: standard model, high and low band.

    strop thesis run figure-B.4

Thesis appendix B.5.4. Perturbations by APGD at 15/255 and 45/255 (digits: 0.3 and 0.6). Expected:
fine texture in the high band, broad patches in the low one; outside of its band |F(delta)| is zero.
The network is that of figure B.3. Six seconds of one core at small, with figure B.3.
"""

from typing import Any

from strop.thesis.band_figures import BANDS, Settings, compute_pictures, presets
from strop.thesis.calls import Each, Record, one_by_one
from strop.thesis.perturbations import draw_pictures

PRESETS = presets("standard")


def compute(settings: Settings, each: Each = one_by_one) -> list[Record]:
    return compute_pictures(settings, each, attacks=BANDS)


def draw(records: list[Record]) -> Any:
    return draw_pictures(records[0], attacks=BANDS)
