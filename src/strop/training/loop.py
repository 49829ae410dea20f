"""The training loop, short enough to hold in the head.

Killed at any moment and resumed, a run ends with the weights it would have had: every step is a
function of the checkpointed state and of batches that depend on (seed, epoch, index) alone.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from strop.support import InputError, StropError
from strop.training import distributed
from strop.training.batches import EpochSource, grouped
from strop.training.checkpoints import save_weights
from strop.training.interrupts import Interrupt, TrainingInterrupted, catch_interrupts
from strop.training.measuring import measuring
from strop.training.progress import Progress, ProgressStyle, choose_progress
from strop.training.records import Records, Tracker
from strop.training.resume import Stateful, resume_run, save_run
from strop.training.run_folder import RunFolder, occupied
from strop.training.schedules import CONSTANT, Schedule
from strop.training.settings import LoopSettings
from strop.training.state import Best, FitResult, TrainingState
from strop.training.update import LossFunction, Update

Validation = Callable[[nn.Module], Mapping[str, Any]]
Hook = Callable[[TrainingState], None]


def fit(
    model: nn.Module,
    batches: Any,
    loss_fn: LossFunction,
    *,
    optimizer: Optimizer,
    settings: LoopSettings,
    schedule: Schedule = CONSTANT,
    validate: Validation | None = None,
    run: RunFolder | None = None,
    before_step: Hook | None = None,
    on_step: Hook | None = None,
    on_epoch: Hook | None = None,
    trackers: Sequence[Tracker] = (),
    progress: ProgressStyle = "auto",
) -> FitResult:
    """Train ``model`` by descending the mean of ``loss_fn(model, batch)``, a scalar, over batches.

    ``loss_fn`` may return (loss, metrics), and the metrics are recorded. ``batches`` is anything
    that :class:`~strop.training.batches.EpochSource` takes. ``validate(model)`` returns metrics; it
    runs in eval mode without gradients, and leaves modes and random generators as they were.
    ``run`` is the folder that holds records and checkpoints; without it nothing is written.
    Hooks receive the :class:`TrainingState` and may call its ``stop(reason)``; ``before_step`` is
    the place for what must depend on the step or the epoch. A hook or loss that has ``state_dict``
    is checkpointed too. Batches go to the device of the model.

    >>> import torch
    >>> from strop.training import IndexedBatches
    >>> model = nn.Linear(1, 1)
    >>> x = torch.linspace(-1, 1, 16)[:, None]
    >>> batches = IndexedBatches(lambda i: (x[i], 2 * x[i] + 1), count=16, batch_size=8)
    >>> result = fit(
    ...     model, batches, lambda model, batch: (model(batch[0]) - batch[1]).square().mean(),
    ...     optimizer=torch.optim.SGD(model.parameters(), lr=0.5),
    ...     settings=LoopSettings(epochs=50), progress="quiet",
    ... )
    >>> round(model.weight.item(), 2), round(model.bias.item(), 2), result.reason
    (2.0, 1.0, 'all 50 epochs are done')
    """
    first = distributed.rank() == 0
    loop = _Loop(
        state=TrainingState(model, optimizer),
        update=Update(
            model, loss_fn, optimizer, precision=settings.precision, clip_norm=settings.clip_norm
        ),
        settings=settings,
        schedule=schedule,
        validation=validate,
        hooks={"before_step": before_step, "on_step": on_step, "on_epoch": on_epoch},
        run=run,
        display=choose_progress(progress if first else "quiet"),
    )
    source = EpochSource(batches, seed=settings.seed)
    with occupied(run), catch_interrupts() as loop.interrupt:
        try:
            loop.start(trackers if first else ())
            loop.train(source)
        finally:
            loop.update.set_learning_rates(1.0)  # the optimizer's own, for whoever uses it next
            loop.display.stop()
            loop.records.close()
    if loop.interrupt.name is not None:
        raise TrainingInterrupted(f"{loop.interrupt.name} came as the run ended; it is complete")
    state = loop.state
    return FitResult(
        reason=str(state.stop_reason),
        steps=state.step,
        seconds=state.seconds,
        validation=state.validation,
        best=state.best,
        records=loop.records.events,
        snapshot=run if run is not None else loop.snapshot,
    )


@dataclass
class _Loop:
    state: TrainingState
    update: Update
    settings: LoopSettings
    schedule: Schedule
    validation: Validation | None
    hooks: dict[str, Hook | None]
    run: RunFolder | None
    display: Progress
    records: Records = field(default_factory=Records)
    interrupt: Interrupt = field(default_factory=Interrupt)
    snapshot: dict[str, Tensor] | None = None  # the best weights, where no folder keeps them

    def start(self, trackers: Sequence[Tracker]) -> None:
        """Begin at the beginning, or where the last checkpoint is."""
        run, length = self.run, 0
        for module in (self.update.model, self.update.loss_fn):
            if isinstance(module, nn.Module):
                distributed.broadcast_model(module)
        self.state.model.train()
        if run is not None and run.resume and run.last.exists():
            length = resume_run(run, settings=self.settings, state=self.state, parts=self.parts())
        path = run.records if run is not None and distributed.rank() == 0 else None
        self.records = Records(path, length=length, trackers=trackers)
        self.began = time.monotonic() - self.state.seconds

    def train(self, source: EpochSource) -> None:
        state, settings = self.state, self.settings
        self.display.start(state, epochs=settings.epochs, total=source.length())
        while not state.is_stopping() and state.epoch < settings.epochs:
            for group in grouped(source(state.epoch, state.batch), settings.accumulate):
                interrupted = self.step(group)
                if self.is_due(settings.validate_every):
                    self.validate()
                if state.step == settings.max_steps:
                    state.stop(f"all {state.step} steps are done")
                if state.is_stopping():
                    break
                if interrupted or self.is_due(settings.checkpoint_every):
                    self.checkpoint()
                if interrupted:
                    raise TrainingInterrupted(self.how_to_resume())
            else:
                self.end_epoch()
        if not state.finished:
            self.finish()

    def step(self, group: Sequence[Any]) -> bool:
        """Update the weights, if loss and gradient are finite; say whether a signal has come."""
        state = self.state
        factor = self.schedule(state.step, state.epoch)
        state.learning_rates = self.update.set_learning_rates(factor)
        self.call("before_step")
        numbers = self.update.compute(group, flag=self.interrupt.name is not None)
        state.loss, state.metrics = numbers.loss, numbers.metrics
        state.gradient_norm = numbers.gradient_norm
        healthy = self.update.is_healthy(numbers)
        if healthy:
            self.update.apply()
            state.loss_sum, state.loss_count = state.loss_sum + state.loss, state.loss_count + 1
        elif self.settings.nonfinite == "skip":
            self.update.discard()
        else:
            raise StropError(self.what_is_not_finite())
        state.step, state.batch = state.step + 1, state.batch + len(group)
        if self.is_due(self.settings.record_every) or not healthy:
            values = {"loss": state.loss, "gradient_norm": state.gradient_norm}
            event = "step" if healthy else "skipped"
            self.record(event, {**state.metrics, **values, **state.learning_rates})
        self.display.step(state)
        self.call("on_step")
        return numbers.flagged

    def validate(self) -> None:
        """Measure without a trace; keep the best weights; stop where they no longer improve."""
        state, settings = self.state, self.settings
        if self.validation is None or state.validated_at == state.step:
            return
        with measuring(state.model):
            own = {name: float(value) for name, value in self.validation(state.model).items()}
        state.validation, state.validated_at = distributed.from_first_rank(lambda: own), state.step
        self.record("validation", state.validation)
        if settings.best is None:
            return
        if settings.best not in state.validation:
            raise InputError(
                f"validation gave {', '.join(state.validation)}, but not {settings.best!r}, "
                "the metric that chooses the best weights"
            )
        value = state.validation[settings.best]
        sign = 1 if settings.mode == "max" else -1
        best_before = -math.inf if state.best is None else sign * state.best.value
        if sign * value > best_before:  # never so for NaN
            state.best, state.stale = Best(value, epoch=state.epoch, step=state.step), 0
            self.keep_best()
        else:
            state.stale += 1
            if settings.patience is not None and state.stale >= settings.patience:
                state.stop(f"{settings.best} has not improved for {state.stale} validations")

    def end_epoch(self) -> None:
        state = self.state
        if state.batch == 0:
            raise InputError(f"epoch {state.epoch} has no batches: is a batch larger than the set?")
        self.validate()
        self.record("epoch", {"loss": state.mean_loss})
        self.display.epoch(state)
        self.call("on_epoch")
        state.epoch, state.batch, state.loss_sum, state.loss_count = state.epoch + 1, 0, 0.0, 0
        self.checkpoint()

    def finish(self) -> None:
        self.validate()
        self.state.stop_reason = self.state.stop_reason or f"all {self.state.epoch} epochs are done"
        self.state.finished = True
        self.record("end", {"reason": self.state.stop_reason})
        self.checkpoint()

    def is_due(self, every: int | None) -> bool:
        return every is not None and self.state.step % every == 0

    def call(self, name: str) -> None:
        hook = self.hooks[name]
        if hook is not None:
            hook(self.state)
            reasons = distributed.gather_objects(self.state.stop_reason)
            self.state.stop_reason = next((reason for reason in reasons if reason), None)

    def record(self, event: str, values: Mapping[str, Any]) -> None:
        self.state.seconds = time.monotonic() - self.began
        place = {"epoch": self.state.epoch, "step": self.state.step}
        self.records.append(event, {**place, **values, "seconds": round(self.state.seconds, 3)})

    def keep_best(self) -> None:
        weights, run = self.state.model.state_dict(), self.run
        if run is None:
            self.snapshot = {k: v.detach().to("cpu", copy=True) for k, v in weights.items()}
        else:
            notes = {"metric": self.settings.best, **vars(self.state.best)}
            distributed.from_first_rank(lambda: save_weights(run.best, weights, notes=notes))

    def checkpoint(self) -> None:
        if self.run is not None:
            self.state.seconds = time.monotonic() - self.began
            save_run(
                self.run,
                settings=self.settings,
                state=self.state,
                parts=self.parts(),
                records_length=self.records.sync(),
            )

    def parts(self) -> dict[str, Stateful]:
        """Whatever has a state to keep, a loss with parameters and a hook that counts included."""
        update = self.update
        parts: dict[str, Any] = {"model": update.model, "loss_fn": update.loss_fn, **self.hooks}
        parts = {name: part for name, part in parts.items() if hasattr(part, "state_dict")}
        return {**parts, "optimizer": update.optimizer, "scaler": update.scaler}

    def how_to_resume(self) -> str:
        place = f"{self.interrupt.name or 'a signal'} stopped the run after step {self.state.step}"
        if self.run is None:
            return f"{place}; it has no folder, so it cannot be resumed"
        return f"{place}; its checkpoint is written: start it again with resume to go on"

    def what_is_not_finite(self) -> str:
        state = self.state
        what = "gradient" if math.isfinite(state.loss) else "loss"
        kept = "" if self.run is None else f"; the last checkpoint in {self.run.path} is intact"
        return (
            f"the {what} is not finite at step {state.step} (epoch {state.epoch}): lower the "
            'learning rate, clip with clip_norm, or pass over such steps with nonfinite="skip"'
            f"{kept}"
        )
