"""Gradient noise while a model trains: every n steps, from one batch, changing nothing.

>>> model = torch.nn.Linear(3, 1)
>>> def losses(model, batch):
...     return (model(batch)[:, 0] - 1).square()
>>> monitor = GradientMonitor(model, losses, every=2)
>>> for step in range(4):
...     batch = torch.randn(16, 3)
...     _ = monitor.step(batch)  # beside the loop's own forward, backward and optimizer step
>>> [event["step"] for event in monitor.events]
[0, 2]

The loss curve with and without a monitor is the same, bit for bit: it has its own generators, and
the model's buffers and ``.grad`` are left as they are. Under DDP every process may call it; only
the first writes, and no process waits for another.
"""

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from strop.gradients.estimators import draw_seed
from strop.gradients.moments import Moments, moments
from strop.gradients.network import per_example_gradients
from strop.gradients.passes import LossFunction, device_of
from strop.gradients.sources import (
    ModelGradients,
    bare,
    flat_gradient,
    own_randomness,
    preserved_buffers,
)
from strop.gradients.statistics import GradientStatistics, per_example_statistics, summarise
from strop.support import InputError
from strop.training import Records, to_pandas
from strop.training.batches import batch_size as size_of
from strop.training.batches import move_batch
from strop.training.distributed import rank
from strop.training.trackers import scalars

Level = Literal["auto", "example", "batch"]
_log = logging.getLogger("strop.gradients")


class GradientMonitor:
    """Statistics of the mini-batch gradient every ``every`` steps, recorded and mirrored.

    Args:
        model: the model that trains; wrappers of DDP and ``torch.compile`` are looked through.
        loss_fn: ``loss_fn(model, batch)`` with one loss per example, (n,); or the mean over the
            batch, which needs ``level="batch"``.
        every: steps from one measurement to the next.
        level: ``"example"`` learns from the gradients of single examples; ``"batch"`` from those of
            ``pieces`` parts of the batch, which every model has (batch norm, in-batch negatives);
            ``"auto"`` takes the first where it exists, and says so once where it does not.
        pieces: parts of a batch, at least 4.
        dataset: draw batches from here, with the monitor's own generator, where the loop gives
            none. A batch of the loop's own costs no loading.
        batch_size: of the batches drawn from ``dataset``.
        collate: makes a batch of a list of examples of ``dataset``.
        records: a file for JSON lines, or the ``Records`` of a run.
        writer: a TensorBoard ``SummaryWriter`` to mirror to.
        seed: of the monitor's own generator.
    """

    def __init__(
        self,
        model: nn.Module,
        loss_fn: LossFunction,
        *,
        every: int = 10,
        level: Level = "auto",
        pieces: int = 8,
        dataset: Any = None,
        batch_size: int = 128,
        collate: Callable[[list[Any]], Any] | None = None,
        records: str | os.PathLike[str] | Records | None = None,
        writer: Any = None,
        seed: int = 0,
    ) -> None:
        if every < 1 or pieces < 4:
            raise InputError(
                f"expected a positive number of steps and 4 pieces or more, came every={every} and "
                f"pieces={pieces}"
            )
        if level not in ("auto", "example", "batch"):
            raise InputError(f"a level is auto, example or batch, but {level!r} was asked for")
        self.model, self.loss_fn = bare(model), loss_fn
        self.every, self.level, self.pieces = every, level, pieces
        self.data: ModelGradients | None = None
        if dataset is not None:
            self.data = ModelGradients(model, loss_fn, dataset, collate=collate)
        self.batch_size = batch_size
        self._generator = torch.Generator().manual_seed(seed)
        self._next, self._checked = 0, False
        self._records = records if isinstance(records, Records) else None
        self._path = None if isinstance(records, Records) else records
        self._trackers = () if writer is None else (_Mirror(writer),)

    def step(self, batch: Any = None, *, step: int | None = None) -> GradientStatistics | None:
        """Once for each step of the loop; measures on every ``every``-th, returns None on others.

        Args:
            batch: the batch of this step, or None to draw one from ``dataset``.
            step: its number; counted from 0 by the monitor itself without it.
        """
        number = self._next if step is None else step
        self._next = number + 1
        if number % self.every:
            return None
        return self.measure(batch, step=number)

    def measure(self, batch: Any = None, *, step: int | None = None) -> GradientStatistics:
        """Measure now, whatever the step."""
        seed = draw_seed(self._generator)
        if batch is None:
            batch = self._own_batch(seed)
        found = self._statistics(move_batch(batch, device_of(self.model)), seed)
        if rank() == 0:
            if self._records is None:  # not before: only now is it sure which process this is
                self._records = Records(self._path, trackers=self._trackers)
            number = self._next - 1 if step is None else step
            self._records.append("gradients", {"step": number, **found.record()})
        return found

    @property
    def events(self) -> list[dict[str, Any]]:
        """What was recorded, one entry for each measurement."""
        kept = [] if self._records is None else self._records.events
        return [event for event in kept if event["event"] == "gradients"]

    def to_pandas(self) -> Any:
        return to_pandas(self.events)

    def plot(self) -> Any:
        """A matplotlib figure of the statistics over the steps."""
        from strop.gradients.plots import draw_statistics

        return draw_statistics(self.events)

    def close(self) -> None:
        """Close the file of records; what was measured can still be looked at."""
        if self._records is not None:
            self._records.close()

    def __enter__(self) -> "GradientMonitor":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _own_batch(self, seed: int) -> Any:
        if self.data is None:
            raise InputError(
                "the monitor was given neither a batch nor a dataset to draw one from: call "
                "step(batch), or make it with dataset=…"
            )
        count = min(self.batch_size, len(self.data))
        chosen = torch.randperm(len(self.data), generator=self._generator)[:count]
        with own_randomness(seed):
            return self.data.batch(chosen)

    def _statistics(self, batch: Any, seed: int) -> GradientStatistics:
        if self.level != "batch":
            try:
                if not self._checked:
                    self._check(batch, seed)
                return per_example_statistics(
                    self.model, self.loss_fn, batch, check=False, seed=seed
                )
            except InputError as error:
                if self.level == "example" or self._checked:
                    raise
                _log.warning("the monitor measures %d pieces of a batch: %s", self.pieces, error)
                self.level = "batch"
        return self._by_pieces(batch, seed)

    def _check(self, batch: Any, seed: int) -> None:
        """Whether examples have gradients of their own: a few of them tell it as well as all."""
        few = rows_of(batch, 0, 4, size=size_of(batch))
        with preserved_buffers(self.model), own_randomness(seed):
            per_example_gradients(self.model, self.loss_fn, few)
        self._checked = True

    def _by_pieces(self, batch: Any, seed: int) -> GradientStatistics:
        size = size_of(batch)
        each = size // self.pieces
        if not each:
            raise InputError(
                f"expected at least {self.pieces} examples, one for each piece, but the batch has "
                f"{size}"
            )
        share = torch.full((each,), 1 / each, dtype=torch.float64)
        with preserved_buffers(self.model), own_randomness(seed), torch.enable_grad():
            rows = torch.stack(
                [
                    flat_gradient(
                        self.model,
                        self.loss_fn,
                        rows_of(batch, number * each, (number + 1) * each, size=size),
                        weights=share,
                    )
                    for number in range(self.pieces)
                ]
            )
        single = moments(rows @ rows.T)
        scale = torch.tensor([each / size, 1.0], dtype=torch.float64)
        return summarise(
            Moments(single.variance * each / size, single.squared_norm, single.without * scale),
            batch_size=size,
            share=1 / size,
            parameters=rows.shape[1],
            examples=None,
            confidence=0.95,
        )


class _Mirror:
    """Records to a ``SummaryWriter`` that belongs to the user, who closes it."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def log(self, event: Mapping[str, Any]) -> None:
        for name, value in scalars(event):
            self._writer.add_scalar(name, value, event.get("step", 0))

    def close(self) -> None:
        self._writer.flush()


def rows_of(batch: Any, start: int, stop: int, *, size: int) -> Any:
    """Examples ``start`` to ``stop`` of a batch of ``size``: of every tensor and list in it.

    >>> rows_of({"x": torch.arange(4), "scale": 2.0}, 1, 3, size=4)
    {'x': tensor([1, 2]), 'scale': 2.0}
    """
    if isinstance(batch, Mapping):
        return {key: rows_of(part, start, stop, size=size) for key, part in batch.items()}
    if isinstance(batch, Tensor):
        return batch[start:stop] if batch.ndim and len(batch) == size else batch
    if isinstance(batch, tuple | list):
        if isinstance(batch, list) and len(batch) == size and not _holds_tensors(batch):
            return batch[start:stop]
        parts = [rows_of(part, start, stop, size=size) for part in batch]
        return type(batch)(*parts) if hasattr(batch, "_fields") else type(batch)(parts)
    return batch


def _holds_tensors(parts: Sequence[Any]) -> bool:
    return any(isinstance(part, Tensor) for part in parts)
