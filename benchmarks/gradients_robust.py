"""Even sampling for the worst group: rare kinds inside the classes, which no label names.

The task is whether a digit is even (Fashion-MNIST: whether the class's number is); two of the ten
kinds, one in each class, are rare: 20 training examples where the others have 1,000. The test set
has all kinds alike, and the score is the accuracy on the worst of them. All trainings begin with
the same uniform steps and take as many steps in all. Clusters are found once, after those: early,
while the rare kinds are yet to be learnt; once their examples are known by heart, their gradients
are as small as any. Then

- uniform: go on;
- stratified: gradient clusters, weighted: unbiased, so the same loss with less noise;
- even clusters: gradient clusters as often as one another, without weights; nobody knows the kinds;
- even kinds: the kinds as often as one another, for one who knows them.

    OMP_NUM_THREADS=1 python benchmarks/gradients_robust.py --seeds 5 --out results.json
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import torch
from side_by_side import mean_and_interval, write
from torch import Tensor, nn

from strop.data import LabelledImages, read_images, subset
from strop.gradients import (
    EvenBatchSampler,
    StratifiedBatchSampler,
    cluster_gradients,
    weighted_loss,
)
from strop.models import mlp

METHODS = ("uniform", "stratified", "even clusters", "even kinds")
RARE = (5, 8)
COMMON_COUNT, RARE_COUNT = 1000, 20
BATCH, CLUSTERS = 64, 32
STEPS, FIRST = 1500, 250


def losses(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    return nn.functional.cross_entropy(model(batch[0]), batch[1] % 2, reduction="none")


def training_data(name: str, seed: int) -> LabelledImages:
    data = read_images(name)
    generator = torch.Generator().manual_seed(seed)
    chosen = []
    for kind in range(10):
        members = (data.labels == kind).nonzero()[:, 0]
        count = RARE_COUNT if kind in RARE else COMMON_COUNT
        chosen.append(members[torch.randperm(len(members), generator=generator)[:count]])
    return subset(data, torch.cat(chosen))


def make_sampler(
    method: str, model: nn.Module, data: LabelledImages, *, seed: int, count: int
) -> Any:
    """The batches of the next ``count`` steps."""
    options = {"count": count, "seed": seed}
    if method == "uniform":
        return StratifiedBatchSampler(torch.zeros(len(data)).long(), BATCH, **options)
    if method == "even kinds":
        return EvenBatchSampler(data.labels, BATCH, **options)
    clusters = cluster_gradients(
        model,
        losses,
        data,
        n_clusters=BATCH if method == "stratified" else CLUSTERS,
        cap=2.0 if method == "stratified" else None,
        generator=torch.Generator().manual_seed(seed),
    )
    kind = StratifiedBatchSampler if method == "stratified" else EvenBatchSampler
    return kind(clusters, BATCH, **options)


def train(method: str, name: str, seed: int) -> dict[str, Any]:
    data, test = training_data(name, seed), read_images(name, split="test")
    model = mlp((784, 256, 2), generator=torch.Generator().manual_seed(seed))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    for stage, count in (("uniform", FIRST), (method, STEPS - FIRST)):
        sampler = make_sampler(stage, model, data, seed=2 * seed + (count != FIRST), count=count)
        for indices in sampler:
            chosen = torch.tensor(indices)
            optimizer.zero_grad()
            weighted_loss(losses(model, data.batch(chosen)), sampler.weights[chosen]).backward()
            optimizer.step()
    right = []
    with torch.no_grad():
        for part in torch.arange(len(test)).split(1000):
            images, labels = test.batch(part)
            right.append(model(images).argmax(1) == labels % 2)
    hits = torch.cat(right).double()
    by_kind = [float(100 * hits[test.labels == kind].mean()) for kind in range(10)]
    return {
        "method": method,
        "data": name,
        "seed": seed,
        "by_kind": by_kind,
        "worst": min(by_kind),
        "rare": sum(by_kind[kind] for kind in RARE) / len(RARE),
        "mean": sum(by_kind) / 10,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data", nargs="*", default=["mnist"])
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    results = []
    for name in options.data:
        print(f"| {name} | worst kind | rare kinds | all kinds | worst, less uniform |")
        print("|---|---|---|---|---|", flush=True)
        uniform: list[float] = []
        for method in options.methods:
            runs = []
            for seed in range(options.first_seed, options.first_seed + options.seeds):
                runs.append(train(method, name, seed))
                print(".", end="", flush=True, file=sys.stderr)
            results += runs
            columns = [[run[key] for run in runs] for key in ("worst", "rare", "mean")]
            uniform = columns[0] if method == "uniform" else uniform
            # The same data and first weights for a seed, so that methods are compared in pairs.
            pairs = zip(columns[0], uniform, strict=False)
            row = [mean_and_interval(column) for column in columns]
            cells = [f"{mean:.1f} ± {half:.1f}" for mean, half in row]
            if uniform and method != "uniform":
                cells.append("{:+.1f} ± {:.1f}".format(*mean_and_interval(a - b for a, b in pairs)))
            else:
                cells.append("–")
            print(f"| {method} | {' | '.join(cells)} |", flush=True)
            write(options.out, results)


if __name__ == "__main__":
    main()
