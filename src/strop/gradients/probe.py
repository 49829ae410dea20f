"""Do the clusters still pay? Two examples of each say it, for the price of one small batch.

At the parameters where they were found, clusters make batches quiet; later they go stale. From two
examples of every cluster, by their inner products alone, come unbiased estimates of

    stratified = sum_k (N_k / N)^2 (1/n_k - 1/N_k) S_k^2    (thesis proposition 4.3.1)
    uniform    = S^2 / B                                    (B examples drawn with replacement)

where S_k^2 is the variance within cluster k and S^2 that of all examples. Their ratio below 1 is
what the clusters save.

Legend: N examples, K clusters of N_k examples, n_k of them in a batch of B.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from strop.gradients.estimators import draw_seed
from strop.gradients.network import gradient_gram
from strop.gradients.passes import LossFunction
from strop.gradients.sources import ModelGradients, own_randomness
from strop.gradients.strata import Strata, proportional_places
from strop.support import InputError


@dataclass(frozen=True)
class ProbeReading:
    """What one probe found.

    Attributes:
        stratified, uniform: the variances, from this probe alone; unbiased.
        ratio: of the sums over the last probes, the older ones counting less.
        refresh: whether the ratio has reached the threshold: time to cluster anew.
    """

    stratified: float
    uniform: float
    ratio: float
    refresh: bool


class RefreshProbe:
    """Says when clusters stop paying.

    >>> data = torch.tensor([[1.0], [1.0], [5.0], [5.0]])
    >>> probe = RefreshProbe(torch.tensor([0, 0, 1, 1]))
    >>> reading = probe(
    ...     torch.nn.Linear(1, 1), lambda model, x: model(x)[:, 0], data,
    ...     generator=torch.Generator(),
    ... )
    >>> reading.ratio, reading.refresh
    (0.0, False)

    Args:
        clusters: a :class:`GradientClusters`, or a long tensor (N,).
        batch_size: B of the stratified batches; K without it.
        threshold: the ratio of variances from which the clusters are to be found anew.
        memory: how much the last probe's sums count beside the present one's: 0 forgets them, and
            towards 1 the ratio is steadier and slower.
    """

    def __init__(
        self,
        clusters: Any,
        *,
        batch_size: int | None = None,
        threshold: float = 1.0,
        memory: float = 0.5,
    ) -> None:
        if not 0 <= memory < 1 or threshold <= 0:
            raise InputError(
                f"expected a memory from 0 to below 1 and a positive threshold, came {memory} and "
                f"{threshold}"
            )
        self.batch_size, self.threshold, self.memory = batch_size, threshold, memory
        self.renew(clusters)

    def renew(self, clusters: Any) -> None:
        """New clusters: what was seen of the old ones is forgotten."""
        self.strata = Strata(clusters)
        size = len(self.strata) if self.batch_size is None else self.batch_size
        self._places = proportional_places(self.strata.sizes, batch_size=size)
        self._sums = (0.0, 0.0)

    def __call__(
        self,
        model: nn.Module,
        loss_fn: LossFunction,
        dataset: Any,
        *,
        generator: torch.Generator,
        collate: Callable[[list[Any]], Any] | None = None,
        check: bool = True,
    ) -> ProbeReading:
        """Probe the model at its present parameters; nothing of it is changed.

        Args:
            model, loss_fn, check: as for ``per_example_gradients``.
            dataset, collate: the examples that the clusters are of.
            generator: where the choice of examples comes from.
        """
        source = ModelGradients(model, loss_fn, dataset, collate=collate)
        if len(source) != self.strata.examples:
            raise InputError(
                f"expected the {self.strata.examples} examples that the clusters are of, but the "
                f"dataset has {len(source)}"
            )
        pairs = self.strata.sizes.clamp(max=2)
        indices = self.strata.draw(pairs, generator)
        with source.undisturbed(), own_randomness(draw_seed(generator)):
            batch = source.batch(indices)
            inner = gradient_gram(source.model, loss_fn, batch, check=check)
        stratified, uniform = both_variances(inner, self.strata.sizes, self._places)
        kept = tuple(self.memory * total for total in self._sums)
        self._sums = (kept[0] + stratified, kept[1] + uniform)
        ratio = self._sums[0] / self._sums[1] if self._sums[1] > 0 else 0.0
        return ProbeReading(stratified, uniform, ratio, refresh=ratio >= self.threshold)


def both_variances(inner: Tensor, sizes: Tensor, places: Tensor) -> tuple[float, float]:
    """Unbiased estimates of the stratified and the uniform variance.

    Args:
        inner: inner products of the gradients of two different examples of each cluster (one where
            there is one), clusters in order.
        sizes: (K,) N_k.
        places: (K,) n_k of the stratified batches.
    """
    inner = inner.detach().double().cpu()
    drawn = sizes.clamp(max=2)
    share = sizes.double() / sizes.sum()
    of_place = torch.arange(len(sizes)).repeat_interleave(drawn)
    mean = torch.zeros(len(sizes), len(inner), dtype=torch.float64)  # the clusters' means, as rows
    mean[of_place, torch.arange(len(inner))] = 1 / drawn.double()[of_place]
    squares = inner.diagonal()
    mean_square = mean @ squares
    within = (mean_square - ((mean @ inner) * mean).sum(1)).clamp_min(0) * 2  # S_k^2; 0 if alone

    def spread(count: Tensor) -> Tensor:
        return (share.square() * within * (1 / count.double() - 1 / sizes.double())).sum()

    centre = share @ mean
    squared_norm = centre @ inner @ centre - spread(drawn)
    total = share @ mean_square - squared_norm
    return float(spread(places)), float(total / places.sum())
