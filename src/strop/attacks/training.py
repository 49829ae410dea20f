"""Robust training: weights that do well on the worst perturbation of each example."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.optim import SGD

from strop.attacks.averaging import WeightAverage
from strop.attacks.names import norm_from_name
from strop.attacks.pgd import pgd
from strop.attacks.robust_losses import InnerSearch, adversarial_loss, trades_loss
from strop.attacks.training_settings import RobustSettings
from strop.data import LabelledImages, crop_and_flip, subset
from strop.models import (
    Classifier,
    Normalize,
    WideResNet,
    cifar_resnet,
    resnet18,
    save_classifier,
    small_cnn,
)
from strop.support import InputError
from strop.training import (
    Cosine,
    FitResult,
    IndexedBatches,
    LoopSettings,
    TrainingState,
    choose_device,
    fit,
    open_run,
    parameter_groups,
    process_group,
    seed_everything,
)
from strop.training.distributed import rank
from strop.training.trackers import make_tracker

__all__ = ["MODEL_FILE", "RobustTraining", "measure_robustness", "search_of", "train_robust"]

MODEL_FILE = "model.safetensors"
MOMENTUM = 0.9
VALIDATION_STEPS = 10
TrackerName = Literal["tensorboard", "wandb", "mlflow"]


@dataclass(frozen=True)
class RobustTraining:
    """What a robust training gives: the classifier, how it went, and what it withstands.

    ``held_out`` are the shares of the examples kept apart that are right as they are
    (``accuracy``) and under PGD (``robust_accuracy``): by them the weights were chosen, so they
    are a little too good. Empty where none were kept apart.
    """

    model: Classifier
    history: FitResult
    held_out: dict[str, float]

    def to_pandas(self) -> Any:
        """The records of the run as a table."""
        return self.history.to_pandas()


def train_robust(
    train: LabelledImages,
    *,
    settings: RobustSettings,
    out: str | Path | None = None,
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto",
    resume: bool = False,
    overwrite: bool = False,
    track: Sequence[TrackerName] = (),
    progress: Literal["auto", "bars", "lines", "quiet"] = "auto",
) -> RobustTraining:
    """Fit a classifier to pictures under attack: adversarial training or TRADES, in any norm.

    The loss is :func:`~strop.attacks.adversarial_loss` or :func:`~strop.attacks.trades_loss`; the
    pictures live on the device. Of ``held_out`` training examples the robust accuracy (PGD with 10
    steps) chooses among the epochs: robust training overfits. With ``out``, settings, records and
    checkpoints are written there, and the classifier as ``model.safetensors``; a killed run goes
    on with ``resume`` and ends with the weights it would have had.
    """
    chosen = choose_device(device)
    with process_group(chosen):
        seed_everything(settings.seed, rank=rank())
        if track and out is None:
            raise InputError("a tracker mirrors the records of a run's folder: name one with out")
        run = None
        if out is not None:
            run = open_run(
                out, settings=settings, seed=settings.seed, resume=resume, overwrite=overwrite
            )
        kept, apart = _split(train, settings)
        model = _model(kept, settings, chosen)
        pictures = Pictures(kept.to(chosen), augment=settings.augment)
        batches = IndexedBatches(
            pictures,
            count=len(kept),
            batch_size=min(settings.batch_size, len(kept)),
            seed=settings.seed,
        )
        objective = RobustObjective(settings, size=pictures.size)
        history = fit(
            model,
            batches,
            objective,
            optimizer=_optimizer(model, settings),
            schedule=Cosine(
                total=settings.epochs * len(batches),
                warmup=int(settings.warmup_epochs * len(batches)),
            ),
            settings=LoopSettings(
                epochs=settings.epochs,
                precision=settings.precision,
                best="robust_accuracy" if apart is not None else None,
                seed=settings.seed,
            ),
            validate=None if apart is None else _validate(apart.to(chosen), objective.search),
            run=run,
            on_step=_follow,
            trackers=[] if run is None or rank() else [make_tracker(name, run) for name in track],
            progress=progress,
        )
        if history.best is not None:
            model.load_state_dict(history.best_weights())
        classifier = model.average if isinstance(model, WeightAverage) else model
        assert isinstance(classifier, Classifier)
        held_out = {}
        if apart is not None:
            held_out = measure_robustness(classifier.eval(), apart, search=objective.search)
        if out is not None and rank() == 0:
            notes = {"training": f"{settings.method}, {settings.norm} {settings.eps:.6g}"}
            save_classifier(Path(out) / MODEL_FILE, classifier, metadata=notes)
        return RobustTraining(classifier.eval(), history, held_out)


class Pictures:
    """Batches by index, from pixels that lie on the device."""

    def __init__(self, data: LabelledImages, *, augment: bool) -> None:
        self.pixels, self.targets, self.augment = data.images, data.targets, augment
        self.size = tuple(self.pixels.shape[-2:])

    def __call__(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        index = indices.to(self.pixels.device, non_blocking=True)
        pixels, targets = self.pixels[index], self.targets[index]
        if self.augment:
            # The loop seeds the host's generator for every batch: a resumed run draws the same.
            pixels = crop_and_flip(pixels, generator=torch.default_generator)
        return pixels.float().div_(255), targets


class RobustObjective:
    """The loss of a batch under attack, and the share of it that is still right."""

    def __init__(self, settings: RobustSettings, *, size: Sequence[int]) -> None:
        self.settings, self.search = settings, search_of(settings, size=size)

    def __call__(
        self, model: nn.Module, batch: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        x, y = batch
        network = model.online if isinstance(model, WeightAverage) else model
        if x.device.type == "cuda":
            x = x.contiguous(memory_format=torch.channels_last)
        if self.settings.method == "adversarial":
            loss, logits = adversarial_loss(network, x, y, search=self.search)
        elif self.settings.method == "trades":
            loss, logits = trades_loss(network, x, y, search=self.search, beta=self.settings.beta)
        else:
            raise InputError(
                f"expected the method 'adversarial' or 'trades', came {self.settings.method!r}"
            )
        labels = y if y.ndim == 1 else y.argmax(dim=1)
        return loss, {"robust_accuracy": (logits.argmax(dim=1) == labels).double().mean()}


def search_of(settings: RobustSettings, *, size: Sequence[int]) -> InnerSearch:
    """The inner search of a training on pictures of this height and width."""
    norm = norm_from_name(settings.norm, band=settings.band, cutoff=settings.cutoff, size=size)
    return InnerSearch(
        norm=norm,
        eps=settings.eps,
        steps=settings.inner_steps,
        step_size=settings.step_size,
        optimizer=settings.inner_optimizer,
    )


def measure_robustness(
    model: nn.Module,
    data: LabelledImages,
    *,
    search: InnerSearch,
    steps: int = VALIDATION_STEPS,
    batch_size: int = 500,
) -> dict[str, float]:
    """The shares that are right as they are and under PGD from x; the model in the mode it is in.

    A quick look while training, and an upper bound of what the model withstands.
    """
    place = next(model.parameters()).device
    right = standing = 0
    for indices in torch.arange(len(data)).split(batch_size):
        x, _ = data.batch(indices.to(data.labels.device))
        y = data.labels[indices.to(data.labels.device)].to(place)
        x = x.to(place)
        with torch.no_grad():
            right += int((model(x).argmax(dim=1) == y).sum())
        attacked = pgd(
            model, x, y, norm=search.norm, eps=search.eps, steps=steps, bounds=search.bounds
        )
        standing += int((~attacked.success).sum())
    return {"accuracy": right / len(data), "robust_accuracy": standing / len(data)}


def _split(
    data: LabelledImages, settings: RobustSettings
) -> tuple[LabelledImages, LabelledImages | None]:
    """What is trained on, and what is held out, if anything."""
    if not settings.held_out < len(data):
        raise InputError(
            f"expected to hold out fewer than the {len(data)} training examples, "
            f"came held_out {settings.held_out}: 0 holds out none"
        )
    if settings.held_out == 0 and settings.examples is None:
        return data, None
    generator = torch.Generator().manual_seed(settings.seed)
    order = torch.randperm(len(data), generator=generator)
    apart, kept = order[: settings.held_out], order[settings.held_out :][: settings.examples]
    held_out = subset(data, apart.sort().values) if settings.held_out else None
    return subset(data, kept.sort().values), held_out


def _model(data: LabelledImages, settings: RobustSettings, device: torch.device) -> nn.Module:
    pixels = data.images[:: max(1, len(data) // 5000)].double() / 255
    mean, std = pixels.mean(dim=(0, 2, 3)), pixels.std(dim=(0, 2, 3)).clamp(min=1e-3)
    classifier = Classifier(
        _network(settings, classes=len(data.class_names), pictures=pixels),
        normalize=Normalize(mean=mean.tolist(), std=std.tolist()),
    )
    model: nn.Module = classifier
    if settings.average is not None:
        model = WeightAverage(classifier, decay=settings.average)
    model.to(device)
    if device.type == "cuda":
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    if settings.compile:
        classifier.network.compile()
    return model


def _network(settings: RobustSettings, *, classes: int, pictures: Tensor) -> nn.Module:
    channels, height = pictures.shape[1], pictures.shape[2]
    generator = torch.Generator().manual_seed(settings.seed)
    if settings.network == "small-cnn":
        return small_cnn(classes=classes, channels=channels, size=height, generator=generator)
    if settings.network == "resnet-20":
        return cifar_resnet(20, classes=classes, channels=channels, generator=generator)
    if settings.network == "resnet-18":
        return resnet18(classes=classes, channels=channels, generator=generator)
    if settings.network == "wide-resnet-28-10":
        return WideResNet(
            depth=28, width=10, classes=classes, channels=channels, generator=generator
        )
    raise InputError(f"expected a network by name, came {settings.network!r}")


def _optimizer(model: nn.Module, settings: RobustSettings) -> SGD:
    trained = model.online if isinstance(model, WeightAverage) else model
    groups = parameter_groups(
        trained, lr=settings.learning_rate, weight_decay=settings.weight_decay
    )
    return SGD(groups, momentum=MOMENTUM, nesterov=True)


def _follow(state: TrainingState) -> None:
    if isinstance(state.model, WeightAverage):
        state.model.update(step=state.step)


def _validate(data: LabelledImages, search: InnerSearch) -> Callable[[nn.Module], dict[str, float]]:
    return lambda model: measure_robustness(model, data, search=search)
