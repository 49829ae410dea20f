"""Large margins on a GPU: 5,000 points in 100,000 dimensions to a certified gap of 1e-4.

    PYTHONPATH=src python3 benchmarks/margins_gpu.py --out margins_gpu.json
    PYTHONPATH=src python3 benchmarks/margins_gpu.py --peer highs --seconds 1800 --out peer.json

The clock runs over the solve, certificate included, not over drawing the data. ``--peer`` runs a
general solver on the CPU instead, in a process of its own with a limit of time and memory, and says
which of them it hits.
"""

import argparse
import multiprocessing
import platform
import signal
import time
from pathlib import Path
from typing import Any

import torch

from strop.data import separable_gaussian
from strop.geometry import L1, L2, Fourier, Linf, Norm
from strop.margins import SignedData, signed_data, solve
from strop.support import write_json

ATTACKS: dict[str, Norm] = {"linf": Linf, "l1": L1, "fourier-linf": Fourier(Linf, dims=1), "l2": L2}


def draw(count: int, dimension: int, device: str, dtype: torch.dtype) -> SignedData:
    drawn = separable_gaussian(
        count=count, dimension=dimension, generator=torch.Generator().manual_seed(0), dtype=dtype
    )
    return signed_data(drawn.points.to(device), drawn.signs.to(device))


def measure(data: SignedData, name: str, solver: str, tol: float) -> dict[str, Any]:
    cuda = data.rows.device.type == "cuda"
    if cuda:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
    began = time.perf_counter()
    result = solve(data, attack=ATTACKS[name], solver=solver, tol=tol)  # type: ignore[arg-type]
    if cuda:
        torch.cuda.synchronize()
    return {
        "attack": name,
        "solver": result.solver,
        "dtype": str(data.rows.dtype),
        "seconds": time.perf_counter() - began,
        "margin": result.margin,
        "gap": result.gap,
        "status": result.status.name,
        "iterations": result.iterations,
        "memory_gb": torch.cuda.max_memory_allocated() / 1e9 if cuda else None,
    }


def run_peer(
    count: int, dimension: int, name: str, engine: str, memory_gb: float, queue: Any
) -> None:
    import resource

    from strop.margins.min_norm import solve_min_norm

    limit = int(memory_gb * 2**30)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    data = draw(count, dimension, "cpu", torch.float64)
    began = time.perf_counter()
    try:
        result = solve_min_norm(data, attack=ATTACKS[name], tol=1e-4, engine=engine)  # type: ignore[arg-type]
    except (MemoryError, RuntimeError) as error:
        queue.put(
            {"hit": "memory", "seconds": time.perf_counter() - began, "error": str(error)[:200]}
        )
        return
    queue.put({"seconds": time.perf_counter() - began, "gap": result.gap})


def limited_peer(options: argparse.Namespace, name: str) -> dict[str, Any]:
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    arguments = (
        options.count, options.dimension, name, options.peer, options.memory_gb, queue
    )  # fmt: skip
    process = context.Process(target=run_peer, args=arguments)
    process.start()
    process.join(options.seconds)
    row: dict[str, Any] = {
        "attack": name,
        "solver": options.peer,
        "limit_s": options.seconds,
        "limit_gb": options.memory_gb,
    }
    if process.is_alive():
        process.kill()
        return row | {"hit": "time"}
    if process.exitcode in (-signal.SIGABRT, -signal.SIGKILL):
        # A compiled solver that is refused memory aborts; one that takes too much is killed.
        return row | {"hit": "memory"}
    if process.exitcode != 0:
        return row | {"hit": f"exit {process.exitcode}"}
    return row | queue.get()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--dimension", type=int, default=100_000)
    parser.add_argument("--norms", nargs="+", default=list(ATTACKS))
    parser.add_argument("--solvers", nargs="+", default=["exact", "pdhg"])
    parser.add_argument("--tol", type=float, default=1e-4)
    parser.add_argument("--peer", choices=["highs", "clarabel", "scs"])
    parser.add_argument("--seconds", type=float, default=1800)
    parser.add_argument("--memory-gb", type=float, default=20.0, help="address space of the peer")
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    name_of_device = torch.cuda.get_device_name() if device == "cuda" else platform.processor()
    report: dict[str, Any] = {
        "device": name_of_device,
        "torch": torch.__version__,
        "size": [options.count, options.dimension],
        "rows": [],
    }
    if options.peer:
        for name in options.norms:
            report["rows"].append(limited_peer(options, name))
            print(report["rows"][-1], flush=True)
            write_json(options.out, report)
        return
    for dtype in (torch.float64, torch.float32):
        data = draw(options.count, options.dimension, device, dtype)
        for solver in options.solvers:
            if (solver == "exact") != (dtype == torch.float64):
                continue  # the interior-point method works in float64, the steps in float32
            for name in options.norms:
                try:
                    row = measure(data, name, solver, options.tol)
                except torch.OutOfMemoryError as error:
                    row = {"attack": name, "solver": solver, "error": str(error)[:200]}
                report["rows"].append(row)
                print(row, flush=True)
                write_json(options.out, report)
        del data


if __name__ == "__main__":
    main()
