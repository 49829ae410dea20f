"""Networks trained on folds of the data, so that each example has one that never saw its label.

For pictures there is a training that takes seconds, for a look at data before there is a model.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from strop.data import LabelledImages, crop_and_flip
from strop.gradients.evidence import gradient_evidence
from strop.gradients.mislabels import View
from strop.gradients.passes import LossFunction
from strop.models import Classifier, Normalize, small_cnn
from strop.support import InputError


def views_by_folds(
    fit: Callable[[Tensor], nn.Module],
    loss_fn: LossFunction,
    dataset: Any,
    *,
    generator: torch.Generator,
    folds: int = 5,
    batch_size: int = 256,
    collate: Callable[[list[Any]], Any] | None = None,
) -> tuple[list[View], Tensor]:
    """How each of several networks sees all the data, and the fold that each example was in.

    Network f is trained without the examples of fold f. ``score_labels`` takes the views;
    the out-of-fold prediction of example i is ``views[fold[i]].logits[i]``.

    Args:
        fit: ``fit(indices)`` returns a model trained on those examples alone.
        loss_fn: the cross-entropy of each example.
        dataset: all the examples.
        generator: deals the examples to the folds.
        folds: how many networks, at least 2.
        batch_size: of the pass over the data.
        collate: makes a batch of a list of examples.
    """
    if not 2 <= folds <= len(dataset):
        raise InputError(
            f"expected from 2 folds up to one for each of the {len(dataset)} examples, but came "
            f"{folds}"
        )
    fold = torch.randperm(len(dataset), generator=generator, device=generator.device).cpu() % folds
    views = []
    for held_out in range(folds):
        model = fit((fold != held_out).nonzero().squeeze(1))
        evidence = gradient_evidence(
            model,
            loss_fn,
            dataset,
            generator=generator,
            sketch_size=1,
            batch_size=batch_size,
            collate=collate,
        )
        views.append(evidence.view)
    return views, fold


def picture_loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    """The cross-entropy of each (picture, label)."""
    images, labels = batch
    return cross_entropy(model(images), labels, reduction="none")


def small_network(
    data: LabelledImages,
    *,
    generator: torch.Generator,
    build: Callable[[torch.Generator], nn.Module] | None = None,
) -> Classifier:
    """An untrained network for these pictures, behind a normalisation to their mean and spread."""
    rows = torch.arange(min(len(data), 1024), device=data.labels.device)
    images, _ = data.batch(rows)
    channels, size = images.shape[1], images.shape[-1]
    if build is None and (images.shape[-2] != size or size % 4):
        raise InputError(
            f"expected square pictures whose side is a multiple of 4, but they are "
            f"{images.shape[-2]} x {size}: give a model of your own"
        )
    network = (
        small_cnn(classes=len(data.class_names), channels=channels, size=size, generator=generator)
        if build is None
        else build(generator)
    )
    mean, std = images.mean((0, 2, 3)), images.std((0, 2, 3)).clamp_min(1e-3)
    return Classifier(network, normalize=Normalize(mean=mean.tolist(), std=std.tolist()))


def train_small(
    data: LabelledImages,
    *,
    generator: torch.Generator,
    indices: Tensor | None = None,
    build: Callable[[torch.Generator], nn.Module] | None = None,
    epochs: int = 10,
    batch_size: int = 128,
    peak: float = 0.05,
    device: torch.device | str = "cpu",
) -> Classifier:
    """A small classifier of pictures, in seconds: SGD with momentum under one cosine cycle.

    Args:
        data: in memory; its pictures are of one size.
        generator: initial weights, order, and the crops and mirror images of pictures in colour.
        indices: which examples; all without it.
        build: makes the network, from the generator; a small CNN without it.
        epochs, batch_size, peak: of the training; ``peak`` is the largest learning rate.
        device: where it is trained, and stays.
    """
    rows = torch.arange(len(data)) if indices is None else indices.cpu()
    if not len(rows):
        raise InputError("expected at least one example to train on, but came none")
    data = data.to(device)
    model = small_network(data, generator=generator, build=build)
    first, _ = data.batch(rows[:1].to(device))
    channels, size = first.shape[1], first.shape[-1]
    model.to(device).train()
    optimizer = torch.optim.SGD(
        model.parameters(), lr=peak, momentum=0.9, nesterov=True, weight_decay=5e-4
    )
    batch_size = min(batch_size, len(rows))
    steps = len(rows) // batch_size
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, peak, total_steps=epochs * steps)
    for _ in range(epochs):
        order = rows[torch.randperm(len(rows), generator=generator)]
        for part in order[: steps * batch_size].split(batch_size):
            images, labels = data.batch(part.to(device))
            if channels == 3:
                images = crop_and_flip(images, generator=generator, padding=size // 8)
            loss = cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return model.eval()
