"""Where batches come from: an epoch's order is a function of (seed, epoch) and nothing else."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from itertools import count, islice
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from strop.support import InputError
from strop.training.distributed import rank, slice_of_rank, world_size
from strop.training.randomness import mix, seeded


class IndexedBatches:
    """Batches fetched by index, shuffled anew each epoch by a generator seeded with (seed, epoch).

    ``fetch(indices)`` turns a tensor of indices into a batch. Each process of a distributed run
    fetches its own slice of every global batch of ``batch_size``; a resumed epoch fetches nothing
    of what is already done.

    >>> batches = IndexedBatches(lambda indices: indices, count=6, batch_size=2, shuffle=False)
    >>> [batch.tolist() for batch in batches(0, start=1)]
    [[2, 3], [4, 5]]
    """

    sharded = True

    def __init__(
        self,
        fetch: Callable[[Tensor], Any],
        *,
        count: int,
        batch_size: int,
        seed: int = 0,
        shuffle: bool = True,
        drop_last: bool = True,
    ) -> None:
        if not 1 <= batch_size <= count and (drop_last or batch_size < 1 or count < 1):
            raise InputError(
                f"expected a batch size between 1 and the {count} examples, but it is {batch_size}"
            )
        self.fetch, self.count, self.batch_size = fetch, count, batch_size
        self.seed, self.shuffle, self.drop_last = seed, shuffle, drop_last
        slice_of_rank(batch_size)

    def __len__(self) -> int:
        whole, rest = divmod(self.count, self.batch_size)
        return whole + (rest > 0 and not self.drop_last)

    def __call__(self, epoch: int, start: int = 0) -> Iterator[Any]:
        order = torch.arange(self.count)
        if self.shuffle:
            generator = torch.Generator().manual_seed(mix(self.seed, epoch))
            order = torch.randperm(self.count, generator=generator)
        for index in range(start, len(self)):
            indices = order[index * self.batch_size : (index + 1) * self.batch_size]
            yield self.fetch(indices[slice_of_rank(len(indices))])


class EpochSource:
    """Any source of batches as ``source(epoch, start)``: this process's slices, repeatably.

    A source is a function ``batches(epoch)`` or ``batches(epoch, start)``, a DataLoader, or a
    collection with an optional ``set_epoch``. It yields global batches, of which each process keeps
    its slice, unless it says ``sharded = True`` or its sampler has ``num_replicas``: then it yields
    the slices itself.

    Every batch is drawn while the host's global generators are seeded with (seed, epoch, index),
    and a DataLoader's own generators with (seed, epoch): loading disturbs no dropout mask, and a
    batch is the same in whichever sitting it is loaded. A source without ``start`` loads the
    batches it skips. Torch seeds workers that persist over epochs only once, so random augmentation
    in those cannot be resumed exactly.
    """

    def __init__(self, batches: Any, *, seed: int = 0) -> None:
        self.batches, self.seed = batches, seed
        self._is_function = callable(batches) and not isinstance(batches, DataLoader)
        self._takes_start = self._is_function and "start" in inspect.signature(batches).parameters
        walks_anew = isinstance(batches, Iterable) and not isinstance(batches, Iterator)
        if not self._is_function and not walks_anew:
            raise InputError(
                f"expected a function of the epoch, a DataLoader or a list of batches, but "
                f"a {type(batches).__name__} cannot be walked anew each epoch"
            )
        self._parts = [batches, *_samplers(batches)]
        self._sharded = getattr(batches, "sharded", False) or any(
            hasattr(part, "num_replicas") for part in self._parts
        )

    def length(self) -> int | None:
        """Batches in an epoch, where the source knows."""
        try:
            return len(self.batches)
        except TypeError:
            return None

    def __call__(self, epoch: int, start: int = 0) -> Iterator[Any]:
        for part in self._parts:
            if hasattr(part, "set_epoch"):
                part.set_epoch(epoch)
            if isinstance(getattr(part, "generator", None), torch.Generator):
                part.generator.manual_seed(mix(self.seed, epoch))
        stream = (self.seed, epoch, rank() if self._sharded else 0)
        with seeded(mix(*stream)):
            batches = iter(self._open(epoch, start))
        for index in count(start if self._takes_start else 0):
            with seeded(mix(*stream, index)):
                batch = next(batches, _END)
            if batch is _END:
                return
            if index >= start:
                yield batch if self._sharded else slice_batch(batch)

    def _open(self, epoch: int, start: int) -> Iterable[Any]:
        if not self._is_function:
            return self.batches
        return self.batches(epoch, start=start) if self._takes_start else self.batches(epoch)


_END = object()


def grouped(batches: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """Lists of ``size`` batches; the last may be shorter.

    >>> list(grouped("abcde", 2))
    [['a', 'b'], ['c', 'd'], ['e']]
    """
    iterator = iter(batches)
    while group := list(islice(iterator, size)):
        yield group


def _samplers(batches: Any) -> list[Any]:
    batch_sampler = getattr(batches, "batch_sampler", None)
    inner = [getattr(part, "sampler", None) for part in (batches, batch_sampler)]
    return [sampler for sampler in (batch_sampler, *inner) if sampler is not None]


def batch_size(batch: Any) -> int:
    """How many examples a batch holds: the length of its first tensor or list of examples.

    >>> batch_size((torch.zeros(4, 2), torch.zeros(4)))
    4
    >>> batch_size({"captions": ["a dog", "a cat"]})
    2
    """
    sizes: list[int] = []
    _map(lambda part: sizes.append(len(part)) if _has_examples(part) else None, batch)
    if not sizes:
        raise InputError(
            f"cannot tell how many examples a batch of type {type(batch).__name__} holds: expected "
            "tensors or lists of examples in a tuple, list, dict or dataclass"
        )
    return sizes[0]


def slice_batch(batch: Any) -> Any:
    """This process's slice of a global batch: every tensor and list of examples in it is cut."""
    if world_size() == 1:
        return batch
    size = batch_size(batch)
    own = slice_of_rank(size)

    def cut(part: Any) -> Any:
        if part is None or isinstance(part, (bool, int, float, str)):
            return part
        if not _has_examples(part) or len(part) != size:
            raise InputError(
                f"cannot take a process's slice of a {type(part).__name__} in a batch of {size} "
                "examples: let the source slice its batches itself and say so with sharded = True"
            )
        return part[own]

    return _map(cut, batch)


def move_batch(batch: Any, device: torch.device) -> Any:
    """The batch with its tensors on ``device``; what holds no tensor stays as it is."""
    return _map(
        lambda part: part.to(device, non_blocking=True) if hasattr(part, "to") else part, batch
    )


def _has_examples(part: Any) -> bool:
    return isinstance(part, list) or (isinstance(part, (Tensor, np.ndarray)) and part.ndim > 0)


def _map(function: Callable[[Any], Any], batch: Any) -> Any:
    """``function`` of every part; a list that holds a tensor is a container, any other a part."""
    if hasattr(batch, "to"):
        return function(batch)
    if isinstance(batch, Mapping):
        return {key: _map(function, part) for key, part in batch.items()}
    if isinstance(batch, tuple):
        parts = [_map(function, part) for part in batch]
        return type(batch)(*parts) if hasattr(batch, "_fields") else tuple(parts)
    if isinstance(batch, list) and any(isinstance(part, Tensor) for part in batch):
        return [_map(function, part) for part in batch]
    if is_dataclass(batch) and not isinstance(batch, type):
        names = [field.name for field in fields(batch)]
        return replace(batch, **{name: _map(function, getattr(batch, name)) for name in names})
    return function(batch)
