"""Finished runs as the records of docs/thesis/records: compact, one record to a line.

What `strop thesis run` wrote goes there as it is:

    strop thesis run all --preset small --jobs 2 --runs thesis-runs
    python benchmarks/thesis_records.py thesis-runs/*.small.json

The runs of retrieval_flickr8k.py become `gpu` records of chapter 3:

    python benchmarks/retrieval_flickr8k.py --out flickr8k.json
    python benchmarks/thesis_records.py flickr8k.json --machine "NVIDIA H200, Linux" \
        --versions python=3.12 torch=2.11 --out docs/thesis/records

The benchmark trains what `strop thesis run table-3.3 --preset gpu` would; many at a time on one
device: table-3.3, table-3.4, figure-3.2 and, where the runs they need have five seeds, claim-N12
and claim-N13. Machine and versions are those that it ran on.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from strop.support import settings_to_dict, writing
from strop.thesis.catalogue import find_item
from strop.thesis.retrieval_runs import SCALES, describe
from strop.thesis.run import experiment_of

COMMAND = "python benchmarks/retrieval_flickr8k.py --seeds 5 --at-once 12 --out flickr8k.json"
VSE0, MH = "VSE0 (preset vse0)", "VSE++ (preset vse++)"
SH, WARM = "SH, both normalised", "SH for 2 epochs, then MH"
ORDER = "Order++ after 2 epochs of SH"
ITEMS: dict[str, dict[str, str]] = {
    "table-3.3": {"VSE0": VSE0, "VSE++": MH, SH: SH},
    "table-3.4": {
        "VSE0": VSE0,
        "Order0": "Order0 (preset order0)",
        "VSE++": MH,
        "Order++": "Order++ (preset order++)",
        ORDER: ORDER,
    },
    "figure-3.2": {"VSE0": VSE0, "VSE++": MH, WARM: WARM},
    "claim-N12": {
        "SH, images not normalised": VSE0,
        "SH, both normalised": SH,
        "MH, images not normalised": "MH, images not normalised",
        "MH, both normalised": MH,
    },
    "claim-N13": {"SH": "default with SH", "softmax, 0.05": "default", "MH": "default with MH"},
}
"""What an item calls its runs, and what the benchmark calls them."""
SEEDS = 5
CHANGED: dict[str, dict[str, Any]] = {"claim-N13": {"temperatures": (0.05,), "ks": ()}}
"""Where the benchmark has fewer runs than the preset."""


def record_of(run: str, result: dict[str, Any]) -> dict[str, Any]:
    """A result of the benchmark as a record of the items."""
    return {
        "run": run,
        "data": describe(settings_to_dict(SCALES["gpu"].data)),
        "seed": result["seed"],
        "collapsed": result["collapsed"],
        "seconds": round(result["seconds"], 2),
        "best_epoch": result["best_epoch"],
        "epochs": [[round(value, 3) for value in one] for one in result["epochs"]],
        **{
            way: {
                "recall": {k: round(value, 3) for k, value in result[way]["recall"].items()},
                "median_rank": result[way]["median_rank"],
            }
            for way in ("image_to_text", "text_to_image")
        },
    }


def write(path: Path, run: dict[str, Any]) -> None:
    """A run as JSON, one record to a line: small, and a change of one is a change of one line."""
    lines = ",\n".join(json.dumps(record, ensure_ascii=False) for record in run["records"])
    head = json.dumps({**run, "records": None}, ensure_ascii=False, indent=1)
    text = head.removesuffix("null\n}") + f"[\n{lines}\n]}}\n"
    with writing(path) as partial:
        partial.write_text(text, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "results", nargs="+", type=Path, help="runs, or what the benchmark wrote with --out"
    )
    parser.add_argument("--machine", default="")
    parser.add_argument("--versions", nargs="*", default=[], help="such as torch=2.11")
    parser.add_argument("--out", type=Path, default=Path("docs/thesis/records"))
    options = parser.parse_args()
    contents = {file.name: json.loads(file.read_text()) for file in options.results}
    kept = {name: run for name, run in contents.items() if isinstance(run, dict)}
    for name, run in kept.items():
        write(options.out / name, run)
        print(f"{options.out / name}: {len(run['records'])} records, {run['seconds']:.0f} s")
    if kept:
        total = sum(run["seconds"] for run in kept.values())
        print(f"{len(kept)} runs, {total / 60:.1f} minutes in all, calls added up")
    results = [
        entry["result"]
        for name, entries in contents.items()
        if name not in kept
        for entry in entries
    ]
    if not results:
        return
    for name, runs in ITEMS.items():
        found = {
            run: [result for result in results if result["run"] == of] for run, of in runs.items()
        }
        if name.startswith("claim") and min(map(len, found.values())) < SEEDS:
            print(f"{name}: not all of {', '.join(runs.values())} have {SEEDS} seeds")
            continue
        chosen = [
            record_of(run, result)
            for run, all_seeds in found.items()
            for result in sorted(all_seeds, key=lambda result: result["seed"])
        ]
        preset = replace(experiment_of(find_item(name)).PRESETS["gpu"], **CHANGED.get(name, {}))
        write(
            options.out / f"{name}.gpu.json",
            {
                "item": name,
                "preset": "gpu",
                "settings": settings_to_dict(preset),
                "code": "benchmarks/retrieval_flickr8k.py",
                "seconds": round(sum(record["seconds"] for record in chosen), 2),
                "command": COMMAND,
                "versions": dict(pair.split("=", 1) for pair in options.versions),
                "machine": options.machine,
                "records": chosen,
            },
        )
        print(f"{options.out / name}.gpu.json: {len(chosen)} records")


if __name__ == "__main__":
    main()
