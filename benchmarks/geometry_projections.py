"""How long a projection takes, beside the obvious way to do it.

Claims: projecting onto the l1 ball without sorting is no slower than with sorting at 100 x 3,072,
and at least 3 times as fast at 100 x 150,528; projecting onto the Fourier-linf ball costs at most 3
times the pair of transforms that it cannot do without. Each is measured on one thread and on two.

The two sides take turns in one process, so that a busy machine troubles both alike; beside the
medians stand the fastest turns, which trouble reaches least.

    python benchmarks/geometry_projections.py --out geometry.json
"""

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from strop.geometry import L1, L2, Fourier, Linf, Lp, project_l1_ball, prox_linf


@dataclass(frozen=True)
class Contest:
    name: str
    shape: tuple[int, ...]
    peer: str
    ours: Callable[[], Tensor]
    theirs: Callable[[], Tensor]


@dataclass(frozen=True)
class Record:
    """Seconds a call; ratios are the peer's over ours: above one, we are faster."""

    name: str
    shape: tuple[int, ...]
    peer: str
    threads: int
    seconds: float
    seconds_of_peer: float
    ratio: float
    fastest: float
    fastest_of_peer: float
    ratio_of_fastest: float


def l1_by_sorting(x: Tensor, radius: float) -> Tensor:
    """The textbook projection: the level of the soft threshold read off the sorted moduli."""
    magnitude = x.abs()
    ordered = magnitude.sort(dim=1, descending=True).values
    counts = torch.arange(1, x.shape[1] + 1, dtype=x.dtype, device=x.device)
    levels = (ordered.cumsum(dim=1) - radius) / counts
    last = (ordered > levels).sum(dim=1, keepdim=True) - 1
    level = levels.gather(1, last).clamp(min=0)
    return x.sign() * (magnitude - level).relu()


def linf_prox_by_sorting(x: Tensor, scale: float) -> Tensor:
    return x - l1_by_sorting(x, scale)


def transform_pair(x: Tensor) -> Tensor:
    return torch.fft.irfft2(torch.fft.rfft2(x, norm="ortho"), s=x.shape[-2:], norm="ortho")


def contests(device: str) -> Iterator[Contest]:
    generator = torch.Generator().manual_seed(0)
    for size in (3072, 150_528):
        x = torch.randn(100, size, generator=generator).to(device)
        for radius in (12.0, 0.5 * size):  # few coordinates survive; most do
            for name, ours, theirs in (
                ("l1 ball", project_l1_ball, l1_by_sorting),
                ("linf prox", prox_linf, linf_prox_by_sorting),
            ):
                mine, other = partial(ours, x, radius), partial(theirs, x, radius)
                torch.testing.assert_close(mine(), other(), rtol=1e-3, atol=1e-3)
                yield Contest(f"{name}, {radius:g}", tuple(x.shape), "sort", mine, other)
    x = torch.randn(256, 3, 32, 32, generator=generator).to(device)
    pair = partial(transform_pair, x)
    for norm in (Linf, L2, L1, Lp(3)):
        ball = Fourier(norm, dims=2)
        yield Contest(
            str(ball), tuple(x.shape), "rfft2 + irfft2", partial(ball.project, x, 0.5), pair
        )


def measure(contest: Contest, *, threads: int, rounds: int) -> Record:
    torch.set_num_threads(threads)
    mine: list[float] = []
    other: list[float] = []
    for turn in range(rounds + 1):
        for times, function in ((mine, contest.ours), (other, contest.theirs)):
            wait()
            start = time.perf_counter()
            function()
            wait()
            if turn > 0:  # the first turn warms up
                times.append(time.perf_counter() - start)
    ours, theirs = statistics.median(mine), statistics.median(other)
    return Record(
        contest.name,
        contest.shape,
        contest.peer,
        threads,
        ours,
        theirs,
        theirs / ours,
        min(mine),
        min(other),
        min(other) / min(mine),
    )


def wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def table(records: list[Record]) -> str:
    header = ("projection", "shape", "threads", "ours ms", "peer ms", "ratio", "of fastest", "peer")
    rows = [
        (
            r.name,
            "x".join(map(str, r.shape)),
            str(r.threads),
            f"{1e3 * r.seconds:.2f}",
            f"{1e3 * r.seconds_of_peer:.2f}",
            f"{r.ratio:.2f}",
            f"{r.ratio_of_fastest:.2f}",
            r.peer,
        )
        for r in records
    ]
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (header, *rows)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--out", type=Path, help="write the records to this JSON file")
    parser.add_argument("--rounds", type=int, default=15, help="turns of each side")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args()
    records = [
        measure(contest, threads=threads, rounds=arguments.rounds)
        for threads in arguments.threads
        for contest in contests(arguments.device)
    ]
    print(table(records))
    if arguments.out is not None:
        content = {
            "machine": platform.machine(),
            "python": platform.python_version(),
            "torch": torch.__version__,
            "device": arguments.device,
            "records": [asdict(record) for record in records],
        }
        arguments.out.write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main()
