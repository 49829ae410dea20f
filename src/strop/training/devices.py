"""The device, chosen once at the entry point; the library follows the tensors it is given."""

import os
from typing import Literal

import torch

from strop.support import InputError


def choose_device(name: Literal["auto", "cpu", "cuda", "mps"] = "auto") -> torch.device:
    """The device of that name; ``auto`` takes CUDA, then MPS, then the CPU.

    Under ``torchrun`` each process takes the GPU of its own LOCAL_RANK.

    >>> choose_device("cpu")
    device(type='cpu')
    """
    available = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if name == "auto":
        chosen = next(kind for kind, there in available.items() if there)
    elif name in available:
        chosen = name
    else:
        raise InputError(f"the device must be one of auto, cpu, cuda, mps, but is {name!r}")
    if not available[chosen]:
        there = ", ".join(kind for kind, here in available.items() if here)
        raise InputError(f"the device {chosen} was asked for, but this machine has only {there}")
    if chosen == "cuda":
        index = int(os.environ.get("LOCAL_RANK", 0))
        if index >= torch.cuda.device_count():
            raise InputError(
                f"process {index} of this machine has no GPU of its own: there are "
                f"{torch.cuda.device_count()}; start torchrun with --nproc-per-node of at most that"
            )
        return torch.device("cuda", index)
    return torch.device(chosen)
