"""How a run shows itself: bars in a terminal, plain lines elsewhere, or nothing."""

import sys
import time
from collections.abc import Mapping
from typing import Any, Literal

from strop.support import InputError
from strop.training.state import TrainingState

ProgressStyle = Literal["auto", "bars", "lines", "quiet"]


class Progress:
    """A display that says nothing; the others say what they are told here.

    ``epochs`` is how many there will be, ``total`` how many batches an epoch has, if known.
    """

    def start(self, state: TrainingState, *, epochs: int, total: int | None) -> None:
        self.epochs, self.total = epochs, total

    def step(self, state: TrainingState) -> None:
        """A step is done."""

    def epoch(self, state: TrainingState) -> None:
        """An epoch is done and validated."""

    def stop(self) -> None:
        """The run has ended, well or not."""


class Lines(Progress):
    """A line at the end of each epoch, and one every ``seconds`` within a long one."""

    def __init__(self, stream: Any, *, seconds: float = 30.0) -> None:
        self.stream, self.seconds = stream, seconds

    def start(self, state: TrainingState, *, epochs: int, total: int | None) -> None:
        super().start(state, epochs=epochs, total=total)
        self.began = self.said = time.monotonic()
        self.first_batch = self._batches_done(state)

    def step(self, state: TrainingState) -> None:
        if time.monotonic() - self.said >= self.seconds:
            of = f"/{self.total}" if self.total else ""
            self._say(state, f"  batch {state.batch}{of}", {"loss": state.loss})

    def epoch(self, state: TrainingState) -> None:
        self.total = state.batch
        self._say(state, "", {"loss": state.mean_loss})

    def _say(self, state: TrainingState, where: str, values: Mapping[str, float]) -> None:
        shown = describe({**values, **_rates(state), **state.validation})
        head = f"epoch {state.epoch + 1}/{self.epochs}{where}"
        print(f"{head}  {shown}{self._time_left(state)}", file=self.stream, flush=True)
        self.said = time.monotonic()

    def _time_left(self, state: TrainingState) -> str:
        done = self._batches_done(state) - self.first_batch
        left = self.epochs * (self.total or 0) - self._batches_done(state)
        if done <= 0 or left <= 0:
            return ""
        return f"  {describe_seconds((time.monotonic() - self.began) / done * left)} left"

    def _batches_done(self, state: TrainingState) -> int:
        return state.epoch * (self.total or 0) + state.batch


class Bars(Progress):
    """One bar over all epochs with the loss, the learning rate, the metric and the time left."""

    def __init__(self, stream: Any) -> None:
        from rich import progress
        from rich.console import Console

        self.bar = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.TextColumn("{task.fields[values]}"),
            progress.TimeElapsedColumn(),
            progress.TimeRemainingColumn(),
            console=Console(file=stream),
        )
        self.task = self.bar.add_task("", total=None, values="")

    def start(self, state: TrainingState, *, epochs: int, total: int | None) -> None:
        super().start(state, epochs=epochs, total=total)
        self._show(state)
        self.bar.start()

    def step(self, state: TrainingState) -> None:
        self._show(state)

    def epoch(self, state: TrainingState) -> None:
        self.total = state.batch
        self._show(state)

    def stop(self) -> None:
        self.bar.stop()

    def _show(self, state: TrainingState) -> None:
        values = {"loss": state.loss, **_rates(state), **state.validation}
        self.bar.update(
            self.task,
            description=f"epoch {state.epoch + 1}/{self.epochs}",
            completed=state.epoch * (self.total or 0) + state.batch,
            total=self.epochs * self.total if self.total else None,
            values=describe(values),
        )


def choose_progress(style: ProgressStyle, *, stream: Any = None) -> Progress:
    """The display of that style; ``auto`` draws bars only where ``stream`` is a terminal."""
    stream = stream or sys.stderr
    if style == "auto":
        style = "bars" if stream.isatty() else "lines"
    if style == "bars":
        return Bars(stream)
    if style == "lines":
        return Lines(stream)
    if style == "quiet":
        return Progress()
    raise InputError(f"progress must be auto, bars, lines or quiet, but is {style!r}")


def _rates(state: TrainingState) -> Mapping[str, float]:
    """The learning rates, as one number where all groups have the same."""
    different = set(state.learning_rates.values())
    return {"lr": different.pop()} if len(different) == 1 else state.learning_rates


def describe(values: Mapping[str, float]) -> str:
    """Numbers on one line.

    >>> describe({"loss": 0.52341, "learning_rate": 2e-4, "recall": 41.25})
    'loss 0.5234  learning_rate 0.0002  recall 41.25'
    """
    return "  ".join(f"{name} {value:.4g}" for name, value in values.items())


def describe_seconds(seconds: float) -> str:
    """A span of time, to the precision that a reader wants.

    >>> [describe_seconds(s) for s in (9.4, 75, 7500)]
    ['9 s', '1 min 15 s', '2 h 05 min']
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
