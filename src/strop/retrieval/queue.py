"""Negatives beyond the batch: given outright, or remembered from batches before."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from strop.support import InputError


@dataclass(frozen=True)
class Negatives:
    """Extra images and captions which every query of a batch is ranked against, never as positives.

    ``image_ids`` and ``caption_ids`` (by default the same) say to which image each row belongs;
    rows that share the image of a query are left out of its negatives.
    """

    images: Tensor
    captions: Tensor
    image_ids: Tensor | None = None
    caption_ids: Tensor | None = None

    def __post_init__(self) -> None:
        if self.image_ids is not None and self.caption_ids is None:
            object.__setattr__(self, "caption_ids", self.image_ids)
        if (self.image_ids is None) != (self.caption_ids is None):
            raise InputError("negatives need ids for images and captions alike, or for neither")
        for name in ("image", "caption"):
            rows, ids = getattr(self, f"{name}s"), getattr(self, f"{name}_ids")
            if rows.ndim != 2:
                raise InputError(
                    f"expected the {name}s among the negatives as (rows, dimension), "
                    f"but their shape is {tuple(rows.shape)}"
                )
            if ids is not None and ids.shape != (len(rows),):
                raise InputError(
                    f"expected one id for each of the {len(rows)} {name}s among the negatives, "
                    f"but the ids have shape {tuple(ids.shape)}"
                )

    def joined(self, more: "Negatives") -> "Negatives":
        """Both, one behind the other; either has ids for all or neither has."""
        if (self.image_ids is None) != (more.image_ids is None):
            raise InputError("expected ids for all negatives or for none, but only some have them")
        image_ids = caption_ids = None
        if self.image_ids is not None and more.image_ids is not None:
            assert self.caption_ids is not None
            assert more.caption_ids is not None
            image_ids = torch.cat([self.image_ids.to(more.image_ids), more.image_ids])
            caption_ids = torch.cat([self.caption_ids.to(more.caption_ids), more.caption_ids])
        return Negatives(
            torch.cat([self.images.to(more.images), more.images]),
            torch.cat([self.captions.to(more.captions), more.captions]),
            image_ids,
            caption_ids,
        )


class NegativeQueue(nn.Module):
    """The last ``size`` pairs of embeddings, to serve as further negatives (without gradient).

    Push a batch after its loss, so that no batch meets itself. A module: the state dictionary holds
    what was remembered, for exact resume.

    >>> queue = NegativeQueue(size=3, dimension=2)
    >>> for step in range(2):
    ...     queue.push(torch.full((2, 2), float(step)), torch.ones(2, 2))
    >>> len(queue), sorted(queue.negatives().images[:, 0].tolist())
    (3, [0.0, 1.0, 1.0])
    """

    images: Tensor
    captions: Tensor
    image_ids: Tensor

    def __init__(self, *, size: int, dimension: int, dtype: torch.dtype | None = None) -> None:
        super().__init__()
        if size < 1 or dimension < 1:
            raise InputError(f"a queue of size {size} and dimension {dimension} holds nothing")
        self.register_buffer("images", torch.zeros(size, dimension, dtype=dtype))
        self.register_buffer("captions", torch.zeros(size, dimension, dtype=dtype))
        self.register_buffer("image_ids", torch.zeros(size, dtype=torch.int64))
        self._pushed = 0
        self._with_ids: bool | None = None

    def __len__(self) -> int:
        return min(self._pushed, len(self.images))

    @torch.no_grad()
    def push(self, images: Tensor, captions: Tensor, image_ids: Tensor | None = None) -> None:
        """Remember a batch in place of the oldest; one larger than the queue leaves its end."""
        if images.shape != captions.shape or images.shape[1:] != self.images.shape[1:]:
            raise InputError(
                f"expected images and captions of shape (B, {self.images.shape[1]}), "
                f"but got {tuple(images.shape)} and {tuple(captions.shape)}"
            )
        if self._with_ids not in (None, image_ids is not None):
            raise InputError("the queue was fed with image_ids before: give them always or never")
        self._with_ids = image_ids is not None
        size, count = len(self.images), len(images)
        kept = slice(max(0, count - size), count)
        places = torch.arange(kept.start, count, device=self.images.device)
        places = (places + self._pushed) % size
        self.images[places] = images[kept].to(self.images)
        self.captions[places] = captions[kept].to(self.captions)
        if image_ids is not None:
            self.image_ids[places] = image_ids[kept].to(self.image_ids)
        self._pushed += count

    def negatives(self) -> Negatives | None:
        """What is remembered, or nothing while the queue is empty."""
        if not len(self):
            return None
        filled = slice(0, len(self))
        ids = self.image_ids[filled] if self._with_ids else None
        return Negatives(self.images[filled], self.captions[filled], ids)

    def get_extra_state(self) -> Tensor:
        # A tensor, so that formats which hold tensors alone can store it.
        return torch.tensor([self._pushed, bool(self._with_ids)])

    def set_extra_state(self, state: Tensor) -> None:
        self._pushed = int(state[0])
        self._with_ids = bool(state[1]) if self._pushed else None


NegativesLike = Negatives | NegativeQueue | tuple[Tensor, ...]


def negatives_from(given: NegativesLike | None) -> Negatives | None:
    """Negatives from what a caller may hand over."""
    if given is None or isinstance(given, Negatives):
        return given
    if isinstance(given, NegativeQueue):
        return given.negatives()
    if isinstance(given, tuple) and len(given) in (2, 3):
        return Negatives(*given)
    raise InputError(
        "negatives must be Negatives, a NegativeQueue or a tuple (images, captions[, image_ids]), "
        f"but are {type(given).__name__}"
    )
