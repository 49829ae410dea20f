"""Fine-tuning a network with batch normalisation: its statistics kept, or those of the batches.

    STROP_DATA=FOLDERS OMP_NUM_THREADS=1 PYTHONPATH=src:benchmarks python \
        benchmarks/retrieval_finetune.py --images 400 --epochs 2 --seeds 2

VSE++ on some pictures of Flickr8k, captions as bags of words, EfficientNet-Lite0: twelve epochs on
frozen features of centre crops, then the thesis's second stage, random crops at a rate of 2e-5 with
the network trained too. Printed is the sum of recalls on validation images: before the second
stage and after each of its epochs, the network as strop trains it and with statistics that drift.
"""

import argparse
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from side_by_side import write
from torch import nn

from strop.data import find_data
from strop.retrieval import PRESETS, train_embedding
from strop.retrieval.encoders.tuning import Tuned
from strop.support.parallel import run_calls
from strop.thesis.retrieval_runs import load

WEIGHTS = "efficientnet-lite0-57934424.pth"


def all_in_training(self: Tuned, mode: bool = True) -> Tuned:
    """In place of Tuned.train: whatever learns has the statistics of its batches."""
    nn.Module.train(self, mode)
    if self.mode != "whole":
        self.backbone.eval()
    return self


def sums(result: Any) -> list[float]:
    return [one["rsum"] for one in result.history.records if one["event"] == "validation"]


def one(kept: bool, seed: int, images: int, validation: int, epochs: int) -> dict[str, Any]:
    torch.set_num_threads(1)
    data = {"name": "flickr8k", "features": [], "images": images, "validation": validation}
    train, held_out, _ = load(**data)
    network = f"efficientnet-lite0:{find_data('efficientnet-lite0') / WEIGHTS}"
    first = replace(
        PRESETS["vse++"],
        image_encoder=network,
        crop="1C",
        caption_encoder="bag-of-words",
        embedding_dim=256,
        word_dim=256,
        min_count=2,
        epochs=12,
        learning_rate=1e-3,
        seed=seed,
    )
    stage = train_embedding(train, held_out, settings=first, progress="quiet")
    second = PRESETS["finetune"]
    settings = replace(
        first,
        finetune_images=True,
        finetune_rate=second.finetune_rate,
        learning_rate=second.learning_rate,
        epochs=epochs,
        crop=second.crop,
    )
    with nullcontext() if kept else patch.object(Tuned, "train", all_in_training):
        tuned = train_embedding(
            train, held_out, settings=settings, start_from=stage.model, progress="quiet"
        )
    return {"kept": kept, "seed": seed, "before": max(sums(stage)), "after": sums(tuned)}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=int, default=400)
    parser.add_argument("--validation", type=int, default=300)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--at-once", type=int, default=2)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    told = [
        (kept, seed, options.images, options.validation, options.epochs)
        for seed in range(options.seeds)
        for kept in (True, False)
    ]
    rows = []
    for row in run_calls(one, told, jobs=options.at_once):
        rows.append(row)
        words = "statistics kept" if row["kept"] else "statistics of the batches"
        after = ", ".join(f"{value:.1f}" for value in row["after"])
        print(f"seed {row['seed']}, {words:26s} {row['before']:.1f} -> {after}", flush=True)
    write(options.out, {"rows": rows, "torch": torch.__version__})


if __name__ == "__main__":
    main()
