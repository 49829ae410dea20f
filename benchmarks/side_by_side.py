"""What the benchmarks share: many trainings at a time on one device, means with intervals."""

import argparse
import json
import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

# Two-sided 95 % points of Student's t for 1 to 10 degrees of freedom.
STUDENT = (12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)


def options_of(description: str | None, *, runs: Sequence[str]) -> argparse.ArgumentParser:
    """The options of a benchmark over seeds."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--at-once", type=int, default=1, help="trainings at a time on the device")
    parser.add_argument("--runs", nargs="*", default=list(runs), help="which; all without it")
    parser.add_argument("--out", type=Path, help="a JSON file for the raw numbers")
    parser.add_argument("--job", type=json.loads, help="one training, as the program calls itself")
    return parser


def run_jobs(
    script: str,
    jobs: Sequence[dict[str, Any]],
    *,
    at_once: int,
    out: Path | None = None,
    extra: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """``script --job JSON`` for each job, so many at a time; the last line each prints is JSON.

    With ``out`` each result is kept as it comes, beside its job, and a job found there is not run
    again: what was cut off goes on.
    """
    kept = json.loads(out.read_text()) if out is not None and out.exists() else []
    done = [entry["job"] for entry in kept]
    waiting = [job for job in jobs if job not in done]
    running: list[tuple[dict[str, Any], subprocess.Popen[str]]] = []
    failed = []
    while waiting or running:
        while waiting and len(running) < at_once:
            job = waiting.pop(0)
            command = [sys.executable, script, *extra, "--job", json.dumps(job)]
            running.append((job, subprocess.Popen(command, stdout=subprocess.PIPE, text=True)))
        time.sleep(0.2)
        for job, process in [pair for pair in running if pair[1].poll() is not None]:
            running.remove((job, process))
            printed = process.stdout.read() if process.stdout else ""
            if process.returncode:
                failed.append(job)
                print(f"the job {job} failed:\n{printed}", file=sys.stderr)
                continue
            kept.append({"job": job, "result": json.loads(printed.strip().splitlines()[-1])})
            write(out, kept)
            print(".", end="", flush=True, file=sys.stderr)
    print(file=sys.stderr)
    if failed:
        raise SystemExit(f"{len(failed)} of {len(jobs)} jobs failed; the others are kept in {out}")
    return [entry["result"] for entry in kept if entry["job"] in jobs]


def mean_and_interval(values: Iterable[float]) -> tuple[float, float]:
    """The mean and half the width of its 95 % interval (Student's t over seeds)."""
    numbers = list(values)
    mean = sum(numbers) / len(numbers)
    if len(numbers) < 2:
        return mean, math.nan
    variance = sum((number - mean) ** 2 for number in numbers) / (len(numbers) - 1)
    return mean, STUDENT[len(numbers) - 2] * math.sqrt(variance / len(numbers))


def write(path: Path | None, results: Any) -> None:
    """The raw numbers, one file, moved into place when it is whole."""
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(path.name + ".part")
        beside.write_text(json.dumps(results, indent=1) + "\n")
        beside.replace(path)


def table(
    rows: Sequence[tuple[str, Sequence[dict[str, Any]]]],
    columns: Sequence[tuple[str, Callable[[dict[str, Any]], float]]],
) -> str:
    """A Markdown table of means with intervals: one row for each method, over its seeds."""
    lines = [
        "| | " + " | ".join(name for name, _ in columns) + " |",
        "|---|" + "---|" * len(columns),
    ]
    for name, results in rows:
        cells = []
        for _, value in columns:
            mean, half = mean_and_interval(map(value, results))
            cells.append(f"{mean:.1f}" if math.isnan(half) else f"{mean:.1f} ± {half:.1f}")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)
