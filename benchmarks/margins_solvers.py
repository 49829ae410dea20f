"""Maximum margins: strop's solver beside CVXPY/Clarabel, HiGHS, SCS and LinearSVC, interleaved.

    python benchmarks/margins_solvers.py --out margins.json
    python benchmarks/margins_solvers.py --sizes 500x10000 --seeds 0 1 2 --out large.json

Every answer is certified by the same function, in float64, outside of the clock: the gap shown is
that of the classifier delivered, whatever its solver says of itself. Peers are asked for the gap
that strop's solver is asked for; one that does not reach it is shown with the gap it has.
"""

import argparse
import platform
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from strop.data import separable_gaussian
from strop.geometry import L1, L2, Fourier, Linf, Norm
from strop.margins import SignedData, certify, signed_data, solve
from strop.margins.min_norm import solve_min_norm
from strop.support import read_json, write_json

ATTACKS: dict[str, Norm] = {"linf": Linf, "l2": L2, "l1": L1, "fourier-linf": Fourier(Linf, dims=1)}


def strop(data: SignedData, attack: Norm, tol: float) -> float:
    return solve(data, attack=attack, tol=tol).gap


def peer(engine: str) -> Callable[[SignedData, Norm, float], float]:
    def run(data: SignedData, attack: Norm, tol: float) -> float:
        return solve_min_norm(data, attack=attack, tol=tol, engine=engine).gap  # type: ignore[arg-type]

    return run


def linear_svc(data: SignedData, attack: Norm, tol: float) -> float:
    """LinearSVC at tolerance 1e-8, hard margin (large C); its mixture is that of its weights."""
    from sklearn.svm import LinearSVC

    signs = data.signs.numpy()
    model = LinearSVC(
        C=1e6, tol=1e-8, fit_intercept=False, loss="hinge", dual=True, max_iter=1_000_000
    )
    model.fit((data.rows * data.signs[:, None]).numpy(), signs)
    weights = torch.as_tensor(model.coef_[0])
    # q with Z'q = w, by least squares: in high dimension all points support.
    mixture = torch.linalg.lstsq(data.rows @ data.rows.T, data.rows @ weights).solution
    return certify(data, weights, mixture, attack=attack).gap


def peers_of(name: str) -> dict[str, Callable[[SignedData, Norm, float], float]]:
    found = {"strop": strop, "clarabel": peer("clarabel"), "scs": peer("scs")}
    if name in ("linf", "l1"):
        found["highs"] = peer("highs")
    if name == "l2":
        found["linearsvc"] = linear_svc
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sizes", nargs="+", default=["50x100", "200x1000", "500x10000"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--norms", nargs="+", default=list(ATTACKS))
    parser.add_argument("--solvers", nargs="+", default=None)
    parser.add_argument("--tol", type=float, default=1e-6)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    rows: list[dict[str, Any]] = []
    if options.out.exists():
        rows = read_json(options.out)["rows"]
    done = {(r["size"], r["seed"], r["attack"], r["solver"]) for r in rows}
    for size in options.sizes:
        count, dimension = map(int, size.split("x"))
        for seed in options.seeds:
            drawn = separable_gaussian(
                count=count,
                dimension=dimension,
                generator=torch.Generator().manual_seed(seed),
                dtype=torch.float64,
            )
            data = signed_data(drawn.points, drawn.signs)
            for name in options.norms:
                for solver, run in peers_of(name).items():
                    wanted = options.solvers is None or solver in options.solvers
                    if not wanted or (size, seed, name, solver) in done:
                        continue
                    began, cpu = time.perf_counter(), time.process_time()
                    try:
                        gap, error = run(data, ATTACKS[name], options.tol), None
                    except Exception as problem:  # a peer that fails is a result, not an end
                        gap, error = None, str(problem).splitlines()[0][:200]
                    rows.append(
                        {
                            "size": size,
                            "seed": seed,
                            "attack": name,
                            "solver": solver,
                            "seconds": time.perf_counter() - began,
                            "cpu_seconds": time.process_time() - cpu,
                            "gap": gap,
                            "error": error,
                        }
                    )
                    print(rows[-1], flush=True)
                    _write(options, rows)
    _write(options, rows)
    _table(rows)


def _write(options: argparse.Namespace, rows: list[dict[str, Any]]) -> None:
    versions = {"python": platform.python_version(), "torch": torch.__version__}
    versions["numpy"] = np.__version__
    write_json(
        options.out,
        {"versions": versions, "threads": options.threads, "tol": options.tol, "rows": rows},
    )


def _table(rows: list[dict[str, Any]]) -> None:
    print(f"{'size':>10} {'attack':>13} {'solver':>10} {'CPU s':>8} {'worst gap':>10}")
    keys = dict.fromkeys((r["size"], r["attack"], r["solver"]) for r in rows)
    for key in keys:
        part = [r for r in rows if (r["size"], r["attack"], r["solver"]) == key]
        seconds = median(r["cpu_seconds"] for r in part)
        gaps = [r["gap"] for r in part if r["gap"] is not None]
        worst = f"{max(gaps):.1e}" if gaps else "failed"
        print(f"{key[0]:>10} {key[1]:>13} {key[2]:>10} {seconds:8.2f} {worst:>10}")


if __name__ == "__main__":
    main()
