"""A checkpoint is whole or not there, comes back as it went, and says what is wrong with it."""

import json
import math
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import nn

from strop.support import InputError, StropError
from strop.training import (
    LoopSettings,
    fit,
    load_checkpoint,
    load_weights,
    open_run,
    save_checkpoint,
    save_weights,
)
from training.tiny import adam, loss_fn, make_batches, make_data, make_model, same

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(), inner, max_size=3)
        | st.dictionaries(st.integers(), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(state=st.dictionaries(st.text(min_size=1), plain, max_size=4))
def test_any_nest_of_plain_values_comes_back(
    tmp_path_factory: pytest.TempPathFactory, state: dict[str, Any]
) -> None:
    path = tmp_path_factory.getbasetemp() / "plain.safetensors"
    save_checkpoint(path, {**state, "some": torch.ones(1)})
    loaded = load_checkpoint(path)
    del loaded["some"]
    state.pop("some", None)
    assert repr(loaded) == repr(state)  # repr: tells -0.0 from 0.0, a tuple from a list, and nan


TENSORS = {
    "scalar": torch.tensor(3.5),
    "empty": torch.zeros(0, 3),
    "half": torch.randn(3).bfloat16(),
    "wide": torch.randn(2, 2, dtype=torch.float64),
    "bytes": torch.arange(5, dtype=torch.uint8),
    "flags": torch.tensor([True, False]),
    "transposed": torch.arange(6.0).view(2, 3).t(),
    "not finite": torch.tensor([math.nan, math.inf]),
    "channels last": torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last),
}


def test_every_kind_of_tensor_comes_back_bit_for_bit(tmp_path: Path) -> None:
    shared = torch.randn(4)
    state = {"a": TENSORS, "b": [shared, (shared, shared[1:])]}
    save_checkpoint(tmp_path / "x", state)
    loaded = load_checkpoint(tmp_path / "x")
    for name, tensor in TENSORS.items():
        torch.testing.assert_close(loaded["a"][name], tensor, rtol=0, atol=0, equal_nan=True)
    assert torch.equal(loaded["b"][1][1], shared[1:])


def test_places_of_equal_path_are_kept_apart(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "x", {"a.b": torch.ones(1), "a": {"b": torch.zeros(1)}})
    loaded = load_checkpoint(tmp_path / "x")
    assert (loaded["a.b"].item(), loaded["a"]["b"].item()) == (1.0, 0.0)


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True),
    "adamw": lambda p: torch.optim.AdamW(p, lr=torch.tensor(0.01), foreach=False),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.1),
    "adamax": lambda p: torch.optim.Adamax(p, lr=0.1),
    "nadam": lambda p: torch.optim.NAdam(p, lr=0.01),
    "radam": lambda p: torch.optim.RAdam(p, lr=0.01),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.01, momentum=0.5, centered=True),
    "rprop": lambda p: torch.optim.Rprop(p, lr=0.01),
    "adadelta": lambda p: torch.optim.Adadelta(p, lr=0.5),
    "asgd": lambda p: torch.optim.ASGD(p, lr=0.1),
    "adafactor": lambda p: torch.optim.Adafactor(p, lr=0.1),
    "lbfgs": lambda p: torch.optim.LBFGS(p, lr=0.1, max_iter=3),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_from_a_checkpoint_goes_on_as_if_never_stopped(
    tmp_path: Path, name: str
) -> None:
    x, y = make_data(16)

    def steps(model: nn.Module, optimizer: torch.optim.Optimizer, count: int) -> None:
        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss = loss_fn(model, (x, y))
            loss.backward()
            return loss

        for _ in range(count):
            optimizer.step(closure)

    model = make_model(dropout=0.0)
    optimizer = OPTIMIZERS[name](model.parameters())
    steps(model, optimizer, 3)
    save_checkpoint(
        tmp_path / "x", {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    )
    loaded = load_checkpoint(tmp_path / "x")
    other = make_model(dropout=0.0, seed=9)
    other.load_state_dict(loaded["model"])
    other_optimizer = OPTIMIZERS[name](other.parameters())
    other_optimizer.load_state_dict(loaded["optimizer"])
    steps(model, optimizer, 3)
    steps(other, other_optimizer, 3)
    assert same(model.state_dict(), other.state_dict())


def test_tied_weights_survive(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False))
    model[1].weight = model[0].weight
    save_weights(tmp_path / "x", model.state_dict(), notes={})
    assert same(load_weights(tmp_path / "x"), model.state_dict())


def test_weights_are_read_from_checkpoints_snapshots_and_foreign_files(tmp_path: Path) -> None:
    weights = make_model().state_dict()
    save_checkpoint(tmp_path / "a", {"model": weights, "step": 3})
    save_weights(tmp_path / "b", weights, notes={"accuracy": 0.5})
    save_file(weights, tmp_path / "c")
    for name in "abc":
        assert same(load_weights(tmp_path / name), weights)
    assert same(load_file(tmp_path / "b"), weights)  # any safetensors reader can use the snapshot


def test_loaded_tensors_do_not_hang_on_the_file(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "x", {"a": torch.ones(1000)})
    loaded = load_checkpoint(tmp_path / "x")
    with (tmp_path / "x").open("r+b") as file:
        file.seek(-4000, os.SEEK_END)
        file.write(bytes(4000))
    assert torch.equal(loaded["a"], torch.ones(1000))


def test_what_has_no_place_in_a_checkpoint_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"but optimizer\.hook is a function"):
        save_checkpoint(tmp_path / "x", {"optimizer": {"hook": make_model}})
    assert list(tmp_path.iterdir()) == []


def damage(path: Path, how: str) -> None:
    content = path.read_bytes()
    if how == "cut short":
        path.write_bytes(content[:-100])
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "header":
        path.write_bytes(content[:20] + b"\xff\xff" + content[22:])
    elif how == "one bit":
        path.write_bytes(content[:-50] + bytes([content[-50] ^ 1]) + content[-49:])
    elif how == "not there":
        path.unlink()
    elif how == "other version":
        header_length = int.from_bytes(content[:8], "little")
        header = json.loads(content[8 : 8 + header_length])
        header["__metadata__"]["strop_version"] = "99"
        text = json.dumps(header).encode()
        path.write_bytes(len(text).to_bytes(8, "little") + text + content[8 + header_length :])
    else:
        raise ValueError(how)


@pytest.mark.parametrize(
    ("how", "complaint"),
    [
        ("cut short", "cut short or damaged"),
        ("empty", "cut short or damaged"),
        ("header", "cut short or damaged"),
        ("one bit", "do not add up to its checksum"),
        ("not there", "no such file"),
        ("other version", "has format version 99, but this strop reads version 1"),
    ],
)
def test_a_damaged_checkpoint_is_one_sentence(tmp_path: Path, how: str, complaint: str) -> None:
    path = tmp_path / "last.safetensors"
    save_checkpoint(path, {"model": make_model().state_dict()})
    damage(path, how)
    with pytest.raises(InputError, match=complaint) as caught:
        load_checkpoint(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_weights_are_no_checkpoint(tmp_path: Path) -> None:
    save_weights(tmp_path / "x", make_model().state_dict(), notes={})
    with pytest.raises(InputError, match="holds only weights"):
        load_checkpoint(tmp_path / "x")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 1 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("a small disk needs the right to mount a tmpfs")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_one_sentence_and_spares_the_former_checkpoint(small_disk: Path) -> None:
    path = small_disk / "last.safetensors"
    save_checkpoint(path, {"model": {"weight": torch.ones(100_000)}})
    before = path.read_bytes()
    with pytest.raises(StropError, match=r"could not write .*the former one is intact.*space") as e:
        save_checkpoint(path, {"model": {"weight": torch.zeros(200_000)}})
    assert "\n" not in str(e.value)
    assert path.read_bytes() == before
    assert [file.name for file in small_disk.iterdir()] == ["last.safetensors"]


def test_a_run_that_fills_the_disk_can_be_resumed(small_disk: Path) -> None:
    filler = small_disk / "filler"

    def train(resume: bool, fill: bool, folder: str = "run") -> dict[str, torch.Tensor]:
        torch.manual_seed(0)
        model = make_model()
        fit(
            model,
            make_batches(),
            loss_fn,
            optimizer=adam(model),
            settings=LoopSettings(epochs=4, record_every=1),
            run=open_run(small_disk / folder, settings={}, seed=0, resume=resume),
            on_epoch=lambda state: fill_disk() if fill and state.epoch == 1 else None,
            progress="quiet",
        )
        return model.state_dict()

    def fill_disk() -> None:
        with filler.open("wb", buffering=0) as file:
            try:
                while file.write(bytes(4096)):
                    pass
            except OSError:
                return

    with pytest.raises(StropError, match="make room and resume"):
        train(resume=False, fill=True)
    filler.unlink()
    names = {file.name for file in (small_disk / "run").iterdir()}
    assert names == {"settings.json", "records.jsonl", "last.safetensors", ".lock"}
    resumed = train(resume=True, fill=False)
    uninterrupted = train(resume=False, fill=False, folder="other")
    assert same(resumed, uninterrupted)
