"""Telling that a joint space has collapsed to a point, while it is still the first epoch.

Trainings that start slowly and trainings that collapse look alike: similarities draw together until
their spread is a hundredth of the margin, and the loss stands at the value it has when all are
equal. What differs is order: in a slow start a positive still beats a random negative in six to
nine of ten cases, and more and more often; in a collapse it is a coin toss.
"""

import warnings
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from strop.retrieval.losses import Reduction
from strop.retrieval.mining import Mining, MiningName, mining_from_name
from strop.retrieval.similarity import Similarity, SimilarityName, similarity_from_name
from strop.support import InputError, StropError

RISE = 0.02  # in the share of wins from one half of the window to the next: order is coming


def collapsed_loss(
    *,
    batch_size: int,
    margin: float = 0.2,
    mining: MiningName | Mining = "softmax",
    k: int | None = None,
    reduction: Reduction = "mean",
) -> float:
    """The hinge loss of a batch whose similarities are all equal: every violation is the margin.

    With the reduction "sum": 2 B margin for MH and softmax, 2 B (B - 1) margin for SH, 2 B k margin
    for the k hardest, 0 for semi-hard (no negative is less similar than a positive).

    >>> collapsed_loss(batch_size=128, mining="max", reduction="sum")
    51.2
    """
    chosen = mining_from_name(mining, k=k)
    each = 2 * chosen.collapsed_loss(margin=margin, negatives=batch_size - 1)
    if reduction == "mean":
        return each
    if reduction == "sum":
        return batch_size * each
    raise InputError(f"reduction must be 'mean' or 'sum', but is {reduction!r}")


@dataclass(frozen=True)
class Collapse:
    """What was seen; as text, a sentence with the remedy."""

    step: int
    spread: float
    wins: float
    margin: float

    def __str__(self) -> str:
        return (
            f"The embeddings have collapsed: up to step {self.step} similarities spread by only "
            f"{self.spread:.2g} (the margin is {self.margin:g}) and a positive beats a random "
            f"negative in {100 * self.wins:.0f} % of cases, as by chance; the gradient vanishes "
            "there, so start again with mining='softmax', or with a few epochs of mining='sum' "
            "before mining='max', or with a lower learning rate."
        )


class CollapseError(StropError):
    """The embeddings have collapsed, and ``on_collapse`` is "stop"."""


class CollapseDetector:
    """Watches the embeddings of each step, at the cost of two products of B pairs.

    Fires when, over the last ``window`` steps, the similarities of negatives spread by less than
    ``spread`` margins, positives win against random negatives in less than the share ``wins`` of
    cases in both directions, and neither is on the rise.

    Args:
        margin: that of the loss (for InfoNCE, its temperature).
        on_collapse: "stop" raises a CollapseError, "warn" warns once and goes on, "ignore" only
            returns what was seen.

    >>> detector = CollapseDetector(window=20, on_collapse="ignore")
    >>> point = torch.ones(8, 4)
    >>> seen = [detector.update(point, point) for step in range(20)]
    >>> seen[0], seen[-1].step, seen[-1].wins
    (None, 20, 0.5)
    """

    def __init__(
        self,
        *,
        margin: float = 0.2,
        similarity: SimilarityName | Similarity = "cosine",
        window: int = 100,
        spread: float = 0.01,
        wins: float = 0.575,
        on_collapse: Literal["stop", "warn", "ignore"] = "stop",
    ) -> None:
        if window < 10:
            raise InputError(f"expected a window of at least 10 steps, but got {window}")
        if on_collapse not in ("stop", "warn", "ignore"):
            raise InputError(
                f"on_collapse must be 'stop', 'warn' or 'ignore', but is {on_collapse!r}"
            )
        self.margin = margin
        self.similarity = similarity_from_name(similarity)
        self.window = window
        self.spread = spread
        self.wins = wins
        self.on_collapse = on_collapse
        self.collapse: Collapse | None = None
        self._steps = 0
        self._seen: deque[Tensor] = deque(maxlen=window)

    @torch.no_grad()
    def update(
        self, images: Tensor, captions: Tensor, image_ids: Tensor | None = None
    ) -> Collapse | None:
        """Look at a batch (B, D); from the first collapse on, return what was seen then."""
        self._steps += 1
        if len(images) > 1:
            self._seen.append(self._statistics(images, captions, image_ids))
        # Reading the values makes a GPU wait, so that is done now and then.
        due = self._steps % (self.window // 10) == 0
        if self.collapse is None and due and len(self._seen) == self.window:
            self.collapse = self._verdict()
            if self.collapse is not None:
                self._act(self.collapse)
        return self.collapse

    def state_dict(self) -> dict[str, Any]:
        """What a resumed run must know to fire at the step at which it would have fired."""
        seen = torch.stack(list(self._seen)) if self._seen else torch.empty(0, 3)
        found = None if self.collapse is None else vars(self.collapse)
        return {"steps": self._steps, "seen": seen, "collapse": found}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._steps = state["steps"]
        self._seen = deque(state["seen"].unbind(0), maxlen=self.window)
        self.collapse = None if state["collapse"] is None else Collapse(**state["collapse"])

    def _statistics(self, images: Tensor, captions: Tensor, image_ids: Tensor | None) -> Tensor:
        """Spread of random negatives; share of images, and of captions, that win against them."""
        images = self.similarity.prepare_images(images)
        captions = self.similarity.prepare_captions(captions)
        shift = 1 + self._steps % (len(images) - 1)
        positive = self.similarity.pairs(images, captions)
        negative = self.similarity.pairs(images, captions.roll(shift, 0))
        of_caption = positive.roll(shift, 0)
        valid = torch.ones_like(positive)
        if image_ids is not None:
            valid = (image_ids != image_ids.roll(shift, 0)).to(positive)
        count = valid.sum().clamp(min=1)
        mean = (valid * negative).sum() / count
        spread = ((valid * (negative - mean).square()).sum() / count).sqrt()
        wins = [
            (valid * ((own > negative).to(valid) + (own >= negative).to(valid)) / 2).sum() / count
            for own in (positive, of_caption)
        ]
        return torch.stack([spread, *wins])

    def _verdict(self) -> Collapse | None:
        seen = torch.stack(list(self._seen)).double().cpu()
        earlier, later = (part.mean(0) for part in seen.tensor_split(2))
        spread, *wins = seen.mean(0).tolist()
        flat = spread < self.spread * self.margin and max(wins) < self.wins
        recovering = later[0] > earlier[0] or later[1:].max() > earlier[1:].max() + RISE
        if recovering or not flat:
            return None
        return Collapse(self._steps, spread, max(wins), self.margin)

    def _act(self, collapse: Collapse) -> None:
        if self.on_collapse == "stop":
            raise CollapseError(str(collapse))
        if self.on_collapse == "warn":
            warnings.warn(str(collapse), stacklevel=3)
