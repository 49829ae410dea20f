"""Weights from files into networks: tensors alone, and one sentence for whatever does not fit."""

import os
import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from strop.support import InputError

NAMED_KEYS = 5
"""So many wrong keys an error lists; the rest it counts."""

WRAPPERS = ("state_dict", "model_state_dict", "model", "net")
"""Under these keys training scripts commonly put a network's weights into a checkpoint."""


def read_weights(path: str | os.PathLike[str]) -> dict[str, Tensor]:
    """The tensors in a safetensors file, or in a PyTorch file (``.pt``, ``.pth``) of tensors.

    Of a PyTorch checkpoint only tensors and plain values are read (``weights_only``): nothing in it
    is run. A ``state_dict`` inside a checkpoint is taken out of it, and the prefix ``module.`` that
    ``DataParallel`` adds is taken off.
    """
    path = Path(path).expanduser()
    if path.suffix == ".safetensors":
        return read_safetensors(path)[1]
    if not path.is_file():
        raise InputError(f"expected a file of weights at {path}, but there is no such file")
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError, OSError) as error:
        raise InputError(
            f"expected tensors alone in the PyTorch file {path}, but it cannot be read so "
            f"({str(error).splitlines()[0]}); save the network's state_dict, "
            "best with safetensors.torch.save_file"
        ) from error
    return _state_dict(content, path)


def read_safetensors(path: Path) -> tuple[dict[str, str], dict[str, Tensor]]:
    """The metadata and the tensors of a safetensors file."""
    if not path.is_file():
        raise InputError(f"expected a safetensors file at {path}, but there is no such file")
    try:
        with safe_open(path, framework="pt") as file:
            names = file.keys()
            return dict(file.metadata() or {}), {name: file.get_tensor(name) for name in names}
    except SafetensorError as error:
        raise InputError(
            f"expected a safetensors file in {path}, but it cannot be read as one ({error}); "
            "weights in other formats can be written so with safetensors.torch.save_file"
        ) from error


def load_weights(
    network: nn.Module, weights: Mapping[str, Tensor], *, source: str | os.PathLike[str]
) -> None:
    """Copy ``weights`` into ``network``; the error names every kind of misfit at once.

    >>> load_weights(torch.nn.Linear(2, 1), {"weight": torch.zeros(1, 3)}, source="file.pt")
    Traceback (most recent call last):
    ...
    strop.support.errors.InputError: expected in file.pt the weights of this network, but it lacks
    bias, has weight (1, 3) instead of (1, 2); check that the file and the network belong together
    """
    expected = _shapes(network.state_dict())
    came = _shapes(weights)
    missing = [name for name in expected if name not in came]
    surplus = [name for name in came if name not in expected]
    reshaped = [
        f"{name} {came[name]} instead of {expected[name]}"
        for name in expected
        if name in came and came[name] != expected[name]
    ]
    complaints = [
        f"{what} {some(names)}"
        for what, names in (("lacks", missing), ("also has", surplus), ("has", reshaped))
        if names
    ]
    if complaints:
        raise InputError(
            f"expected in {os.fspath(source)} the weights of this network, but it "
            f"{', '.join(complaints)}; check that the file and the network belong together"
        )
    network.load_state_dict(dict(weights), strict=False)


def some(names: Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    rest = len(names) - NAMED_KEYS
    return ", ".join(names[:NAMED_KEYS]) + (f" and {rest} more" if rest > 0 else "")


def _shapes(weights: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    """Batch norm's count of batches is left out: it does not change what a network computes."""
    return {
        name: tuple(tensor.shape)
        for name, tensor in weights.items()
        if not name.endswith("num_batches_tracked")
    }


def _state_dict(content: Any, path: Path) -> dict[str, Tensor]:
    for key in WRAPPERS:
        if isinstance(content, dict) and isinstance(content.get(key), dict):
            content = content[key]
    if not isinstance(content, dict) or not content:
        raise InputError(
            f"expected a state_dict in {path}, but it holds {type(content).__name__} "
            f"{'without anything in it' if not content else ''}".rstrip()
        )
    odd = next((key for key, value in content.items() if not isinstance(value, Tensor)), None)
    if odd is not None:
        raise InputError(
            f"expected tensors alone in the state_dict of {path}, "
            f"but {odd!r} is {type(content[odd]).__name__}; save the network's state_dict by itself"
        )
    if all(name.startswith("module.") for name in content):
        return {name.removeprefix("module."): value for name, value in content.items()}
    return dict(content)
