"""What closes the gap that gradient descent on a linear convolutional network leaves (claim M5).

    python benchmarks/margins_convnet.py --out margins_convnet.json       # resumable

The thesis's problems (d = 100, d/n = 1 … 32, three seeds, 18 in all), trained together for its own
10,000 steps in float64. One thing is changed at a time: step size, initialisation scale, step rule,
depth, loss, time. Shown is the certified gap to the maximal Fourier-linf margin, the largest of the
three seeds, in percent; the bound is the exact solution's.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import torch

from strop.data import separable_gaussian
from strop.geometry import Fourier, Linf
from strop.margins import signed_data, solve
from strop.margins.convnet import train_convnets
from strop.support import read_json, write_json

DIMENSION, RATIOS, SEEDS = 100, (1, 2, 4, 8, 16, 32), (0, 1, 2)
PLAIN: dict[str, Any] = {"method": "plain", "step": 0.03}
RELATIVE: dict[str, Any] = {"method": "relative", "step": 0.03}
SETTINGS: dict[str, dict[str, Any]] = {
    "plain, step 0.003": PLAIN | {"step": 0.003},
    "plain, step 0.03": PLAIN,
    "plain, step 0.1": PLAIN | {"step": 0.1},
    "plain, step 0.3": PLAIN | {"step": 0.3},
    "plain, scale 0.01": PLAIN | {"scale": 0.01},
    "plain, scale 0.1": PLAIN | {"scale": 0.1},
    "plain, scale 10": PLAIN | {"scale": 10.0},
    "plain, ten times as long": PLAIN | {"iterations": 100_000},
    "plain, 3 layers": PLAIN | {"layers": 3},
    "normalised by the risk": {"method": "normalised", "step": 0.03},
    "line search, scale 0.01": {"method": "search", "scale": 0.01},
    "line search, scale 0.1": {"method": "search", "scale": 0.1},
    "line search": {"method": "search"},
    "line search, scale 10": {"method": "search", "scale": 10.0},
    "line search, 3 layers": {"method": "search", "layers": 3},
    "gradient flow, Heun 0.02": {"method": "flow", "step": 0.02},
    "relative, step 0.003": RELATIVE | {"step": 0.003},
    "relative, step 0.01": RELATIVE | {"step": 0.01},
    "relative, step 0.03": RELATIVE,
    "relative, step 0.06": RELATIVE | {"step": 0.06},
    "relative, scale 0.01": RELATIVE | {"scale": 0.01},
    "relative, scale 0.1": RELATIVE | {"scale": 0.1},
    "relative, scale 10": RELATIVE | {"scale": 10.0},
    "relative, scale 100": RELATIVE | {"scale": 100.0},
    "relative, logistic loss": RELATIVE | {"loss": "logistic"},
    "relative, three times as long": RELATIVE | {"step": 0.01, "iterations": 30_000},
    "relative, 3 layers": {"method": "relative", "step": 0.02, "layers": 3},
    "relative, 4 layers": {"method": "relative", "step": 0.015, "layers": 4},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--settings", nargs="+", default=list(SETTINGS))
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    cases = [(ratio, seed) for ratio in RATIOS for seed in options.seeds]
    problems = []
    for ratio, seed in cases:
        drawn = separable_gaussian(
            count=DIMENSION // ratio,
            dimension=DIMENSION,
            generator=torch.Generator().manual_seed(seed),
            dtype=torch.float64,
        )
        problems.append(signed_data(drawn.points, drawn.signs))
    best = [solve(data, attack=Fourier(Linf, dims=1), tol=1e-8) for data in problems]
    rows = read_json(options.out) if options.out.exists() else {}
    print(f"{'':>30} " + " ".join(f"d/n={ratio:<3}" for ratio in RATIOS) + "   CPU s")
    for name in options.settings:
        if name not in rows:
            began = time.process_time()
            paths = train_convnets(
                problems,
                generators=[torch.Generator().manual_seed(seed) for _, seed in cases],
                references=best,
                **SETTINGS[name],
            )
            rows[name] = {
                "settings": SETTINGS[name],
                "cpu_seconds": time.process_time() - began,
                "gaps": [
                    {"ratio": ratio, "seed": seed, "gap": path.gap, "size": path.records[-1].size}
                    for (ratio, seed), path in zip(cases, paths, strict=True)
                ],
            }
            write_json(options.out, rows)
        row = rows[name]
        worst = [max(g["gap"] for g in row["gaps"] if g["ratio"] == ratio) for ratio in RATIOS]
        cells = " ".join(f"{100 * gap:7.3g}" for gap in worst)
        print(f"{name:>30} {cells} {row['cpu_seconds']:7.1f}", flush=True)


if __name__ == "__main__":
    main()
