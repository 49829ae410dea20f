"""A run's folder says how the run came to be, and guards it."""

import json
import multiprocessing
import platform
import shlex
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import strop
from strop.support import InputError
from strop.training import LoopSettings, load_settings, open_run
from strop.training.run_folder import occupied
from training import jobs
from training.processes import start


@dataclass(frozen=True)
class Settings:
    margin: float = 0.2
    loop: LoopSettings = field(default_factory=lambda: LoopSettings(epochs=3))


def written(folder: Path) -> Any:
    return json.loads((folder / "settings.json").read_text())


def test_a_run_writes_what_it_takes_to_do_it_again(tmp_path: Path) -> None:
    run = open_run(tmp_path / "a" / "b", settings=Settings(), seed=5)
    content = written(run.path)
    assert content["settings"]["margin"] == 0.2
    assert content["settings"]["loop"]["epochs"] == 3
    assert content["seed"] == 5
    assert content["versions"] == {
        "strop": strop.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "platform": platform.platform(),
    }
    assert content["command"] == shlex.join(sys.orig_argv)


def test_settings_round_trip_from_file_or_folder(tmp_path: Path) -> None:
    settings = Settings(margin=0.3, loop=LoopSettings(epochs=7, clip_norm=2.0))
    open_run(tmp_path, settings=settings, seed=0)
    assert load_settings(tmp_path, Settings) == settings
    assert load_settings(tmp_path / "settings.json", Settings) == settings


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("{}", 'an object "settings"'),
        ("[]", 'an object "settings"'),
        ('{"settings": {"margins": 1}}', "unknown field 'margins'"),
        ("{", "is not"),
    ],
)
def test_a_bad_settings_file_is_named(tmp_path: Path, content: str, complaint: str) -> None:
    (tmp_path / "settings.json").write_text(content)
    with pytest.raises(InputError, match=complaint):
        load_settings(tmp_path, Settings)


def test_a_folder_that_holds_a_run_is_refused(tmp_path: Path) -> None:
    open_run(tmp_path, settings=Settings(), seed=0)
    with pytest.raises(InputError, match="holds a run already: resume it, overwrite it"):
        open_run(tmp_path, settings=Settings(), seed=0)


@pytest.mark.parametrize("name", ["records.jsonl", "last.safetensors", "best.safetensors"])
def test_a_file_of_anothers_making_is_not_removed_unasked(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(InputError, match="holds a run already"):
        open_run(tmp_path, settings=Settings(), seed=0)
    with pytest.raises(InputError, match=r"without its settings\.json"):
        open_run(tmp_path, settings=Settings(), seed=0, resume=True)
    assert (tmp_path / name).read_text() == "mine"


def test_overwriting_removes_the_run_and_nothing_else(tmp_path: Path) -> None:
    first = open_run(tmp_path, settings=Settings(), seed=0)
    for name in ("records.jsonl", "last.safetensors", "best.safetensors", "notes.txt"):
        (tmp_path / name).write_text("old")
    second = open_run(tmp_path, settings=Settings(margin=0.1), seed=0, overwrite=True)
    assert {file.name for file in tmp_path.iterdir()} == {"settings.json", "notes.txt"}
    assert written(tmp_path)["settings"]["margin"] == 0.1
    assert first.id != second.id


@pytest.mark.parametrize(
    ("settings", "seed", "difference"),
    [
        (Settings(margin=0.5), 0, r"margin was 0\.2, now 0\.5"),
        (Settings(loop=LoopSettings(epochs=4)), 0, r"loop\.epochs was 3, now 4"),
        (Settings(), 1, "seed was 0, now 1"),
    ],
)
def test_resuming_with_other_settings_names_the_field(
    tmp_path: Path, settings: Settings, seed: int, difference: str
) -> None:
    open_run(tmp_path, settings=Settings(), seed=0)
    with pytest.raises(InputError, match=difference):
        open_run(tmp_path, settings=settings, seed=seed, resume=True)


def test_resuming_keeps_the_settings_file_and_the_identity(tmp_path: Path) -> None:
    first = open_run(tmp_path, settings=Settings(), seed=0)
    before = (tmp_path / "settings.json").read_bytes()
    second = open_run(tmp_path, settings=Settings(), seed=0, resume=True)
    assert (tmp_path / "settings.json").read_bytes() == before
    assert second == replace(first, resume=True)


def test_resuming_sweeps_away_what_a_killed_process_was_writing(tmp_path: Path) -> None:
    open_run(tmp_path, settings=Settings(), seed=0)
    for name in (".last.safetensors.x8fj2.partial.safetensors", ".tmpbFB1MN"):
        (tmp_path / name).write_text("half")
    with occupied(open_run(tmp_path, settings=Settings(), seed=0, resume=True)):
        assert {file.name for file in tmp_path.iterdir()} == {"settings.json", ".lock"}


def test_a_second_process_is_kept_out_until_the_first_ends_however_it_ends(tmp_path: Path) -> None:
    run = open_run(tmp_path, settings=Settings(), seed=0)
    receiver, sender = multiprocessing.Pipe(duplex=False)
    child = start(jobs.hold, run, sender)
    assert receiver.poll(30)
    partial = tmp_path / ".last.safetensors.x8fj2.partial.safetensors"
    partial.write_text("being written by the first")
    with pytest.raises(InputError, match="another process is training in"), occupied(run):
        pass
    assert partial.exists()
    child.kill()
    child.join()
    with occupied(run):
        assert not partial.exists()


def test_resume_and_overwrite_exclude_each_other(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="both resumed and overwritten"):
        open_run(tmp_path, settings=Settings(), seed=0, resume=True, overwrite=True)
