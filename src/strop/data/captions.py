"""One in-memory shape for all image-caption data.

Legend: N images, M captions; any number of captions per image, zero included.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from strop.data.images import Images, Indices, as_images, as_indices
from strop.support import InputError


@dataclass(frozen=True, eq=False)
class ImageCaptions:
    """Images, captions, and which caption belongs to which image (thesis section 3.2).

    images: a tensor of pictures or features, or any :class:`~strop.data.images.Images`.
    names: one per image, each once: a file name, an identifier.
    captions: the texts, in any order.
    image_of_caption: long (M,), the image of each caption.
    fields: further facts, one text per image each, such as ``{"group": ("Flags", ...)}``; images
        that share their ``"concept"`` show the same thing and are no negatives of one another.
    source: where the data come from, in words, for :meth:`describe`.

    >>> data = ImageCaptions(
    ...     images=torch.zeros(3, 4),
    ...     names=("a.jpg", "b.jpg", "c.jpg"),
    ...     captions=("a dog", "two dogs", "a cat"),
    ...     image_of_caption=torch.tensor([0, 0, 2]),
    ... )
    >>> data.captions_of(0)
    ('a dog', 'two dogs')
    >>> print(data.describe())
    image-caption data: 3 images (features of 4 numbers) and 3 captions, 0 to 2 per image; 1 image
    has no caption.
    """

    images: Images
    names: tuple[str, ...]
    captions: tuple[str, ...]
    image_of_caption: Tensor
    fields: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    source: str = "image-caption data"

    def __post_init__(self) -> None:
        object.__setattr__(self, "images", as_images(self.images))
        object.__setattr__(self, "names", tuple(self.names))
        object.__setattr__(self, "captions", tuple(self.captions))
        _check_count(len(self.names), len(self.images), of="names", to="images")
        for name, values in self.fields.items():
            _check_count(len(values), len(self.images), of=f"values of the field {name!r}")
        if len(set(self.names)) != len(self.names):
            twice = Counter(self.names).most_common(1)[0][0]
            raise InputError(f"expected every image once, but the name {twice!r} comes twice")
        owners = as_indices(self.image_of_caption, length=len(self.images), of="images")
        object.__setattr__(self, "image_of_caption", owners)
        _check_count(
            len(owners), len(self.captions), of="owners in image_of_caption", to="captions"
        )

    @cached_property
    def _grouped(self) -> tuple[Tensor, Tensor]:
        """Captions sorted by image, in their order within an image, and how many each image has."""
        order = torch.argsort(self.image_of_caption, stable=True)
        return order, torch.bincount(self.image_of_caption, minlength=len(self.images))

    @cached_property
    def _starts(self) -> Tensor:
        _, counts = self._grouped
        return torch.cumsum(counts, 0) - counts

    @property
    def captions_per_image(self) -> Tensor:
        """Long (N,): how many captions each image has."""
        return self._grouped[1]

    def caption_indices_of(self, image: int) -> Tensor:
        """Where the captions of an image stand among ``captions``."""
        image = int(as_indices([image], length=len(self.images), of="images"))
        order, counts = self._grouped
        start = int(self._starts[image])
        return order[start : start + int(counts[image])]

    def captions_of(self, image: int) -> tuple[str, ...]:
        """The captions of an image: perhaps none."""
        return tuple(self.captions[at] for at in self.caption_indices_of(image).tolist())

    def subset(self, image_indices: Indices) -> "ImageCaptions":
        """The images at ``image_indices`` (or under a mask), in that order, with their captions.

        The captions come image by image. Pictures are not read: files stay files.
        """
        chosen = as_indices(image_indices, length=len(self.images), of="images")
        order, counts = self._grouped
        kept = counts[chosen]
        owners = torch.repeat_interleave(torch.arange(len(chosen)), kept)
        within = torch.arange(len(owners)) - (torch.cumsum(kept, 0) - kept)[owners]
        rows = order[self._starts[chosen][owners] + within].tolist()
        at = chosen.tolist()
        return ImageCaptions(
            images=self.images.select(chosen),
            names=tuple(self.names[image] for image in at),
            captions=tuple(self.captions[row] for row in rows),
            image_of_caption=owners,
            fields={
                key: tuple(values[image] for image in at) for key, values in self.fields.items()
            },
            source=self.source,
        )

    def labels(self, name: str) -> tuple[Tensor, tuple[str, ...]]:
        """A field as class labels: long (N,), and the classes in alphabetical order.

        >>> data = ImageCaptions(
        ...     torch.zeros(3, 4), ("a", "b", "c"), (), torch.tensor([]),
        ...     fields={"kind": ("flag", "animal", "flag")},
        ... )
        >>> data.labels("kind")
        (tensor([1, 0, 1]), ('animal', 'flag'))
        """
        if name not in self.fields:
            known = ", ".join(sorted(self.fields)) or "none"
            raise InputError(f"expected the name of a field, one of: {known}; but came {name!r}")
        classes = tuple(sorted(set(self.fields[name])))
        number = {value: at for at, value in enumerate(classes)}
        return torch.tensor([number[value] for value in self.fields[name]]), classes

    def describe(self) -> str:
        """A plain sentence: what the images are, how many captions, how many images without."""
        counts = self.captions_per_image
        sentence = (
            f"{self.source}: {_plural(len(self.images), 'image')} ({self.images.describe()}) "
            f"and {_plural(len(self.captions), 'caption')}"
        )
        if len(counts) and len(self.captions):
            least, most = int(counts.min()), int(counts.max())
            sentence += f", {most}" if least == most else f", {least} to {most}"
            sentence += " per image"
        without = int((counts == 0).sum())
        if without:
            sentence += (
                f"; {_plural(without, 'image')} {'has' if without == 1 else 'have'} no caption"
            )
        return sentence + "."


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _check_count(came: int, expected: int, *, of: str, to: str = "images") -> None:
    if came != expected:
        raise InputError(
            f"expected as many {of} as {to}, but there are {came:,} {of} and {expected:,} {to}"
        )
