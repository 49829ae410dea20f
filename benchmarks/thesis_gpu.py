"""Items of the thesis at preset gpu, their calls in one pool of processes that share a GPU.

    PYTHONPATH=src python benchmarks/cifar10_mosaics.py .cache/cifar10-mosaics
    PYTHONPATH=src:benchmarks python benchmarks/thesis_gpu.py figure-4.3 figure-4.6 figure-4.7 \
        figure-5.4 figure-5.5 figure-5.1 --mosaics .cache/cifar10-mosaics --jobs 12 --out runs

`strop thesis run` takes one item after the other; a small network leaves most of a GPU idle, so
here the calls of all items wait in one line, the first seeds of all before the second of any. What
is finished is kept in ``--out``/calls: a run cut off by its limit goes on, and one machine may go
on with what another one made. A call that fails is told, and the others go on. With ``--mosaics``,
for a machine without network, they are written as the binary version of CIFAR-10 beside the
``--out`` folder and found there. The records, ``ID.gpu.json``, belong under docs/thesis/records.
"""

import argparse
import os
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from cifar10_mosaics import unpack

from strop.support.parallel import run_calls
from strop.thesis import run_item
from strop.thesis.calls import KeptCalls, call_and_keep
from strop.thesis.catalogue import find_item
from strop.thesis.run import experiment_of, settings_of

BATCHES = {
    "train": [f"data_batch_{number}.bin" for number in range(1, 6)],
    "test": ["test_batch.bin"],
}
Work = tuple[Callable[..., Any], dict[str, Any], Path]


def write_binary(mosaics: Path, folder: Path) -> None:
    """``cifar-10-batches-bin`` from mosaics: a byte for the label, then the pixels."""
    place = folder / "cifar-10-batches-bin"
    place.mkdir(parents=True, exist_ok=True)
    for split, names in BATCHES.items():
        data = unpack(mosaics, split=split)
        labels = data.labels.numpy().astype(np.uint8)[:, None]
        rows = np.concatenate([labels, data.images.reshape(len(data), -1).numpy()], axis=1)
        for name, part in zip(names, np.array_split(rows, len(names)), strict=True):
            (place / name).write_bytes(np.ascontiguousarray(part).tobytes())
    (place / "batches.meta.txt").write_text("\n".join(data.class_names) + "\n")


@dataclass
class Collected:
    """Makes no call: gives what is kept, None for the rest, and remembers that as work."""

    kept: KeptCalls
    missing: list[Work] = field(default_factory=list)

    def __call__(
        self, function: Callable[..., Any], calls: Sequence[Mapping[str, Any]], /
    ) -> list[Any]:
        paths = [self.kept.path_of(function, call) for call in calls]
        self.missing += [
            (function, dict(call), path)
            for path, call in zip(paths, calls, strict=True)
            if not path.exists()
        ]
        if self.missing:
            return [None] * len(calls)
        return self.kept(function, calls)


def missing_calls(names: Sequence[str], *, preset: str, kept: KeptCalls) -> list[Work]:
    """What the items still need, as far as it can be told before any of it is made."""
    found: dict[Path, Work] = {}
    for name in names:
        item, each = find_item(name), Collected(kept)
        try:
            experiment_of(item).compute(settings_of(item, preset), each)
        except (TypeError, AttributeError):  # an experiment that looks into a None
            if not each.missing:
                raise
        found |= {work[2]: work for work in each.missing if work[2] not in found}
    return sorted(found.values(), key=lambda work: work[1].get("seed", 0))


def attempt(function: Callable[..., Any], call: dict[str, Any], path: Path, jobs: int) -> str:
    """Make one call and keep its result, or tell why not."""
    began = time.monotonic()
    try:
        call_and_keep(function, call, path, jobs)
    except Exception:
        return f"{path.name} failed: {str(call)[:200]}\n{traceback.format_exc()}"
    return f"{path.name}: {time.monotonic() - began:.0f} s"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("items", nargs="+")
    parser.add_argument("--mosaics", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--preset", default="gpu")
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--only", nargs="*", help="functions whose calls are made, such as measure")
    options = parser.parse_args()
    if options.mosaics is not None:
        data = options.out / "data"
        write_binary(options.mosaics, data)
        others = os.environ.get("STROP_DATA")
        os.environ["STROP_DATA"] = os.pathsep.join([str(data), *([others] if others else [])])
    kept = KeptCalls(options.out / "calls", quiet=True)
    before: set[Path] = set()
    while True:
        work = missing_calls(options.items, preset=options.preset, kept=kept)
        if options.only:
            work = [one for one in work if one[0].__name__ in options.only]
        if {one[2] for one in work} <= before:
            break  # nothing is left, or nothing but what failed
        before |= {one[2] for one in work}
        print(f"{len(work)} calls", flush=True)
        told = [(*one, options.jobs) for one in work]
        for words in run_calls(attempt, told, jobs=options.jobs):
            print(words, file=sys.stderr, flush=True)
    for name in options.items:
        if missing_calls([name], preset=options.preset, kept=kept):
            print(f"{name}: some calls were not made", flush=True)
            continue
        run = run_item(name, preset=options.preset, runs=options.out, quiet=True)
        print(f"{name}: {len(run.records)} records", flush=True)


if __name__ == "__main__":
    main()
