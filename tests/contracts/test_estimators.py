"""The contract of an estimator, run over all of them. A new estimator is a new line in ESTIMATORS.

Given gradients (rows of a table, float64), the mean over draws is the mean gradient and the spread
is what the formula says, also where what the estimator knows is stale; and a model's gradients are
drawn as those of the table would be.
"""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from gradients.gradient_oracle import network_gradients
from strop.gradients import (
    SVRG,
    Estimator,
    GradientTable,
    ImportanceSampling,
    MiniBatch,
    ModelGradients,
    Stratified,
    StratifiedControlVariates,
)
from strop.support import InputError

COUNT, WIDTH = 24, 5
CLUSTERS = torch.tensor([0] * 9 + [1] * 8 + [2] * 4 + [3] * 2 + [9])
FINE = torch.arange(COUNT) % 11

ESTIMATORS: dict[str, Callable[[], Estimator]] = {
    "mini-batch": lambda: MiniBatch(5),
    "mini-batch with replacement": lambda: MiniBatch(5, replacement=True),
    "all examples": lambda: MiniBatch(COUNT),
    "SVRG": lambda: SVRG(5, 3),
    "stratified, one each": lambda: Stratified(CLUSTERS),
    "stratified, K < B": lambda: Stratified(CLUSTERS, batch_size=9),
    "stratified, K > B": lambda: Stratified(CLUSTERS, batch_size=3),
    "stratified, one cluster": lambda: Stratified(torch.zeros(COUNT).long(), batch_size=4),
    "stratified, found": lambda: Stratified(cluster=lambda source: CLUSTERS, refresh=3),
    "norms": lambda: ImportanceSampling(5),
    "centres": lambda: StratifiedControlVariates(CLUSTERS, fine=FINE),
    "centres, K < B": lambda: StratifiedControlVariates(CLUSTERS, fine=FINE, batch_size=9),
}
each_estimator = pytest.mark.parametrize("make", ESTIMATORS.values(), ids=ESTIMATORS)
NO_FORMULA = {"stratified, K > B"}


def table(seed: int) -> GradientTable:
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(COUNT, WIDTH, generator=generator, dtype=torch.float64)
    rows *= torch.linspace(0.1, 4, COUNT, dtype=torch.float64)[:, None]
    rows[3] = 0  # an example without gradient
    return GradientTable(rows + 1)


def draw(estimator: Estimator, source: GradientTable, draws: int) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.stack([estimator.estimate(source, generator=generator) for _ in range(draws)])


@each_estimator
@pytest.mark.parametrize("stale", [False, True])
def test_the_mean_over_draws_is_the_mean_gradient(
    make: Callable[[], Estimator], stale: bool
) -> None:
    estimator, now = make(), table(0)
    estimator.update(table(7) if stale else now)
    found = draw(estimator, now, 3000)
    # The squared distance of the mean has the mean V/n; five times that is far in its tail.
    spread = found.var(0).sum() / len(found)
    distance = (found.mean(0) - now.rows.mean(0)).square().sum()
    assert distance <= 5 * spread + 1e-24


@pytest.mark.parametrize("name", sorted(set(ESTIMATORS) - NO_FORMULA))
@pytest.mark.parametrize("stale", [False, True])
def test_the_spread_of_draws_is_the_formula(name: str, stale: bool) -> None:
    estimator, now = ESTIMATORS[name](), table(0)
    estimator.update(table(7) if stale else now)
    expected = estimator.exact_variance(now)
    found = draw(estimator, now, 3000)
    deviations = (found - now.rows.mean(0)).square().sum(1)
    error = deviations.std() / len(found) ** 0.5
    assert abs(deviations.mean() - expected) <= 4 * error + 1e-24


@each_estimator
def test_weights_give_every_example_its_share(make: Callable[[], Estimator]) -> None:
    estimator = make()
    estimator.update(table(0))
    generator = torch.Generator().manual_seed(2)
    shares = torch.zeros(3000, COUNT, dtype=torch.float64)
    for row in shares:
        sample = estimator.sample(COUNT, generator=generator)
        assert len(sample.indices) == len(sample.weights) == estimator.batch_size
        row.index_add_(0, sample.indices, sample.weights)
    error = shares.std(0) / len(shares) ** 0.5
    assert bool(((shares.mean(0) - 1 / COUNT).abs() <= 4.5 * error + 1e-15).all())


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(3)
        self.layers = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


def losses(model: nn.Module, batch: Tensor) -> Tensor:
    return model(batch).square().sum(1)


def rows_of(model: nn.Module, data: Tensor) -> Tensor:
    found = network_gradients(
        model, lambda model, n: losses(model, data[n : n + 1]).sum(), examples=len(data)
    )
    return torch.cat([part.flatten(1) for part in found.values()], dim=1)


@each_estimator
def test_a_model_is_estimated_as_the_table_of_its_gradients(
    make: Callable[[], Estimator],
) -> None:
    """With the parameters moved after the renewal: control variates are of the old ones."""
    data = torch.randn(COUNT, 3, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    model, by_model, by_table = Small(), make(), make()
    source = ModelGradients(model, losses, data)
    before = GradientTable(rows_of(model, data))
    by_model.update(source)
    by_table.update(before)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.3)
    now = GradientTable(rows_of(model, data))
    torch.testing.assert_close(source.mean(), now.rows.mean(0))
    for seed in range(3):
        first, second = (torch.Generator().manual_seed(seed) for _ in range(2))
        torch.testing.assert_close(
            by_model.estimate(source, generator=first),
            by_table.estimate(now, generator=second),
            rtol=1e-9,
            atol=1e-12,
        )


@pytest.mark.parametrize("name", ["SVRG", "stratified, found"])
def test_what_is_known_is_renewed_after_so_many_steps(name: str) -> None:
    estimator = ESTIMATORS[name]()
    renewed = []
    plain = estimator.renew
    estimator.renew = lambda source: (renewed.append(step), plain(source))[1]  # type: ignore[method-assign]
    for step in range(10):
        estimator.update(table(0), step=step)
    assert renewed == [0, 3, 6, 9]


@pytest.mark.parametrize("name", ["SVRG", "stratified, found", "norms", "centres"])
def test_an_estimator_that_knows_nothing_yet_says_what_to_call(name: str) -> None:
    with pytest.raises(InputError, match=r"update\(source\)"):
        ESTIMATORS[name]().estimate(table(0), generator=torch.Generator())


@each_estimator
def test_an_impossible_number_of_examples_is_refused(make: Callable[[], Estimator]) -> None:
    if isinstance(estimator := make(), MiniBatch) and estimator.replacement:
        pytest.skip("with replacement any number will do")
    estimator.update(table(0))
    few = GradientTable(torch.ones(4, 2))
    with pytest.raises(InputError, match=r"4 examples|there are 4"):
        estimator.estimate(few, generator=torch.Generator())
