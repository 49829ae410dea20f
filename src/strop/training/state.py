"""Where a run stands, for hooks and checkpoints; and how it ended."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from strop.support import InputError
from strop.training.checkpoints import load_weights
from strop.training.records import to_pandas
from strop.training.run_folder import RunFolder


@dataclass(frozen=True)
class Best:
    """The best validation so far."""

    value: float
    epoch: int
    step: int


@dataclass
class TrainingState:
    """Epochs, batches and steps count from 0; within an epoch ``epoch`` is the one under way.

    Hooks may change the model and the optimizer; of the rest they may only ask to :meth:`stop`.
    """

    model: nn.Module = field(repr=False)
    optimizer: Optimizer = field(repr=False)
    epoch: int = 0
    batch: int = 0  # batches of this epoch done
    step: int = 0  # optimizer steps done
    loss: float = math.nan  # of the last step, mean over the global batch
    gradient_norm: float = math.nan  # before clipping
    learning_rates: dict[str, float] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)  # what loss_fn returned with the loss
    loss_sum: float = 0.0  # over the steps of this epoch
    loss_count: int = 0
    validation: dict[str, float] = field(default_factory=dict)  # the last one
    validated_at: int = -1  # its step
    best: Best | None = None
    stale: int = 0  # validations since the best
    seconds: float = 0.0  # of training, over all sittings
    stop_reason: str | None = None
    finished: bool = False

    def stop(self, reason: str) -> None:
        """Ask the loop to end after this step; the reason is recorded."""
        self.stop_reason = reason

    def is_stopping(self) -> bool:
        return self.stop_reason is not None

    @property
    def mean_loss(self) -> float:
        """Mean over this epoch's steps so far."""
        return self.loss_sum / self.loss_count if self.loss_count else math.nan

    def to_dict(self) -> dict[str, Any]:
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        del values["model"], values["optimizer"]
        return {**values, "best": vars(self.best) if self.best else None}

    def load(self, values: Mapping[str, Any]) -> None:
        for name, value in values.items():
            setattr(self, name, value)
        self.best = Best(**values["best"]) if values["best"] else None


@dataclass(frozen=True)
class FitResult:
    """How a run ended; ``records`` are its events."""

    reason: str
    steps: int
    seconds: float
    validation: dict[str, float]
    best: Best | None
    records: list[dict[str, Any]] = field(repr=False)
    snapshot: RunFolder | dict[str, Tensor] | None = field(repr=False)

    def best_weights(self) -> dict[str, Tensor]:
        """The model's state dict at the best validation."""
        if self.best is None or self.snapshot is None:
            raise InputError("no best weights were kept: name a metric with LoopSettings(best=...)")
        if isinstance(self.snapshot, RunFolder):
            return load_weights(self.snapshot.best)
        return self.snapshot

    def to_pandas(self, *, event: str = "step") -> Any:
        """The records of one kind (step, epoch, validation) as a pandas table."""
        return to_pandas(self.records, event=event)
