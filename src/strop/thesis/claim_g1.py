"""Claim G1: the stratified estimator is unbiased, and its variance has a closed form (with G2).

    strop thesis run claim-G1

Thesis proposition 4.3.1 and the remark after it. Per-example gradients of a small network in double
precision: for every partition of a few examples every possible batch is drawn, so nothing is
estimated; on a larger set batches are drawn at random. Expected: the mean of the estimates is the
mean gradient and their variance ``N^-2 sum_k N_k^2 V[g^(k)]``, up to rounding; copies alone in a
cluster add none; K = N has none, K = 1 that of SGD. Batches of B and of 2 B are enumerated too,
with and without replacement (claim G7). Seconds at every preset.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, product

import torch
from torch import Tensor, nn

from strop.data import blobs
from strop.gradients import GradientTable, MiniBatch, Stratified, per_example_gradients
from strop.models import mlp
from strop.thesis.calls import Each, Record, one_by_one
from strop.thesis.drawing import Row, Table


@dataclass(frozen=True)
class Settings:
    """Sizes of the enumerated problems, and of the one that is sampled."""

    enumerated: tuple[int, ...] = (3, 4, 5, 6, 7)
    copies: int = 3
    sampled: int = 300
    clusters: int = 10
    draws: int = 4_000
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)


PRESETS = {
    "smoke": Settings(enumerated=(3, 5), draws=500, seeds=(0,)),
    "small": Settings(),
    "gpu": Settings(),
    "paper": Settings(),
}


def compute(settings: Settings, each: Each = one_by_one) -> list[Record]:
    calls = [
        {"examples": n, "copies": settings.copies if n > settings.copies else 1, "seed": seed}
        for n in settings.enumerated
        for seed in settings.seeds
    ]
    sampled = [
        {
            "examples": settings.sampled,
            "clusters": settings.clusters,
            "draws": settings.draws,
            "seed": seed,
        }
        for seed in settings.seeds
    ]
    sizes = [{"examples": 6, "batch": batch, "seed": s} for batch in (1, 2) for s in settings.seeds]
    return [
        *each(enumerate_batches, calls),
        *each(draw_batches, sampled),
        *each(double_batches, sizes),
    ]


def enumerate_batches(*, examples: int, copies: int, seed: int) -> Record:
    """Every partition of the examples, and every batch of each: the largest errors of the formula.

    The first ``copies`` examples are one point, repeated.
    """
    rows = gradients(examples, copies=copies, seed=seed)
    table, mean = GradientTable(rows), rows.mean(0)
    spread = float((rows - mean).square().sum()) / examples
    bias = formula = library = alone = 0.0
    count = 0
    for labels in partitions(examples):
        assignment = torch.tensor(labels)
        members = [(assignment == k).nonzero().squeeze(1) for k in range(max(labels) + 1)]
        batches = torch.tensor(list(product(*(one.tolist() for one in members))))
        shares = torch.tensor([len(one) / examples for one in members], dtype=rows.dtype)
        estimates = torch.einsum("bkd,k->bd", rows[batches], shares)
        exact = float((estimates - mean).square().sum(1).mean())
        parts = [
            len(one) ** 2 * float(rows[one].var(0, correction=0).sum()) / examples**2
            for one in members
        ]
        bias = max(bias, float((estimates.mean(0) - mean).norm() / spread**0.5))
        formula = max(formula, abs(sum(parts) - exact) / spread)
        library = max(library, abs(Stratified(assignment).exact_variance(table) - exact) / spread)
        alone = max(
            [alone]
            + [
                part / spread
                for one, part in zip(members, parts, strict=True)
                if int(one.max()) < copies
            ]
        )
        count += 1
    everyone, nobody = torch.arange(examples), torch.zeros(examples, dtype=torch.long)
    single = MiniBatch(1).exact_variance(table)
    return {
        "kind": "enumerated",
        "examples": examples,
        "copies": copies,
        "seed": seed,
        "partitions": count,
        "bias": bias,
        "formula": formula,
        "library": library,
        "copies_alone": alone,
        "one_each": Stratified(everyone).exact_variance(table) / spread,
        "one_cluster_less_sgd": abs(Stratified(nobody).exact_variance(table) - single) / spread,
    }


def draw_batches(*, examples: int, clusters: int, draws: int, seed: int) -> Record:
    """Random batches of a random partition: how far mean and variance lie, in standard errors."""
    rows = gradients(examples, copies=1, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    estimator = Stratified(torch.randint(clusters, (examples,), generator=generator))
    table = GradientTable(rows)
    estimates = torch.stack(
        [estimator.estimate(table, generator=generator) for _ in range(draws)]
    ).double()
    exact = estimator.exact_variance(table)
    squares = (estimates - rows.mean(0)).square().sum(1)
    away = float((estimates.mean(0) - rows.mean(0)).square().sum())
    return {
        "kind": "drawn",
        "examples": examples,
        "clusters": clusters,
        "draws": draws,
        "seed": seed,
        "mean_error": (away / (exact / draws)) ** 0.5,
        "variance_error": float((squares.mean() - exact) / (squares.std() / draws**0.5)),
    }


def double_batches(*, examples: int, batch: int, seed: int) -> Record:
    """V[SG-2B] / V[SG-B] over every batch: 1/2 with replacement, (N - 2B) / 2(N - B) without."""
    rows = gradients(examples, copies=1, seed=seed)

    def variance(size: int, *, replacement: bool) -> float:
        everyone = range(examples)
        drawn = product(everyone, repeat=size) if replacement else combinations(everyone, size)
        means = rows[torch.tensor(list(drawn))].mean(1)
        return float((means - rows.mean(0)).square().sum(1).mean())

    with_, without = (
        variance(2 * batch, replacement=one) / variance(batch, replacement=one)
        for one in (True, False)
    )
    return {
        "kind": "doubled",
        "examples": examples,
        "batch": batch,
        "seed": seed,
        "with_replacement": with_,
        "without_replacement": without,
        "without_formula": (examples - 2 * batch) / (2 * (examples - batch)),
    }


def gradients(examples: int, *, copies: int, seed: int) -> Tensor:
    """(N, d) gradients of a small network; the first ``copies`` examples are the same."""
    generator = torch.Generator().manual_seed(seed)
    data = blobs(count=examples, classes=3, dimension=3, generator=generator, dtype=torch.float64)
    points, labels = data.points.clone(), data.labels.clone()
    points[:copies], labels[:copies] = points[0], labels[0]
    model = mlp((3, 5, 3), generator=generator).double()

    def losses(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        return nn.functional.cross_entropy(model(batch[0]), batch[1], reduction="none")

    found = per_example_gradients(model, losses, (points, labels))
    return torch.cat([part.materialise().flatten(1) for part in found.values()], dim=1).detach()


def partitions(count: int) -> Iterator[tuple[int, ...]]:
    """Every partition of so many examples, as the cluster of each.

    >>> list(partitions(2)), len(list(partitions(5)))
    ([(0, 0), (0, 1)], 52)
    """
    if count == 1:
        yield (0,)
        return
    for first in partitions(count - 1):
        for last in range(max(first) + 2):
            yield (*first, last)


def draw(records: list[Record]) -> Table:
    enumerated = [one for one in records if one["kind"] == "enumerated"]
    rows = [
        Row(
            (
                str(size),
                str(sum(one["partitions"] for one in some)),
                *(f"{max(one[name] for one in some):.1e}" for name in ("bias", "formula")),
                f"{max(one['copies_alone'] for one in some):.1e}",
                f"{max(one['one_each'] for one in some):.1e}",
                f"{max(one['one_cluster_less_sgd'] for one in some):.1e}",
            )
        )
        for size in sorted({one["examples"] for one in enumerated})
        for some in [[one for one in enumerated if one["examples"] == size]]
    ]
    drawn = [one for one in records if one["kind"] == "drawn"]
    worst = max(abs(one["variance_error"]) for one in drawn)
    return Table(
        ("N", "partitions", "bias", "formula", "copies alone", "K = N", "K = 1 less SGD"),
        tuple(rows),
        caption="Largest error over all partitions and all batches, relative to the variance of "
        f"one example. Of {drawn[0]['examples']} examples, {drawn[0]['draws']:,} random batches: "
        f"the variance within {worst:.1f} standard errors of the formula.",
    )
