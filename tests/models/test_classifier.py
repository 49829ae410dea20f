"""Classifiers in files: they come back as they were, or one sentence says why not."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from strop.models import (
    Classifier,
    Normalize,
    WideResNet,
    cifar_resnet,
    load_classifier,
    mlp,
    resnet18,
    save_classifier,
    small_cnn,
)
from strop.support import InputError

NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "resnet": lambda: cifar_resnet(8, shortcut="pad-end"),
    "conv": lambda: cifar_resnet(14, shortcut="conv", classes=3, channels=1),
    "no norm": lambda: cifar_resnet(8, normalisation="none", classes=100),
    "group": lambda: cifar_resnet(8, normalisation="group"),
    "wide": lambda: WideResNet(depth=10, width=2, classes=4),
    "mlp": lambda: mlp((3 * 32 * 32, 5, 10)),
    "cnn": lambda: small_cnn(),
}


@pytest.mark.parametrize("make", NETWORKS.values(), ids=NETWORKS.keys())
def test_a_classifier_comes_back_as_it_was(tmp_path: Path, make: Callable[[], nn.Module]) -> None:
    network = make()
    channels = getattr(network, "conv1", nn.Conv2d(3, 1, 1)).in_channels
    inputs = torch.rand(4, channels, 32, 32, generator=torch.Generator().manual_seed(0))
    network(inputs)  # moves the running statistics of batch norm
    normalize = Normalize(mean=[0.4914] * channels, std=[0.2023] * channels)
    model = Classifier(network, normalize=normalize, metadata={"source": "here"}).eval()
    save_classifier(tmp_path / "model.safetensors", model, metadata={"training": "none"})
    loaded = load_classifier(tmp_path / "model.safetensors")
    assert torch.equal(loaded(inputs), model(inputs))
    assert not loaded.training
    assert loaded.metadata["source"] == "here"
    assert loaded.metadata["training"] == "none"
    assert list(tmp_path.iterdir()) == [tmp_path / "model.safetensors"]


def test_resnet18_comes_back(tmp_path: Path) -> None:
    network = resnet18().eval()
    save_classifier(tmp_path / "model.safetensors", network)
    inputs = torch.rand(1, 3, 8, 8)
    assert torch.equal(load_classifier(tmp_path / "model.safetensors")(inputs), network(inputs))


def written(path: Path, **metadata: str) -> Path:
    """The weights of a ResNet-8 with padded shortcuts under other metadata."""
    weights = {
        name: tensor
        for name, tensor in cifar_resnet(8).state_dict().items()
        if "num_batches_tracked" not in name
    }
    save_file(weights, path, metadata=metadata)
    return path


@pytest.mark.parametrize(
    ("metadata", "complaint"),
    [
        ({}, "'architecture'.*have nothing"),
        ({"architecture": "cifar resnet-8"}, "'shortcut'"),
        ({"architecture": "cifar resnet-9", "shortcut": "conv"}, "6 m \\+ 2"),
        ({"architecture": "resnet-50"}, "came 'resnet-50'"),
        ({"architecture": "vision transformer"}, "came 'vision'"),
        (
            {"architecture": "cifar resnet-8", "shortcut": "conv"},
            "lacks layer2.0.shortcut.0.weight, .* and 5 more;",
        ),
        (
            {"architecture": "cifar resnet-8", "shortcut": "pad-end", "normalisation": "none"},
            "also has bn1.bias",
        ),
        ({"architecture": "cifar resnet-14", "shortcut": "pad-end"}, "lacks layer1.1.conv1"),
        ({"architecture": "cifar resnet-8", "shortcut": "side"}, "came 'side'"),
        (
            {"architecture": "wide resnet-10-1"},
            "bn1.weight \\(16,\\) instead of \\(64,\\)",
        ),
        (
            {"architecture": "cifar resnet-8", "shortcut": "pad-end", "mean": "[0.5]"},
            "'mean' and 'std'.*None",
        ),
        (
            {"architecture": "cifar resnet-8", "shortcut": "pad-end", "mean": "x", "std": "1"},
            "JSON lists",
        ),
    ],
)
def test_what_does_not_fit_is_named(
    tmp_path: Path, metadata: dict[str, str], complaint: str
) -> None:
    path = written(tmp_path / "model.safetensors", **metadata)
    with pytest.raises(InputError, match=complaint) as caught:
        load_classifier(path)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_safetensors_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        load_classifier(tmp_path / "absent.safetensors")
    torch.save({}, tmp_path / "model.pt")
    with pytest.raises(InputError, match=r"model\.pt, but it cannot be read as one"):
        load_classifier(tmp_path / "model.pt")


def test_a_network_that_cannot_be_described_is_not_written(tmp_path: Path) -> None:
    for network in (nn.Linear(2, 2), cifar_resnet(8).get_submodule("layer1")):
        with pytest.raises(InputError, match="expected"):
            save_classifier(tmp_path / "model.safetensors", network)
    assert list(tmp_path.iterdir()) == []
