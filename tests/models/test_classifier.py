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
    load_weights,
    mlp,
    read_weights,
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


class Attack:
    """Unpickled by a careless reader, this writes a file."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.mark,)


def test_a_pytorch_file_that_would_run_something_is_refused(tmp_path: Path) -> None:
    path, mark = tmp_path / "model.pt", tmp_path / "mark"
    torch.save({"weight": torch.ones(1), "extra": Attack(mark)}, path)
    with pytest.raises(InputError, match=r"expected tensors alone .*model\.pt") as caught:
        read_weights(path)
    assert "\n" not in str(caught.value)
    assert not mark.exists()
    torch.load(path, weights_only=False)
    assert mark.exists(), "the attack is a real one"


@pytest.mark.parametrize(
    "wrap",
    [
        lambda state: state,
        lambda state: {"state_dict": state, "epoch": 3},
        lambda state: {f"module.{name}": value for name, value in state.items()},
        lambda state: {"net": {f"module.{name}": value for name, value in state.items()}},
    ],
)
def test_checkpoints_as_scripts_write_them_are_read(
    tmp_path: Path, wrap: Callable[[dict[str, torch.Tensor]], object]
) -> None:
    there, here = cifar_resnet(8).eval(), cifar_resnet(8).eval()
    torch.save(wrap(there.state_dict()), tmp_path / "model.pth")
    load_weights(here, read_weights(tmp_path / "model.pth"), source="model.pth")
    inputs = torch.rand(2, 3, 8, 8)
    assert torch.equal(here(inputs), there(inputs))


def test_weights_are_read_from_safetensors_too(tmp_path: Path) -> None:
    save_file({"weight": torch.ones(1, 2)}, tmp_path / "model.safetensors")
    network = nn.Linear(2, 1, bias=False)
    load_weights(network, read_weights(tmp_path / "model.safetensors"), source="model.safetensors")
    assert network.weight.tolist() == [[1, 1]]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ([torch.ones(1)], "a state_dict.*list"),
        ({}, "without anything"),
        ({"weight": torch.ones(1), "epoch": 3}, "'epoch' is int"),
    ],
)
def test_pytorch_files_of_something_else_are_named(
    tmp_path: Path, content: object, complaint: str
) -> None:
    torch.save(content, tmp_path / "model.pt")
    with pytest.raises(InputError, match=complaint):
        read_weights(tmp_path / "model.pt")
    (tmp_path / "model.pt").write_bytes(b"nothing of the kind")
    with pytest.raises(InputError, match="expected tensors alone"):
        read_weights(tmp_path / "model.pt")
    with pytest.raises(InputError, match="no such file"):
        read_weights(tmp_path / "absent.pt")
