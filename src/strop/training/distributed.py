"""Data parallelism under ``torchrun``: many processes, the results of one at equal global batch.

The rule that makes it so: a process's loss is the mean over its slice, or is computed from the
gathered whole; :func:`average_gradients` takes the mean over processes; and the backward pass of
:func:`gather_with_gradient` sums what the processes send back. With W processes, embeddings e and
a loss L of the gathered whole, process r holds W dL/de_r after its backward pass, and the mean over
processes is dL/dtheta: the gradient of one process. Every function here does nothing in one.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from strop.support import InputError, StropError

T = TypeVar("T")


@contextmanager
def process_group(device: torch.device, *, timeout_s: float = 1800.0) -> Iterator[None]:
    """Join the processes that ``torchrun`` started (NCCL on GPUs, gloo else); leave at the end.

    Outside ``torchrun`` this does nothing, so that one entry point serves both.
    """
    if "WORLD_SIZE" not in os.environ:
        yield
        return
    # Its functions take the group that there is when they are imported as their default, and an
    # optimizer imports them: the group would outlive its end, and its threads abort some exits.
    import torch.distributed.nn.functional

    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group(
        "nccl" if device.type == "cuda" else "gloo",
        timeout=timedelta(seconds=timeout_s),
        device_id=device if device.type == "cuda" else None,
    )
    try:
        yield
    finally:
        dist.destroy_process_group()


def is_distributed() -> bool:
    return dist.is_available() and dist.is_initialized()


def world_size() -> int:
    return dist.get_world_size() if is_distributed() else 1


def rank() -> int:
    return dist.get_rank() if is_distributed() else 0


def slice_of_rank(size: int) -> slice:
    """Which examples of a global batch of ``size`` are this process's.

    >>> slice_of_rank(128)
    slice(0, 128, None)
    """
    each, rest = divmod(size, world_size())
    if rest:
        raise InputError(
            f"a global batch of {size} does not divide among {world_size()} processes: choose a "
            f"multiple of {world_size()}, and drop the last batch of an epoch if it is smaller"
        )
    return slice(rank() * each, (rank() + 1) * each)


def gather_with_gradient(tensor: Tensor) -> Tensor:
    """The processes' tensors joined along the first dimension, in the order of their ranks.

    Gradients flow back to the process that each part came from, summed over all processes: a loss
    over in-batch negatives sees the whole global batch, with the gradients of one process.
    """
    if not is_distributed():
        return tensor
    shapes = _gather_objects(tuple(tensor.shape))
    if len(set(shapes)) > 1:
        raise InputError(f"processes must gather equal shapes, but they hold {shapes}")
    return _Gather.apply(tensor)


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor) -> Tensor:
        tensor = tensor.contiguous()
        parts = [torch.empty_like(tensor) for _ in range(world_size())]
        dist.all_gather(parts, tensor)
        ctx.own = slice_of_rank(len(tensor) * world_size())
        return torch.cat(parts)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        gradient = gradient.contiguous()
        dist.all_reduce(gradient)
        return gradient[ctx.own]


def broadcast_model(model: nn.Module) -> None:
    """Every process takes the parameters and buffers of the first."""
    if not is_distributed():
        return
    with torch.no_grad():
        for tensor in (*model.parameters(), *model.buffers()):
            whole = tensor.contiguous()  # a transposed parameter would be sent scrambled
            dist.broadcast(whole, src=0)
            tensor.copy_(whole)


def average_gradients(parameters: Iterable[nn.Parameter]) -> None:
    """Each gradient becomes its mean over the processes.

    A parameter that only some processes used counts as zero in the others; one that none used
    keeps the gradient None, so that the optimizer passes over it as it would in one process.
    """
    if not is_distributed():
        return
    parameters = list(parameters)
    sparse = next((p for p in parameters if p.grad is not None and p.grad.is_sparse), None)
    if sparse is not None:
        raise InputError("sparse gradients cannot be averaged over processes: use sparse=False")
    device = parameters[0].device
    used = torch.tensor([p.grad is not None for p in parameters], dtype=torch.uint8, device=device)
    dist.all_reduce(used, op=dist.ReduceOp.MAX)
    gradients = []
    for parameter, anywhere in zip(parameters, used.tolist(), strict=True):
        if anywhere:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            gradients.append(parameter.grad)
    _average(gradients)


def average_buffers(model: nn.Module) -> None:
    """Floating-point buffers (running statistics) become their mean over the processes.

    All processes then hold the same model after every step. The running variance misses what lies
    between the slices; ``SyncBatchNorm`` on GPUs does not.
    """
    if is_distributed():
        _average([buffer for buffer in model.buffers() if buffer.is_floating_point()])


def mean_over_processes(values: Tensor) -> Tensor:
    """The elementwise mean of the processes' ``values``."""
    if is_distributed():
        dist.all_reduce(values)
        values /= world_size()
    return values


def from_first_rank(function: Callable[[], T]) -> T:
    """What ``function`` returns in the first process, in all; its error is raised in all, too."""
    if not is_distributed():
        return function()
    outcome: list[Any] = [None, None]
    failure: Exception | None = None
    if rank() == 0:
        try:
            outcome[0] = function()
        except Exception as error:
            failure = error
            outcome[1] = f"the first process failed: {error}"
    dist.broadcast_object_list(outcome, src=0)
    if failure is not None:
        raise failure
    if outcome[1] is not None:
        raise StropError(outcome[1])
    return outcome[0]


def gather_objects(value: T) -> list[T]:
    """The value of every process, in the order of their ranks."""
    return _gather_objects(value) if is_distributed() else [value]


def _gather_objects(value: T) -> list[T]:
    gathered: list[Any] = [None] * world_size()
    dist.all_gather_object(gathered, value)
    return gathered


def _average(tensors: Sequence[Tensor]) -> None:
    """In place, in one message for each data type: many small ones would cost their latency."""
    for dtype in {tensor.dtype: None for tensor in tensors}:
        group = [tensor for tensor in tensors if tensor.dtype == dtype]
        flat = mean_over_processes(torch.cat([tensor.reshape(-1) for tensor in group]))
        parts = flat.split([tensor.numel() for tensor in group])
        with torch.no_grad():
            for tensor, part in zip(group, parts, strict=True):
                tensor.copy_(part.view_as(tensor))
