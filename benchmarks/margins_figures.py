"""Figures 5.2, 5.3, B.1 and B.2 at the thesis's own size: d = 100, d/n = 1 … 32, three seeds.

    python benchmarks/margins_figures.py --out margins_figures          # resumable, then draws
    python benchmarks/margins_figures.py --out margins_figures --jobs 2
    python benchmarks/margins_figures.py --out margins_figures --draw   # only draws

Every method's maximal epsilon stands beside the exact solution of each attack: found by attacking,
at epsilons that bisection chooses (figures 5.2 and 5.3), and as the margin, which for linear models
is the same number (B.1 and B.2). Each method's remaining certified gap is printed, and the
processor time of everything.
"""

import argparse
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch

from strop.data import separable_gaussian
from strop.geometry import L1, L2, Fourier, Linf, Norm
from strop.margins import SignedData, signed_data, solve
from strop.margins.convnet import ConvnetMethod, train_convnets
from strop.margins.equivalences import withstands
from strop.margins.lab import Method, PathRun, attack_of, run_path
from strop.margins.path import MarginPath
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
}
NETWORKS: dict[Method, ConvnetMethod] = {
    "convnet": "plain",
    "convnet-search": "search",
    "convnet-relative": "relative",
}
NETWORK_ITERATIONS = 10_000
SHOWN: dict[str, tuple[str, ...]] = {
    "figure-5.2": ("cd", "gd+ls", "signgd", "l1", "l2", "linf"),
    "figure-5.3": ("convnet", "convnet-relative", "fourier-l1", "gd+ls", "l1"),
    "figure-B.1": (
        *("cd", "cd-normalised", "gd+ls", "gd-accelerated", "signgd", "signgd-normalised"),
        *("l1", "l2", "linf", "adversarial-linf", "adversarial-l2", "adversarial-l1"),
    ),
    "figure-B.2": (
        *("convnet", "convnet-search", "convnet-relative", "fourier-l1"),
        *("adversarial-fourier-linf", "gd+ls", "l1"),
    ),
}


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


def maximal_eps(data: SignedData, weights: torch.Tensor, attack: Norm) -> float:
    """The largest eps at which the steepest perturbation of no point succeeds, by bisection."""
    flat = weights.double().reshape(-1)
    low, high = 0.0, data.scale(attack)
    if not withstands(data, flat, 0.0, attack=attack, eps=0.0):
        return 0.0
    while high - low > 1e-9 * high:
        eps = (low + high) / 2
        if withstands(data, flat, 0.0, attack=attack, eps=eps):
            low = eps
        else:
            high = eps
    return low


def compute(out: Path, ratio: int, seed: int) -> None:
    """Everything for one data set."""
    torch.set_num_threads(1)
    data = data_of(ratio, seed)
    target = out / f"exact-{ratio}-{seed}.json"
    if not target.exists():
        began = time.process_time()
        best = {name: solve(data, attack=a, tol=1e-7) for name, a in ATTACKS.items()}
        results = {name: {"margin": r.margin, "gap": r.gap} for name, r in best.items()}
        write_json(target, results | {"cpu_seconds": time.process_time() - began})
    for method, iterations in METHODS.items():
        target = out / f"{method}-{ratio}-{seed}.json"
        if target.exists():
            continue
        began = time.process_time()
        path = run_path(PathRun(method, len(data), DIMENSION, seed, iterations))
        write_json(target, measured(data, path) | {"cpu_seconds": time.process_time() - began})


def compute_networks(out: Path, method: Method, tasks: list[tuple[int, int]]) -> None:
    """A network on every data set, trained together."""
    torch.set_num_threads(1)
    targets = [out / f"{method}-{ratio}-{seed}.json" for ratio, seed in tasks]
    if all(target.exists() for target in targets):
        return
    began = time.process_time()
    problems = [data_of(ratio, seed) for ratio, seed in tasks]
    paths = train_convnets(
        problems,
        method=NETWORKS[method],
        iterations=NETWORK_ITERATIONS,
        generators=[torch.Generator().manual_seed(seed) for _, seed in tasks],
        references=[solve(data, attack=ATTACKS["fourier-linf"], tol=1e-7) for data in problems],
    )
    results = [measured(data, path) for data, path in zip(problems, paths, strict=True)]
    share = (time.process_time() - began) / len(tasks)
    for target, result in zip(targets, results, strict=True):
        write_json(target, result | {"cpu_seconds": share})


def measured(data: SignedData, path: MarginPath) -> dict[str, Any]:
    return {
        "gap": path.gap,
        "margins": {n: margin_against(data, path.weights, a) for n, a in ATTACKS.items()},
        "eps": {n: maximal_eps(data, path.weights, a) for n, a in ATTACKS.items()},
    }


def table(out: Path) -> None:
    print(
        f"{'method':>26} "
        + " ".join(f"d/n={ratio:<5}" for ratio in RATIOS)
        + "  median gap of the seeds"
    )
    for method in (*METHODS, *NETWORKS):
        cells = []
        for ratio in RATIOS:
            gaps = [read_json(p)["gap"] for p in sorted(out.glob(f"{method}-{ratio}-[0-9].json"))]
            cells.append(f"{np.median(gaps):<9.1e}" if gaps else f"{'-':<9}")
        print(f"{method:>26} " + " ".join(cells) + f"  {attack_of(method)!r}")
    exact = [read_json(p) for p in out.glob("exact-*.json")]
    worst = max(record[name]["gap"] for record in exact for name in ATTACKS)
    files = [
        file
        for method in (*METHODS, *NETWORKS)
        for ratio in RATIOS
        for file in out.glob(f"{method}-{ratio}-[0-9].json")
    ]
    runs = [read_json(file) for file in files]
    apart = max(abs(r["eps"][n] - r["margins"][n]) for r in runs for n in ATTACKS)
    seconds = sum(record["cpu_seconds"] for record in exact + runs)
    print(f"exact solutions: certified within {worst:.1e}")
    print(f"attack and margin: at most {apart:.1e} apart, over {len(runs)} classifiers")
    print(f"processor time: {seconds:.0f} s, {seconds / 120:.1f} minutes of two cores")


def draw(out: Path) -> None:
    """Maximal epsilon (5.2, 5.3) or margin (B.1, B.2) against d/n, mean and spread of the seeds."""
    from matplotlib.figure import Figure

    for name, methods in SHOWN.items():
        spectral = name in ("figure-5.3", "figure-B.2")
        attacks = ["fourier-linf"] if spectral else ["linf", "l2", "l1"]
        kind, label = (
            ("eps", "maximal eps") if name.startswith("figure-5") else ("margins", "margin")
        )
        figure = Figure(figsize=(4.6 * len(attacks) + 2, 4.4), layout="constrained")
        panels = figure.subplots(1, len(attacks), squeeze=False)[0]
        for axes, attack in zip(panels, attacks, strict=True):
            exact = [[r[attack]["margin"] for r in _records(out, "exact", k)] for k in RATIOS]
            axes.plot(RATIOS, [np.mean(e) for e in exact], color="black", lw=2.5, label="exact")
            for number, method in enumerate(methods):
                adversarial = method.startswith("adversarial-")
                if adversarial and method != f"adversarial-{attack}":
                    continue
                curve = [[r[kind][attack] for r in _records(out, method, k)] for k in RATIOS]
                axes.errorbar(
                    RATIOS,
                    [np.mean(part) for part in curve],
                    yerr=[np.std(part) for part in curve],
                    label="adversarial training" if adversarial else method,
                    color="black" if adversarial else f"C{number}",
                    ls=":" if adversarial else "-" if number < 6 else "--",
                    marker="x" if adversarial else "o",
                    ms=3,
                    capsize=2,
                    alpha=0.85,
                )
            axes.set(title=f"{attack} attack", xlabel="d/n", xscale="log", ylabel=label)
            axes.set_xticks(RATIOS, [str(ratio) for ratio in RATIOS])
            axes.minorticks_off()
            axes.grid(alpha=0.3)
        panels[-1].legend(fontsize="small", loc="center left", bbox_to_anchor=(1.02, 0.5))
        figure.savefig(out / f"{name}.png", dpi=130)


def _records(out: Path, method: str, ratio: int) -> list[dict[str, Any]]:
    return [read_json(path) for path in sorted(out.glob(f"{method}-{ratio}-[0-9].json"))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--ratios", nargs="+", type=int, default=RATIOS)
    parser.add_argument("--seeds", nargs="+", type=int, default=SEEDS)
    parser.add_argument("--draw", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    if not options.draw:
        began = time.perf_counter()
        tasks = [(ratio, seed) for ratio in options.ratios for seed in options.seeds]
        with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
            work = [
                pool.submit(compute_networks, options.out, method, tasks) for method in NETWORKS
            ]
            work += [pool.submit(compute, options.out, *task) for task in tasks]
            for done in work:
                done.result()
        print(f"wall time: {time.perf_counter() - began:.0f} s, {options.jobs} jobs")
    draw(options.out)
    table(options.out)


if __name__ == "__main__":
    main()
