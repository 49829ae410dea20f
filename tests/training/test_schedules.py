"""Schedules are pure functions; groups take each parameter once; devices and seeds as asked."""

import math
import random

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from strop.support import InputError, settings_from_dict, settings_to_dict
from strop.training import (
    Constant,
    Cosine,
    StepDecay,
    choose_device,
    parameter_groups,
    preserved_randomness,
    seed_everything,
)
from strop.training.randomness import mix, random_state, set_random_state


@given(epoch=st.integers(0, 60), every=st.integers(1, 20))
def test_step_decay_is_a_tenth_after_each_span(epoch: int, every: int) -> None:
    decay = StepDecay(every=every)
    assert decay(0, epoch + every) == pytest.approx(0.1 * decay(0, epoch))
    assert decay(0, epoch // every * every) == decay(999, epoch)


@given(total=st.integers(2, 200), part=st.floats(0, 0.99), floor=st.floats(0, 1))
def test_cosine_rises_to_one_and_falls_to_its_floor(total: int, part: float, floor: float) -> None:
    warmup = int(total * part)
    schedule = Cosine(total=total, warmup=warmup, floor=floor)
    factors = [schedule(step, 0) for step in range(total + 5)]
    assert factors[:warmup] == sorted(factors[:warmup])
    assert factors[warmup] == pytest.approx(1.0)
    assert factors[warmup:] == sorted(factors[warmup:], reverse=True)
    assert factors[total:] == pytest.approx([floor] * 5)
    middle = schedule(warmup + (total - warmup) // 2, 0)
    done = ((total - warmup) // 2) / (total - warmup)
    assert middle == pytest.approx(floor + (1 - floor) * (1 + math.cos(math.pi * done)) / 2)


@pytest.mark.parametrize("schedule", [Constant(), StepDecay(every=15), Cosine(total=9, warmup=2)])
def test_schedules_survive_a_settings_file(schedule: object) -> None:
    assert settings_from_dict(type(schedule), settings_to_dict(schedule)) == schedule


def test_impossible_schedules_are_refused() -> None:
    with pytest.raises(InputError, match="warmup is 5 and total is 5"):
        Cosine(total=5, warmup=5)
    with pytest.raises(InputError, match="at least 1 epoch"):
        StepDecay(every=0)


def make_model() -> nn.Module:
    return nn.ModuleDict(
        {
            "image": nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3)),
            "images": nn.Linear(3, 3),
            "frozen": nn.Linear(3, 3).requires_grad_(False),
        }
    )


def test_every_trainable_parameter_is_in_one_group() -> None:
    model = make_model()
    overrides = {"image": {"lr": 0.1}, "image.1": {"lr": 0.2}}
    groups = parameter_groups(
        model, lr=1.0, weight_decay=0.5, overrides=overrides, decay_vectors=False
    )
    found = [id(p) for group in groups for p in group["params"]]
    assert sorted(found) == sorted(id(p) for p in model.parameters() if p.requires_grad)
    rates = {id(p): (g["lr"], g["weight_decay"]) for g in groups for p in g["params"]}
    assert rates[id(model["image"][0].weight)] == (0.1, 0.5)
    assert rates[id(model["image"][0].bias)] == (0.1, 0.0)
    assert rates[id(model["image"][1].weight)] == (0.2, 0.0)
    assert rates[id(model["images"].weight)] == (1.0, 0.5)  # a prefix ends at a dot
    assert len({group["name"] for group in groups}) == len(groups)


def test_a_prefix_that_matches_nothing_is_named() -> None:
    with pytest.raises(InputError, match=r"under 'img'; its parts are image, images, frozen"):
        parameter_groups(make_model(), lr=1.0, overrides={"img": {"lr": 0.1}})


def test_devices_are_those_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    assert choose_device("cpu").type == "cpu"
    with pytest.raises(InputError, match="one of auto, cpu, cuda, mps, but is 'tpu'"):
        choose_device("tpu")  # type: ignore[arg-type]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert choose_device().type == "cpu"
    with pytest.raises(InputError, match="but this machine has only cpu"):
        choose_device("cuda")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert choose_device().type == "mps"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert choose_device() == torch.device("cuda", 0)
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert choose_device() == torch.device("cuda", 1)
    monkeypatch.setenv("LOCAL_RANK", "2")
    with pytest.raises(InputError, match="process 2 of this machine has no GPU of its own"):
        choose_device()


def draws() -> tuple[float, float, float]:
    return torch.rand(()).item(), random.random(), float(np.random.rand())  # noqa: NPY002


def test_seeding_everything_repeats_and_ranks_differ() -> None:
    with preserved_randomness():
        seen = []
        for seed, rank in ((0, 0), (0, 0), (0, 1), (1, 0)):
            seed_everything(seed, rank=rank)
            seen.append(draws())
    assert seen[0] == seen[1]
    for generator in range(3):
        assert len({draw[generator] for draw in seen}) == 3


def test_random_state_round_trip_keeps_the_cached_gaussian() -> None:
    np.random.randn(), random.gauss(0, 1)  # noqa: NPY002
    state = random_state()
    first = (draws(), np.random.randn(), random.gauss(0, 1))  # noqa: NPY002
    set_random_state(state)
    assert (draws(), np.random.randn(), random.gauss(0, 1)) == first  # noqa: NPY002


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), unique=True, max_size=50))
def test_mixed_seeds_do_not_collide(pairs: list[tuple[int, int]]) -> None:
    seeds = {mix(*pair) for pair in pairs}
    assert len(seeds) == len(pairs)
    assert all(0 <= seed < 2**63 for seed in seeds)
