"""Changes to labelled images: fewer, more often, wrongly labelled, softly labelled.

Each returns a new :class:`LabelledImages` that shares the pixels of the old one and whose record
says what was done. The random ones are functions of their ``torch.Generator`` alone.
"""

import hashlib
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from strop.data.classification import LabelledImages
from strop.support import InputError

LISTED_INDICES = 1000
"""Up to this many indices stand in the record one by one, beyond it their SHA-256."""


def subset(data: LabelledImages, indices: Tensor | Sequence[int]) -> LabelledImages:
    """The examples at ``indices``, in that order; an index may come more than once.

    >>> pixels = torch.zeros(3, 1, 2, 2, dtype=torch.uint8)
    >>> data = LabelledImages.from_tensors(pixels, torch.tensor([0, 1, 2]), class_names="abc")
    >>> subset(data, [2, 0]).labels
    tensor([2, 0])
    """
    index = _positions(indices, len(data))
    return _take(data, index, {"step": "subset", "count": len(index), **_listed(index)})


def sample(
    data: LabelledImages, *, count: int, generator: torch.Generator, balanced: bool = False
) -> LabelledImages:
    """``count`` examples drawn without replacement, in their old order.

    With ``balanced`` every class gives as many as any other; ``count`` is then a multiple of the
    number of classes.

    >>> pixels = torch.zeros(6, 1, 2, 2, dtype=torch.uint8)
    >>> labels = torch.tensor([0, 0, 0, 0, 1, 1])
    >>> data = LabelledImages.from_tensors(pixels, labels, class_names="ab")
    >>> sample(data, count=4, generator=torch.Generator(), balanced=True).labels
    tensor([0, 0, 1, 1])
    """
    if not 0 <= count <= len(data):
        raise InputError(f"expected a count from 0 to {len(data)}, but came {count}")
    if balanced:
        share, rest = divmod(count, len(data.class_names))
        if rest:
            raise InputError(
                f"expected a count that {len(data.class_names)} classes divide evenly, "
                f"but came {count}; ask for {count - rest}"
            )
        labels = data.labels.cpu()
        groups = [(labels == label).nonzero()[:, 0] for label in range(len(data.class_names))]
        small = min(range(len(groups)), key=lambda label: len(groups[label]))
        if len(groups[small]) < share:
            raise InputError(
                f"expected {share} examples of each class, but {data.class_names[small]!r} has "
                f"{len(groups[small])}; ask for {len(groups[small]) * len(groups)} or fewer"
            )
        chosen = torch.cat([group[_choose(len(group), share, generator)] for group in groups])
    else:
        chosen = _choose(len(data), count, generator)
    index = chosen.sort().values
    step = {"step": "sample", "count": count, "balanced": balanced, **_seeded(generator)}
    return _take(data, index, step | _listed(index))


def duplicate(
    data: LabelledImages, indices: int | Tensor | Sequence[int], *, copies: int
) -> LabelledImages:
    """The data followed by ``copies`` further copies of each example at ``indices``.

    Thesis section 4.4.3 repeats 10 training images 10,000 times each beside the 50,000 of CIFAR.
    No pixel is copied: all copies have the ``origin`` of their original.

    >>> pixels = torch.zeros(3, 1, 2, 2, dtype=torch.uint8)
    >>> data = LabelledImages.from_tensors(pixels, torch.tensor([0, 1, 2]), class_names="abc")
    >>> duplicate(data, 1, copies=2).origin
    tensor([0, 1, 2, 1, 1])
    """
    if copies < 0:
        raise InputError(f"expected a number of copies of 0 or more, but came {copies}")
    chosen = _positions([indices] if isinstance(indices, int) else indices, len(data))
    index = torch.cat([torch.arange(len(data)), chosen.repeat_interleave(copies)])
    step = {"step": "duplicate", "points": len(chosen), "copies": copies}
    return _take(data, index, step | _listed(chosen))


def corrupt_labels(
    data: LabelledImages, *, share: float, generator: torch.Generator, uniform: bool = False
) -> LabelledImages:
    """Other labels for a share of the examples: exactly round(share * n) of them.

    The new label is drawn evenly from the classes that differ from the true one, so the share of
    wrong labels is exact. With ``uniform`` it is drawn from all classes, the true one included,
    and about 1/k of the chosen examples keep the right label. ``data.corrupted`` tells which are
    wrong. Thesis section 4.4.1 corrupts 10 %; its published code has ``share=0.2, uniform=True``.

    >>> pixels = torch.zeros(10, 1, 2, 2, dtype=torch.uint8)
    >>> labels = torch.zeros(10, dtype=torch.long)
    >>> data = LabelledImages.from_tensors(pixels, labels, class_names="ab")
    >>> int(corrupt_labels(data, share=0.3, generator=torch.Generator()).corrupted.sum())
    3
    """
    classes = len(data.class_names)
    if not 0 <= share <= 1:
        raise InputError(
            f"expected a share from 0 to 1, but came {share}; 10 % are written share=0.1"
        )
    if classes < 2:
        raise InputError(f"expected at least 2 classes to corrupt labels, but there is {classes}")
    chosen = _choose(len(data), round(share * len(data)), generator)
    labels = data.labels.clone()
    if uniform:
        drawn = torch.randint(classes, (len(chosen),), generator=generator)
    else:
        shift = torch.randint(1, classes, (len(chosen),), generator=generator)
        drawn = (data.true_labels[chosen].cpu() + shift) % classes
    labels[chosen] = drawn.to(labels.device)
    step = {
        "step": "corrupt labels",
        "share": share,
        "count": len(chosen),
        "uniform": uniform,
        **_seeded(generator),
        "labels_sha256": _digest(labels),
    }
    return data.changed(step, labels=labels)


def smooth_labels(data: LabelledImages, *, smoothing: float) -> LabelledImages:
    """Targets (1 - s) onehot(y) + s / k instead of labels (Szegedy et al. 2016).

    Smoothing twice composes: the mass left on the label is the product of both.

    >>> pixels = torch.zeros(1, 1, 2, 2, dtype=torch.uint8)
    >>> data = LabelledImages.from_tensors(pixels, torch.tensor([1]), class_names="ab")
    >>> smooth_labels(data, smoothing=0.1).targets
    tensor([[0.0500, 0.9500]])
    """
    if not 0 <= smoothing < 1:
        raise InputError(f"expected a smoothing from 0 to below 1, but came {smoothing}")
    step = {"step": "smooth labels", "smoothing": smoothing}
    return data.changed(step, smoothing=1 - (1 - data.smoothing) * (1 - smoothing))


def _take(data: LabelledImages, index: Tensor, step: dict[str, Any]) -> LabelledImages:
    return data.changed(
        step,
        origin=data.origin[index],
        labels=data.labels[index],
        true_labels=data.true_labels[index],
    )


def _positions(indices: Tensor | Sequence[int], count: int) -> Tensor:
    index = torch.as_tensor(indices).cpu()
    if index.dtype == torch.bool and index.shape == (count,):
        index = index.nonzero()[:, 0]
    if index.numel() == 0:
        index = index.reshape(0).to(torch.long)
    if index.ndim != 1 or index.is_floating_point() or index.dtype == torch.bool:
        raise InputError(
            f"expected indices as whole numbers in one row, or {count} booleans, "
            f"but came {str(index.dtype).removeprefix('torch.')} {tuple(index.shape)}"
        )
    wrong = (index < -count) | (index >= count)
    if wrong.any():
        raise InputError(
            f"expected indices below {count}, the number of examples, "
            f"but came {int(index[wrong][0])}"
        )
    return index.to(torch.long) % max(count, 1)


def _choose(count: int, chosen: int, generator: torch.Generator) -> Tensor:
    return torch.randperm(count, generator=generator)[:chosen]


def _listed(index: Tensor) -> dict[str, Any]:
    if len(index) <= LISTED_INDICES:
        return {"indices": index.tolist()}
    return {"indices_sha256": _digest(index)}


def _seeded(generator: torch.Generator) -> dict[str, int]:
    return {"seed": generator.initial_seed()}


def _digest(values: Tensor) -> str:
    return hashlib.sha256(values.cpu().numpy().astype("<i8").tobytes()).hexdigest()
