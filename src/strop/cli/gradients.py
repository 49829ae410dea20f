"""``strop gradients``: what the gradients say of the data, and how noisy they are."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from rich.progress import Progress
from torch import nn

from strop.data import LabelledImages, read_images, subset
from strop.gradients import (
    SVRG,
    Estimator,
    MiniBatch,
    Stratified,
    cluster_gradients,
    inspect,
    sgd_trajectory,
    variance_curves,
    views_by_folds,
)
from strop.gradients.example import emoji_groups
from strop.gradients.folds import picture_loss, small_network, train_small
from strop.models import load_classifier
from strop.support import InputError, settings_to_dict, write_json
from strop.support.named import is_named, load_named
from strop.training import choose_device
from strop.training.run_folder import describe_run

Device = Literal["auto", "cpu", "cuda", "mps"]
EXAMPLE = "emoji"
PAGE, NUMBERS = "index.html", "report.json"


@dataclass(frozen=True)
class Subject:
    """Which model, which loss, which data."""

    model: str | None = None
    """`package.module:factory`, a safetensors file, or the name of one under models/ in STROP_DATA;
    without it a small network is trained on the pictures."""
    checkpoint: Path | None = None
    """The weights for `package.module:factory`: safetensors, or a PyTorch file of tensors."""
    loss: str | None = None
    """`package.module:function`, called with the model and a batch, gives one loss per example;
    without it the cross-entropy of (picture, label)."""
    data: str = EXAMPLE
    """A folder of labelled pictures (CIFAR, MNIST, class/picture.png), a data set known by name,
    `package.module:function` that gives a dataset, or `emoji`, five groups of emoji that came with
    strop, a twentieth of them under the wrong heading."""
    split: str = "train"
    """Of a folder of pictures; `none` if it has no splits."""
    count: int = 0
    """The first so many examples; 0 for all."""


@dataclass(frozen=True)
class InspectSettings:
    """What is looked at, and how."""

    subject: Subject = field(default_factory=Subject)
    clusters: int = 16
    """Into how many the gradients are put."""
    cap: float | None = None
    """No cluster gets more than this times the mean size."""
    folds: int = 5
    """Small networks to ask about the labels, each trained without one fold of the pictures; 0 asks
    the model alone."""
    epochs: int = 12
    """Of the small networks."""
    tolerance: float = 1e-3
    """How far apart the features of duplicates may be, relatively; 0.02 finds what is alike."""
    batch_size: int = 128
    sketch_size: int = 256
    """Numbers kept of each gradient."""
    seed: int = 0


@dataclass(frozen=True)
class Inspect:
    """Duplicates, suspect labels, clusters and noise of a data set, on one page.

    `strop gradients inspect` alone looks at emoji, in about a minute. On your own:

    `strop gradients inspect --model my.package:build --checkpoint model.safetensors
    --data pictures/ --out report`

    Pictures are also shown to small networks trained on folds of them, because a network that was
    trained on a wrong label may have learnt it by heart; --folds 0 leaves them out.
    """

    settings: InspectSettings = field(default_factory=InspectSettings)
    out: Path = Path("gradients-report")
    """A folder: the page index.html, the numbers report.json, and the settings."""
    config: Path | None = None
    """The settings file of an earlier run, or its folder."""
    device: Device = "auto"

    def __call__(self) -> None:
        settings = self.settings
        device = choose_device(self.device)
        generator = torch.Generator().manual_seed(settings.seed)
        dataset = read_dataset(settings.subject, generator=generator)
        pictures = isinstance(dataset, LabelledImages) and settings.subject.loss is None
        print(dataset if pictures else f"{type(dataset).__name__} of {len(dataset):,} examples")
        model, loss_fn = read_model(settings.subject)
        views = None
        if pictures and settings.folds:
            print(f"{settings.folds} small networks, each trained without a fold …")
            views, _ = views_by_folds(
                lambda rows: self._train(dataset, rows, generator, device),
                picture_loss,
                dataset,
                folds=settings.folds,
                generator=generator,
            )
        if model is None:
            _expect_pictures(dataset)
            print("a small network, trained on all …")
            model = self._train(dataset, None, generator, device)
        with Progress(transient=True) as bar:
            task = bar.add_task("gradients", total=len(dataset))
            report = inspect(
                model.to(device),
                loss_fn,
                dataset,
                generator=generator,
                n_clusters=settings.clusters,
                cap=settings.cap,
                batch_size=settings.batch_size,
                sketch_size=settings.sketch_size,
                tolerance=settings.tolerance,
                views=views,
                progress=lambda done, total: bar.update(task, completed=done, total=total),
                title=f"What the gradients say of {Path(settings.subject.data).name}",
            )
        report.save_html(self.out / PAGE)
        report.save_json(self.out / NUMBERS)
        plain = settings_to_dict(settings)
        write_json(self.out / "settings.json", describe_run(plain, seed=settings.seed))
        print(f"\n{report}\n\nthe page: {(self.out / PAGE).resolve()}")
        print(f"the numbers: {self.out / NUMBERS}")

    def _train(
        self, data: Any, rows: Any, generator: torch.Generator, device: torch.device
    ) -> nn.Module:
        return train_small(
            data, indices=rows, generator=generator, epochs=self.settings.epochs, device=device
        )


@dataclass(frozen=True)
class VarianceSettings:
    """What is trained and measured."""

    subject: Subject = field(default_factory=Subject)
    batch_size: int = 64
    """B of SG-B; SG-2B and SVRG follow it, and so do the clusters, one example from each."""
    steps: int = 200
    """Of SGD."""
    every: int = 50
    """Steps from one measurement to the next."""
    refresh: int = 100
    """Steps from one clustering, or SVRG snapshot, to the next."""
    draws: int = 20
    """Estimates of each kind at each stop, at least 10."""
    estimators: tuple[Literal["SG-B", "SG-2B", "SVRG", "stratified"], ...] = (
        "SG-B",
        "SG-2B",
        "SVRG",
        "stratified",
    )
    cap: float | None = 2.0
    """No cluster gets more than this times the mean size; the variance of stale clusters is at most
    this times that of SG-B."""
    learning_rate: float = 0.02
    momentum: float = 0.9
    seed: int = 0


@dataclass(frozen=True)
class Variance:
    """The variance of gradient estimators along a training: thesis figure 4.3 on your own data.

    `strop gradients variance` alone trains a small network on emoji. SG-B is the plain mini-batch,
    SG-2B one of twice the size, SVRG has a full gradient for a control variate, and `stratified`
    draws one example from each cluster of gradients. Measuring changes nothing of the training.
    """

    settings: VarianceSettings = field(default_factory=VarianceSettings)
    out: Path = Path("gradients-variance")
    """A folder: the page index.html, the numbers report.json, and the settings."""
    config: Path | None = None
    """The settings file of an earlier run, or its folder."""
    device: Device = "auto"

    def __call__(self) -> None:
        settings = self.settings
        generator = torch.Generator().manual_seed(settings.seed)
        dataset = read_dataset(settings.subject, generator=generator)
        model, loss_fn = read_model(settings.subject)
        if model is None:
            _expect_pictures(dataset)
            model = small_network(dataset, generator=generator)
        model.to(choose_device(self.device)).eval()
        optimizer = torch.optim.SGD(
            [parameter for parameter in model.parameters() if parameter.requires_grad],
            lr=settings.learning_rate,
            momentum=settings.momentum,
        )
        trajectory = sgd_trajectory(
            model,
            loss_fn,
            dataset,
            optimizer=optimizer,
            batch_size=settings.batch_size,
            steps=settings.steps,
            every=settings.every,
            generator=torch.Generator().manual_seed(settings.seed),
        )
        curves = variance_curves(
            model,
            loss_fn,
            dataset,
            _estimators(settings, model, loss_fn, dataset),
            trajectory=_told(trajectory, settings.steps),
            draws=settings.draws,
            generator=generator,
        )
        curves.save_html(self.out / PAGE)
        write_json(self.out / NUMBERS, [_finite(event) for event in curves.events])
        plain = settings_to_dict(settings)
        write_json(self.out / "settings.json", describe_run(plain, seed=settings.seed))
        for name in curves.estimators:
            values = ", ".join(f"{value:.3g}" for value in curves.series(name))
            print(f"{name:>14}  {values}")
        print(f"\nthe page: {(self.out / PAGE).resolve()}")


def _expect_pictures(dataset: Any) -> None:
    if not isinstance(dataset, LabelledImages):
        raise InputError(
            "expected --model, package.module:factory: only for labelled pictures there is a small "
            f"network in its place, but came a {type(dataset).__name__}"
        )


def read_dataset(subject: Subject, *, generator: torch.Generator) -> Any:
    """The dataset that ``--data`` names."""
    sys.path.insert(0, "")  # a function may lie in the folder the command is run in
    if subject.data == EXAMPLE:
        dataset: Any = emoji_groups(generator=generator)
    elif is_named(subject.data) and not Path(subject.data).exists():
        dataset = load_named(subject.data)()
    else:
        split = None if subject.split == "none" else subject.split
        dataset = read_images(subject.data, split=split)
    if not subject.count or subject.count >= len(dataset):
        return dataset
    if isinstance(dataset, LabelledImages):
        return subset(dataset, range(subject.count))
    return torch.utils.data.Subset(dataset, range(subject.count))


def read_model(subject: Subject) -> tuple[nn.Module | None, Callable[..., Any]]:
    """The model that ``--model`` names, if it does, and the loss."""
    loss_fn = picture_loss if subject.loss is None else load_named(subject.loss)
    if subject.model is None:
        return None, loss_fn
    model: nn.Module = load_classifier(subject.model, checkpoint=subject.checkpoint)
    if subject.loss is not None and is_named(subject.model):
        model = model.network  # type: ignore[assignment]  # a loss of one's own calls it as it is
    return model, loss_fn


def _estimators(
    settings: VarianceSettings, model: nn.Module, loss_fn: Any, dataset: Any
) -> dict[str, Estimator]:
    size = settings.batch_size
    generator = torch.Generator().manual_seed(settings.seed)
    known: dict[str, Callable[[], Estimator]] = {
        "SG-B": lambda: MiniBatch(size),
        "SG-2B": lambda: MiniBatch(2 * size),
        "SVRG": lambda: SVRG(size, settings.refresh),
        "stratified": lambda: Stratified(
            cluster=lambda _: cluster_gradients(
                model, loss_fn, dataset, n_clusters=size, cap=settings.cap, generator=generator
            ),
            refresh=settings.refresh,
        ),
    }
    return {name: known[name]() for name in settings.estimators}


def _told(trajectory: Any, steps: int) -> Any:
    with Progress(transient=True) as bar:
        task = bar.add_task("steps", total=steps)
        for step in trajectory:
            bar.update(task, completed=step)
            yield step


def _finite(event: dict[str, Any]) -> dict[str, Any]:
    """JSON has no infinity: such a value is null."""
    return {
        name: None if isinstance(value, float) and not abs(value) < float("inf") else value
        for name, value in event.items()
    }
