"""How an evaluation shows itself: a bar in a terminal, plain lines elsewhere, or nothing."""

import sys
import time
from typing import Any, Literal

from strop.support import InputError
from strop.training.distributed import rank

__all__ = ["Progress", "ProgressStyle", "choose_progress"]

ProgressStyle = Literal["auto", "bars", "lines", "quiet"]
_SECONDS = 30.0


class Progress:
    """Says nothing; the others say what they are told here."""

    def stage(self, name: str, batches: int, examples: int) -> None:
        """An attack on so many examples begins."""

    def batch(self, done: int) -> None:
        """So many of its batches are done."""

    def stop(self) -> None:
        """All is done, or something went wrong."""


class Lines(Progress):
    """A line at the start of each attack, and one every half minute within a long one."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def stage(self, name: str, batches: int, examples: int) -> None:
        self.name, self.batches, self.said = name, batches, time.monotonic()
        if batches:
            print(f"{name}: {examples} examples", file=self.stream, flush=True)

    def batch(self, done: int) -> None:
        if time.monotonic() - self.said >= _SECONDS:
            line = f"{self.name}: batch {done}/{self.batches}"
            print(line, file=self.stream, flush=True)
            self.said = time.monotonic()


class Bars(Progress):
    """One bar for each attack, with the time left."""

    def __init__(self, stream: Any) -> None:
        from rich import progress
        from rich.console import Console

        self.bar = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.TextColumn("{task.fields[examples]} examples"),
            progress.TimeElapsedColumn(),
            progress.TimeRemainingColumn(),
            console=Console(file=stream),
        )
        self.task: Any = None

    def stage(self, name: str, batches: int, examples: int) -> None:
        if batches:
            self.bar.start()
            self.task = self.bar.add_task(name, total=batches, examples=examples)

    def batch(self, done: int) -> None:
        self.bar.update(self.task, completed=done)

    def stop(self) -> None:
        self.bar.stop()


def choose_progress(style: ProgressStyle, *, stream: Any = None) -> Progress:
    """The display of that style; ``auto`` draws bars only in a terminal. One process speaks."""
    stream = stream or sys.stderr
    if rank() != 0 or style == "quiet":
        return Progress()
    if style == "auto":
        style = "bars" if stream.isatty() else "lines"
    if style == "bars":
        return Bars(stream)
    if style == "lines":
        return Lines(stream)
    raise InputError(f"expected progress auto, bars, lines or quiet, came {style!r}: choose one")
