"""Ctrl-C and SIGTERM become a wish to stop, fulfilled between two steps."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class TrainingInterrupted(KeyboardInterrupt):
    """A run stopped by a signal after its checkpoint was written; the message says how to go on."""


class Interrupt:
    """Which signal came, if one did."""

    name: str | None = None


@contextmanager
def catch_interrupts() -> Iterator[Interrupt]:
    """The first SIGINT or SIGTERM is noted; the second acts at once, as if nobody caught it.

    Signals can be caught in the main thread alone: elsewhere nothing is, and they act as always.
    """
    interrupt = Interrupt()
    if threading.current_thread() is not threading.main_thread():
        yield interrupt
        return
    former = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for number, handler in former.items():
            if handler is not None:  # None: not set from Python, so not ours to put back
                signal.signal(number, handler)

    def note(number: int, frame: FrameType | None) -> None:
        interrupt.name = signal.Signals(number).name
        restore()

    for number in former:
        signal.signal(number, note)
    try:
        yield interrupt
    finally:
        restore()
