"""Pictures and classifiers for the attacks of chapter 5, by plain JSON words.

Data are ``cifar10`` (from the STROP_DATA folders) or ``digits`` (scikit-learn's, 8 x 8). A
classifier is one of

- ``{"file": "resnet20-standard"}``: ``models/NAME.safetensors`` in the data folders;
- ``{"robustbench": "Carmon2019Unlabeled", "threat": "Linf"}``: a model of that package;
- ``{"training": "l2", "data": "digits", "settings": {…}}``: trained on the spot; the training is
  ``standard``, ``linf``, ``l2``, ``trades``, or ``corruptions`` (half of the pictures under
  Gaussian noise).
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from strop.attacks import RobustSettings, train_robust
from strop.data import LabelledImages, find_data, read_images, subset
from strop.models import load_classifier
from strop.support import InputError, require
from strop.training import choose_device

NOISE = 0.1
"""The standard deviation of corruption, for pixels of 0 to 1."""
_TEST_DIGITS = 450


def pictures(data: str, *, split: str) -> LabelledImages:
    """A split of a data set by name."""
    if data == "digits":
        return _digits(split)
    if data == "cifar10":
        return read_images("cifar10", split=split)
    raise InputError(f"expected the data cifar10 or digits, came {data!r}")


def data_at_hand(wanted: str) -> str:
    """``wanted``, or for "auto" CIFAR-10 where it is there and digits where it is not."""
    if wanted != "auto":
        return wanted
    try:
        find_data("cifar10")
    except InputError:
        return "digits"
    return "cifar10"


def has_file(name: str) -> bool:
    """Whether the data folders hold this classifier."""
    try:
        find_data(f"models/{name}.safetensors")
    except InputError:
        return False
    return True


def classifier(model: Mapping[str, Any]) -> nn.Module:
    """The classifier of a description, in evaluation mode on the best device there is."""
    device = choose_device("auto")
    if "file" in model:
        path = find_data(f"models/{model['file']}.safetensors")
        return load_classifier(path).to(device)
    if "robustbench" in model:
        return _robustbench(model["robustbench"], model["threat"]).to(device).eval()
    if "training" in model:
        return _trained(model).to(device)
    raise InputError(f"expected a file, a robustbench name or a training, came {dict(model)}")


def words_for(model: Mapping[str, Any]) -> str:
    """A short name for drawings.

    >>> words_for({"training": "l2", "data": "digits", "settings": {"network": "small-cnn"}})
    'small-cnn, l2'
    """
    if "training" in model:
        return f"{model['settings']['network']}, {model['training']}"
    return str(model.get("file") or model["robustbench"])


def kind_of(model: Mapping[str, Any]) -> str:
    """How a classifier was trained: standard, linf, l2, corruptions.

    >>> kind_of({"file": "cnn-a-adv4"}), kind_of({"robustbench": "Standard", "threat": "Linf"})
    ('linf', 'standard')
    """
    if "training" in model:
        return str(model["training"])
    if "robustbench" in model:
        return "standard" if model["robustbench"] == "Standard" else str(model["threat"]).lower()
    return "standard" if "standard" in model["file"] else "linf"


def _trained(model: Mapping[str, Any]) -> nn.Module:
    settings = RobustSettings(**model["settings"])
    kind, train = model["training"], pictures(model["data"], split="train")
    if model.get("examples"):
        train = subset(train, range(model["examples"]))
    if kind in ("standard", "corruptions"):
        settings = replace(settings, eps=0.0, inner_steps=0)
    elif kind in ("linf", "l2"):
        settings = replace(settings, norm=kind)
    elif kind == "trades":
        settings = replace(settings, method="trades")
    else:
        raise InputError(
            f"expected the training standard, corruptions, linf, l2 or trades, came {kind!r}"
        )
    if kind == "corruptions":
        train = _half_noisy(train, seed=settings.seed)
    return train_robust(train, settings=settings, progress="quiet").model


def _half_noisy(data: LabelledImages, *, seed: int) -> LabelledImages:
    """Every picture as it is and once under Gaussian noise."""
    generator = torch.Generator().manual_seed(seed)
    pixels = data.images
    noise = 255 * NOISE * torch.randn(pixels.shape, generator=generator)
    noisy = (pixels + noise).round().clamp(0, 255).to(torch.uint8)
    return LabelledImages.from_tensors(
        torch.cat([pixels, noisy]),
        torch.cat([data.labels, data.labels]),
        class_names=data.class_names,
    )


def digits_arrays(*, odd: bool) -> tuple[Tensor, Tensor]:
    """Digits as vectors (n, 64) of 0 to 1, with -1 and +1 for even and odd, or class numbers."""
    datasets = require("sklearn.datasets", extra="solvers", purpose="the digits")
    found = datasets.load_digits()
    inputs = torch.as_tensor(found.data, dtype=torch.float32) / 16
    labels = torch.as_tensor(found.target)
    return inputs, (2.0 * (labels % 2) - 1 if odd else labels)


def _digits(split: str) -> LabelledImages:
    inputs, labels = digits_arrays(odd=False)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    rows = order[_TEST_DIGITS:] if split == "train" else order[:_TEST_DIGITS]
    pixels = (255 * inputs[rows]).round().to(torch.uint8).reshape(-1, 1, 8, 8)
    return LabelledImages.from_tensors(pixels, labels[rows], class_names=tuple("0123456789"))


def _robustbench(name: str, threat: str) -> nn.Module:
    try:
        from robustbench.utils import load_model  # type: ignore[import-not-found,unused-ignore]
    except ImportError as error:
        raise InputError(
            f"expected the package robustbench for the model {name!r}, but it is not installed: "
            "install it from github.com/RobustBench/robustbench, or run the preset small or gpu"
        ) from error
    try:
        return load_model(model_name=name, dataset="cifar10", threat_model=threat)  # type: ignore[no-any-return,unused-ignore]
    except Exception as error:
        raise InputError(
            f"expected robustbench to have the weights of {name!r} ({threat}), but it says: "
            f"{error}; bring them to models/cifar10/{threat}/{name}.pt"
        ) from error
