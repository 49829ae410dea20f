"""``load_classifier``: one door to a file, a name, a factory in someone's package, RobustBench."""

import difflib
import os
from importlib import import_module
from pathlib import Path
from typing import Any

from torch import nn

from strop.models.classifier import Classifier, read_classifier
from strop.models.weights import load_weights, read_weights
from strop.support import InputError, MissingExtraError
from strop.support.folders import data_folders
from strop.support.named import is_named, load_named

__all__ = ["load_classifier"]

_ROBUSTBENCH = "robustbench:"


def load_classifier(
    source: str | os.PathLike[str], *, checkpoint: str | os.PathLike[str] | None = None
) -> Classifier:
    """A classifier in evaluation mode on the CPU. Of files only tensors are read: nothing is run.

    Args:
        source: one of

            - a safetensors file whose metadata say what it is (``architecture``, for ResNets
              ``shortcut``, ``mean`` and ``std``), as :func:`~strop.models.save_classifier` writes;
            - the name of such a file in the folder ``models`` of one that ``STROP_DATA`` names;
            - ``package.module:factory``: a function without arguments, or a class, that gives a
              network which takes pictures in [0, 1] to logits, with its weights in ``checkpoint``;
            - ``robustbench:NAME`` or ``robustbench:cifar10/L2/NAME``: a model of that zoo, where
              the package is installed and the weights lie at
              ``models/cifar10/L2/NAME.pt`` in a folder that ``STROP_DATA`` names.
        checkpoint: weights for the network of a factory: safetensors, or a PyTorch file.

    >>> load_classifier("torch.nn:Flatten")
    Classifier(
      (normalize): Identity()
      (network): Flatten(start_dim=1, end_dim=-1)
    )
    """
    text = os.fspath(source)
    if text.startswith(_ROBUSTBENCH):
        _refuse_checkpoint(text, checkpoint)
        return Classifier(_from_robustbench(text.removeprefix(_ROBUSTBENCH))).eval()
    if is_named(text) and not Path(text).exists():
        return _from_factory(text, checkpoint).eval()
    _refuse_checkpoint(text, checkpoint)
    return read_classifier(_find(text))


def _refuse_checkpoint(text: str, checkpoint: Any) -> None:
    if checkpoint is not None:
        raise InputError(
            f"{text} brings its own weights, but a checkpoint came too: leave one out, or name a "
            "factory, package.module:function, for the checkpoint"
        )


def _find(text: str) -> Path:
    given = Path(text).expanduser()
    if given.exists() or given.is_absolute() or given.suffix:
        return given
    places = [folder / "models" for folder in data_folders()]
    for place in places:
        if (place / f"{text}.safetensors").is_file():
            return place / f"{text}.safetensors"
    known = sorted({file.stem for place in places for file in place.glob("*.safetensors")})
    there = f"there are {', '.join(known)}" if known else "there are none"
    raise InputError(
        f"expected the classifier {text!r} as a file or by name in "
        f"{', '.join(map(str, places))}, where {there}; give a path, a name, or "
        "package.module:factory, or set STROP_DATA to the folder above models/"
    )


def _from_factory(text: str, checkpoint: str | os.PathLike[str] | None) -> Classifier:
    factory = load_named(text)
    try:
        network = factory()
    except TypeError as error:
        raise InputError(
            f"expected {text} to be called without arguments, but it cannot be ({error}); write a "
            "function that calls it with them"
        ) from error
    if not isinstance(network, nn.Module):
        raise InputError(
            f"expected {text} to give a torch.nn.Module, but it gave {type(network).__name__}"
        )
    if checkpoint is not None:
        inner = network.network if isinstance(network, Classifier) else network
        load_weights(inner, read_weights(checkpoint), source=checkpoint)
    return network if isinstance(network, Classifier) else Classifier(network)


def _from_robustbench(text: str) -> nn.Module:
    dataset, threat, name = _parts(text)
    try:
        loading = import_module("robustbench.utils")
        enums = import_module("robustbench.model_zoo.enums")
        zoo = import_module("robustbench.model_zoo").model_dicts
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"robustbench:{text} needs the package robustbench"
            + ("" if (error.name or "").startswith("robustbench") else f" and its {error.name}")
            + ", which is not installed: pip install robustbench"
        ) from error
    try:
        models = zoo[enums.BenchmarkDataset(dataset)][enums.ThreatModel(threat)]
    except (KeyError, ValueError) as error:
        raise InputError(
            f"expected robustbench:cifar10/Linf/NAME with a data set and a threat of that zoo, "
            f"came {dataset}/{threat}"
        ) from error
    if name not in models:
        near = difflib.get_close_matches(name, list(models), n=3) or list(models)[:3]
        raise InputError(
            f"expected a model of RobustBench for {dataset} and {threat}, came {name!r}; near to "
            f"it are {', '.join(near)}"
        )
    places = [folder / "models" for folder in data_folders()]
    for place in places:
        folder = place / dataset / threat
        if (folder / f"{name}.pt").is_file() or (folder / f"{name}.pt_m0.pt").is_file():
            # torch.load reads tensors alone, as it does by default since torch 2.6.
            return loading.load_model(name, model_dir=place, dataset=dataset, threat_model=threat)
    raise InputError(
        f"expected the weights of {name} at {dataset}/{threat}/{name}.pt in "
        f"{' or '.join(map(str, places))}, but they are not there; robustbench.utils.load_model("
        f"{name!r}, dataset={dataset!r}, threat_model={threat!r}, model_dir=…) downloads them"
    )


def _parts(text: str) -> tuple[str, str, str]:
    parts = text.split("/")
    if len(parts) == 1:
        return "cifar10", "Linf", parts[0]
    if len(parts) == 3:
        return parts[0], parts[1], parts[2]
    raise InputError(
        f"expected robustbench:NAME or robustbench:DATASET/THREAT/NAME, came robustbench:{text}"
    )
