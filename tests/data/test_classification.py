"""Labelled images: what a user gets from them, and what each change does to them."""

import json
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from strop.data import (
    ImageFiles,
    Indexed,
    LabelledImages,
    corrupt_labels,
    duplicate,
    sample,
    smooth_labels,
    subset,
    to_unit_interval,
)
from strop.support import InputError


def made(count: int = 40, *, classes: int = 4) -> LabelledImages:
    """``count`` images of which the i-th is filled with i, labelled i mod classes."""
    pixels = torch.arange(count, dtype=torch.uint8).reshape(-1, 1, 1, 1).expand(-1, 3, 2, 2)
    return LabelledImages.from_tensors(
        pixels.contiguous(),
        torch.arange(count) % classes,
        class_names=[f"class {number}" for number in range(classes)],
    )


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def same(one: LabelledImages, other: LabelledImages) -> bool:
    return one.record == other.record and all(
        torch.equal(getattr(one, name), getattr(other, name))
        for name in ("origin", "labels", "true_labels", "targets")
    )


def test_items_are_unit_interval_floats_with_whole_number_labels() -> None:
    image, label = made()[5]
    assert image.dtype == torch.float32
    assert torch.equal(image, torch.full((3, 2, 2), 5 / 255))
    assert label == 1
    assert type(label) is int
    assert torch.equal(made()[-1][0], made()[39][0])
    with pytest.raises(IndexError, match="below 40"):
        made()[40]


def test_iteration_ends_with_the_data() -> None:
    assert [label for _, label in made(5)] == [0, 1, 2, 3, 0]


def test_a_data_loader_gives_what_batch_gives() -> None:
    data = made()
    images, labels = next(iter(DataLoader(data, batch_size=7)))
    assert torch.equal(images, data.batch(range(7))[0])
    assert torch.equal(labels, data.batch(range(7))[1])


def test_indexed_items_know_their_place() -> None:
    _, labels, places = next(iter(DataLoader(Indexed(made()), batch_size=40)))
    assert torch.equal(places, torch.arange(40))
    assert torch.equal(labels, places % 4)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"images": torch.zeros(2, 3, 4, 4)}, "uint8"),
        ({"images": torch.zeros(2, 4, 4, dtype=torch.uint8)}, "uint8 tensor"),
        ({"labels": torch.tensor([0])}, "2 images and 1 labels"),
        ({"labels": torch.tensor([0, 2])}, "from 0 to 1, but they run from 0 to 2"),
        ({"labels": torch.tensor([-1, 0])}, "but they run from -1"),
    ],
)
def test_misfits_are_refused(arguments: dict[str, torch.Tensor], complaint: str) -> None:
    fitting = {"images": torch.zeros(2, 3, 4, 4, dtype=torch.uint8), "labels": torch.tensor([0, 1])}
    with pytest.raises(InputError, match=complaint):
        LabelledImages.from_tensors(**(fitting | arguments), class_names=("a", "b"))


def test_only_bytes_are_scaled() -> None:
    with pytest.raises(InputError, match="uint8"):
        to_unit_interval(torch.zeros(1))


def test_a_subset_follows_its_indices_and_shares_the_pixels() -> None:
    data = made()
    part = subset(data, torch.tensor([7, 3, -1, 3]))
    assert part.origin.tolist() == [7, 3, 39, 3]
    assert part.images[:, 0, 0, 0].tolist() == [7, 3, 39, 3]
    assert part.labels.tolist() == [3, 3, 3, 3]
    assert part.store is data.store
    assert subset(part, [1]).origin.tolist() == [3]


def test_a_subset_by_booleans() -> None:
    data = made()
    assert subset(data, data.labels == 2).labels.unique().tolist() == [2]
    assert len(subset(data, [])) == 0


@pytest.mark.parametrize(
    ("indices", "complaint"),
    [
        ([40], "below 40"),
        ([-41], "below 40"),
        (torch.tensor([0.5]), "whole numbers"),
        (torch.tensor([[1]]), "one row"),
        (torch.tensor([True]), "40 booleans"),
    ],
)
def test_wrong_indices_are_named(indices: torch.Tensor, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        subset(made(), indices)


@given(count=st.integers(0, 40), seed=st.integers(0, 100))
def test_a_sample_has_no_repeats(count: int, seed: int) -> None:
    drawn = sample(made(), count=count, generator=seeded(seed)).origin
    assert len(drawn) == count
    assert torch.equal(drawn, drawn.unique())


def test_a_balanced_sample_is_balanced_and_says_when_it_cannot_be() -> None:
    drawn = sample(made(), count=12, balanced=True, generator=seeded())
    assert drawn.labels.bincount().tolist() == [3, 3, 3, 3]
    with pytest.raises(InputError, match="ask for 8"):
        sample(made(), count=10, balanced=True, generator=seeded())
    rare = subset(made(), [0, 1, 2, 3, 4, 5, 6, 8])
    with pytest.raises(InputError, match="'class 3' has 1; ask for 4"):
        sample(rare, count=8, balanced=True, generator=seeded())


def test_duplicates_are_copies_of_their_points_beside_the_data() -> None:
    data = made()
    more = duplicate(data, [3, 8], copies=10_000)
    assert len(more) == 40 + 20_000
    assert torch.equal(more.origin[:40], data.origin)
    assert more.origin.bincount()[[3, 8]].tolist() == [10_001, 10_001]
    assert more.store is data.store
    assert torch.equal(more[-1][0], data[8][0])
    assert len(more.in_memory().store) == 40
    assert torch.equal(more.in_memory().batch([41, -1])[0], more.batch([41, -1])[0])


def test_in_memory_keeps_only_the_pixels_in_use() -> None:
    part = subset(made(), [9, 4, 9]).in_memory()
    assert len(part.store) == 2
    assert part.images[:, 0, 0, 0].tolist() == [9, 4, 9]


@given(share=st.floats(0, 1), classes=st.integers(2, 7), seed=st.integers(0, 100))
def test_exactly_the_share_is_wrong(share: float, classes: int, seed: int) -> None:
    data = corrupt_labels(made(41, classes=classes), share=share, generator=seeded(seed))
    assert int(data.corrupted.sum()) == round(share * 41)
    assert torch.equal(data.true_labels, torch.arange(41) % classes)


def test_wrong_labels_are_spread_evenly_over_the_other_classes() -> None:
    pixels = torch.zeros(30_000, 1, 1, 1, dtype=torch.uint8)
    labels = torch.full((30_000,), 2)
    data = LabelledImages.from_tensors(pixels, labels, class_names="abcd")
    wrong = corrupt_labels(data, share=1, generator=seeded()).labels.bincount(minlength=4)
    assert wrong[2] == 0
    assert (wrong[[0, 1, 3]] - 10_000).abs().max() < 400  # five standard deviations
    spread = corrupt_labels(data, share=1, uniform=True, generator=seeded()).labels.bincount()
    assert (spread - 7_500).abs().max() < 400


def test_corrupting_again_never_restores_a_label() -> None:
    data = made()
    for seed in range(20):
        data = corrupt_labels(data, share=1, generator=seeded(seed))
        assert bool(data.corrupted.all())


def test_smoothed_targets_match_the_loss_torch_smooths() -> None:
    data = smooth_labels(made(), smoothing=0.1)
    logits = torch.randn(40, 4, generator=seeded())
    loss = torch.nn.functional.cross_entropy
    ours = loss(logits, data.targets)
    assert torch.allclose(ours, loss(logits, data.labels, label_smoothing=0.1))
    assert torch.equal(data[3][1], data.targets[3])
    assert torch.equal(data.batch([3, 5])[1], data.targets[[3, 5]])


def test_smoothing_and_corruption_commute() -> None:
    one = smooth_labels(corrupt_labels(made(), share=0.3, generator=seeded()), smoothing=0.2)
    other = corrupt_labels(smooth_labels(made(), smoothing=0.2), share=0.3, generator=seeded())
    assert torch.equal(one.targets, other.targets)


def test_smoothing_twice_composes() -> None:
    twice = smooth_labels(smooth_labels(made(), smoothing=0.1), smoothing=0.2).targets
    once = smooth_labels(made(), smoothing=0.1).targets
    assert torch.allclose(twice, 0.8 * once + 0.2 / 4)


CHANGES: list[Callable[[LabelledImages], LabelledImages]] = [
    lambda data: subset(data, [4, 2]),
    lambda data: subset(data, torch.arange(2_000) % 40),
    lambda data: sample(data, count=9, generator=seeded(3)),
    lambda data: duplicate(data, 4, copies=3),
    lambda data: corrupt_labels(data, share=0.2, generator=seeded(3)),
    lambda data: smooth_labels(data, smoothing=0.1),
]


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_is_repeatable_recorded_and_leaves_the_data_alone(
    change: Callable[[LabelledImages], LabelledImages],
) -> None:
    data = made()
    changed = change(data)
    assert same(changed, change(made()))
    assert same(data, made())
    assert len(changed.record) == len(data.record) + 1
    assert json.loads(json.dumps(changed.record)) == list(changed.record)
    assert changed.record[-1]["step"] in repr(changed)


def test_another_seed_corrupts_other_labels() -> None:
    one, other = (corrupt_labels(made(), share=0.5, generator=seeded(seed)) for seed in (1, 2))
    assert not torch.equal(one.labels, other.labels)
    assert one.record[-1]["seed"] == 1
    assert one.record[-1]["labels_sha256"] != other.record[-1]["labels_sha256"]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda: corrupt_labels(made(), share=10, generator=seeded()), "share=0.1"),
        (lambda: corrupt_labels(made(classes=1), share=0.1, generator=seeded()), "2 classes"),
        (lambda: smooth_labels(made(), smoothing=1.0), "below 1"),
        (lambda: duplicate(made(), 0, copies=-1), "0 or more"),
        (lambda: sample(made(), count=41, generator=seeded()), "from 0 to 40"),
    ],
)
def test_impossible_changes_are_refused(
    change: Callable[[], LabelledImages], complaint: str
) -> None:
    with pytest.raises(InputError, match=complaint):
        change()


def test_image_files_are_like_any_sequence() -> None:
    assert len(ImageFiles(paths=())) == 0
    with pytest.raises(IndexError):
        ImageFiles(paths=())[0]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("change", CHANGES)
def test_changes_on_another_device_are_the_same_changes(
    change: Callable[[LabelledImages], LabelledImages],
) -> None:
    there, here = change(made().to("cuda")), change(made())
    assert there.batch([0, 1])[0].device.type == "cuda"
    assert same(there.to("cpu"), here)
    assert torch.equal(there[1][0].cpu(), here[1][0])
