"""What a gradient monitor costs: 50 steps of ResNet8 with and without it.

Claim: per-example statistics of one batch every 10 steps (five measurements) cost less than 20 % of
the processor time of the training, and the losses are the same, bit for bit.

Both trainings take turns, ten steps each, in one process and one thread, so that a busy machine
troubles both alike; a round is 50 steps of both, and the overhead is the ratio of their sums.

    OMP_NUM_THREADS=1 python benchmarks/gradients_monitor.py --rounds 5 --out results.json
"""

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from strop.data import read_images
from strop.gradients import GradientMonitor
from strop.models import cifar_resnet

STEPS, EVERY = 50, 10


def losses(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    return nn.functional.cross_entropy(model(batch[0]), batch[1], reduction="none")


class Training:
    """A training that is taken up and put down, its processor time added up."""

    def __init__(self, batches: list[tuple[Tensor, Tensor]], make: Callable[[nn.Module], Any]):
        self.model = cifar_resnet(
            8, normalisation="none", generator=torch.Generator().manual_seed(0)
        )
        self.optimizer = torch.optim.SGD(
            self.model.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4
        )
        self.batches, self.monitor = batches, make(self.model)
        self.losses: list[float] = []
        self.seconds = 0.0

    def go(self, steps: int) -> None:
        begun = time.process_time()
        for _ in range(steps):
            batch = self.batches[len(self.losses)]
            self.optimizer.zero_grad()
            loss = losses(self.model, batch).mean()
            loss.backward()
            self.optimizer.step()
            if self.monitor is not None:
                self.monitor.step(batch)
            self.losses.append(loss.item())
        self.seconds += time.process_time() - begun


def measure(batches: list[tuple[Tensor, Tensor]]) -> dict[str, float]:
    plain = Training(batches, lambda model: None)
    watched = Training(batches, lambda model: GradientMonitor(model, losses, every=EVERY))
    for turn in range(STEPS // EVERY):
        for side in (plain, watched) if turn % 2 == 0 else (watched, plain):
            side.go(EVERY)
    if plain.losses != watched.losses:
        raise SystemExit("the monitor changed the losses")
    last = watched.monitor.events[-1]
    return {
        "plain_seconds": plain.seconds,
        "monitored_seconds": watched.seconds,
        "overhead": watched.seconds / plain.seconds - 1,
        "measurements": len(watched.monitor.events),
        "last_zeta": last["normalised_variance"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch-sizes", type=int, nargs="*", default=[64, 128])
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    data = read_images("cifar10")
    results = []
    for size in options.batch_sizes:
        order = torch.randperm(len(data), generator=torch.Generator().manual_seed(0))
        batches = [data.batch(part) for part in order[: STEPS * size].split(size)]
        rounds = [measure(batches) for _ in range(options.rounds)]
        overheads = [one["overhead"] for one in rounds]
        results.append({"batch_size": size, "rounds": rounds})
        print(
            f"B={size}: overhead {statistics.median(overheads):.1%} "
            f"({min(overheads):.1%} to {max(overheads):.1%}), plain "
            f"{statistics.median(one['plain_seconds'] for one in rounds):.1f} s, losses identical"
        )
    if options.out is not None:
        machine = {"torch": torch.__version__, "python": platform.python_version()}
        options.out.write_text(json.dumps({**machine, "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
