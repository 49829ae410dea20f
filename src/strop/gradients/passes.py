"""One pass over a dataset, batch by batch, each batch with the numbers of its examples.

>>> data = torch.arange(5.0)
>>> [(indices.tolist(), batch.tolist()) for indices, batch in indexed_batches(data, batch_size=2)]
[([0, 1], [0.0, 1.0]), ([2, 3], [2.0, 3.0]), ([4], [4.0])]
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from strop.data import LabelledImages
from strop.support import InputError

LossFunction = Callable[[nn.Module, Any], Tensor]
"""``loss_fn(model, batch)``: one loss per example, (n,)."""


def indexed_batches(
    dataset: Any,
    *,
    batch_size: int,
    indices: Tensor | Sequence[int] | None = None,
    collate: Callable[[list[Any]], Any] | None = None,
    device: torch.device | str | None = None,
    num_workers: int = 0,
) -> Iterator[tuple[Tensor, Any]]:
    """Batches in order, as ``(indices, batch)``; torch's own random numbers are left alone.

    Args:
        dataset: a map-style dataset, a Hugging Face dataset, or a tensor; examples are numbered
            from 0 to ``len(dataset) - 1``.
        batch_size: the most examples in a batch.
        indices: which examples, in which order; all of them without it.
        collate: makes a batch of a list of examples; that of ``DataLoader`` without it.
        device: where the tensors of a batch are brought; they stay where they are without it.
        num_workers: processes that read ahead.
    """
    examples = count_examples(dataset)
    if batch_size < 1:
        raise InputError(f"expected a positive batch size, but came {batch_size}")
    chosen = torch.arange(examples) if indices is None else torch.as_tensor(indices).cpu().long()
    if len(chosen) and not 0 <= int(chosen.min()) <= int(chosen.max()) < examples:
        raise InputError(
            f"expected indices from 0 to {examples - 1}, but they run from {int(chosen.min())} to "
            f"{int(chosen.max())}"
        )
    parts = chosen.split(batch_size) if len(chosen) else ()
    at_once = _reader(dataset) if collate is None and num_workers == 0 else None
    if at_once is not None:
        for part in parts:
            yield part, to_device(at_once(part), device)
        return
    loader: DataLoader[Any] = DataLoader(
        dataset,
        batch_sampler=[part.tolist() for part in parts],
        collate_fn=collate,
        num_workers=num_workers,
        generator=torch.Generator(),  # else a loader draws its seed from the global one
    )
    for part, batch in zip(parts, loader, strict=True):
        yield part, to_device(batch, device)


def count_examples(dataset: Any) -> int:
    """How many examples a dataset has; one that cannot be asked for its i-th is refused."""
    if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
        raise InputError(
            "expected a map-style dataset, with a length and an i-th example, but came a "
            f"{type(dataset).__name__}: clusters and samplers number the examples, so give the "
            "dataset itself rather than a loader, and read a stream into a list first"
        )
    return len(dataset)


def to_device(batch: Any, device: torch.device | str | None) -> Any:
    """The tensors in tuples, lists and mappings of a batch, on ``device``.

    >>> to_device({"x": torch.ones(1), "name": ["a"]}, "cpu")
    {'x': tensor([1.]), 'name': ['a']}
    """
    if device is None:
        return batch
    if isinstance(batch, Tensor):
        return batch.to(device)
    if callable(getattr(batch, "to", None)):  # such as the batches of Hugging Face tokenisers
        return batch.to(device)
    if isinstance(batch, Mapping):
        return {key: to_device(value, device) for key, value in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(to_device(value, device) for value in batch))
    if isinstance(batch, tuple | list):
        return type(batch)(to_device(value, device) for value in batch)
    return batch


def device_of(model: nn.Module) -> torch.device:
    """Where the model's parameters are."""
    parameter = next(model.parameters(), None)
    return torch.device("cpu") if parameter is None else parameter.device


def check_losses(losses: Any, *, examples: int | None = None) -> None:
    """Refuse what is not one loss per example: a mean, a sum, one loss per token.

    Args:
        losses: what ``loss_fn(model, batch)`` returned.
        examples: how many examples the batch has, where that is known.

    >>> check_losses(torch.tensor(0.7))
    Traceback (most recent call last):
    ...
    strop.support.errors.InputError: expected loss_fn to return one loss per example, a tensor of
    shape (n,), but came shape (): use reduction="none", and average within an example, not over
    examples
    """
    wanted = "(n,)" if examples is None else f"({examples},)"
    one_each = isinstance(losses, Tensor) and losses.ndim == 1
    if not one_each or (examples is not None and len(losses) != examples):
        came = f"shape {tuple(losses.shape)}" if isinstance(losses, Tensor) else type(losses)
        raise InputError(
            f"expected loss_fn to return one loss per example, a tensor of shape {wanted}, but "
            f'came {came}: use reduction="none", and average within an example, not over examples'
        )
    if not len(losses) or not losses.requires_grad:
        raise InputError(
            "expected at least one example and a loss that depends on a trainable parameter"
        )


def _reader(dataset: Any) -> Callable[[Tensor], Any] | None:
    """Many examples by one indexing, where the dataset can."""
    if isinstance(dataset, Tensor):
        return lambda part: dataset[part.to(dataset.device)]
    if type(dataset) is TensorDataset:
        tensors = dataset.tensors
        return lambda part: [tensor[part.to(tensor.device)] for tensor in tensors]
    if isinstance(dataset, LabelledImages):
        return lambda part: dataset.batch(part.to(dataset.labels.device))
    return None
