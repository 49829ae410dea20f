"""Passes over datasets of every kind, and losses that are not one per example."""

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from strop.data import LabelledImages
from strop.gradients.passes import check_losses, indexed_batches, to_device
from strop.support import InputError


class Dicts:
    """As a tokenised Hugging Face dataset: each example a dict of tensors."""

    def __len__(self):
        return 5

    def __getitem__(self, index):
        if index >= 5:
            raise IndexError(index)
        return {"input_ids": torch.full((3,), index), "labels": index}


def images():
    pixels = torch.arange(5, dtype=torch.uint8).reshape(5, 1, 1, 1)
    return LabelledImages.from_tensors(pixels, torch.arange(5) % 2, class_names=("a", "b"))


DATASETS = {
    "tensor": (torch.arange(5), lambda batch: batch),
    "tensors": (TensorDataset(torch.arange(5), torch.ones(5)), lambda batch: batch[0]),
    "list": ([(i, "text") for i in range(5)], lambda batch: batch[0]),
    "dicts": (Dicts(), lambda batch: batch["input_ids"][:, 0]),
    "images": (images(), lambda batch: (batch[0].flatten() * 255).round().long()),
}


@pytest.mark.parametrize("name", DATASETS)
@pytest.mark.parametrize("indices", [None, [3, 0, 4], []])
@pytest.mark.parametrize("batch_size", [1, 2, 9])
def test_batches_hold_the_examples_their_indices_say(name, indices, batch_size):
    dataset, key = DATASETS[name]
    wanted = list(range(5)) if indices is None else indices
    found = list(indexed_batches(dataset, batch_size=batch_size, indices=indices))
    assert [i for part, _ in found for i in part.tolist()] == wanted
    for part, batch in found:
        assert 1 <= len(part) <= batch_size
        assert key(batch).tolist() == part.tolist()


def test_workers_and_collate_give_the_same():
    def collate(rows):
        return torch.tensor([row["labels"] for row in rows])

    found = indexed_batches(Dicts(), batch_size=2, collate=collate, num_workers=1)
    assert [(i.tolist(), b.tolist()) for i, b in found] == [
        ([0, 1], [0, 1]),
        ([2, 3], [2, 3]),
        ([4], [4]),
    ]


@pytest.mark.parametrize("name", DATASETS)
def test_the_global_random_numbers_are_not_touched(name):
    before = torch.get_rng_state()
    list(indexed_batches(DATASETS[name][0], batch_size=2))
    assert torch.equal(before, torch.get_rng_state())


def test_tensors_are_moved_wherever_they_lie():
    moved = to_device({"a": [torch.ones(1), ("text", torch.ones(2))]}, "meta")
    assert moved["a"][0].is_meta
    assert moved["a"][1][1].is_meta
    assert moved["a"][1][0] == "text"


@pytest.mark.parametrize(
    ("dataset", "options", "remedy"),
    [
        (iter([1, 2]), {}, "read a stream into a list"),
        ([1, 2], {"indices": [2]}, "indices from 0 to 1"),
        ([1, 2], {"batch_size": 0}, "positive batch size"),
    ],
)
def test_what_cannot_be_passed_over_is_refused(dataset, options, remedy):
    with pytest.raises(InputError, match=remedy):
        list(indexed_batches(dataset, **{"batch_size": 1, **options}))


@pytest.mark.parametrize("reduction", ["mean", "sum", "per token", "per token, flat"])
def test_losses_that_are_not_one_per_example_are_refused_with_the_remedy(reduction):
    logits, targets = nn.Linear(3, 4)(torch.randn(2, 5, 3)).mT, torch.zeros(2, 5, dtype=torch.long)
    kind = reduction if reduction in ("mean", "sum") else "none"
    losses = nn.functional.cross_entropy(logits, targets, reduction=kind)
    losses = losses.flatten() if reduction.endswith("flat") else losses
    with pytest.raises(InputError, match='reduction="none"'):
        check_losses(losses, examples=2)


def test_one_loss_per_example_passes():
    check_losses(nn.Linear(3, 1)(torch.randn(2, 3)).squeeze(1), examples=2)
    with pytest.raises(InputError, match="depends on a trainable parameter"):
        check_losses(torch.zeros(2))
