"""Published CIFAR-10 classifiers, attacked in the Fourier domain."""

from collections.abc import Callable
from pathlib import Path

import pytest

from strop.attacks import accuracy_curve, preflight, quick_suite
from strop.data import read_images, subset
from strop.geometry import Fourier, Linf
from strop.models import load_classifier


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "eps", "most"),
    [("resnet20-standard-raw", 2 / 255, 0.0), ("resnet20-adversarial", 12 / 255, 0.05)],
)
def test_little_is_left_of_real_classifiers(
    real_data: Callable[[str], Path], name: str, eps: float, most: float
) -> None:
    model = load_classifier(real_data(f"models/{name}.safetensors"))
    data = subset(read_images(real_data("cifar-10-batches-bin"), split="test"), range(40))
    assert preflight(model, *data.batch(range(40))) == ()
    attacks = quick_suite(steps=15)
    norm = Fourier(Linf, dims=2)
    curve = accuracy_curve(model, data, norm=norm, eps=[eps], attacks=attacks, progress="quiet")
    assert curve.clean.value > 0.8
    assert curve.accuracy(eps).value <= most
