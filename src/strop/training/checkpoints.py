"""Checkpoints: one safetensors file whose header carries the rest as JSON; never a pickle.

One file, written beside and moved into place, is old or new and never half of each. Tensors lie
under the path of their place in the nested state ("optimizer.state.0.exp_avg"); the header keeps
the state's shape with ``{"$tensor": path}`` where a tensor was.
"""

import json
import math
import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from strop.support import InputError, StropError, writing

FORMAT_VERSION = 1


def save_checkpoint(path: str | os.PathLike[str], state: Mapping[str, Any]) -> None:
    """Write a nested state of tensors and plain values, whole or not at all."""
    tensors: dict[str, Tensor] = {}
    plain = _pack(dict(state), "", tensors)
    _write(Path(path), tensors, {"kind": "checkpoint", "state": plain})


def load_checkpoint(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The nested state that :func:`save_checkpoint` wrote, its tensors on the CPU."""
    tensors, header = _read(Path(path))
    if header is None or header["kind"] != "checkpoint":
        raise InputError(f"expected a checkpoint to resume from, but {path} holds only weights")
    return _unpack(header["state"], tensors)


def save_weights(
    path: str | os.PathLike[str], weights: Mapping[str, Tensor], *, notes: Mapping[str, Any]
) -> None:
    """Write a model's weights under their own names, so that any safetensors reader knows them."""
    stored = {name: _stored(tensor) for name, tensor in weights.items()}
    _write(Path(path), stored, {"kind": "weights", "notes": dict(notes)})


def load_weights(path: str | os.PathLike[str]) -> dict[str, Tensor]:
    """A model's state dict out of a checkpoint, a snapshot, or any other safetensors file."""
    tensors, header = _read(Path(path))
    if header is not None and header["kind"] == "checkpoint":
        return _unpack(header["state"]["model"], tensors)
    return tensors


def _write(path: Path, tensors: dict[str, Tensor], header: dict[str, Any]) -> None:
    tensors = _without_shared_memory(tensors)
    metadata = {
        "format": "pt",
        "strop": json.dumps(header, allow_nan=False),
        "strop_version": str(FORMAT_VERSION),
        "strop_checksum": str(_checksum(tensors)),
    }
    try:
        with writing(path) as partial:
            save_file(tensors, partial, metadata=metadata)
    except (OSError, SafetensorError) as error:
        size = sum(tensor.nbytes for tensor in tensors.values()) / 2**20
        before = "the former one is intact" if path.exists() else "there is none from before"
        raise StropError(
            f"could not write the checkpoint {path} of {size:.1f} MiB ({before}): {error}; "
            "make room and resume"
        ) from error


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any] | None]:
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            version = metadata.get("strop_version", str(FORMAT_VERSION))
            if version != str(FORMAT_VERSION):
                raise InputError(
                    f"the checkpoint {path} has format version {version}, but this strop reads "
                    f"version {FORMAT_VERSION}; use the strop that wrote it"
                )
            # Cloned: a tensor that still maps the file would change, or die, with the file.
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError as error:
        raise InputError(f"expected a checkpoint at {path}, but there is no such file") from error
    except (OSError, SafetensorError) as error:
        raise InputError(f"the checkpoint {path} is cut short or damaged: {error}") from error
    if "strop" not in metadata:
        return tensors, None
    if metadata.get("strop_checksum") != str(_checksum(tensors)):
        raise InputError(
            f"the checkpoint {path} is damaged: its tensors do not add up to its checksum"
        )
    return tensors, json.loads(metadata["strop"])


def _checksum(tensors: Mapping[str, Tensor]) -> int:
    checksum = 0
    for name in sorted(tensors):
        flat = tensors[name].reshape(-1).view(torch.uint8)
        checksum = zlib.crc32(flat.numpy().data, zlib.crc32(name.encode(), checksum))
    return checksum


def _stored(tensor: Tensor) -> Tensor:
    return tensor.detach().cpu().contiguous()


def _without_shared_memory(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tied weights are written once per name: the file format knows no sharing."""
    seen: set[int] = set()
    separate = {}
    for name, tensor in tensors.items():
        memory = tensor.untyped_storage().data_ptr()
        separate[name] = tensor.clone() if memory in seen else tensor
        seen.add(memory)
    return separate


def _pack(value: Any, path: str, tensors: dict[str, Tensor]) -> Any:
    """``value`` as JSON, its tensors set aside in ``tensors`` under their paths."""
    if isinstance(value, Tensor):
        while path in tensors:  # {"a.b": x} and {"a": {"b": y}} have the same path
            path += "'"
        tensors[path] = _stored(value)
        return {"$tensor": path}
    if isinstance(value, Mapping):
        pairs = [(key, _pack(item, _below(path, key), tensors)) for key, item in value.items()]
        if all(isinstance(key, str) and not key.startswith("$") for key, _ in pairs):
            return dict(pairs)
        return {"$pairs": pairs}
    if isinstance(value, (list, tuple)):
        items = [_pack(item, _below(path, i), tensors) for i, item in enumerate(value)]
        return {"$tuple": items} if isinstance(value, tuple) else items
    if isinstance(value, float) and not math.isfinite(value):
        return {"$float": str(value)}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise InputError(
        f"a checkpoint holds tensors, numbers, strings and collections of these, "
        f"but {path} is a {type(value).__name__}"
    )


def _unpack(value: Any, tensors: Mapping[str, Tensor]) -> Any:
    if isinstance(value, list):
        return [_unpack(item, tensors) for item in value]
    if not isinstance(value, dict):
        return value
    if "$tensor" in value:
        return tensors[value["$tensor"]]
    if "$tuple" in value:
        return tuple(_unpack(value["$tuple"], tensors))
    if "$pairs" in value:
        return {key: _unpack(item, tensors) for key, item in value["$pairs"]}
    if "$float" in value:
        return float(value["$float"])
    return {key: _unpack(item, tensors) for key, item in value.items()}


def _below(path: str, key: Any) -> str:
    return f"{path}.{key}" if path else str(key)
