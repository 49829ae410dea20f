"""Pickles of plain values, read without running anything that is in them.

CIFAR's python version is pickled, and unpickling may call any function a file names. Here every
name is refused except the few by which numpy and Python 2 wrote byte arrays, and those do not reach
numpy either: they lead to the small stand-ins below.
"""

import io
import math
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from strop.support import InputError


class _RefusedError(pickle.UnpicklingError):
    """Something that plain data do not have."""


class PickledArray:
    """What a pickled numpy array of bytes amounts to: a shape and the bytes."""

    shape: tuple[int, ...] = ()
    content: bytes = b""
    columns_first: bool = False

    def __setstate__(self, state: Any) -> None:
        _version, shape, dtype, columns_first, content = state
        self._fill(shape, dtype, columns_first, content)

    def _fill(self, shape: Any, dtype: Any, columns_first: Any, content: Any) -> None:
        if not isinstance(dtype, _PickledType) or dtype.name not in ("u1", b"u1"):
            raise _RefusedError("it has an array of another type than unsigned bytes")
        if (
            not isinstance(content, (bytes, bytearray))
            or not all(type(side) is int and side >= 0 for side in shape)
            or math.prod(shape) != len(content)
        ):
            raise _RefusedError("it has an array whose bytes do not fit its shape")
        self.shape, self.content = tuple(shape), bytes(content)
        self.columns_first = bool(columns_first)

    def tensor(self) -> Tensor:
        """The bytes as a uint8 tensor of this shape."""
        values = torch.frombuffer(bytearray(self.content), dtype=torch.uint8)
        if self.columns_first:
            return values.reshape(self.shape[::-1]).permute(*reversed(range(len(self.shape))))
        return values.reshape(self.shape)


@dataclass
class _PickledType:
    name: str | bytes
    align: Any = None
    copy: Any = None

    def __setstate__(self, state: Any) -> None:
        """Byte order and fields: without meaning for single bytes."""


def _reconstruct(*_: Any) -> PickledArray:
    return PickledArray()


def _from_buffer(content: Any, dtype: Any, shape: Any, order: Any) -> PickledArray:
    array = PickledArray()
    array._fill(shape, dtype, order != "C", content)
    return array


def _encode(text: Any, encoding: Any) -> bytes:
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
        raise _RefusedError("it would encode a text")
    return text.encode("latin-1")


_STAND_INS: dict[tuple[str, str], Callable[..., Any]] = {
    ("numpy", "ndarray"): PickledArray,
    ("numpy", "dtype"): _PickledType,
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy.core.numeric", "_frombuffer"): _from_buffer,
    ("numpy._core.numeric", "_frombuffer"): _from_buffer,
    ("_codecs", "encode"): _encode,
}


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _STAND_INS:
            return _STAND_INS[module, name]
        raise _RefusedError(f"it would call {module}.{name}")


def load_plain_pickle(content: bytes, *, source: Path) -> Any:
    """The dicts, lists, bytes, texts, numbers and :class:`PickledArray` in a pickle.

    Python 2 text comes as bytes. Anything else is refused before it is called; ``source`` names
    the file in the error.

    >>> load_plain_pickle(pickle.dumps({"labels": [1, 2]}), source=Path("batch"))
    {'labels': [1, 2]}
    """
    try:
        return _PlainUnpickler(io.BytesIO(content), encoding="bytes").load()
    except Exception as error:  # a damaged pickle may raise nearly anything
        what = error if isinstance(error, _RefusedError) else f"it cannot be read ({error})"
        raise InputError(
            f"expected a pickle of plain values and byte arrays in {source}, but {what}; "
            "nothing in it was run, bring it again from the data set's own site"
        ) from error
