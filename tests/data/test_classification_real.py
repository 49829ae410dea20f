"""The published files themselves, where they are at hand."""

from collections.abc import Callable
from pathlib import Path

import pytest

from strop.data import read_images


def test_the_real_mnist(real_data: Callable[[str], Path]) -> None:
    train = read_images(real_data("mnist"))
    assert train.images.shape == (60_000, 1, 28, 28)
    # The counts and the mean pixel, 0.1307, that the data set is known by.
    assert train.labels.bincount().tolist()[:3] == [5923, 6742, 5958]
    assert float(train.images.double().mean() / 255) == pytest.approx(0.1307, abs=5e-5)
    assert len(read_images(real_data("mnist"), split="test")) == 10_000


def test_the_real_fashion_mnist(real_data: Callable[[str], Path]) -> None:
    test = read_images(real_data("fashion-mnist"), split="test")
    assert test.labels.bincount().tolist() == [1000] * 10
    assert test.class_names[int(test.labels[0])] == "Ankle boot"


def test_the_real_cifar10(real_data: Callable[[str], Path]) -> None:
    test = read_images(real_data("cifar-10-batches-bin"), split="test")
    assert test.images.shape == (10_000, 3, 32, 32)
    assert test.labels.bincount().tolist() == [1000] * 10
    assert [test.class_names[int(label)] for label in test.labels[:4]] == [
        *("cat", "ship", "ship", "airplane")
    ]
