"""How long it takes to rank 25,000 captions and 5,000 images, beside one sort per query.

Claims, on one core, D=1024: both directions take at least 12 times less processor time than one
product and one argsort for each query, as evaluation is commonly published, and no more than 300 MB
beyond the embeddings. Ranks must agree.

The sides take turns. Sorting every query is slow, so it is timed on a sample of the images (with
their captions as queries) against all candidates and scaled up; ``--sample 1`` times all.

    python benchmarks/retrieval_evaluation.py --out results.json
"""

import argparse
import json
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from strop.retrieval import retrieval_metrics

EACH = 5


def embeddings(n_images: int, dimension: int, dtype: torch.dtype) -> tuple[Any, Any, Any]:
    """Images and captions as far apart as those of a middling model (R@1 about a third)."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(n_images, dimension, generator=generator)
    captions = torch.randn(EACH * n_images, dimension, generator=generator)
    for each in range(EACH):
        captions[each::EACH] += 0.11 * images
    images /= images.norm(dim=1, keepdim=True)
    captions /= captions.norm(dim=1, keepdim=True)
    owner = torch.arange(n_images).repeat_interleave(EACH)
    return images.to(dtype), captions.to(dtype), owner


def sort_per_query(images: Any, captions: Any, asked: range) -> tuple[Any, Any]:
    """Ranks (from 0) of the asked images and of their captions: a product and a sort for each."""
    from_images, from_captions = [], []
    for image in asked:
        order = np.argsort(np.dot(images[image : image + 1], captions.T).flatten())[::-1]
        own = range(EACH * image, EACH * image + EACH)
        from_images.append(min(np.where(order == caption)[0][0] for caption in own))
    for image in asked:
        scores = np.dot(captions[EACH * image : EACH * image + EACH], images.T)
        for row in scores:
            order = np.argsort(row)[::-1]
            from_captions.append(np.where(order == image)[0][0])
    return np.array(from_images), np.array(from_captions)


def timed(function: Any, *arguments: Any) -> tuple[Any, float, float]:
    start = time.process_time(), time.perf_counter()
    value = function(*arguments)
    return value, time.process_time() - start[0], time.perf_counter() - start[1]


def peak_megabytes() -> float:
    """Of this process since it began (``ru_maxrss`` would also count the parent it came from)."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) / 1024


def print_memory(folder: Path) -> None:
    """For a process of its own, which holds nothing else: what evaluation adds, in megabytes."""
    torch.set_num_threads(1)
    images, captions, owner = (
        torch.from_numpy(np.load(folder / f"{name}.npy"))
        for name in ("images", "captions", "owner")
    )
    before = peak_megabytes()
    retrieval_metrics(images, captions, owner)
    print(peak_megabytes() - before)


def megabytes_beyond(images: Any, captions: Any, owner: Any) -> float:
    with tempfile.TemporaryDirectory() as name:
        for part, values in (("images", images), ("captions", captions), ("owner", owner)):
            np.save(Path(name) / f"{part}.npy", values.numpy())
        command = [sys.executable, __file__, "--memory", name]
        return float(subprocess.run(command, check=True, capture_output=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=5000)
    parser.add_argument("--dimension", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sample", type=int, default=20, help="sort for one image in so many")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--memory", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.memory:
        print_memory(arguments.memory)
        return
    torch.set_num_threads(1)
    images, captions, owner = embeddings(arguments.images, arguments.dimension, torch.float32)
    asked = range(0, arguments.images, arguments.sample)
    scale = arguments.images / len(asked)
    sorted_sides = {
        "sort per query, float32": (images.numpy(), captions.numpy()),
        "sort per query, float64": (images.double().numpy(), captions.double().numpy()),
    }
    processor: dict[str, list[float]] = {"strop": [], **{side: [] for side in sorted_sides}}
    wall: dict[str, list[float]] = {"strop": [], **{side: [] for side in sorted_sides}}
    differing: dict[str, list[int]] = {}
    for _ in range(arguments.rounds):
        scores, cpu, seconds = timed(retrieval_metrics, images, captions, owner)
        processor["strop"].append(cpu)
        wall["strop"].append(seconds)
        for side, (all_images, all_captions) in sorted_sides.items():
            ranks, cpu, seconds = timed(sort_per_query, all_images, all_captions, asked)
            processor[side].append(scale * cpu)
            wall[side].append(scale * seconds)
            members = np.concatenate([np.arange(EACH * i, EACH * i + EACH) for i in asked])
            differing[side] = [
                int((scores.image_to_text.ranks[list(asked)] != ranks[0] + 1).sum()),
                int((scores.text_to_image.ranks[members] != ranks[1] + 1).sum()),
            ]
    print(scores.table())
    ours = statistics.median(processor["strop"])
    print(f"{'side':26}{'cpu s':>8}{'wall s':>8}{'it/ours':>9}  differing ranks")
    records = []
    for side in processor:
        record = {
            "side": side,
            "processor_seconds": statistics.median(processor[side]),
            "wall_seconds": statistics.median(wall[side]),
            "times_ours": statistics.median(processor[side]) / ours,
            "differing_ranks": differing.get(side),
        }
        records.append(record)
        print(
            f"{side:26}{record['processor_seconds']:8.2f}{record['wall_seconds']:8.2f}"
            f"{record['times_ours']:9.1f}  {record['differing_ranks'] or ''}"
        )
    beyond = megabytes_beyond(images, captions, owner)
    print(f"memory beyond the embeddings: {beyond:.0f} MB")
    if arguments.out:
        report = {
            "torch": torch.__version__,
            "numpy": np.__version__,
            "machine": platform.processor(),
            "threads": 1,
            "images": arguments.images,
            "dimension": arguments.dimension,
            "memory_megabytes": beyond,
            "records": records,
        }
        arguments.out.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
