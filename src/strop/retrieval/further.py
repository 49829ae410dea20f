"""Negatives from beyond the batch, found anew for every step of a training."""

from typing import Protocol

import torch
from torch import Tensor

from strop.retrieval.model import JointEmbedding
from strop.retrieval.pairs import Pairs
from strop.retrieval.queue import Negatives
from strop.retrieval.similarity import similarity_from_name
from strop.support import InputError
from strop.training.measuring import measuring


class FurtherNegatives(Protocol):
    """Negatives for a batch of embeddings, which come from elsewhere in the training set."""

    def __call__(
        self, model: JointEmbedding, images: Tensor, captions: Tensor, image_ids: Tensor, /
    ) -> Negatives: ...


class RandomPairs:
    """So many pairs drawn at random for each step, embedded with gradient.

    With a batch of B the negative set has B + ``count`` pairs, thesis section 3.3.9.
    """

    def __init__(self, pairs: Pairs, *, count: int) -> None:
        if count < 1:
            raise InputError(f"expected at least one further pair, but count is {count}")
        self.pairs, self.count = pairs, count

    def __call__(
        self, model: JointEmbedding, images: Tensor, captions: Tensor, image_ids: Tensor, /
    ) -> Negatives:
        rows = torch.randint(len(self.pairs), (self.count,))
        return _embedded(model, self.pairs, rows, images.device)


class HardestPairs:
    """The hardest image and caption of the whole training set for each query of the batch.

    For an image i: argmax of s(i, c') over all captions c' of other images, and likewise for
    captions (thesis section 3.3.9, "the hardest negatives in the entire training set"). They are
    looked up among embeddings that are made anew every ``refresh`` steps, and those chosen are
    embedded again, with gradient. Costs a product of the batch with the whole set at every step.
    """

    def __init__(self, pairs: Pairs, *, refresh: int, batch_size: int = 512) -> None:
        if refresh < 1:
            raise InputError(f"expected a refresh every step or more, but it is {refresh}")
        self.pairs, self.refresh, self.batch_size = pairs, refresh, batch_size
        self.steps = 0
        self._known: Negatives | None = None

    def __call__(
        self, model: JointEmbedding, images: Tensor, captions: Tensor, image_ids: Tensor, /
    ) -> Negatives:
        if self._known is None or self.steps % self.refresh == 0:
            self._known = self._all(model, images.device)
        self.steps += 1
        rows = self._hardest(model, self._known, images, captions, image_ids)
        return _embedded(model, self.pairs, rows, images.device)

    @staticmethod
    @torch.no_grad()
    def _hardest(
        model: JointEmbedding, known: Negatives, images: Tensor, captions: Tensor, image_ids: Tensor
    ) -> Tensor:
        """The rows of the set that hold a hardest negative of some query."""
        assert known.image_ids is not None
        score = similarity_from_name(model.similarity)
        same = image_ids[:, None] == known.image_ids[None, :]
        to_captions = score.matrix(
            score.prepare_images(images), score.prepare_captions(known.captions)
        )
        to_images = score.matrix(
            score.prepare_images(known.images), score.prepare_captions(captions)
        ).T
        hardest = [
            scores.masked_fill(same, -torch.inf).argmax(dim=1)
            for scores in (to_captions, to_images)
        ]
        return torch.cat(hardest).unique().cpu()

    def _all(self, model: JointEmbedding, device: torch.device) -> Negatives:
        with measuring(model):
            parts = [
                _embedded(model, self.pairs, rows, device)
                for rows in torch.arange(len(self.pairs)).split(self.batch_size)
            ]
        ids = torch.cat([part.image_ids for part in parts if part.image_ids is not None])
        images, captions = (
            torch.cat([getattr(part, side) for part in parts]) for side in ("images", "captions")
        )
        return Negatives(images, captions, ids)


def _embedded(model: JointEmbedding, pairs: Pairs, rows: Tensor, device: torch.device) -> Negatives:
    batch = pairs(rows).to(device)
    images, captions = (part.float() for part in model(batch.images, batch.tokens))
    return Negatives(images, captions, batch.image_ids)
