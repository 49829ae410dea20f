"""Many small networks of one shape trained side by side: all rates and seeds in one tensor.

Legend: m networks, n examples, b examples of a batch, i inputs, j hidden units, o classes.
"""

import torch
from torch import Tensor, nn

from strop.data import read_images, sample
from strop.support import InputError
from strop.thesis.image_models import pictures

Parameters = list[Tensor]
"""Weights (m, i, j), biases (m, 1, j), then those of the output."""


def vectors(data: str, *, examples: int, seed: int, pooled: int = 1) -> tuple[Tensor, Tensor]:
    """Training pictures as vectors (n, i) of mean 0 and deviation 1, and their labels."""
    found = pictures("digits", split="train") if data == "digits" else read_images(data)
    generator = torch.Generator().manual_seed(seed)
    found = sample(found, count=min(examples, len(found)), generator=generator)
    images, labels = found.batch(torch.arange(len(found)))
    if pooled > 1:
        images = nn.functional.avg_pool2d(images, pooled)
    flat = images.flatten(1)
    return (flat - flat.mean()) / flat.std(), labels


def networks(
    inputs: int, hidden: int, classes: int, *, seeds: list[int], rates: list[float]
) -> Parameters:
    """The same start for every rate of a seed; networks are ordered by seed, then rate."""
    made: list[Parameters] = []
    for seed in seeds:
        generator = torch.Generator().manual_seed(seed)
        first = torch.randn(inputs, hidden, generator=generator) * (2 / inputs) ** 0.5
        second = torch.randn(hidden, classes, generator=generator) * hidden**-0.5
        one = [first, torch.zeros(1, hidden), second, torch.zeros(1, classes)]
        made += [one] * len(rates)
    return [torch.stack([one[place] for one in made]) for place in range(4)]


def _forward(parameters: Parameters, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Pre-activations and hidden units (m, b, j), logits (m, b, o)."""
    before = x @ parameters[0] + parameters[1]
    after = before.relu()
    return before, after, after @ parameters[2] + parameters[3]


def step(parameters: Parameters, x: Tensor, labels: Tensor, rates: Tensor) -> Parameters:
    """One step of SGD of every network on its own batch: x (m, b, i), labels (m, b)."""
    before, after, logits = _forward(parameters, x)
    slope = _slope(logits, labels) / x.shape[1]
    back = (slope @ parameters[2].mT) * (before > 0)
    gradients = [
        x.mT @ back,
        back.sum(1, keepdim=True),
        after.mT @ slope,
        slope.sum(1, keepdim=True),
    ]
    return [p - rates[:, None, None] * g for p, g in zip(parameters, gradients, strict=True)]


def _slope(logits: Tensor, labels: Tensor) -> Tensor:
    """Of the cross-entropy of each example with respect to its logits."""
    return logits.softmax(2) - nn.functional.one_hot(labels, logits.shape[2])


def statistics(parameters: Parameters, x: Tensor, labels: Tensor) -> dict[str, Tensor]:
    """Over all examples: loss, average variance of one example, and its zeta, (m,) each; exact."""
    before, after, logits = _forward(parameters, x)
    everyone = labels.expand(len(logits), -1)
    loss = nn.functional.cross_entropy(logits.mT, everyone, reduction="none").mean(1)
    slope = _slope(logits, everyone)
    back = (slope @ parameters[2].mT) * (before > 0)
    squares = (x.square().sum(-1) + 1) * back.square().sum(2)
    squares = squares + (after.square().sum(2) + 1) * slope.square().sum(2)
    count = x.shape[-2]
    means = [x.mT @ back, back.sum(1), after.mT @ slope, slope.sum(1)]
    mean = torch.stack([(one / count).flatten(1).square().sum(1) for one in means]).sum(0)
    variance = (squares.mean(1) - mean).clamp(min=0)
    size = sum(p[0].numel() for p in parameters)
    return {"loss": loss, "variance": variance / size, "zeta": variance / mean}


def train(
    data: str,
    *,
    examples: int,
    hidden: int,
    batch: int,
    rates: list[float],
    seeds: list[int],
    steps: int,
    every: int,
    target: float,
    pooled: int = 1,
    wrong: float = 0.0,
) -> list[dict[str, list[float | None]]]:
    """For each seed, over rates: the step that reaches ``target`` times the loss at the start.

    Beside it the average variance and zeta of a batch (drawn with replacement), geometric means
    over the stops before. A network that does not get there within ``steps`` has None.
    """
    if not 0 < target < 1:
        raise InputError(f"expected a target between 0 and 1, came {target}")
    x, labels = vectors(data, examples=examples, seed=0, pooled=pooled)
    generator = torch.Generator().manual_seed(99)
    changed = torch.rand(len(labels), generator=generator) < wrong
    classes = int(labels.max()) + 1
    shift = torch.randint(1, classes, labels.shape, generator=generator)
    labels = torch.where(changed, (labels + shift) % classes, labels)
    parameters = networks(x.shape[1], hidden, classes, seeds=seeds, rates=rates)
    speed = torch.tensor(rates).repeat(len(seeds))
    draws = [torch.Generator().manual_seed(seed) for seed in seeds]
    measured: list[dict[str, Tensor]] = []
    for done in range(steps + 1):
        if done % every == 0:
            measured.append(statistics(parameters, x, labels))
            reached = torch.stack([one["loss"] for one in measured]) < target * measured[0]["loss"]
            if bool(reached.any(0).all()):
                break
        rows = torch.stack([torch.randint(len(x), (batch,), generator=g) for g in draws])
        rows = rows.repeat_interleave(len(rates), dim=0)
        parameters = step(parameters, x[rows], labels[rows], speed)
    table = {name: torch.stack([one[name] for one in measured]) for name in measured[0]}
    results: list[dict[str, list[float | None]]] = []
    for number in range(len(seeds)):
        found: dict[str, list[float | None]] = {"steps": [], "variance": [], "zeta": []}
        for place in range(number * len(rates), (number + 1) * len(rates)):
            below = (table["loss"][:, place] < target * table["loss"][0, place]).nonzero()
            stop = int(below[0]) if len(below) else 0
            found["steps"].append(stop * every if stop else None)
            for name in ("variance", "zeta"):
                before = table[name][: max(stop, 1), place] / batch
                mean = float(before.clamp(min=1e-30).log().mean().exp())
                found[name].append(float(f"{mean:.4g}") if stop else None)
        results.append(found)
    return results
