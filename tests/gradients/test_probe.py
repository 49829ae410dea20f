"""The probe of clusters: unbiased over all choices of pairs, and a call at the right time."""

import itertools

import pytest
import torch
from torch import Tensor, nn

from strop.gradients import GradientTable, MiniBatch, RefreshProbe, Stratified
from strop.gradients.probe import both_variances
from strop.gradients.strata import Strata, proportional_places
from strop.support import InputError

CLUSTERS = torch.tensor([0] * 4 + [1] * 3 + [2] * 2 + [3])


def linear(model: nn.Module, batch: Tensor) -> Tensor:
    """Its gradients are the rows of the batch."""
    return model(batch)[:, 0]


@pytest.mark.parametrize("batch_size", [4, 7])
def test_both_variances_are_right_on_average_over_all_pairs(batch_size: int) -> None:
    rows = torch.randn(10, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64) + 2
    strata = Strata(CLUSTERS)
    places = proportional_places(strata.sizes, batch_size=batch_size)
    choices = itertools.product(
        *(
            itertools.combinations(members.tolist(), min(2, len(members)))
            for members in strata.members
        )
    )
    found = []
    for choice in choices:
        drawn = rows[list(itertools.chain.from_iterable(choice))]
        found.append(both_variances(drawn @ drawn.T, strata.sizes, places))
    stratified, uniform = torch.tensor(found, dtype=torch.float64).mean(0).tolist()
    table = GradientTable(rows)
    exact = Stratified(CLUSTERS, batch_size=batch_size).exact_variance(table)
    assert stratified == pytest.approx(exact)
    plain = MiniBatch(batch_size, replacement=True).exact_variance(table)
    assert uniform == pytest.approx(plain)


def test_clusters_are_kept_while_they_pay_and_not_after() -> None:
    generator = torch.Generator().manual_seed(0)
    model = nn.Linear(8, 1, bias=False)
    clusters = torch.arange(400) % 8
    centres = 3 * torch.eye(8)
    noise = 0.3 * torch.randn(400, 8, generator=generator)
    fresh = centres[clusters] + noise
    # The examples have changed places: the clusters say nothing, and are of unequal sizes.
    stale = fresh[torch.randperm(400, generator=generator)]
    uneven = torch.where(torch.rand(400, generator=generator) < 0.6, 0, clusters)
    probe = RefreshProbe(clusters)
    for _ in range(3):
        reading = probe(model, linear, fresh, generator=generator)
        assert not reading.refresh
        assert reading.ratio < 0.2
    probe.renew(uneven)
    readings = [probe(model, linear, stale, generator=generator) for _ in range(4)]
    assert readings[-1].ratio > 2
    assert readings[-1].refresh
    probe.renew(clusters)
    assert not probe(model, linear, fresh, generator=generator).refresh


def test_a_probe_of_other_data_is_refused() -> None:
    probe = RefreshProbe(torch.arange(6) % 2)
    with pytest.raises(InputError, match="the 6 examples that the clusters are of"):
        probe(nn.Linear(1, 1), linear, torch.ones(5, 1), generator=torch.Generator())
    with pytest.raises(InputError, match="a memory from 0"):
        RefreshProbe(torch.arange(6) % 2, memory=1.0)
