"""Claim G17: whether clusters of gradients expose duplicates, wrong labels and rare groups.

    strop thesis run claim-G17

Named as future work in the thesis (sections 4.5 and 6). Planted copies: precision and recall of the
pairs that share a gradient, and how often copies share a cluster. Planted wrong labels: average
precision of ranking examples by the size of their cluster, smallest first, and of strop's own
score. Rare kinds inside the classes of a parity task: accuracy on the worst kind when batches are
drawn evenly from clusters, without weights, less that of uniform batches. Expected: each well above
chance. `small`: two minutes of one core; MNIST where it is there, else digits, as the table says.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from strop.data import LabelledImages, corrupt_labels, duplicate, read_images, sample, subset
from strop.gradients import (
    EvenBatchSampler,
    Sketch,
    StratifiedBatchSampler,
    cluster_gradients,
    find_duplicates,
    gradient_evidence,
    score_labels,
    views_by_folds,
    weighted_loss,
)
from strop.gradients.folds import picture_loss, train_small
from strop.models import mlp
from strop.thesis.calls import Each, Record, one_by_one
from strop.thesis.drawing import Row, Table
from strop.thesis.image_models import pictures
from strop.thesis.trajectory_presets import Trajectory, at_hand
from strop.thesis.verdicts import interval_of


@dataclass(frozen=True)
class Settings:
    """The data, what is planted in them, and the trainings."""

    data: str = "mnist"
    examples: int = 2000
    share: float = 0.05
    clusters: int = 64
    group_clusters: int = 32
    epochs: int = 5
    common: int = 1000
    rare: int = 20
    steps: int = 1500
    first: int = 250
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    group_seeds: tuple[int, ...] = tuple(range(200, 220))
    """Of the trainings with rare kinds; none of those on which their schedule was chosen."""


PRESETS = {
    "smoke": Settings(
        "digits",
        examples=300,
        clusters=8,
        group_clusters=4,
        epochs=1,
        common=40,
        steps=40,
        first=20,
        seeds=(0,),
        group_seeds=(0,),
    ),
    "small": Settings(),
    "gpu": Settings(examples=10_000, clusters=128, epochs=10, group_clusters=64),
    "paper": Settings(examples=10_000, clusters=128, epochs=10, group_clusters=64),
}


def compute(settings: Settings, each: Each = one_by_one) -> list[Record]:
    data = at_hand(Trajectory(data=settings.data)).data
    planted = {
        "data": data,
        "examples": settings.examples,
        "share": settings.share,
        "clusters": settings.clusters,
        "epochs": settings.epochs,
    }
    groups = {
        "data": data,
        "common": settings.common,
        "rare": settings.rare,
        "steps": settings.steps,
        "first": settings.first,
        "clusters": settings.group_clusters,
    }
    seeds = settings.seeds
    return [
        *each(planted_copies, [planted | {"seed": seed} for seed in seeds]),
        *each(planted_labels, [planted | {"seed": seed} for seed in seeds]),
        *each(
            worst_group,
            [
                groups | {"seed": seed, "even": even}
                for even in (False, True)
                for seed in settings.group_seeds
            ],
        ),
    ]


def _read(data: str, split: str) -> LabelledImages:
    return pictures("digits", split=split) if data == "digits" else read_images(data, split=split)


def _build(data: LabelledImages) -> Any:
    inputs = data[0][0].numel()
    return lambda generator: mlp((inputs, 128, 10), generator=generator)


def planted_copies(
    *, data: str, examples: int, share: float, clusters: int, epochs: int, seed: int
) -> Record:
    """Some pictures once more: what coinciding gradients and clusters say of them."""
    generator = torch.Generator().manual_seed(seed)
    found = _read(data, "train")
    found = sample(found, count=min(examples, len(found)), generator=generator)
    chosen = torch.randperm(len(found), generator=generator)[: round(share * len(found))]
    copied = duplicate(found, chosen, copies=1)
    copied = subset(copied, torch.randperm(len(copied), generator=generator))
    model = train_small(copied, generator=generator, epochs=epochs, build=_build(copied)).eval()
    evidence = gradient_evidence(model, picture_loss, copied, generator=generator)
    groups = find_duplicates(model, picture_loss, copied, evidence=evidence).groups
    origin = copied.origin
    pairs = {(a, b) for group in groups for a in group for b in group if a < b}
    planted = {
        (int(rows[0]), int(rows[1]))
        for one in found.origin[chosen]
        for rows in [(origin == one).nonzero().squeeze(1)]
    }
    assignment = cluster_gradients(
        model, picture_loss, copied, n_clusters=clusters, engine=Sketch(), generator=generator
    ).assignment
    sizes = torch.bincount(assignment, minlength=clusters).double() / len(copied)
    together = sum(int(assignment[a] == assignment[b]) for a, b in planted) / len(planted)
    return {
        "kind": "copies",
        "data": data,
        "seed": seed,
        "precision": len(pairs & planted) / max(1, len(pairs)),
        "recall": len(pairs & planted) / len(planted),
        "together": together,
        "chance": float(sizes.square().sum()),
    }


def planted_labels(
    *, data: str, examples: int, share: float, clusters: int, epochs: int, seed: int
) -> Record:
    """Wrong labels: average precision of two rankings."""
    generator = torch.Generator().manual_seed(seed)
    found = _read(data, "train")
    found = sample(found, count=min(examples, len(found)), generator=generator)
    found = corrupt_labels(found, share=share, generator=generator)
    model = train_small(found, generator=generator, epochs=epochs, build=_build(found)).eval()
    clustered = cluster_gradients(
        model,
        picture_loss,
        found,
        n_clusters=clusters,
        engine=Sketch(),
        cap=None,
        generator=generator,
    )
    by_size = clustered.sizes[clustered.assignment].double()
    # Ties in random order: what a user who looks at small clusters first would see.
    by_size = by_size + torch.rand(len(by_size), generator=generator, dtype=torch.float64)
    views, _ = views_by_folds(
        lambda rows: train_small(
            found, generator=generator, indices=rows, epochs=epochs, build=_build(found)
        ),
        picture_loss,
        found,
        generator=generator,
    )
    scores = score_labels(views, found.labels)
    return {
        "kind": "labels",
        "data": data,
        "seed": seed,
        "share": float(found.corrupted.double().mean()),
        "small_clusters": average_precision(found.corrupted, by_size.argsort()),
        "score": average_precision(found.corrupted, scores.ranking),
    }


def average_precision(wrong: Tensor, ranking: Tensor) -> float:
    """The mean, over the wrong ones, of the precision at their rank.

    >>> average_precision(torch.tensor([True, False, True]), torch.tensor([0, 1, 2]))
    0.8333333333333333
    """
    hits = wrong[ranking].double()
    precision = hits.cumsum(0) / torch.arange(1, len(hits) + 1)
    return float((precision * hits).sum() / hits.sum())


def worst_group(
    *,
    data: str,
    common: int,
    rare: int,
    steps: int,
    first: int,
    clusters: int,
    seed: int,
    even: bool,
) -> Record:
    """Is a digit even? Kinds 5 and 8 are rare in training, all are alike in the test."""
    generator = torch.Generator().manual_seed(seed)
    whole, test = _read(data, "train"), _read(data, "test")
    chosen = []
    for kind in range(10):
        members = (whole.labels == kind).nonzero()[:, 0]
        count = rare if kind in (5, 8) else common
        chosen.append(members[torch.randperm(len(members), generator=generator)[:count]])
    train = subset(whole, torch.cat(chosen))
    model = mlp((train[0][0].numel(), 256, 2), generator=generator)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    for stage, count in ((False, first), (even, steps - first)):
        sampler: Any = StratifiedBatchSampler(
            torch.zeros(len(train)).long(), 64, count=count, seed=2 * seed + stage
        )
        if stage:
            found = cluster_gradients(
                model, _parity, train, n_clusters=clusters, cap=None, generator=generator
            )
            sampler = EvenBatchSampler(found, 64, count=count, seed=2 * seed + 1)
        for indices in sampler:
            rows = torch.tensor(indices)
            optimizer.zero_grad()
            weighted_loss(_parity(model, train.batch(rows)), sampler.weights[rows]).backward()
            optimizer.step()
    with torch.no_grad():
        images, labels = test.batch(torch.arange(len(test)))
        right = (model(images).argmax(1) == labels % 2).double()
    by_kind = [float(right[labels == kind].mean()) for kind in range(10)]
    return {
        "kind": "groups",
        "data": data,
        "seed": seed,
        "even": even,
        "worst": round(100 * min(by_kind), 2),
        "mean": round(10 * sum(by_kind), 2),
    }


def _parity(model: nn.Module, batch: Any) -> Tensor:
    return nn.functional.cross_entropy(model(batch[0]), batch[1] % 2, reduction="none")


def draw(records: list[Record]) -> Table:
    def cell(kind: str, name: str, **wanted: Any) -> str:
        some = [
            one[name]
            for one in records
            if one["kind"] == kind and all(one[key] == value for key, value in wanted.items())
        ]
        return str(interval_of(some)) if len(some) > 1 else f"{some[0]:.3g}"

    rows = (
        ("copies: precision of pairs with one gradient", cell("copies", "precision")),
        ("copies: recall of them", cell("copies", "recall")),
        ("copies that share a cluster", cell("copies", "together")),
        ("any two that share a cluster", cell("copies", "chance")),
        ("wrong labels, average precision: small clusters first", cell("labels", "small_clusters")),
        ("wrong labels, average precision: strop's score", cell("labels", "score")),
        ("wrong labels, share", cell("labels", "share")),
        ("worst kind, %, uniform batches", cell("groups", "worst", even=False)),
        ("worst kind, %, even over clusters", cell("groups", "worst", even=True)),
        ("all kinds, %, uniform batches", cell("groups", "mean", even=False)),
        ("all kinds, %, even over clusters", cell("groups", "mean", even=True)),
    )
    return Table(
        (f"planted in {records[0]['data']}", "mean and interval over seeds"),
        tuple(Row(row) for row in rows),
    )
