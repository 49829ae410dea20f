"""Training a joint embedding: from image-caption data to a folder with a model in it."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.optim import AdamW

from strop.data import ImageCaptions, data_folders
from strop.retrieval.assemble import (
    Assembly,
    as_features,
    assemble,
    frozen_images,
    see_as_trained,
)
from strop.retrieval.card import model_card
from strop.retrieval.collapse import CollapseDetector
from strop.retrieval.evaluate import evaluate, headline
from strop.retrieval.further import FurtherNegatives
from strop.retrieval.losses import contrastive_hinge_loss, info_nce_loss
from strop.retrieval.metrics import RetrievalScores
from strop.retrieval.mining import SoftmaxHinges, TopKHinges, mining_from_name
from strop.retrieval.mining_schedules import (
    AnnealedTemperature,
    AnnealedTopK,
    HardnessSchedule,
    WarmStart,
)
from strop.retrieval.model import JointEmbedding
from strop.retrieval.pairs import PairBatch, Pairs
from strop.retrieval.queue import Negatives
from strop.retrieval.settings import TrainSettings
from strop.support import InputError
from strop.training import (
    Cosine,
    FitResult,
    IndexedBatches,
    LoopSettings,
    RunFolder,
    Schedule,
    StepDecay,
    TrainingState,
    choose_device,
    fit,
    gather_with_gradient,
    open_run,
    parameter_groups,
    process_group,
    seed_everything,
)
from strop.training.distributed import rank, world_size
from strop.training.randomness import mix
from strop.training.trackers import make_tracker

TrackerName = Literal["tensorboard", "wandb", "mlflow"]
MODEL_FOLDER = "model"
WARMUP_SHARE = 0.05  # of all steps, before the cosine falls


@dataclass(frozen=True)
class TrainedEmbedding:
    """What a training gives: the model with the kept weights, its scores, and how it went."""

    model: JointEmbedding
    scores: RetrievalScores | None
    history: FitResult
    collapse: str | None = None
    zero_shot: RetrievalScores | None = None
    """Of a dual encoder before any training."""

    def to_pandas(self) -> Any:
        """The records of the run as a table."""
        return self.history.to_pandas()


def train_embedding(
    train: ImageCaptions,
    validation: ImageCaptions | None,
    *,
    settings: TrainSettings,
    out: str | Path | None = None,
    start_from: JointEmbedding | None = None,
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto",
    cache: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    track: Sequence[TrackerName] = (),
    further: Callable[[Pairs], FurtherNegatives] | None = None,
    on_epoch: Callable[[TrainingState], None] | None = None,
    progress: Literal["auto", "bars", "lines", "quiet"] = "auto",
) -> TrainedEmbedding:
    """Fit both encoders to the pairs of ``train``; keep the weights with the best sum of recalls.

    Minimises the mean over pairs (i, c) of ``l(i, c)``, thesis eq. (3.4), where l is the hinge loss
    of the chosen hardness or InfoNCE. Without ``validation`` the last weights are kept. With
    ``out``, settings, records and checkpoints are written there, and the model under ``out/model``;
    a killed run goes on with ``resume``. ``start_from`` goes on with a trained model (the thesis's
    fine-tuning). The features of a frozen image network are made once and kept in ``cache``.
    ``track`` mirrors the records to TensorBoard, Weights & Biases or MLflow. ``further`` makes of
    the training pairs what finds negatives beyond the batch, such as ``HardestPairs``; ``on_epoch``
    is called after every epoch. Under
    ``torchrun`` negatives are gathered across the processes, and the results are those of one
    process at equal batch size.
    """
    chosen = choose_device(device)
    with process_group(chosen):
        seed_everything(settings.seed, rank=rank())
        run = None
        if track and out is None:
            raise InputError("a tracker mirrors the records of a run's folder: name one with out")
        if out is not None:
            run = open_run(
                out, settings=settings, seed=settings.seed, resume=resume, overwrite=overwrite
            )
        frozen = None if start_from is not None else frozen_images(settings)
        if frozen is not None:
            frozen.to(chosen)
            folder = Path(cache) if cache is not None else data_folders()[-1] / "features"
            train = as_features(train, frozen, settings, folder=folder)
            if validation is not None:
                validation = as_features(validation, frozen, settings, folder=folder)
            settings = replace(settings, image_encoder="auto", crop="none")
        parts = assemble(train, settings, device=chosen, start_from=start_from)
        zero_shot = None
        if settings.dual_encoder is not None and validation is not None:
            zero_shot = evaluate(parts.model, validation)
        see_as_trained(parts.model, train.images, settings)
        history, collapse = _fit(
            parts,
            settings,
            validation,
            run=run,
            track=track,
            further=further,
            on_epoch=on_epoch,
            progress=progress,
        )
        if history.best is not None:
            parts.model.load_state_dict(history.best_weights())
        model = parts.model.eval()
        scores = None if validation is None else evaluate(model, validation)
        if frozen is not None:
            model.image_encoder = frozen
        trained = TrainedEmbedding(model, scores, history, collapse, zero_shot)
        if out is not None and rank() == 0:
            card = model_card(model, data=train, settings=settings, scores=scores, note=collapse)
            model.save_pretrained(Path(out) / MODEL_FOLDER, card=card)
        return trained


def _fit(
    parts: Assembly,
    settings: TrainSettings,
    validation: ImageCaptions | None,
    *,
    run: RunFolder | None,
    track: Sequence[TrackerName],
    further: Callable[[Pairs], FurtherNegatives] | None,
    on_epoch: Callable[[TrainingState], None] | None,
    progress: Literal["auto", "bars", "lines", "quiet"],
) -> tuple[FitResult, str | None]:
    """Train what was assembled; how it went, and what the collapse detector said."""
    batches = IndexedBatches(
        parts.pairs,
        count=len(parts.pairs),
        batch_size=min(settings.batch_size, len(parts.pairs)),
        seed=settings.seed,
    )
    objective = Objective(
        settings,
        steps_per_epoch=len(batches),
        further=None if further is None else further(parts.pairs),
    )
    history = fit(
        parts.model,
        batches,
        objective,
        optimizer=_optimizer(parts.model, settings),
        schedule=_schedule(settings, steps_per_epoch=len(batches)),
        settings=_loop(settings, has_validation=validation is not None),
        validate=None if validation is None else _validate(validation),
        run=run,
        before_step=objective.follow,
        on_step=objective.watch,
        on_epoch=on_epoch,
        trackers=[] if run is None or rank() else [make_tracker(name, run) for name in track],
        progress=progress,
    )
    return history, objective.collapse


class Objective:
    """The loss of a batch at the hardness that the epoch asks for, and a watch for collapse."""

    def __init__(
        self,
        settings: TrainSettings,
        *,
        steps_per_epoch: int,
        further: FurtherNegatives | None = None,
    ) -> None:
        if further is not None and (world_size() > 1 or settings.loss != "hinge"):
            raise InputError("negatives beyond the batch are for the hinge loss in one process")
        self.settings = settings
        self.further = further
        self.generator = torch.Generator()
        self.hardness = _hardness(settings)
        self.mining = self.hardness(0)
        nce = settings.loss == "info-nce"
        self.detector = CollapseDetector(
            margin=settings.temperature if nce else settings.margin,
            similarity=settings.similarity,
            window=min(100, max(20, steps_per_epoch)),
            on_collapse="ignore",
        )
        self.collapse: str | None = None

    def __call__(self, model: nn.Module, batch: PairBatch) -> tuple[Tensor, dict[str, Tensor]]:
        settings = self.settings
        images, captions = (
            gather_with_gradient(part.float()) for part in model(batch.images, batch.tokens)
        )
        ids = gather_with_gradient(batch.image_ids) if settings.mask_same_image else None
        if settings.on_collapse != "ignore":
            self.detector.update(images, captions, ids)
        if settings.loss == "info-nce":
            return info_nce_loss(
                images,
                captions,
                temperature=settings.temperature,
                image_ids=ids,
                similarity=settings.similarity,
                reduction="sum",
            ), {}
        if settings.loss == "hinge":
            return contrastive_hinge_loss(
                images,
                captions,
                margin=settings.margin,
                mining=self.mining,
                similarity=settings.similarity,
                image_ids=ids,
                reduction="sum",
                negatives=self._beyond(model, images, captions, batch),
                negative_set_size=settings.negative_set_size,
                generator=self.generator,
            ), {}
        raise InputError(f"loss must be 'hinge' or 'info-nce', but is {settings.loss!r}")

    def _beyond(
        self, model: nn.Module, images: Tensor, captions: Tensor, batch: PairBatch
    ) -> Negatives | None:
        if self.further is None:
            return None
        assert isinstance(model, JointEmbedding)
        found = self.further(model, images, captions, batch.image_ids)
        if self.settings.mask_same_image:
            return found
        return Negatives(found.images, found.captions)

    def state_dict(self) -> dict[str, Any]:
        return self.detector.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.detector.load_state_dict(state)

    def follow(self, state: TrainingState) -> None:
        """Take the hardness that the epoch asks for; draw alike in every process and sitting."""
        self.mining = self.hardness(state.epoch)
        self.generator.manual_seed(mix(self.settings.seed, state.step))

    def watch(self, state: TrainingState) -> None:
        """Stop a collapsed run, or say so once."""
        if self.collapse is not None or self.detector.collapse is None:
            return
        self.collapse = str(self.detector.collapse)
        if self.settings.on_collapse == "stop":
            state.stop(self.collapse)
        else:
            warnings.warn(self.collapse, stacklevel=2)


def _hardness(settings: TrainSettings) -> HardnessSchedule:
    """The mining of each epoch: as asked, after epochs of SH, or growing harder on the way."""
    final = mining_from_name(settings.mining, k=settings.k, temperature=settings.temperature)
    if settings.warmup_sum_epochs:
        return WarmStart(epochs=settings.warmup_sum_epochs, then=final)
    if not settings.anneal_epochs:
        return lambda epoch: final
    if isinstance(final, TopKHinges):
        return AnnealedTopK(
            start=settings.batch_size - 1, stop=final.k, epochs=settings.anneal_epochs
        )
    if isinstance(final, SoftmaxHinges):
        return AnnealedTemperature(start=1.0, stop=final.temperature, epochs=settings.anneal_epochs)
    raise InputError(
        f"anneal_epochs makes 'topk' or 'softmax' harder, but mining is {settings.mining!r}"
    )


def _optimizer(model: JointEmbedding, settings: TrainSettings) -> AdamW:
    """Adam; pretrained encoders learn at a rate of their own."""
    slow = {"lr": settings.learning_rate * settings.finetune_rate}
    pretrained = {
        f"{name}.backbone": slow
        for name in ("image_encoder", "caption_encoder")
        if hasattr(getattr(model, name), "backbone")
    }
    return AdamW(
        parameter_groups(
            model,
            lr=settings.learning_rate,
            weight_decay=settings.weight_decay,
            overrides=pretrained,
            decay_vectors=False,
        )
    )


def _schedule(settings: TrainSettings, *, steps_per_epoch: int) -> Schedule:
    if settings.schedule == "step":
        return StepDecay(every=max(1, settings.epochs // 2))
    if settings.schedule == "cosine":
        total = settings.epochs * steps_per_epoch
        return Cosine(total=total, warmup=int(WARMUP_SHARE * total))
    raise InputError(f"schedule must be 'step' or 'cosine', but is {settings.schedule!r}")


def _loop(settings: TrainSettings, *, has_validation: bool) -> LoopSettings:
    return LoopSettings(
        epochs=settings.epochs,
        clip_norm=settings.clip_norm,
        precision=settings.precision,
        best="rsum" if has_validation else None,
        patience=settings.patience if has_validation else None,
        seed=settings.seed,
    )


def _validate(data: ImageCaptions) -> Callable[[nn.Module], dict[str, float]]:
    def validate(model: nn.Module) -> dict[str, float]:
        assert isinstance(model, JointEmbedding)
        return headline(evaluate(model, data))

    return validate
