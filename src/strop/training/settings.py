"""The settings of the training loop."""

from dataclasses import dataclass
from typing import Literal

from strop.support import InputError


@dataclass(frozen=True)
class LoopSettings:
    """How to train; a step is one update of the weights, from ``accumulate`` batches."""

    epochs: int
    max_steps: int | None = None
    accumulate: int = 1
    clip_norm: float | None = None
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    nonfinite: Literal["stop", "skip"] = "stop"
    best: str | None = None  # the validation metric that chooses the best snapshot
    mode: Literal["max", "min"] = "max"
    patience: int | None = None  # validations without a new best before the run stops
    record_every: int = 10  # steps
    validate_every: int | None = None  # steps; at the end of every epoch in any case
    checkpoint_every: int | None = None  # steps; at the end of every epoch in any case
    seed: int = 0  # of the data's order and augmentation

    def __post_init__(self) -> None:
        counts = ("epochs", "max_steps", "accumulate", "patience")
        for name in (*counts, "record_every", "validate_every", "checkpoint_every"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"{name} must be at least 1, but is {value}")
        if self.clip_norm is not None and not self.clip_norm > 0:
            raise InputError(f"clip_norm must be positive or None, but is {self.clip_norm}")
        if self.patience is not None and self.best is None:
            raise InputError("patience needs best, the name of the metric that must improve")
