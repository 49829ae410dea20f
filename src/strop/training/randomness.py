"""The global random generators: captured, restored, and lent out without a trace."""

import hashlib
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch


def mix(*parts: int) -> int:
    """One seed from many numbers; near-by inputs give unrelated seeds.

    >>> mix(0, 1) == mix(0, 1), mix(0, 1) == mix(1, 0)
    (True, False)
    """
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1  # 63 bits: what a signed 64-bit seed can hold


def seed_everything(seed: int, *, rank: int = 0) -> None:
    """Seed the global generators of torch, numpy and Python: for entry points alone.

    Nothing else in the library seeds globally. Process ``rank`` of a distributed run draws its own
    numbers (its dropout masks must differ from its neighbours'); rank 0 draws those of a run in one
    process.
    """
    own = seed if rank == 0 else mix(seed, rank)
    torch.manual_seed(own)
    _seed_host(own)


def random_state() -> dict[str, Any]:
    """The state of every global generator: torch on each device, numpy and Python."""
    state = _host_state()
    # An untouched CUDA has no state worth the seconds that starting it would take.
    if torch.cuda.is_initialized():
        state["cuda"] = torch.cuda.get_rng_state_all()
    if torch.backends.mps.is_available():
        state["mps"] = torch.mps.get_rng_state()
    return state


def set_random_state(state: dict[str, Any]) -> None:
    """Put every global generator where :func:`random_state` found it."""
    _set_host_state(state)
    for index, cuda in enumerate(state.get("cuda", ())):
        if index < torch.cuda.device_count():
            torch.cuda.set_rng_state(cuda, index)
    if "mps" in state and torch.backends.mps.is_available():
        torch.mps.set_rng_state(state["mps"])


@contextmanager
def preserved_randomness() -> Iterator[None]:
    """Whatever the body draws, the global generators afterwards stand where they stood.

    >>> before = torch.get_rng_state()
    >>> with preserved_randomness():
    ...     _ = torch.rand(3)
    >>> bool((torch.get_rng_state() == before).all())
    True
    """
    state = random_state()
    try:
        yield
    finally:
        set_random_state(state)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """The body draws from host generators seeded with ``seed``; afterwards all is as it was."""
    state = _host_state()
    torch.default_generator.manual_seed(seed)
    _seed_host(seed)
    try:
        yield
    finally:
        _set_host_state(state)


def _seed_host(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002 - users' datasets draw from the global generator


def _host_state() -> dict[str, Any]:
    kind, keys, *rest = np.random.get_state(legacy=True)  # noqa: NPY002
    return {
        "torch": torch.get_rng_state(),
        "python": random.getstate(),
        "numpy": (kind, np.asarray(keys).tolist(), *rest),
    }


def _set_host_state(state: dict[str, Any]) -> None:
    torch.set_rng_state(state["torch"])
    random.setstate(state["python"])
    kind, keys, *rest = state["numpy"]
    np.random.set_state((kind, np.array(keys, dtype=np.uint32), *rest))  # noqa: NPY002
