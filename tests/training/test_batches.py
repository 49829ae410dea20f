"""An epoch's batches depend on (seed, epoch) alone, whatever the source and the sitting."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.utils.rnn import pack_sequence
from torch.utils.data import DataLoader

from strop.support import InputError
from strop.training import EpochSource, IndexedBatches
from strop.training.batches import batch_size, move_batch, slice_batch
from training.tiny import make_batches


@given(
    count=st.integers(1, 30),
    size=st.integers(1, 30),
    epoch=st.integers(0, 5),
    drop_last=st.booleans(),
)
def test_an_epoch_visits_every_example_once(
    count: int, size: int, epoch: int, drop_last: bool
) -> None:
    if size > count and drop_last:
        with pytest.raises(InputError, match="batch size between 1 and"):
            IndexedBatches(lambda i: i, count=count, batch_size=size)
        return
    batches = IndexedBatches(lambda i: i, count=count, batch_size=size, drop_last=drop_last)
    seen = torch.cat(list(batches(epoch))).tolist()
    assert len(set(seen)) == len(seen) == (count // size * size if drop_last else count)
    assert len(list(batches(epoch))) == len(batches)
    assert torch.cat(list(batches(epoch))).tolist() == seen


@given(start=st.integers(0, 8))
def test_starting_late_fetches_only_what_is_left(start: int) -> None:
    fetched: list[Tensor] = []
    batches = IndexedBatches(lambda i: fetched.append(i) or i, count=16, batch_size=2)
    whole = [batch.tolist() for batch in batches(3)]
    fetched.clear()
    assert [batch.tolist() for batch in batches(3, start=start)] == whole[start:]
    assert len(fetched) == len(whole) - start


def test_order_changes_with_epoch_and_seed_and_not_with_the_global_generator() -> None:
    def order(seed: int, epoch: int) -> list[int]:
        torch.manual_seed(random.randrange(1000))
        batches = IndexedBatches(lambda i: i, count=20, batch_size=4, seed=seed)
        return torch.cat(list(batches(epoch))).tolist()

    assert order(0, 0) == order(0, 0)
    assert len({tuple(order(seed, epoch)) for seed in range(3) for epoch in range(3)}) == 9


class Noisy(torch.utils.data.Dataset[Any]):
    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> Tensor:
        noise = torch.rand(()).item() + random.random() + np.random.rand()  # noqa: NPY002
        return torch.tensor([index, noise], dtype=torch.float64)


class Collection:
    """A source with set_epoch that is walked over."""

    epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[Tensor]:
        order = torch.randperm(12, generator=torch.Generator().manual_seed(self.epoch))
        return (order[i : i + 3] + torch.rand(3) for i in range(0, 12, 3))


def function(epoch: int) -> Iterator[Tensor]:
    order = torch.randperm(12)
    return (order[i : i + 3] + np.random.rand() for i in range(0, 12, 3))  # noqa: NPY002


SOURCES = {
    "loader": lambda: DataLoader(Noisy(), batch_size=3),
    "shuffled": lambda: DataLoader(Noisy(), batch_size=3, shuffle=True),
    "generator": lambda: DataLoader(
        Noisy(), batch_size=3, shuffle=True, generator=torch.Generator().manual_seed(8)
    ),
    "workers": lambda: DataLoader(Noisy(), batch_size=3, shuffle=True, num_workers=1),
    "collection": Collection,
    "function": lambda: function,
    "list": lambda: [torch.rand(3) for _ in range(4)],
}


@pytest.mark.parametrize("name", SOURCES)
def test_any_source_repeats_an_epoch_exactly_and_leaves_the_generators_alone(name: str) -> None:
    source = EpochSource(SOURCES[name](), seed=5)
    whole = [batch.tolist() for batch in source(1)]
    list(source(0))
    torch.manual_seed(1), random.seed(1), np.random.seed(1)  # noqa: NPY002
    before = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002
    assert [batch.tolist() for batch in source(1)] == whole
    assert [batch.tolist() for batch in source(1, start=2)] == whole[2:]
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]
    assert np.random.get_state()[1].tolist() == before[2]  # noqa: NPY002


@pytest.mark.parametrize("name", [name for name in SOURCES if name != "list"])
def test_epochs_differ(name: str) -> None:
    source = EpochSource(SOURCES[name](), seed=5)
    assert [b.tolist() for b in source(0)] != [b.tolist() for b in source(1)]


def test_length_is_known_where_the_source_knows_it() -> None:
    assert EpochSource(make_batches()).length() == 6
    assert EpochSource(function).length() is None


@pytest.mark.parametrize("source", [iter([1, 2]), 3])
def test_a_source_that_cannot_be_walked_twice_is_refused(source: Any) -> None:
    with pytest.raises(InputError, match="cannot be walked anew each epoch"):
        EpochSource(source)


class Pair(NamedTuple):
    image: Tensor
    captions: list[str]


@dataclass(frozen=True)
class Item:
    tokens: Tensor
    lengths: np.ndarray[Any, Any]
    epoch: int = 3


STRUCTURES = {
    "tensor": torch.arange(4),
    "tuple": (torch.arange(4), ["a", "b", "c", "d"]),
    "list from the default collation": [torch.arange(4), torch.zeros(4, 2)],
    "dict": {"x": torch.arange(4), "nested": {"y": torch.arange(4)}},
    "named tuple": Pair(torch.arange(4), ["a", "b", "c", "d"]),
    "dataclass": Item(torch.arange(4), np.arange(4)),
}


@pytest.mark.parametrize("name", STRUCTURES)
def test_size_slice_and_move_reach_into_every_structure(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = STRUCTURES[name]
    assert batch_size(batch) == 4
    assert slice_batch(batch) is batch  # one process: nothing to do
    monkeypatch.setattr("strop.training.batches.world_size", lambda: 2)
    monkeypatch.setattr("strop.training.batches.slice_of_rank", lambda size: slice(2, 4))
    own = slice_batch(batch)
    assert type(own) is type(batch)
    assert batch_size(own) == 2
    moved = move_batch(batch, torch.device("meta"))
    assert type(moved) is type(batch)
    assert "device='meta'" in repr(moved)


def test_what_cannot_be_sliced_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strop.training.batches.world_size", lambda: 2)
    packed = pack_sequence([torch.zeros(3), torch.zeros(2)])
    for part, name in ((packed, "PackedSequence"), (torch.zeros(3), "Tensor")):
        with pytest.raises(InputError, match=rf"slice of a {name} .* sharded = True"):
            slice_batch((torch.zeros(2), part))
    with pytest.raises(InputError, match="how many examples a batch of type int holds"):
        batch_size(3)
