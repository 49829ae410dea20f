"""Estimators along one SGD trajectory of an image classifier: figures 4.3, 4.6 and 4.7.

A trajectory is a plain JSON description; :func:`measure` trains it by SGD with uniform mini-batches
and measures every estimator at each stop, none of them training the model. Pictures become tensors
of mean 0 and deviation 1, so that copies and labels can be changed freely.
"""

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from strop.data import (
    LabelledImages,
    corrupt_labels,
    crop_and_flip,
    duplicate,
    read_images,
    sample,
    smooth_labels,
)
from strop.gradients import (
    SVRG,
    MiniBatch,
    ModelGradients,
    Rank1,
    Sketch,
    Stratified,
    cluster_gradients,
    sgd_trajectory,
    variance_curves,
)
from strop.models import cifar_resnet, mlp
from strop.support import InputError, settings_to_dict
from strop.thesis.calls import Each, Record
from strop.thesis.image_models import pictures
from strop.thesis.photographs import CLASSES, photographs
from strop.thesis.trajectory_presets import Trajectory, at_hand
from strop.training import choose_device

ROUNDS = 20
"""Of the sketches' local search, whose later rounds gain next to nothing."""
ESTIMATORS = ("SG-B", "SG-2B", "SVRG", "GC", "GC, exact moves")
"""GC is the thesis's rule with centres of rank one; exact moves are strop's sketch, cap 2."""
COLOURS = dict(
    zip(ESTIMATORS, ("tab:blue", "tab:cyan", "tab:green", "tab:red", "tab:purple"), strict=True)
)


def trajectories(ones: Iterable[Trajectory], seeds: Iterable[int], each: Each) -> list[Record]:
    """One record for each trajectory and seed, with curves by estimator."""
    plain = [settings_to_dict(at_hand(one)) for one in ones]
    calls: list[dict[str, Any]] = [
        {"trajectory": one, "seed": seed} for one in plain for seed in seeds
    ]
    found = each(measure, calls)
    return [
        {"name": call["trajectory"]["name"], "seed": call["seed"], **record}
        for call, record in zip(calls, found, strict=True)
    ]


def measure(*, trajectory: dict[str, Any], seed: int) -> Record:
    """Train, and measure each estimator's average variance and zeta at each stop."""
    one = Trajectory(**trajectory)
    device = choose_device("auto")
    data, model = problem(one, seed=seed, device=device)
    optimizer = torch.optim.SGD(
        model.parameters(), lr=one.rate, momentum=one.momentum, weight_decay=one.decay
    )
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, list(one.drops), gamma=0.1)
    losses_seen: list[float] = []
    path = sgd_trajectory(
        model,
        losses,
        data,
        optimizer=optimizer,
        batch_size=one.batch,
        steps=one.steps,
        every=one.every,
        generator=torch.Generator().manual_seed(seed),
        scheduler=scheduler,
        collate=augmented(torch.Generator().manual_seed(seed)) if one.augment else None,
    )

    def watched() -> Iterable[int]:
        for step in path:
            losses_seen.append(training_loss(model, data))
            yield step

    curves = variance_curves(
        model,
        losses,
        data,
        estimators(one, seed=seed),
        trajectory=watched(),
        draws=one.draws,
        generator=torch.Generator().manual_seed(1000 + seed),
        # What is random in an estimate comes from the generator that the measurement seeds.
        collate=augmented(torch.default_generator) if one.augment else None,
    )
    zeta = curves.series("SG-B", "normalised_variance")
    return {
        "examples": len(data),
        "parameters": sum(p.numel() for p in model.parameters()),
        "batch": one.batch,
        "drops": list(one.drops),
        "refresh": one.refresh,
        "steps": curves.steps,
        "loss": [_short(value) for value in losses_seen],
        "zeta": [_short(value) for value in zeta],
        "zeta_low": [_short(v) for v in curves.series("SG-B", "normalised_variance_low")],
        "gradient_norm": [_short(value) for value in curves.series("SG-B", "gradient_norm")],
        "variance": {
            name: [_short(value) for value in curves.series(name, "average_variance")]
            for name in ESTIMATORS
        },
    }


def problem(one: Trajectory, *, seed: int, device: torch.device) -> tuple[TensorDataset, nn.Module]:
    """The training set as tensors, and the model, both on the device."""
    generator = torch.Generator().manual_seed(seed)
    found = _read(one)
    if one.examples is not None and one.examples < len(found):
        found = sample(found, count=one.examples, generator=generator)
    if one.duplicated:
        chosen = torch.randperm(len(found), generator=generator)[: one.duplicated]
        found = duplicate(found, chosen, copies=one.copies)
    if one.corrupt:
        found = corrupt_labels(found, share=one.corrupt, generator=generator)
    if one.smoothing:
        found = smooth_labels(found, smoothing=one.smoothing)
    images, targets = _tensors(found, pooled=one.pooled)
    data = TensorDataset(images.to(device), targets.to(device))
    return data, network(one, channels=images.shape[1], generator=generator).to(device)


def _read(one: Trajectory) -> LabelledImages:
    if one.data == "digits":
        return pictures("digits", split="train")
    return photographs(pixels=32) if one.data == "photographs" else read_images(one.data)


def network(one: Trajectory, *, channels: int, generator: torch.Generator) -> nn.Module:
    """The classifier of a trajectory."""
    if one.model == "mlp":
        return mlp(one.widths, generator=generator)
    if one.model.startswith("resnet-"):
        depth = int(one.model.removeprefix("resnet-"))
        classes = {"cifar100": 100, "photographs": CLASSES}.get(one.data, 10)
        return cifar_resnet(
            depth, classes=classes, channels=channels, normalisation="none", generator=generator
        )
    raise InputError(f"expected the model mlp or resnet-DEPTH, came {one.model!r}")


def _tensors(data: LabelledImages, *, pooled: int) -> tuple[Tensor, Tensor]:
    """Images of mean 0 and deviation 1 by channel, and labels or target distributions."""
    images, targets = data.batch(torch.arange(len(data)))
    if pooled > 1:
        images = nn.functional.avg_pool2d(images, pooled)
    spread, mean = torch.std_mean(images, dim=(0, 2, 3), keepdim=True)
    return (images - mean) / spread, targets


def losses(model: nn.Module, batch: Any) -> Tensor:
    """Cross-entropy of each example."""
    return nn.functional.cross_entropy(model(batch[0]), batch[1], reduction="none")


def training_loss(model: nn.Module, data: TensorDataset) -> float:
    """The mean loss over the training set."""
    images, targets = data.tensors
    with torch.no_grad():
        parts = [
            losses(model, batch)
            for batch in zip(images.split(1024), targets.split(1024), strict=True)
        ]
    return float(torch.cat(parts).mean())


def estimators(one: Trajectory, *, seed: int, refresh: int | None = None) -> dict[str, Any]:
    """The five estimators by name, clusters and anchor renewed together."""
    every = one.refresh if refresh is None else refresh

    def by(engine: Rank1 | Sketch, cap: float | None) -> Any:
        def cluster(source: ModelGradients) -> Any:
            return cluster_gradients(
                source.model,
                source.loss_fn,
                source.dataset,
                n_clusters=one.batch,
                engine=engine,
                cap=cap,
                # The thesis's rule counts sizes batch by batch, of as many as it has clusters.
                batch_size=one.batch if isinstance(engine, Rank1) else 128,
                collate=augmented(torch.Generator().manual_seed(seed)) if one.augment else None,
                generator=torch.Generator().manual_seed(seed),
            )

        return Stratified(cluster=cluster, refresh=every)

    return {
        "SG-B": MiniBatch(one.batch),
        "SG-2B": MiniBatch(2 * one.batch),
        "SVRG": SVRG(one.batch, refresh=every),
        "GC": by(Rank1(iterations=one.iterations), None),
        "GC, exact moves": by(Sketch(rounds=ROUNDS), 2.0),
    }


def augmented(generator: torch.Generator) -> Any:
    """A collate function that shifts and mirrors each picture of a batch."""

    def collate(examples: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        images = torch.stack([image for image, _ in examples])
        moved = crop_and_flip(images, generator=generator)
        return moved, torch.stack([target for _, target in examples])

    return collate


def _short(value: float) -> float | None:
    """Four digits; None where the draws cannot tell the mean gradient from 0."""
    return float(f"{value:.4g}") if math.isfinite(value) else None
