"""Which examples make a batch: by weight, by stratum, or never two captions of one image.

The order of an epoch is a function of (seed, epoch) and of nothing else, so that a run can be
taken up again in the middle of one: ``sampler.batches(epoch, start)`` skips what is done. As a
``batch_sampler`` of a torch ``DataLoader``, a sampler goes through the epoch of ``set_epoch``.

Legend: N examples, B in a batch, K strata.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import islice

import torch
from torch import Tensor

from strop.support import InputError


def epoch_generator(seed: int, epoch: int) -> torch.Generator:
    """A generator of its own for every (seed, epoch); neighbours are unrelated."""
    digest = hashlib.sha256(f"{seed} {epoch}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))


class EpochBatches(ABC):
    """Batches of indices whose order is a function of (seed, epoch)."""

    def __init__(self, *, seed: int = 0) -> None:
        self.seed = seed
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Which epoch ``iter(self)`` goes through."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[list[int]]:
        return self.batches(self.epoch)

    def batches(self, epoch: int, start: int = 0) -> Iterator[list[int]]:
        """The batches of an epoch from number ``start`` on, each a list of indices."""
        return islice(self._draw(epoch_generator(self.seed, epoch)), start, None)

    @abstractmethod
    def __len__(self) -> int:
        """How many batches an epoch has, the same in every epoch."""

    @abstractmethod
    def _draw(self, generator: torch.Generator) -> Iterator[list[int]]: ...


class WeightedBatches(EpochBatches):
    """Examples drawn independently, example n with probability ``weights[n] / sum(weights)``.

    The mean of a loss over such a batch estimates the mean over the data without bias when each
    example's loss is multiplied by its ``corrections``, ``mean(weights) / weights[n]``.

    weights: (N,), none negative, not all zero; an example of weight zero is never drawn.
    count: batches in an epoch; by default N / B, rounded up.

    >>> sampler = WeightedBatches(torch.tensor([0.0, 1.0, 3.0]), batch_size=4, count=2)
    >>> sampler.corrections[1:]
    tensor([1.3333, 0.4444], dtype=torch.float64)
    >>> list(sampler.batches(0)) == list(sampler.batches(0)) != list(sampler.batches(1))
    True
    """

    def __init__(
        self, weights: Tensor, *, batch_size: int, count: int | None = None, seed: int = 0
    ) -> None:
        super().__init__(seed=seed)
        weights = weights.detach().cpu().double()
        if weights.ndim != 1 or not bool(torch.isfinite(weights).all() & (weights >= 0).all()):
            raise InputError(
                f"expected one finite weight of at least 0 for each example, but came a tensor of "
                f"shape {tuple(weights.shape)} between {weights.min():g} and {weights.max():g}"
            )
        if float(weights.sum()) <= 0:
            raise InputError("expected a positive weight at least once, but all weights are 0")
        self.batch_size = _at_least_one(batch_size, "batch_size")
        default = -(-len(weights) // batch_size)
        self.count = default if count is None else _at_least_one(count, "count")
        self.corrections = weights.mean() / weights
        self._cumulative = torch.cumsum(weights, 0)
        # Rounding may carry a number just below 1 past the end: it then means the last example
        # that may be drawn at all.
        self._last = int(torch.nonzero(weights).max())

    def __len__(self) -> int:
        return self.count

    def _draw(self, generator: torch.Generator) -> Iterator[list[int]]:
        for _ in range(self.count):
            uniform = torch.rand(self.batch_size, generator=generator, dtype=torch.float64)
            points = uniform * self._cumulative[-1]
            found = torch.searchsorted(self._cumulative, points, right=True)
            yield found.clamp_(max=self._last).tolist()


class StratifiedBatches(EpochBatches):
    """The same number of examples from each stratum in every batch.

    With one example i_k from each of K strata of N_k examples, ``sum_k N_k / N * g(i_k)`` estimates
    the mean of g over all N examples without bias, and with no more variance than K examples drawn
    from all in proportion: only the variance within strata is left. ``weights`` holds the factors
    N_k / N, one for each place in a batch, in the order of the strata.

    strata: long (N,), the stratum of each example, any numbers.
    per_stratum: examples from each stratum, m; the factors are then N_k / (N m).
    count: batches in an epoch; by default N / (K m), rounded up. A stratum that is used up within
        an epoch is shuffled and begun again.

    >>> sampler = StratifiedBatches(torch.tensor([7, 7, 7, 9]))
    >>> sampler.weights
    tensor([0.7500, 0.2500], dtype=torch.float64)
    >>> [batch[1] for batch in sampler.batches(0)]
    [3, 3]
    """

    def __init__(
        self, strata: Tensor, *, per_stratum: int = 1, count: int | None = None, seed: int = 0
    ) -> None:
        super().__init__(seed=seed)
        _, number, sizes = torch.unique(_labels(strata), return_inverse=True, return_counts=True)
        self.per_stratum = _at_least_one(per_stratum, "per_stratum")
        self._members = torch.argsort(number, stable=True).split(sizes.tolist())
        self.weights = (sizes / (len(strata) * per_stratum)).double().repeat_interleave(per_stratum)
        default = -(-len(strata) // (len(sizes) * per_stratum))
        self.count = default if count is None else _at_least_one(count, "count")

    def __len__(self) -> int:
        return self.count

    def _draw(self, generator: torch.Generator) -> Iterator[list[int]]:
        places = self.count * self.per_stratum
        columns = [_cycled(members, places, generator) for members in self._members]
        rows = torch.cat([column.view(self.count, self.per_stratum) for column in columns], dim=1)
        yield from rows.tolist()


def _cycled(members: Tensor, places: int, generator: torch.Generator) -> Tensor:
    """``members`` shuffled, then shuffled anew, until there are ``places`` of them."""
    rounds = -(-places // len(members))
    order = torch.rand(rounds, len(members), generator=generator).argsort(dim=1).flatten()
    return members[order[:places]]


class DistinctImageBatches(EpochBatches):
    """Every caption once an epoch, and never two captions of one image in a batch.

    Two captions of one image are false negatives of each other. The images with most captions left
    go first, which fills as many batches as can be filled at all: with c_g captions of image g,
    the largest n with ``sum_g min(c_g, n) >= n B``. Then the batches are shuffled.

    groups: long (N,), the image of each caption (``data.image_of_caption``), or any number that
        two examples of a batch must not share.
    drop_last: leave out the captions that fill no batch; otherwise they come last, in batches that
        are not full.

    >>> sampler = DistinctImageBatches(torch.tensor([0, 0, 1, 1, 2, 2]), batch_size=3)
    >>> [sorted(caption // 2 for caption in batch) for batch in sampler.batches(0)]
    [[0, 1, 2], [0, 1, 2]]
    """

    def __init__(
        self, groups: Tensor, *, batch_size: int, drop_last: bool = True, seed: int = 0
    ) -> None:
        super().__init__(seed=seed)
        _, self._number, counts = torch.unique(
            _labels(groups), return_inverse=True, return_counts=True
        )
        self.batch_size = _at_least_one(batch_size, "batch_size")
        self.drop_last = drop_last
        self._full = _fillable(counts, batch_size)
        self._all = max(int(counts.max()), -(-len(groups) // batch_size))
        if drop_last and self._full == 0:
            raise InputError(
                f"expected examples for at least one batch of {batch_size} different images, but "
                f"there are only {len(counts):,} images; take a smaller batch_size, or keep what "
                f"is left with drop_last=False"
            )

    def __len__(self) -> int:
        return self._full if self.drop_last else self._all

    def _draw(self, generator: torch.Generator) -> Iterator[list[int]]:
        batches = list(islice(self._greedy(self._most_left_first(generator)), len(self)))
        for number in torch.randperm(self._full, generator=generator).tolist():
            yield batches[number]
        yield from batches[self._full :]

    def _most_left_first(self, generator: torch.Generator) -> Tensor:
        """Captions by how many of their image are left once they are reached, ties at random."""
        order = torch.randperm(len(self._number), generator=generator)
        grouped = torch.argsort(self._number[order], stable=True)
        counts = torch.bincount(self._number)
        first = (torch.cumsum(counts, 0) - counts)[self._number[order[grouped]]]
        left = torch.empty_like(order)
        left[grouped] = torch.arange(len(order)) - first
        return order[torch.argsort(left, descending=True, stable=True)]

    def _greedy(self, sequence: Tensor) -> Iterator[list[int]]:
        """Batches from ``sequence``; a caption whose image is in the batch waits for the next."""
        group_of = self._number.tolist()
        left = torch.bincount(self._number).tolist()
        images_left = len(left)
        coming = iter(sequence.tolist())
        waiting: list[int] = []
        while images_left:
            batch: list[int] = []
            present: set[int] = set()
            again: list[int] = []
            ahead = iter(waiting)
            size = min(self.batch_size, images_left)
            while len(batch) < size:
                caption = next(ahead, None)
                if caption is None:
                    caption = next(coming)
                if group_of[caption] in present:
                    again.append(caption)
                else:
                    batch.append(caption)
                    present.add(group_of[caption])
            waiting = [*again, *ahead]
            for group in present:
                left[group] -= 1
                images_left -= left[group] == 0
            yield batch


def _fillable(counts: Tensor, batch_size: int) -> int:
    """The largest n with ``sum_g min(counts_g, n) >= n batch_size``, by bisection."""
    low, high = 0, int(counts.sum()) // batch_size
    while low < high:
        middle = (low + high + 1) // 2
        if int(counts.clamp(max=middle).sum()) >= middle * batch_size:
            low = middle
        else:
            high = middle - 1
    return low


def _labels(labels: Tensor) -> Tensor:
    if labels.ndim != 1 or labels.is_floating_point() or len(labels) == 0:
        raise InputError(
            f"expected a whole number for each example, but came {labels.dtype} of shape "
            f"{tuple(labels.shape)}"
        )
    return labels.detach().cpu()


def _at_least_one(value: int, name: str) -> int:
    if value < 1:
        raise InputError(f"expected {name} to be at least 1, but it is {value}")
    return value
