"""How long the hardest-negative loss takes, forward and backward, beside the obvious ways.

Claims, on one core: MH at B=2048, D=1024 takes at most 0.45 of the time of the plain formulation,
which builds B x B hinges and differentiates them, and at most 0.2 of the batch-hard triplet loss of
pytorch-metric-learning; MH with the order violation at B=512 is at least 20 times as fast as with a
B x B x D array.

The sides take turns in one process, so that a busy machine troubles all alike; times are medians of
processor seconds. The peer is optional: pip install "strop[bench]".

    python benchmarks/retrieval_losses.py --out results.json
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
from torch.nn import functional

from strop.retrieval import contrastive_hinge_loss, info_nce_loss

Loss = Callable[[Tensor, Tensor], Tensor]
MARGIN = 0.2


@dataclass(frozen=True)
class Record:
    """Median seconds of one forward and backward; ``share`` is ours over theirs, by processor."""

    task: str
    side: str
    batch_size: int
    dimension: int
    processor_seconds: float
    wall_seconds: float
    loss: float
    share: float


def plain_max_of_hinges(images: Tensor, captions: Tensor) -> Tensor:
    """B x B scores and hinges, kept by autograd."""
    scores = functional.normalize(images, dim=1) @ functional.normalize(captions, dim=1).T
    return _hardest(scores)


def broadcast_order_max_of_hinges(images: Tensor, captions: Tensor) -> Tensor:
    """The order violation by a B x B x D array."""
    images, captions = functional.normalize(images, dim=1), functional.normalize(captions, dim=1)
    return _hardest(-(captions[None] - images[:, None]).clamp(min=0).pow(2).sum(2))


def _hardest(scores: Tensor) -> Tensor:
    positive = scores.diagonal()
    same = torch.eye(len(scores), dtype=torch.bool)
    to_captions = (MARGIN + scores - positive[:, None]).clamp(min=0).masked_fill(same, 0)
    to_images = (MARGIN + scores - positive[None, :]).clamp(min=0).masked_fill(same, 0)
    return to_captions.max(1).values.sum() + to_images.max(0).values.sum()


def batch_hard_triplet() -> Loss | None:
    """The peer's hardest triplets in both directions, or None if it is not installed."""
    try:
        from pytorch_metric_learning import distances, losses, miners, reducers
    except ImportError:
        return None
    distance = distances.CosineSimilarity()
    miner = miners.BatchHardMiner(distance=distance)
    triplet = losses.TripletMarginLoss(
        margin=MARGIN, distance=distance, reducer=reducers.SumReducer()
    )

    def loss(images: Tensor, captions: Tensor) -> Tensor:
        # Two objects: given one twice, it takes both lists for the same and drops all positives.
        own, other = torch.arange(len(images)), torch.arange(len(images))
        there = miner(images, own, captions, other)
        back = miner(captions, own, images, other)
        return triplet(images, own, there, captions, other) + triplet(
            captions, own, back, images, other
        )

    return loss


def strop_loss(**arguments: str) -> Loss:
    def loss(images: Tensor, captions: Tensor) -> Tensor:
        return contrastive_hinge_loss(images, captions, margin=MARGIN, reduction="sum", **arguments)

    return loss


def measure(
    task: str, sides: dict[str, Loss], *, batch_size: int, dimension: int, rounds: int
) -> list[Record]:
    """The first side is ours. One round each to warm up, then ``rounds`` in turns."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(batch_size, dimension, generator=generator)
    # Alike enough that about half of the hardest hinges are open, as in mid-training.
    noise = torch.randn(batch_size, dimension, generator=generator)
    captions = 0.3 * images + noise
    images.requires_grad_()
    captions.requires_grad_()
    processor: dict[str, list[float]] = {side: [] for side in sides}
    wall: dict[str, list[float]] = {side: [] for side in sides}
    values: dict[str, float] = {}
    for turn in range(rounds + 1):
        for side, loss in sides.items():
            images.grad = captions.grad = None
            start = time.process_time(), time.perf_counter()
            value = loss(images, captions)
            value.backward()
            if turn:
                processor[side].append(time.process_time() - start[0])
                wall[side].append(time.perf_counter() - start[1])
            values[side] = value.item()
    ours = statistics.median(next(iter(processor.values())))
    return [
        Record(
            task=task,
            side=side,
            batch_size=batch_size,
            dimension=dimension,
            processor_seconds=statistics.median(processor[side]),
            wall_seconds=statistics.median(wall[side]),
            loss=values[side],
            share=ours / statistics.median(processor[side]),
        )
        for side in sides
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    shrink = 16 if arguments.quick else 1

    sides = {"strop": strop_loss(mining="max"), "plain": plain_max_of_hinges}
    peer = batch_hard_triplet()
    if peer is None:
        print("pytorch-metric-learning is not installed: its column is left out")
    else:
        sides["pytorch-metric-learning"] = peer
    sides["strop, softmax"] = strop_loss(mining="softmax")
    sides["strop, sum"] = strop_loss(mining="sum")
    sides["strop, InfoNCE"] = lambda images, captions: info_nce_loss(images, captions)
    records = measure(
        "MH, cosine", sides, batch_size=2048 // shrink, dimension=1024 // shrink,
        rounds=arguments.rounds,
    )  # fmt: skip
    order = {
        "strop": strop_loss(mining="max", similarity="order"),
        "broadcast": broadcast_order_max_of_hinges,
        "strop, softmax": strop_loss(mining="softmax", similarity="order"),
    }
    records += measure(
        "MH, order", order, batch_size=512 // shrink, dimension=1024 // shrink,
        rounds=max(1, arguments.rounds // 2),
    )  # fmt: skip

    print(f"{'task':12}{'side':26}{'B':>6}{'D':>6}{'cpu ms':>10}{'wall ms':>10}{'ours/it':>9}")
    for one in records:
        print(
            f"{one.task:12}{one.side:26}{one.batch_size:6}{one.dimension:6}"
            f"{1e3 * one.processor_seconds:10.1f}{1e3 * one.wall_seconds:10.1f}{one.share:9.3f}"
        )
    if arguments.out:
        about = {"torch": torch.__version__, "machine": platform.processor(), "threads": 1}
        report = {**about, "records": [asdict(one) for one in records]}
        arguments.out.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
