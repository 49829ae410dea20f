"""How near attacks on linear models come to the closed form, over every norm and band.

    PYTHONPATH=src python benchmarks/attacks_optimality.py --out optimality.json

Of logits (s, -s) with s = <w, x> and no box the worst margin over ||delta|| <= eps is 2 |s| less
2 eps ||w||_dual, and the smallest perturbation that is misclassified has norm |s| / ||w||_dual.
Printed: the largest relative shortfall of the fall of the margin, and of the smallest norm, over
the examples.
"""

import argparse
import math
from functools import partial
from pathlib import Path
from typing import Any

import torch
from side_by_side import write
from torch import Tensor

from strop.attacks import apgd, minimum_norm, pgd
from strop.geometry import L1, L2, Fourier, Linf, Norm, high_band, low_band

SHAPE = (3, 16, 16)


def norms() -> dict[str, Norm]:
    size = SHAPE[1:]
    drawn = torch.rand(size, generator=torch.Generator().manual_seed(5))
    uneven = 0.3 + drawn + drawn.flip(0, 1).roll((1, 1), (0, 1))
    bands = {
        "": None,
        " low": low_band(size, 0.25),
        " high": high_band(size, 0.25),
        " radii": uneven,
        " radii, high": uneven * high_band(size, 0.25),
    }
    chosen: dict[str, Norm] = {"l1": L1, "l2": L2, "linf": Linf}
    for name, inner in (("fourier-l1", L1), ("fourier-l2", L2), ("fourier-linf", Linf)):
        chosen |= {name + band: Fourier(inner, 2, radii) for band, radii in bands.items()}
    return chosen


ATTACKS = {
    "pgd": partial(pgd, steps=20),
    "apgd-ce": partial(apgd, steps=20),
    "apgd-dlr": partial(apgd, steps=20, loss="dlr"),
    "apgd-targeted-dlr": partial(apgd, steps=20, loss="targeted-dlr"),
    "apgd-margin": partial(apgd, steps=20, loss="margin"),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--examples", type=int, default=16)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(SHAPE, generator=generator)
    x = torch.randn(options.examples, *SHAPE, generator=generator)

    def model(point: Tensor) -> Tensor:
        score = (point * weight).flatten(1).sum(dim=1)[:, None]
        far = torch.full((len(point), 3), -1e4) - torch.arange(3.0)
        return torch.cat([score, -score, far], dim=1)

    score = model(x)[:, 0]
    y = (score < 0).long()
    rows: dict[str, Any] = {}
    for name, norm in norms().items():
        steepness = norm.dual(norm.dual.project(weight[None], math.inf))
        exact = score.abs() / steepness
        eps = exact / 2
        gaps = {}
        for title, attack in ATTACKS.items():
            moved = attack(model, x, y, norm=norm, eps=eps, bounds=None).adversarial
            fall = (score - model(moved)[:, 0]) * score.sign()
            gaps[title] = float((1 - fall / (eps * steepness)).max())
        found = minimum_norm(model, x, y, norm=norm, bounds=None)
        gaps["minimum_norm"] = float((found.norm / exact - 1).max()) if found.success.all() else 1.0
        rows[name] = gaps
        print(f"{name:26s}", "  ".join(f"{k} {v:.1e}" for k, v in gaps.items()), flush=True)
    attacks = max(value for row in rows.values() for k, value in row.items() if k != "minimum_norm")
    print(f"largest: attacks {attacks:.1e} (at most 1e-3), minimum_norm", end=" ")
    print(f"{max(row['minimum_norm'] for row in rows.values()):.1e} (at most 5e-3)")
    write(options.out, rows)


if __name__ == "__main__":
    main()
