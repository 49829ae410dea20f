"""Items of the thesis at preset gpu on a machine without network, from mosaics of CIFAR-10.

    PYTHONPATH=src python benchmarks/cifar10_mosaics.py .cache/cifar10-mosaics
    PYTHONPATH=src:benchmarks python benchmarks/thesis_gpu.py --mosaics .cache/cifar10-mosaics \
        --models .cache/models --out runs figure-5.4 figure-5.5 figure-5.1 figure-B.7 figure-B.8

Writes the mosaics as the binary version of CIFAR-10 into a temporary folder, names that and the
folder of the models as STROP_DATA, and runs the items; a call that is finished is kept in
``--out``/calls, so that a run cut off by its limit goes on. ``--jobs`` calls share the GPU, which a
small network leaves mostly idle. The records, ``ID.gpu.json``, belong under docs/thesis/records.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path

import numpy as np
from cifar10_mosaics import unpack

BATCHES = {
    "train": [f"data_batch_{number}.bin" for number in range(1, 6)],
    "test": ["test_batch.bin"],
}


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


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("items", nargs="+")
    parser.add_argument("--mosaics", type=Path, required=True)
    parser.add_argument("--models", type=Path, help="a folder of classifiers named models")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--preset", default="gpu")
    parser.add_argument("--jobs", type=int, default=8)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        write_binary(options.mosaics, Path(folder))
        places = [folder, *([str(options.models.parent)] if options.models else [])]
        os.environ["STROP_DATA"] = os.pathsep.join(places)
        from strop.thesis import run_item

        for name in options.items:
            began = time.monotonic()
            run = run_item(
                name, preset=options.preset, runs=options.out, jobs=options.jobs, quiet=True
            )
            seconds = time.monotonic() - began
            print(f"{name}: {len(run.records)} records, {seconds:.0f} s", flush=True)


if __name__ == "__main__":
    main()
