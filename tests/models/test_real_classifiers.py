"""Published CIFAR-10 classifiers reach the accuracy that their files say they have."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from strop.data import read_images
from strop.models import load_classifier


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "count", "key"),
    [
        ("resnet20-standard", 2_000, "clean_accuracy_first_2000_test"),  # pad-both, normalised
        ("resnet20-adversarial", 2_000, "clean_accuracy_first_2000_test"),  # pad-end
        ("resnet38-adversarial", 2_000, "clean_accuracy_first_2000_test"),  # conv
        ("cnn-a-mix4", 10_000, "clean_accuracy"),  # a chain of layers
    ],
)
def test_the_accuracy_is_the_file_s_own(
    real_data: Callable[[str], Path], name: str, count: int, key: str
) -> None:
    model = load_classifier(real_data(f"models/{name}.safetensors"))
    data = read_images(real_data("cifar-10-batches-bin"), split="test")
    right = 0
    with torch.no_grad():
        for start in range(0, count, 250):
            images, labels = data.batch(range(start, start + 250))
            right += int((model(images).argmax(dim=1) == labels).sum())
    assert 100 * right / count == pytest.approx(float(model.metadata[key]), abs=0.051)
