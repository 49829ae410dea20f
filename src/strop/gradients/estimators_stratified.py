"""Estimators that draw from clusters of examples whose gradients are alike.

>>> table = GradientTable(torch.tensor([[0.0], [0.0], [3.0], [9.0]]))
>>> Stratified(torch.tensor([0, 0, 1, 1])).exact_variance(table)
2.25

Legend: N examples, B in a batch, K strata of N_k examples, n_k places for stratum k.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from strop.gradients.estimators import Estimator, Sample, draw_seed, mean_variance, positive
from strop.gradients.sources import GradientSource, GradientTable
from strop.gradients.strata import Strata, proportional_places, systematic_places
from strop.support import InputError


class Stratified(Estimator):
    """``sum_k N_k / N mean of n_k gradients of cluster k``. Thesis eq. (4.1), where n_k = 1, K = B.

    Args:
        clusters: a :class:`GradientClusters`, or a long tensor (N,); or None, if ``cluster`` finds
            them.
        batch_size: B; by default K, one example of each cluster. More are given to clusters in
            proportion to their size; with fewer, clusters take turns at random.
        cluster: ``cluster(source)`` finds clusters anew at each renewal.
        refresh: steps from one renewal to the next.
    """

    def __init__(
        self,
        clusters: Any = None,
        *,
        batch_size: int | None = None,
        cluster: Callable[[Any], Any] | None = None,
        refresh: int | None = None,
    ) -> None:
        if clusters is None and cluster is None:
            raise InputError("expected clusters, or a function to find them with")
        self._asked = None if batch_size is None else positive(batch_size)
        self._cluster, self.refresh = cluster, refresh
        self._strata: Strata | None = None
        if clusters is not None:
            self._take(clusters)
            self._renewed = 0

    @property
    def name(self) -> str:
        return "stratified" if self._strata is None else f"stratified-{self.batch_size}"

    def renew(self, source: GradientSource) -> None:
        if self._cluster is not None:
            self._take(self._cluster(source))

    def sample(self, examples: int, *, generator: torch.Generator) -> Sample:
        strata = self._known(examples)
        if self._places is not None:
            weights = (strata.sizes / (examples * self._places.double())).repeat_interleave(
                self._places
            )
            return Sample(strata.draw(self._places, generator), weights)
        places = systematic_places(strata.sizes, batch_size=self.batch_size, generator=generator)
        share = torch.full((self.batch_size,), 1 / self.batch_size, dtype=torch.float64)
        return Sample(strata.draw(places, generator), share)

    def _take(self, clusters: Any) -> None:
        self._strata = Strata(clusters)
        self.batch_size = len(self._strata) if self._asked is None else self._asked
        self._places: Tensor | None = None
        if len(self._strata) <= self.batch_size:
            self._places = proportional_places(self._strata.sizes, batch_size=self.batch_size)

    def _known(self, examples: int) -> Strata:
        if self._strata is None:
            raise InputError("the clusters are yet to be found: call update(source) before")
        if self._strata.examples != examples:
            raise InputError(
                f"expected clusters of the {examples} examples, but they are of "
                f"{self._strata.examples}"
            )
        return self._strata

    def _variance(self, rows: Tensor) -> float:
        strata = self._known(len(rows))
        if self._places is None:
            raise InputError(
                "more clusters than places: no formula for the variance, measure it with "
                "gradient_variance"
            )
        return sum(
            (len(members) / len(rows)) ** 2 * mean_variance(rows[members], places)
            for members, places in zip(strata.members, self._places.tolist(), strict=True)
        )


class StratifiedControlVariates(Stratified):
    """Stratified, of what is left of each gradient when the centre of its fine cluster is taken.

    ``sum_b w_b (g_(i_b) - C_(m(i_b))) + sum_m N_m / N C_m``, with the mean gradients C_m of fine
    clusters m at the last renewal, which takes one pass over the data; M d numbers are kept. It is
    unbiased for any centres. Fine clusters are more than strata (four times as many, say): with the
    same clusters for both it is ``Stratified``.

    Args:
        clusters: the strata.
        fine: the fine clusters, likewise.
        batch_size, refresh: as for ``Stratified``.
    """

    def __init__(
        self,
        clusters: Any,
        *,
        fine: Any,
        batch_size: int | None = None,
        refresh: int | None = None,
    ) -> None:
        super().__init__(clusters, batch_size=batch_size, refresh=refresh)
        self._renewed = None
        self._fine = Strata(fine)
        self._centres: tuple[Tensor, Tensor] | None = None

    @property
    def name(self) -> str:
        return f"{super().name}, centres"

    def renew(self, source: GradientSource) -> None:
        if self._fine.examples != len(source):
            raise InputError(
                f"expected fine clusters of the {len(source)} examples, but they are of "
                f"{self._fine.examples}"
            )
        means = [
            source.weighted_sum(members, torch.full((len(members),), 1 / len(members)))
            for members in self._fine.members
        ]
        centres = torch.stack(means)
        shares = (self._fine.sizes.double() / len(source)).to(centres)
        self._centres = (centres, shares @ centres)

    def estimate(self, source: GradientSource, *, generator: torch.Generator) -> Tensor:
        centres, mean = self._known_centres()
        sample = self.sample(len(source), generator=generator)
        now = source.gradient(sample.indices, sample.weights, seed=draw_seed(generator))
        used = centres[self._fine.of_example[sample.indices].to(centres.device)]
        return now - sample.weights.to(used) @ used + mean

    def _residuals(self, table: GradientTable) -> Tensor:
        centres, _ = self._known_centres()
        return table.rows - centres[self._fine.of_example]

    def _known_centres(self) -> tuple[Tensor, Tensor]:
        if self._centres is None:
            raise InputError("the centres are yet to be found: call update(source) before")
        return self._centres
