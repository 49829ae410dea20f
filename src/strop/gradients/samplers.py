"""Stratified batches for an ordinary ``DataLoader``, with weights that travel with the examples.

>>> from torch.utils.data import DataLoader
>>> sampler = StratifiedBatchSampler(torch.tensor([0, 0, 0, 1]), batch_size=2)
>>> data = WeightedExamples(torch.tensor([1.0, 3.0, 5.0, 9.0]), weights=sampler.weights)
>>> for examples, weights, index in DataLoader(data, batch_sampler=sampler):
...     loss = weighted_loss(examples, weights)  # unbiased for the mean over the data, 4.5

Legend: N examples, K strata of N_k examples, B places in a batch, n_k of them for stratum k.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset

from strop.data import EpochBatches
from strop.gradients.strata import Strata, proportional_places, systematic_places
from strop.support import InputError


class _StrataBatches(EpochBatches):
    """Batches of a fixed size from strata; within a stratum no example comes again before all."""

    weights: Tensor

    def __init__(self, clusters: Any, *, batch_size: int, count: int | None, seed: int) -> None:
        super().__init__(seed=seed)
        self.strata = Strata(clusters)
        if not 1 <= batch_size <= self.strata.examples:
            raise InputError(
                f"expected a batch of 1 to {self.strata.examples} examples, but it is {batch_size}"
            )
        if count is not None and count < 1:
            raise InputError(f"expected at least one batch in an epoch, but count is {count}")
        self.batch_size = batch_size
        self.count = -(-self.strata.examples // batch_size) if count is None else count
        self.drop_last = True  # every batch is full; libraries that wrap batch samplers ask

    def __len__(self) -> int:
        return self.count

    @property
    def sampler(self) -> EpochBatches:
        """Itself: where Lightning and Accelerate look for ``set_epoch``."""
        return self

    def shard(self, *, rank: int, num_replicas: int) -> "ShardedBatches":
        """The slices of one of ``num_replicas`` processes, for plain DDP under ``torchrun``.

        Not for Accelerate, nor for ``strop.training.fit``: both slice by themselves.
        """
        return ShardedBatches(self, rank=rank, num_replicas=num_replicas)

    def _places(self, generator: torch.Generator) -> Tensor:
        raise NotImplementedError

    def _draw(self, generator: torch.Generator) -> Iterator[list[int]]:
        streams = [_shuffled_for_ever(members, generator) for members in self.strata.members]
        for _ in range(self.count):
            places = self._places(generator).tolist()
            batch = torch.tensor(
                [next(s) for s, n in zip(streams, places, strict=True) for _ in range(n)]
            )
            # In random order, so that any slice of the batch is a fair sample of it too.
            yield batch[torch.randperm(len(batch), generator=generator)].tolist()


class StratifiedBatchSampler(_StrataBatches):
    """Batches with less variance than uniform ones, and the weights that make them unbiased.

    The mean over a batch of ``weights[i] * loss_i`` estimates the mean loss of all examples without
    bias, and so does its gradient. Thesis eq. (4.1), for any batch size:

    - K = B: one example from each cluster, weight B N_k / N;
    - K < B: n_k in proportion to N_k, at least one, weight B N_k / (N n_k);
    - K > B: random n_k with mean B N_k / N, each within one of it, weight 1.

    At any parameters, for K <= B, the variance is at most ``insurance`` times that of B examples
    drawn uniformly with replacement: theorem B of the guide.

    Args:
        clusters: a :class:`GradientClusters`, or a long tensor (N,): the cluster of each example.
        batch_size: B, over all processes.
        at_least: the fewest places of a cluster; 2 lets a batch measure its own variance.
        count: batches in an epoch; N / B, rounded up, without it.
        seed: with the epoch of ``set_epoch`` it determines the batches.

    Attributes:
        weights: float32 (N,), the weight of each example, in whatever batch it is drawn.
        insurance: ``max_k N_k B / (N n_k)``; None where K > B.

    >>> sampler = StratifiedBatchSampler(torch.tensor([0, 0, 0, 1]), batch_size=2)
    >>> sampler.weights, sampler.insurance
    (tensor([1.5000, 1.5000, 1.5000, 0.5000]), 1.5)
    """

    def __init__(
        self,
        clusters: Any,
        batch_size: int,
        *,
        at_least: int = 1,
        count: int | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(clusters, batch_size=batch_size, count=count, seed=seed)
        sizes = self.strata.sizes
        self._fixed: Tensor | None = None
        self.insurance: float | None = None
        self.weights = torch.ones(self.strata.examples)
        if len(sizes) <= batch_size or at_least > 1:
            self._fixed = proportional_places(sizes, batch_size=batch_size, at_least=at_least)
            by_stratum = batch_size * sizes.double() / (self.strata.examples * self._fixed)
            self.weights = by_stratum.float()[self.strata.of_example]
            self.insurance = float(by_stratum.max())

    def _places(self, generator: torch.Generator) -> Tensor:
        if self._fixed is not None:
            return self._fixed
        return systematic_places(self.strata.sizes, batch_size=self.batch_size, generator=generator)


class EvenBatchSampler(_StrataBatches):
    """Every cluster as often as any other, without weights: for the worst group, not the mean.

    It is biased, and means to be: the loss that falls is the mean over clusters of their mean
    losses, so that a small cluster (a rare subgroup, a hard kind of example) counts as much as a
    large one. Named as future work in the thesis (chapter 6). Each batch has B / K examples of a
    cluster, or within one of it.

    Args:
        clusters: a :class:`GradientClusters`, or a long tensor (N,): the group of each example.
        batch_size: B, over all processes.
        count: batches in an epoch; N / B, rounded up, without it.
        seed: with the epoch of ``set_epoch`` it determines the batches.

    >>> sampler = EvenBatchSampler(torch.tensor([0, 0, 0, 0, 0, 1]), batch_size=4)
    >>> [sorted(batch)[-2:] for batch in sampler]
    [[5, 5], [5, 5]]
    """

    def __init__(
        self, clusters: Any, batch_size: int, *, count: int | None = None, seed: int = 0
    ) -> None:
        super().__init__(clusters, batch_size=batch_size, count=count, seed=seed)
        self._shares = torch.ones_like(self.strata.sizes)
        self.weights = torch.ones(self.strata.examples)

    def _places(self, generator: torch.Generator) -> Tensor:
        return systematic_places(self._shares, batch_size=self.batch_size, generator=generator)


class ShardedBatches:
    """One process's slice of every batch; see :meth:`StratifiedBatchSampler.shard`."""

    def __init__(self, whole: _StrataBatches, *, rank: int, num_replicas: int) -> None:
        if not 0 <= rank < num_replicas:
            raise InputError(
                f"expected a rank from 0 to below {num_replicas} processes, but it is {rank}"
            )
        if whole.batch_size % num_replicas:
            raise InputError(
                f"a batch of {whole.batch_size} does not divide among {num_replicas} processes: "
                f"choose a multiple of {num_replicas}"
            )
        self.whole, self.rank, self.num_replicas = whole, rank, num_replicas
        self.batch_size = whole.batch_size // num_replicas
        self.weights, self.drop_last = whole.weights, whole.drop_last

    def __len__(self) -> int:
        return len(self.whole)

    @property
    def sampler(self) -> EpochBatches:
        return self.whole

    def set_epoch(self, epoch: int) -> None:
        self.whole.set_epoch(epoch)

    def __iter__(self) -> Iterator[list[int]]:
        own = slice(self.rank * self.batch_size, (self.rank + 1) * self.batch_size)
        return (batch[own] for batch in self.whole)


class WeightedExamples(Dataset[tuple[Any, Tensor, int]]):
    """``WeightedExamples(data, weights=w)[i]`` is ``(data[i], w[i], i)``.

    The weight goes with its example through workers, collation and libraries that wrap samplers,
    because it depends on the example alone.

    >>> WeightedExamples(["a", "b"], weights=torch.tensor([0.5, 1.5]))[1]
    ('b', tensor(1.5000), 1)
    """

    def __init__(self, data: Any, *, weights: Tensor) -> None:
        if weights.shape != (len(data),):
            raise InputError(
                f"expected a weight for each of {len(data)} examples, came {tuple(weights.shape)}"
            )
        self.data, self.weights = data, weights

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> tuple[Any, Tensor, int]:
        return self.data[index], self.weights[index], index


class WeightedCollate:
    """A ``collate_fn`` for weighted examples from one for plain examples.

    >>> collate = WeightedCollate(lambda words: " ".join(words))
    >>> collate([("a", torch.tensor(0.5), 4), ("b", torch.tensor(1.5), 2)])
    ('a b', tensor([0.5000, 1.5000]), tensor([4, 2]))
    """

    def __init__(self, collate: Callable[[list[Any]], Any]) -> None:
        self.collate = collate

    def __call__(self, rows: list[tuple[Any, Tensor, int]]) -> tuple[Any, Tensor, Tensor]:
        examples, weights, indices = zip(*rows, strict=True)
        return self.collate(list(examples)), torch.stack(weights), torch.tensor(indices)


def weighted_loss(losses: Tensor, weights: Tensor) -> Tensor:
    """``mean_b weights_b losses_b``: unbiased for the mean loss over the data.

    Divide by the batch size, never by the sum of the weights: that sum varies from batch to batch,
    and dividing by it biases the gradient.

    Args:
        losses: (B,), one loss per example: ``reduction="none"``.
        weights: (B,), as :class:`WeightedExamples` delivers them.

    >>> weighted_loss(torch.tensor([1.0, 2.0]), torch.tensor([0.5, 1.5]))
    tensor(1.7500)
    """
    if losses.ndim != 1 or losses.shape != weights.shape:
        raise InputError(
            f"expected one loss and one weight per example, came losses {tuple(losses.shape)} and "
            f'weights {tuple(weights.shape)}: compute the loss with reduction="none"'
        )
    return (losses * weights.to(losses)).mean()


def _shuffled_for_ever(members: Tensor, generator: torch.Generator) -> Iterator[int]:
    while True:
        yield from members[torch.randperm(len(members), generator=generator)].tolist()
