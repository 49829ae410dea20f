"""Labelled examples from whatever holds them: tensors, a data set, a loader."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from strop.data import LabelledImages
from strop.support import InputError

__all__ = ["Examples", "as_examples"]


@dataclass(frozen=True)
class Examples:
    """The labels of all examples, and their inputs by row."""

    labels: Tensor
    inputs: Callable[[Tensor], Tensor]

    def __len__(self) -> int:
        return len(self.labels)

    def batch(self, rows: Tensor, device: torch.device) -> tuple[Tensor, Tensor]:
        return self.inputs(rows).to(device), self.labels[rows].to(device)

    def fingerprint(self) -> str:
        """Of the labels and the first few inputs: other data are told from these."""
        digest = hashlib.sha256(self.labels.numpy().tobytes())
        first = self.inputs(torch.arange(min(len(self), 16)))
        digest.update(repr(tuple(first.shape)).encode())
        digest.update(first.float().cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()[:16]


def as_examples(data: Any) -> Examples:
    """Examples of :class:`~strop.data.LabelledImages`, of a pair of tensors (inputs, labels), of a
    ``Dataset`` of such pairs, or of a ``DataLoader`` of batches of them.

    >>> data = as_examples((torch.zeros(3, 2), torch.tensor([0, 1, 1])))
    >>> data.batch(torch.tensor([2]), torch.device("cpu"))
    (tensor([[0., 0.]]), tensor([1]))
    """
    if isinstance(data, LabelledImages):
        pictures = data
        return _checked(pictures.labels, lambda rows: pictures.batch(rows)[0])
    if isinstance(data, tuple) and len(data) == 2 and isinstance(data[0], Tensor):
        inputs, labels = data
        if len(inputs) != len(labels):
            raise InputError(
                f"expected a label for each input, came {len(inputs)} inputs and {len(labels)} "
                "labels: pass both of the same examples"
            )
        return _checked(labels, lambda rows: inputs[rows.to(inputs.device)])
    if isinstance(data, torch.utils.data.DataLoader):
        batches = list(data)
        return as_examples((torch.cat([b[0] for b in batches]), torch.cat([b[1] for b in batches])))
    if hasattr(data, "__getitem__") and hasattr(data, "__len__") and len(data):
        items = data
        labels = torch.tensor([int(items[i][1]) for i in range(len(items))])
        return _checked(labels, lambda rows: torch.stack([items[int(i)][0] for i in rows]))
    raise InputError(
        "expected labelled images, a pair of tensors (inputs, labels), a Dataset or a DataLoader "
        f"with examples in it, came {type(data).__name__}: read_images(...) reads most formats"
    )


def _checked(labels: Tensor, inputs: Callable[[Tensor], Tensor]) -> Examples:
    if labels.ndim != 1 or labels.is_floating_point() or len(labels) == 0:
        raise InputError(
            f"expected class numbers of at least one example, came labels of shape "
            f"{tuple(labels.shape)} and {labels.dtype}: y.argmax(dim=1) if they are one-hot"
        )
    return Examples(labels.detach().cpu().long(), inputs)
