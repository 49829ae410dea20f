"""Labelled images in memory or on disk, and what was done to them.

Letters: n examples, c channels, h height, w width, k classes.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset

from strop.data.image_files import ImageFiles
from strop.support import InputError

Step = Mapping[str, Any]
"""One entry of a provenance record: plain JSON values, with the step's name under ``step``."""


@dataclass(frozen=True, eq=False, repr=False)
class LabelledImages(Dataset[tuple[Tensor, int | Tensor]]):
    """Images with class labels: a torch ``Dataset`` of (image in [0, 1], label).

    ``data[i]`` is ``(float32 (c, h, w) in [0, 1], int)``; after :func:`smooth_labels` the second is
    a float32 (k,) target distribution, as ``torch.nn.functional.cross_entropy`` takes it too.
    ``Indexed(data)[i]`` adds ``i`` itself, and :meth:`batch` gives many examples at once.

    Subsets and duplicates share the stored pixels: ``origin[i]`` is the row of ``store`` that
    example i shows, which is also its position in the files as they were read.

    Attributes:
        store: the images as read: uint8 (rows, c, h, w), or :class:`ImageFiles`.
        origin: (n,) rows of ``store``.
        labels: (n,) class numbers, as the examples are now labelled.
        true_labels: (n,) class numbers as read.
        class_names: k names.
        smoothing: probability spread evenly over all classes; 0 for plain labels.
        record: what was read and every change since, in order, as plain JSON values.

    >>> pixels = torch.tensor([0, 255], dtype=torch.uint8).reshape(2, 1, 1, 1)
    >>> data = LabelledImages.from_tensors(pixels, torch.tensor([1, 0]), class_names=("a", "b"))
    >>> data[1]
    (tensor([[[1.]]]), 0)
    >>> data
    LabelledImages(2 images of 2 classes, 1 x 1 x 1; tensors)
    """

    store: Tensor | ImageFiles
    origin: Tensor
    labels: Tensor
    true_labels: Tensor
    class_names: tuple[str, ...]
    smoothing: float = 0.0
    record: tuple[Step, ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.store, Tensor) and (
            self.store.dtype != torch.uint8 or self.store.ndim != 4
        ):
            raise InputError(
                "expected images as a uint8 tensor (n, channels, height, width), but came "
                f"{_shape(self.store)}; give pixels of 0 to 255 with .to(torch.uint8)"
            )
        for name in ("origin", "labels", "true_labels"):
            value = getattr(self, name)
            if value.dtype != torch.long or value.shape != (len(self.labels),):
                raise InputError(
                    f"expected {name} as a long tensor ({len(self.labels)},), "
                    f"but came {_shape(value)}"
                )
        for name, values, limit in (
            ("origin", self.origin, len(self.store)),
            ("labels", self.labels, len(self.class_names)),
        ):
            if len(values) and not 0 <= int(values.min()) <= int(values.max()) < limit:
                raise InputError(
                    f"expected {name} from 0 to {limit - 1}, "
                    f"but they run from {int(values.min())} to {int(values.max())}"
                )

    @classmethod
    def from_tensors(
        cls,
        images: Tensor | ImageFiles,
        labels: Tensor,
        *,
        class_names: Sequence[str],
        record: Step | None = None,
    ) -> "LabelledImages":
        """Every image once, in order; ``record`` says where they come from."""
        if len(images) != len(labels):
            raise InputError(
                f"expected one label for each image, but there are {len(images)} images and "
                f"{len(labels)} labels"
            )
        labels = labels.to(torch.long)
        return cls(
            store=images,
            origin=torch.arange(len(labels)),
            labels=labels,
            true_labels=labels,
            class_names=tuple(class_names),
            record=({"step": "tensors"} if record is None else record,),
        )

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int | Tensor]:
        if not -len(self) <= index < len(self):
            raise IndexError(f"expected an index below {len(self)}, but came {index}")
        image = to_unit_interval(self.store[int(self.origin[index])])
        label = int(self.labels[index])
        return image, (self._soft(self.labels[index, None])[0] if self.smoothing else label)

    def __iter__(self) -> Iterator[tuple[Tensor, int | Tensor]]:
        return (self[index] for index in range(len(self)))

    def __repr__(self) -> str:
        size = "x".join(map(str, self.store.shape[1:])) if isinstance(self.store, Tensor) else ""
        size = size.replace("x", " x ") or "decoded from files"
        source = self.record[0].get("format", self.record[0]["step"]) if self.record else "unknown"
        changes = "".join(f", {step['step']}" for step in self.record[1:])
        count = f"{len(self):,} images of {len(self.class_names)} classes"
        return f"LabelledImages({count}, {size}; {source}{changes})"

    @property
    def images(self) -> Tensor:
        """All images as one uint8 tensor (n, c, h, w), decoded where they lie in files."""
        return self._pixels(self.origin)

    @property
    def targets(self) -> Tensor:
        """What a loss is given: ``labels`` (n,), or with smoothing the (n, k) distributions."""
        return self._soft(self.labels) if self.smoothing else self.labels

    @property
    def corrupted(self) -> Tensor:
        """(n,) booleans: which labels are not the true ones."""
        return self.labels != self.true_labels

    def batch(self, indices: Tensor | Sequence[int]) -> tuple[Tensor, Tensor]:
        """Examples at once: float32 images (m, c, h, w) in [0, 1] and their targets."""
        index = torch.as_tensor(indices, dtype=torch.long)
        labels = self.labels[index]
        images = to_unit_interval(self._pixels(self.origin[index]))
        return images, (self._soft(labels) if self.smoothing else labels)

    def in_memory(self) -> "LabelledImages":
        """The same examples with their pixels in one tensor, and only the pixels they use."""
        return self.to(self.labels.device)

    def to(self, device: torch.device | str) -> "LabelledImages":
        """The same examples in memory, with pixels and labels on ``device``."""
        rows, origin = torch.unique(self.origin, return_inverse=True)
        return replace(
            self,
            store=self._pixels(rows).to(device),
            origin=origin.to(device),
            labels=self.labels.to(device),
            true_labels=self.true_labels.to(device),
        )

    def changed(self, step: Step, **fields: Any) -> "LabelledImages":
        """A copy with other fields, and ``step`` added to its record."""
        json.dumps(step)
        return replace(self, record=(*self.record, step), **fields)

    def _pixels(self, rows: Tensor) -> Tensor:
        if isinstance(self.store, Tensor):
            return self.store[rows]
        images = [self.store[int(row)] for row in rows]
        odd = next((image for image in images if image.shape != images[0].shape), None)
        if odd is not None:
            raise InputError(
                f"expected images of one size, but there are {_size(images[0])} and {_size(odd)}; "
                "read them with size=… to bring them to one"
            )
        return torch.stack(images) if images else torch.empty((0, 3, 0, 0), dtype=torch.uint8)

    def _soft(self, labels: Tensor) -> Tensor:
        classes = len(self.class_names)
        rows = torch.nn.functional.one_hot(labels, classes).to(torch.float32)
        return (1 - self.smoothing) * rows + self.smoothing / classes


class Indexed(Dataset[tuple[Any, ...]]):
    """``Indexed(data)[i]`` is ``(*data[i], i)``: for samplers and losses that know each example.

    >>> Indexed([("image", 7)])[0]
    ('image', 7, 0)
    """

    def __init__(self, data: Any) -> None:
        self.data = data

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        return (*self.data[index], index)


def to_unit_interval(images: Tensor) -> Tensor:
    """uint8 pixels to float32 in [0, 1].

    >>> to_unit_interval(torch.tensor([0, 51, 255], dtype=torch.uint8))
    tensor([0.0000, 0.2000, 1.0000])
    """
    if images.dtype != torch.uint8:
        raise InputError(f"expected uint8 pixels of 0 to 255, but came {_shape(images)}")
    return images.to(torch.float32) / 255


def _shape(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {tuple(tensor.shape)}"


def _size(image: Tensor) -> str:
    return f"{image.shape[-2]} x {image.shape[-1]}"
