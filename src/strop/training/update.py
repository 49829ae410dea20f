"""One update of the weights: mixed precision, accumulation, averaging over processes, clipping."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_
from torch.optim import Optimizer

from strop.support import InputError
from strop.training import distributed
from strop.training.batches import batch_size, move_batch

LossFunction = Callable[[nn.Module, Any], Tensor | tuple[Tensor, Mapping[str, Any]]]
PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True)
class StepNumbers:
    """Means over the step's global batch; the norm is before clipping."""

    loss: float
    metrics: dict[str, float]
    gradient_norm: float
    flagged: bool  # in any process


class Update:
    """Computes a step's gradients, and then applies or discards them.

    The gradient is that of the mean loss over all examples of the step: each batch of a group
    counts by its share of the examples, and processes, which hold equal slices, count alike.
    """

    def __init__(
        self,
        model: nn.Module,
        loss_fn: LossFunction,
        optimizer: Optimizer,
        *,
        precision: Literal["fp32", "bf16", "fp16"] = "fp32",
        clip_norm: float | None = None,
    ) -> None:
        self.model, self.loss_fn, self.optimizer = model, loss_fn, optimizer
        self.dtype = PRECISIONS[precision]
        self.clip_norm = math.inf if clip_norm is None else clip_norm
        self.parameters = [p for group in optimizer.param_groups for p in group["params"]]
        self.device = self.parameters[0].device
        self.base_rates = [float(group["lr"]) for group in optimizer.param_groups]
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=precision == "fp16")

    def set_learning_rates(self, factor: float) -> dict[str, float]:
        """Every group's own rate times ``factor``; the rates by name."""
        groups = self.optimizer.param_groups
        rates = {}
        for index, (group, base) in enumerate(zip(groups, self.base_rates, strict=True)):
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(base * factor)
            else:
                group["lr"] = base * factor
            suffix = f"/{group.get('name', index)}" if len(groups) > 1 else ""
            rates[f"learning_rate{suffix}"] = base * factor
        return rates

    def compute(self, group: Sequence[Any], *, flag: bool = False) -> StepNumbers:
        """The clipped gradients of the mean loss over a group of batches, into ``.grad``."""
        self.optimizer.zero_grad(set_to_none=True)
        totals = self._backward(group)
        distributed.average_gradients(self.parameters)
        distributed.average_buffers(self.model)
        self.scaler.unscale_(self.optimizer)
        norm = clip_grad_norm_(self.parameters, self.clip_norm)
        # All numbers in one tensor: the device is waited for once per step.
        numbers = [self._number(value) for value in (*totals.values(), norm, flag)]
        means = distributed.mean_over_processes(torch.stack(numbers)).tolist()
        metrics = dict(zip(totals, means, strict=False))
        return StepNumbers(
            loss=metrics.pop("loss"),
            metrics=metrics,
            gradient_norm=means[-2],
            flagged=means[-1] > 0,
        )

    def is_healthy(self, numbers: StepNumbers) -> bool:
        """Whether loss and gradient are finite.

        The scaler of fp16 meets an infinite gradient by itself: it passes over the step and scales
        less from then on.
        """
        gradient_is_fine = self.scaler.is_enabled() or math.isfinite(numbers.gradient_norm)
        return math.isfinite(numbers.loss) and gradient_is_fine

    def apply(self) -> None:
        self.scaler.step(self.optimizer)
        self.scaler.update()

    def discard(self) -> None:
        """Forget the gradients; the scaler still learns that they were not finite."""
        self.optimizer.zero_grad(set_to_none=True)
        self.scaler.update()

    def _backward(self, group: Sequence[Any]) -> dict[str, Tensor]:
        sizes = [batch_size(batch) for batch in group] if len(group) > 1 else [1]
        totals: dict[str, Tensor] = {}
        for batch, size in zip(group, sizes, strict=True):
            share = size / sum(sizes)
            on_device = move_batch(batch, self.device)
            with torch.autocast(self.device.type, self.dtype, enabled=self.dtype != torch.float32):
                outcome = self.loss_fn(self.model, on_device)
            loss, metrics = outcome if isinstance(outcome, tuple) else (outcome, {})
            if loss.ndim != 0:
                raise InputError(
                    f"loss_fn must return a scalar, but its shape is {tuple(loss.shape)}: "
                    "take the mean over the batch"
                )
            self.scaler.scale(loss * share).backward()
            for name, value in {**metrics, "loss": loss}.items():
                part = share * self._number(value)
                totals[name] = totals[name] + part if name in totals else part
        return totals

    def _number(self, value: Any) -> Tensor:
        widest = torch.float32 if self.device.type == "mps" else torch.float64
        return torch.as_tensor(value).detach().to(self.device, widest)
