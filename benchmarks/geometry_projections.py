"""How long a projection takes, beside the obvious way to do it.

Claims: projecting onto the l1 ball without sorting is no slower than with sorting at 100 x 3,072,
and at least 3 times as fast at 100 x 150,528; projecting onto the Fourier-linf ball costs at most 3
times the pair of transforms that it cannot do without. Each is measured on one thread and on two.

The two sides take turns in one process, so that a busy machine troubles both alike.

    python benchmarks/geometry_projections.py --out results.json
"""

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from strop.geometry import Fourier, Lp, project_l1_ball, prox_linf


@dataclass(frozen=True)
class Record:
    """Seconds of one call, ours and the peer's; the ratio is peer / ours, by medians."""

    name: str
    shape: tuple[int, ...]
    threads: int
    peer: str
    seconds: float
    seconds_of_peer: float
    fastest: float
    fastest_of_peer: float
    ratio: float


def l1_by_sorting(x: Tensor, radius: float) -> Tensor:
    """The textbook projection: the level of the soft threshold read off the sorted moduli."""
    magnitude = x.abs()
    ordered = magnitude.sort(dim=1, descending=True).values
    counts = torch.arange(1, x.shape[1] + 1, dtype=x.dtype, device=x.device)
    levels = (ordered.cumsum(dim=1) - radius) / counts
    last = (ordered > levels).sum(dim=1, keepdim=True) - 1
    level = levels.gather(1, last).clamp(min=0)
    return x.sign() * (magnitude - level).relu()


def transform_pair(x: Tensor) -> Tensor:
    return torch.fft.irfft2(torch.fft.rfft2(x, norm="ortho"), s=x.shape[-2:], norm="ortho")


def measure(
    name: str,
    shape: tuple[int, ...],
    peer: str,
    ours: Callable[[], Tensor],
    theirs: Callable[[], Tensor],
    *,
    threads: int,
    rounds: int,
) -> Record:
    torch.set_num_threads(threads)
    times: tuple[list[float], list[float]] = ([], [])
    for turn in range(rounds + 1):
        for column, function in zip(times, (ours, theirs), strict=True):
            synchronise()
            start = time.perf_counter()
            function()
            synchronise()
            if turn > 0:  # the first turn warms up
                column.append(time.perf_counter() - start)
    mine, other = (statistics.median(column) for column in times)
    return Record(
        name, shape, threads, peer, mine, other, min(times[0]), min(times[1]), other / mine
    )


def synchronise() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def compare(threads: int, rounds: int, device: str) -> list[Record]:
    generator = torch.Generator().manual_seed(0)
    records = []
    for size in (3072, 150_528):
        x = torch.randn(100, size, generator=generator).to(device)
        for radius in (12.0, 0.5 * size):  # few survivors; most of them
            expected = l1_by_sorting(x, radius)
            torch.testing.assert_close(project_l1_ball(x, radius), expected, rtol=1e-3, atol=1e-4)
            for name, ours, theirs in (
                (
                    "l1 ball",
                    lambda x=x, r=radius: project_l1_ball(x, r),
                    lambda x=x, r=radius: l1_by_sorting(x, r),
                ),
                (
                    "linf prox",
                    lambda x=x, r=radius: prox_linf(x, r),
                    lambda x=x, r=radius: x - l1_by_sorting(x, r),
                ),
            ):
                label = f"{name}, {radius:g}"
                records.append(
                    measure(
                        label, (100, size), "sort", ours, theirs, threads=threads, rounds=rounds
                    )
                )
    picture = torch.randn(256, 3, 32, 32, generator=generator).to(device)
    for p in (1, 2, 3, float("inf")):
        norm = Fourier(Lp(p), dims=2)
        records.append(
            measure(
                f"{norm}",
                tuple(picture.shape),
                "rfft2 + irfft2",
                lambda norm=norm: norm.project(picture, 0.5),
                lambda: transform_pair(picture),
                threads=threads,
                rounds=rounds,
            )
        )
    return records


def table(records: list[Record]) -> str:
    lines = [
        f"{'projection':28} {'shape':18} {'threads':>7} {'ours ms':>9} {'peer ms':>9}  ratio  peer"
    ]
    for r in records:
        shape = "x".join(map(str, r.shape))
        lines.append(
            f"{r.name:28} {shape:18} {r.threads:7} {1e3 * r.seconds:9.2f} "
            f"{1e3 * r.seconds_of_peer:9.2f} {r.ratio:6.2f}  {r.peer}"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, help="write the records to this JSON file")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args()
    records = [
        record
        for threads in arguments.threads
        for record in compare(threads, arguments.rounds, arguments.device)
    ]
    print(table(records))
    if arguments.out is not None:
        machine = {
            "processor": platform.processor(),
            "torch": torch.__version__,
            "device": arguments.device,
        }
        content = {"machine": machine, "records": [asdict(record) for record in records]}
        arguments.out.write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main()
