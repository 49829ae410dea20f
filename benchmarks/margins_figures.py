"""Figures 5.2, 5.3, B.1 and B.2 at the thesis's own size: d = 100, d/n = 1 … 32, three seeds.

    python benchmarks/margins_figures.py --out margins_figures          # resumable, then draws
    python benchmarks/margins_figures.py --out margins_figures --draw   # only draws
    python benchmarks/margins_figures.py --out margins_figures --conv   # the network's gap too

Every method's maximal epsilon (for linear models the margin, exactly) stands beside the exact
solution of each attack, and its remaining certified gap is printed. ``--conv`` measures by how much
initialisation scale, step rule and depth close the gap of the convolutional network (claim M5).
"""

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from strop.data import separable_gaussian
from strop.geometry import L1, L2, Fourier, Linf, Norm
from strop.margins import SignedData, signed_data, solve
from strop.margins.lab import Method, PathRun, attack_of, run_path
from strop.margins.networks import train_convnet
from strop.support import read_json, write_json

DIMENSION = 100
RATIOS = (1, 2, 4, 8, 16, 32)
SEEDS = (0, 1, 2)
ATTACKS: dict[str, Norm] = {"linf": Linf, "l2": L2, "l1": L1, "fourier-linf": Fourier(Linf, dims=1)}
METHODS: dict[Method, int] = {
    "cd": 10_000,
    "cd-normalised": 10_000,
    "gd+ls": 10_000,
    "gd-accelerated": 3_000,
    "signgd": 10_000,
    "signgd-normalised": 10_000,
    "l1": 5_000,
    "l2": 5_000,
    "linf": 5_000,
    "fourier-l1": 5_000,
    "adversarial-linf": 5_000,
    "adversarial-l2": 5_000,
    "adversarial-l1": 5_000,
    "adversarial-fourier-linf": 5_000,
    "convnet": 10_000,
    "convnet-search": 10_000,
}
CONV = (
    *({"method": "plain", "step": step, "scale": 1.0} for step in (0.003, 0.03)),
    *({"method": "plain", "step": 0.03, "scale": scale} for scale in (0.01, 0.1)),
    *({"method": "search", "step": 0.1, "scale": scale} for scale in (0.001, 0.01, 0.1, 1.0)),
    {"method": "flow", "step": 0.02, "scale": 0.1},
    {"method": "search", "step": 0.1, "scale": 0.3, "layers": 3, "zero_last": False},
)


def data_of(ratio: int, seed: int) -> SignedData:
    drawn = separable_gaussian(
        count=max(1, DIMENSION // ratio),
        dimension=DIMENSION,
        generator=torch.Generator().manual_seed(seed),
        dtype=torch.float64,
    )
    return signed_data(drawn.points, drawn.signs)


def margin_against(data: SignedData, weights: torch.Tensor, attack: Norm) -> float:
    """The maximal epsilon of a linear model, exactly; zero if it errs."""
    flat = weights.double().reshape(-1)
    return max(0.0, float(data.values(flat).min()) / data.measure(attack.dual, flat))


def compute(out: Path, ratios: tuple[int, ...], seeds: tuple[int, ...]) -> None:
    for ratio in ratios:
        for seed in seeds:
            data = data_of(ratio, seed)
            target = out / f"exact-{ratio}-{seed}.json"
            if not target.exists():
                best = {name: solve(data, attack=a, tol=1e-7) for name, a in ATTACKS.items()}
                write_json(
                    target,
                    {name: {"margin": r.margin, "gap": r.gap} for name, r in best.items()},
                )
            for method, iterations in METHODS.items():
                target = out / f"{method}-{ratio}-{seed}.json"
                if target.exists():
                    continue
                run = PathRun(method, len(data), DIMENSION, seed, iterations)
                began = time.perf_counter()
                path = run_path(run)
                write_json(
                    target,
                    {
                        "gap": path.gap,
                        "seconds": time.perf_counter() - began,
                        "margins": {
                            n: margin_against(data, path.weights, a) for n, a in ATTACKS.items()
                        },
                    },
                )


def conv_gap(out: Path, ratios: tuple[int, ...], seeds: tuple[int, ...], iterations: int) -> None:
    for ratio in ratios:
        for seed in seeds:
            data = data_of(ratio, seed)
            best = solve(data, attack=ATTACKS["fourier-linf"], tol=1e-7)
            for settings in CONV:
                name = "-".join(f"{key}{value}" for key, value in settings.items())
                target = out / f"conv-{name}-t{iterations}-{ratio}-{seed}.json"
                if target.exists():
                    continue
                path = train_convnet(
                    data,
                    iterations=iterations,
                    reference=best,
                    generator=torch.Generator().manual_seed(seed),
                    **settings,  # type: ignore[arg-type]
                )
                write_json(target, {"settings": settings, **path.to_dict()})
                print(ratio, seed, name, f"{path.gap:.2e}", flush=True)


def table(out: Path) -> None:
    print(
        f"{'method':>26} "
        + " ".join(f"d/n={ratio:<5}" for ratio in RATIOS)
        + "  median gap of the seeds"
    )
    for method in METHODS:
        cells = []
        for ratio in RATIOS:
            gaps = [read_json(p)["gap"] for p in sorted(out.glob(f"{method}-{ratio}-[0-9].json"))]
            cells.append(f"{np.median(gaps):<9.1e}" if gaps else f"{'-':<9}")
        print(f"{method:>26} " + " ".join(cells) + f"  {attack_of(method)!r}")
    found = sorted({p.name.rsplit("-", 2)[0] for p in out.glob("conv-*.json")})
    for name in found:
        cells = []
        for ratio in RATIOS:
            paths = sorted(out.glob(f"{name}-{ratio}-[0-9].json"))
            gaps = [read_json(p)["records"][-1]["gap"] for p in paths]
            cells.append(f"{np.median(gaps):<9.1e}" if gaps else f"{'-':<9}")
        print(f"{name[:60]:>60} " + " ".join(cells))


def draw(out: Path) -> None:
    """Figures 5.2 and B.1 (three attacks), 5.3 and B.2 (Fourier-linf): epsilon against d/n."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(15, 4.5), layout="constrained")
    for axes, (attack, _) in zip(figure.subplots(1, 4), ATTACKS.items(), strict=True):
        for method in ("exact", *METHODS):
            curve = [_margins(out, method, attack, ratio) for ratio in RATIOS]
            if not all(curve):
                continue
            mean = [float(np.mean(part)) for part in curve]
            spread = [float(np.std(part)) for part in curve]
            style: dict[str, Any] = (
                {"color": "black", "lw": 2} if method == "exact" else {"alpha": 0.8}
            )
            axes.errorbar(RATIOS, mean, yerr=spread, label=method, capsize=2, **style)
        axes.set(title=f"{attack} attack", xlabel="d/n", xscale="log", ylabel="maximal eps")
    figure.axes[-1].legend(fontsize="xx-small", ncol=2)
    figure.savefig(out / "figures.png", dpi=150)


def _margins(out: Path, method: str, attack: str, ratio: int) -> list[float]:
    found = [read_json(path) for path in sorted(out.glob(f"{method}-{ratio}-[0-9].json"))]
    if method == "exact":
        return [record[attack]["margin"] for record in found]
    return [record["margins"][attack] for record in found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--ratios", nargs="+", type=int, default=RATIOS)
    parser.add_argument("--seeds", nargs="+", type=int, default=SEEDS)
    parser.add_argument("--draw", action="store_true")
    parser.add_argument("--conv", action="store_true", help="the study of the network's gap too")
    parser.add_argument("--conv-iterations", type=int, default=30_000)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if not options.draw:
        compute(options.out, tuple(options.ratios), tuple(options.seeds))
        if options.conv:
            seeds, ratios = tuple(options.seeds), tuple(options.ratios)
            conv_gap(options.out, ratios, seeds, options.conv_iterations)
    draw(options.out)
    table(options.out)


if __name__ == "__main__":
    main()
