"""A run's folder: its settings, versions, seed and command; its records; its checkpoints."""

import os
import platform
import shlex
import sys
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np
import torch

from strop.support import (
    InputError,
    read_json,
    settings_from_dict,
    settings_to_dict,
    write_json,
)
from strop.training.distributed import from_first_rank
from strop.version import __version__

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]

T = TypeVar("T")
SETTINGS, RECORDS = "settings.json", "records.jsonl"
LAST, BEST = "last.safetensors", "best.safetensors"
LOCK = ".lock"


@dataclass(frozen=True)
class RunFolder:
    """Where a run writes. Made by :func:`open_run`; ``resume`` says whether it goes on."""

    path: Path
    settings: dict[str, Any]
    seed: int
    id: str
    resume: bool

    @property
    def records(self) -> Path:
        return self.path / RECORDS

    @property
    def last(self) -> Path:
        return self.path / LAST

    @property
    def best(self) -> Path:
        return self.path / BEST


def open_run(
    path: str | os.PathLike[str],
    *,
    settings: Any,
    seed: int,
    resume: bool = False,
    overwrite: bool = False,
) -> RunFolder:
    """Open ``path`` for a run with these settings (a dataclass or a mapping), and write them there.

    A folder that holds a run is refused, unless ``resume`` asks to go on with it (the settings must
    be the same; in an empty folder the run starts) or ``overwrite`` to start anew in its place.
    """
    plain = settings_to_dict(settings) if is_dataclass(settings) else dict(settings)
    if resume and overwrite:
        raise InputError("a run cannot be both resumed and overwritten: ask for one of the two")
    return from_first_rank(lambda: _open(Path(path), plain, seed, resume, overwrite))


def _open(path: Path, settings: dict[str, Any], seed: int, resume: bool, over: bool) -> RunFolder:
    file = path / SETTINGS
    files = [path / name for name in (SETTINGS, RECORDS, LAST, BEST)]
    if file.exists() and resume:
        before = _read_settings(file)
        _refuse_difference(path, before, settings, seed)
        identity = before["id"]
    elif any(f.exists() for f in files) and not over:
        found = (
            "a run without its settings.json: restore that file"
            if resume
            else "a run already: resume it"
        )
        raise InputError(f"{path} holds {found}, overwrite it, or choose another folder")
    else:
        identity = uuid.uuid4().hex[:12]
    run = RunFolder(path=path, settings=settings, seed=seed, id=identity, resume=resume)
    if not resume:
        for old in files:
            old.unlink(missing_ok=True)
    if not file.exists():
        write_json(file, {**describe_run(settings, seed=seed), "id": identity})
    return run


def describe_run(settings: Mapping[str, Any], *, seed: int) -> dict[str, Any]:
    """What it takes to do a run again: settings, seed, versions, and the command."""
    return {
        "settings": dict(settings),
        "seed": seed,
        "versions": {
            "strop": __version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": np.__version__,
            "platform": platform.platform(),
        },
        "command": shlex.join(sys.orig_argv),
    }


def load_settings(path: str | os.PathLike[str], cls: type[T]) -> T:
    """The settings of a run, from its settings.json or its folder, to start another like it."""
    path = Path(path)
    file = path / SETTINGS if path.is_dir() else path
    return settings_from_dict(cls, _read_settings(file)["settings"], source=str(file))


def _read_settings(file: Path) -> dict[str, Any]:
    values = read_json(file, what="settings of a run")
    if not isinstance(values, dict) or not isinstance(values.get("settings"), dict):
        raise InputError(f'expected {file} to hold an object "settings", as a run writes it')
    return {"seed": None, "id": "", **values}


def first_difference(before: Any, now: Any, name: str = "") -> str | None:
    """The first field in which two settings differ, with both values; None where they agree.

    >>> first_difference({"loop": {"epochs": 3}}, {"loop": {"epochs": 4}})
    'loop.epochs was 3, now 4'
    """
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for key in (*before, *(key for key in now if key not in before)):
            below = f"{name}.{key}" if name else str(key)
            difference = first_difference(before.get(key), now.get(key), below)
            if difference is not None:
                return difference
        return None
    return None if before == now else f"{name} was {before!r}, now {now!r}"


def _refuse_difference(path: Path, before: Any, settings: dict[str, Any], seed: int) -> None:
    difference = first_difference(before["settings"], settings)
    difference = difference or first_difference(before["seed"], seed, "seed")
    if difference is not None:
        raise InputError(
            f"cannot resume {path} with other settings: {difference}; "
            "resume with its own settings, or start in another folder"
        )


@contextmanager
def occupied(run: RunFolder | None) -> Iterator[None]:
    """Keep other runs out of the folder, and sweep away what a killed one was still writing."""
    if run is None:
        yield
        return
    lock = (run.path / LOCK).open("wb")
    try:
        from_first_rank(lambda: _take(lock, run.path))
        yield
    finally:
        lock.close()


def _take(lock: BinaryIO, path: Path) -> None:
    # A lock of the process, not of the open file: the workers of a killed run do not inherit it,
    # and the system frees it however the process ends. Windows and some network file systems have
    # none, and go without.
    if fcntl is not None:
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError) as error:
            raise InputError(
                f"another process is training in {path}: wait for it or stop it"
            ) from error
        except OSError:
            pass
    for pattern in (".*.partial*", ".tmp??????"):  # of strop.support.writing, and of safetensors
        for partial in path.glob(pattern):
            partial.unlink(missing_ok=True)
