"""Records of a run: append-only JSON lines, one per event, flushed as they are written."""

import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from strop.support import InputError, StropError, require


class Tracker(Protocol):
    """A place that records are mirrored to."""

    def log(self, event: Mapping[str, Any]) -> None: ...

    def close(self) -> None: ...


class Records:
    """The events of one run, in memory, on disk at ``path``, and mirrored to ``trackers``.

    ``length`` says how many bytes of the file to keep: what a killed run wrote after its last
    checkpoint is dropped, and written again as the run goes the same way again.

    >>> records = Records()
    >>> records.append("step", {"step": 1, "loss": 0.5})
    >>> records.events
    [{'event': 'step', 'step': 1, 'loss': 0.5}]
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        length: int = 0,
        trackers: Sequence[Tracker] = (),
    ) -> None:
        self.path = None if path is None else Path(path)
        self.trackers = tuple(trackers)
        self.events: list[dict[str, Any]] = []
        if self.path is None:
            return
        # Unbuffered: after a failed write nothing is left behind that closing would try again.
        self._file = self.path.open("ab", buffering=0)
        if self._file.tell() < length:
            raise InputError(
                f"the records {self.path} are shorter than when the checkpoint was written: "
                "they were edited; start anew in another folder"
            )
        self._file.truncate(length)
        self._file.seek(length)
        self.events = read_records(self.path)

    def append(self, event: str, values: Mapping[str, Any]) -> None:
        line = {"event": event, **values}
        self.events.append(line)
        if self.path is not None:
            self._write(json.dumps(_plain(line), ensure_ascii=False, allow_nan=False) + "\n")
        for tracker in self.trackers:
            tracker.log(line)

    def sync(self) -> int:
        """The file's length in bytes, once those bytes are safe on the disk."""
        if self.path is None:
            return 0
        os.fsync(self._file.fileno())
        return self._file.tell()

    def close(self) -> None:
        if self.path is not None:
            self._file.close()
        for tracker in self.trackers:
            tracker.close()

    def _write(self, text: str) -> None:
        rest = text.encode()
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            raise StropError(
                f"could not write the records {self.path}: {error}; make room and resume"
            ) from error


def read_records(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """The events in a file of records; a last line torn by a crash is left out."""
    path = Path(path)
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError as error:
        raise InputError(f"expected records at {path}, but there is no such file") from error
    events = []
    for number, line in enumerate(lines[:-1], start=1):  # what follows the last newline is torn
        try:
            events.append({key: _number(value) for key, value in json.loads(line).items()})
        except (ValueError, AttributeError) as error:
            raise InputError(f"line {number} of the records {path} is not a JSON object") from error
    return events


def to_pandas(events: Sequence[Mapping[str, Any]], *, event: str | None = None) -> Any:
    """The events (of one kind, if ``event`` names it) as a pandas table, one row for each.

    >>> to_pandas([{"event": "step", "loss": 0.5}], event="step").loss.tolist()
    [0.5]
    """
    pandas = require("pandas", extra="dev", purpose="a table of records")
    rows = [dict(row) for row in events if event is None or row["event"] == event]
    return pandas.DataFrame(rows)


def _plain(value: Any) -> Any:
    """JSON has no NaN and no infinity: they are written as the strings "nan", "inf", "-inf"."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value


def _number(value: Any) -> Any:
    return float(value) if value in ("nan", "inf", "-inf") else value
