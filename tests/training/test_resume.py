"""Killed at any moment and resumed, a run ends as if nothing had happened: weights bit for bit."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, DistributedSampler

from strop.support import InputError
from strop.training import (
    LoopSettings,
    TrainingInterrupted,
    TrainingState,
    fit,
    load_checkpoint,
    load_weights,
    open_run,
    read_records,
    seed_everything,
)
from training import resumable
from training.processes import start
from training.tiny import accuracy, adam, loss_fn, make_batches, make_data, make_model, same

TESTS = Path(__file__).parent.parent


def without_times(path: Path) -> list[dict[str, Any]]:
    return [{k: v for k, v in e.items() if k != "seconds"} for e in read_records(path)]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("uninterrupted")
    resumable.main(folder)
    return folder


def assert_same_run(folder: Path, uninterrupted: Path) -> None:
    for name in ("last.safetensors", "best.safetensors"):
        assert same(load_weights(folder / name), load_weights(uninterrupted / name)), name
    first, second = (load_checkpoint(f / "last.safetensors") for f in (folder, uninterrupted))
    assert same(flat(first["optimizer"]), flat(second["optimizer"]))
    assert first["random"][0]["python"] == second["random"][0]["python"]
    assert torch.equal(first["random"][0]["torch"], second["random"][0]["torch"])
    records = (folder / "records.jsonl", uninterrupted / "records.jsonl")
    assert without_times(records[0]) == without_times(records[1])
    left = {file.name for file in folder.iterdir()} - {".lock"}
    assert left == {"settings.json", "records.jsonl", "last.safetensors", "best.safetensors"}


def flat(optimizer: dict[str, Any]) -> dict[str, torch.Tensor]:
    states = optimizer["state"].items()
    return {f"{i}.{name}": value for i, state in states for name, value in state.items()}


class PowerCut(BaseException):
    """What no handler in the loop expects."""


@pytest.mark.parametrize("step", range(1, 17))
def test_cut_after_any_step_and_resumed_the_run_is_the_same(
    tmp_path: Path, uninterrupted: Path, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(hook: resumable.Averages, state: TrainingState) -> None:
        call(hook, state)
        if state.step == step:
            raise PowerCut

    call = resumable.Averages.__call__
    with monkeypatch.context() as patch:
        patch.setattr(resumable.Averages, "__call__", cut)
        with pytest.raises(PowerCut):
            resumable.main(tmp_path)
    torch.manual_seed(99)  # what happens between the sittings must not matter
    resumable.main(tmp_path)
    assert_same_run(tmp_path, uninterrupted)


def test_a_finished_run_resumes_to_itself(tmp_path: Path, uninterrupted: Path) -> None:
    first = resumable.main(tmp_path)
    before = (tmp_path / "records.jsonl").read_bytes()
    assert same(resumable.main(tmp_path), first)
    assert (tmp_path / "records.jsonl").read_bytes() == before


def start_anew(folder: Path, *arguments: str) -> "subprocess.Popen[bytes]":
    path = os.pathsep.join([str(TESTS), str(TESTS.parent / "src")])
    command = [sys.executable, str(TESTS / "training" / "resumable.py"), str(folder), *arguments]
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path})


MOMENTS = ["step:7", "write:1", "write:6", "fsync:2", "fsync:9", "replace:3", "replaced:5"]


@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_at_a_chosen_moment_and_resumed_the_weights_are_bit_identical(
    tmp_path: Path, uninterrupted: Path, moment: str
) -> None:
    child = start(resumable.main, tmp_path, moment)
    child.join()
    assert child.exitcode == -signal.SIGKILL
    resumable.main(tmp_path)
    assert_same_run(tmp_path, uninterrupted)


@pytest.mark.parametrize("seed", range(3))
def test_killed_again_and_again_at_random_moments_the_weights_are_bit_identical(
    tmp_path: Path, uninterrupted: Path, seed: int
) -> None:
    chance = random.Random(seed)
    patience, kills = 0.1, 0
    while True:
        child = start(resumable.main, tmp_path)
        child.join(timeout=chance.uniform(0, patience))
        if child.exitcode is not None:
            break
        child.kill()
        child.join()
        kills += 1
        patience *= 1.2  # so that a slow machine gets to its first checkpoint in the end
    assert child.exitcode == 0
    assert kills > 0
    assert_same_run(tmp_path, uninterrupted)


def test_killed_and_resumed_in_processes_of_their_own(tmp_path: Path, uninterrupted: Path) -> None:
    assert start_anew(tmp_path, "write:4").wait() == -signal.SIGKILL
    assert start_anew(tmp_path).wait() == 0
    assert_same_run(tmp_path, uninterrupted)


def signal_self(number: int, at_step: int) -> Any:
    def hook(hook: resumable.Averages, state: TrainingState) -> None:
        call(hook, state)
        if state.step == at_step:
            os.kill(os.getpid(), number)

    call = resumable.Averages.__call__
    return hook


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_writes_a_checkpoint_and_says_how_to_go_on(
    tmp_path: Path, uninterrupted: Path, number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    handler = signal.getsignal(number)
    with monkeypatch.context() as patch:
        patch.setattr(resumable.Averages, "__call__", signal_self(number, at_step=5))
        with pytest.raises(TrainingInterrupted, match=f"{number.name} stopped.*again with resume"):
            resumable.main(tmp_path)
    assert signal.getsignal(number) == handler
    assert load_checkpoint(tmp_path / "last.safetensors")["state"]["step"] == 6
    resumable.main(tmp_path)
    assert_same_run(tmp_path, uninterrupted)


def test_a_second_signal_acts_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def twice(hook: resumable.Averages, state: TrainingState) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(5)

    monkeypatch.setattr(resumable.Averages, "__call__", twice)
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt) as caught:
        resumable.main(tmp_path)
    assert time.monotonic() - began < 4
    assert not isinstance(caught.value, TrainingInterrupted)


def test_a_signal_during_the_last_step_is_not_swallowed(
    tmp_path: Path, uninterrupted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resumable.Averages, "__call__", signal_self(signal.SIGINT, at_step=16))
    with pytest.raises(TrainingInterrupted, match="it is complete"):
        resumable.main(tmp_path)
    assert_same_run(tmp_path, uninterrupted)


class Augmented(torch.utils.data.Dataset[Any]):
    """Augments with each of the global generators, as users' datasets do."""

    def __init__(self) -> None:
        self.x, self.y = make_data(24)

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> Any:
        noise = torch.rand(()) + random.random() + np.random.rand()  # noqa: NPY002
        return self.x[index] + noise, self.y[index]


def loader(kind: str) -> Any:
    data, options = Augmented(), {"batch_size": 4}
    if kind == "sequential":
        return DataLoader(data, **options)
    if kind == "shuffle":
        return DataLoader(data, shuffle=True, **options)
    if kind == "generator":
        return DataLoader(data, shuffle=True, generator=torch.Generator(), **options)
    if kind == "set_epoch":
        sampler = DistributedSampler(data, num_replicas=1, rank=0, shuffle=True)
        return DataLoader(data, sampler=sampler, **options)
    if kind == "workers":
        return DataLoader(data, shuffle=True, num_workers=2, **options)
    raise ValueError(kind)


@pytest.mark.parametrize("kind", ["sequential", "shuffle", "generator", "set_epoch", "workers"])
def test_a_data_loader_resumes_in_mid_epoch(tmp_path: Path, kind: str) -> None:
    def train(folder: Path, cut_at: int | None = None) -> dict[str, torch.Tensor]:
        def cut(state: TrainingState) -> None:
            if state.step == cut_at:
                raise PowerCut

        seed_everything(3)
        model = make_model()
        fit(
            model,
            loader(kind),
            loss_fn,
            optimizer=adam(model),
            settings=LoopSettings(epochs=2, checkpoint_every=3),
            validate=accuracy,
            on_step=cut,
            run=open_run(folder, settings={}, seed=3, resume=True),
            progress="quiet",
        )
        return model.state_dict()

    with pytest.raises(PowerCut):
        train(tmp_path / "a", cut_at=10)
    assert load_checkpoint(tmp_path / "a" / "last.safetensors")["state"]["batch"] == 3
    assert same(train(tmp_path / "a"), train(tmp_path / "b"))


def test_the_scaler_is_resumed(tmp_path: Path) -> None:
    def train(folder: Path, epochs: int) -> Any:
        model = make_model()
        settings = LoopSettings(epochs=2, precision="fp16")
        run = open_run(folder, settings={}, seed=0, resume=True)
        fit(
            model,
            make_batches(),
            lambda model, batch: loss_fn(model, batch) * 1e4,  # overflows until the scale shrinks
            optimizer=adam(model),
            settings=settings,
            run=run,
            on_epoch=lambda state: stop() if state.epoch == epochs else None,
            progress="quiet",
        )
        return load_checkpoint(run.last)["scaler"]

    def stop() -> None:
        raise PowerCut

    with pytest.raises(PowerCut):
        train(tmp_path / "a", epochs=1)
    halfway = load_checkpoint(tmp_path / "a" / "last.safetensors")["scaler"]
    assert halfway["scale"] < 2.0**16
    assert train(tmp_path / "a", epochs=9) == train(tmp_path / "b", epochs=9)


def test_resuming_with_other_loop_settings_names_the_field(tmp_path: Path) -> None:
    def train(**options: Any) -> None:
        model = make_model()
        fit(
            model,
            make_batches(),
            loss_fn,
            optimizer=adam(model),
            settings=LoopSettings(**options),
            run=open_run(tmp_path, settings={}, seed=0, resume=True),
            progress="quiet",
        )

    train(epochs=1)
    with pytest.raises(InputError, match="other settings: clip_norm was None, now 2"):
        train(epochs=1, clip_norm=2.0)


def test_resuming_another_model_is_one_sentence(tmp_path: Path) -> None:
    resumable.main(tmp_path)
    model = torch.nn.Linear(6, 3)
    with pytest.raises(InputError, match=r"the model of .* does not fit") as caught:
        fit(
            model,
            make_batches(),
            loss_fn,
            optimizer=adam(model),
            settings=resumable.SETTINGS,
            run=open_run(tmp_path, settings=resumable.SETTINGS, seed=7, resume=True),
            progress="quiet",
        )
    assert "\n" not in str(caught.value)
