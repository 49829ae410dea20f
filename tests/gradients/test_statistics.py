"""Statistics of gradient estimates: unbiased, intervals that hold, and nothing disturbed."""

import copy
import math
import random

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from strop.gradients import (
    SVRG,
    GradientTable,
    ImportanceSampling,
    MiniBatch,
    Stratified,
    estimator_statistics,
    gradient_variance,
    per_example_gradients,
    per_example_statistics,
)
from strop.gradients import moments as moments_module
from strop.gradients.moments import GroupedDraws, moments, student_quantile
from strop.support import InputError

WIDTH, MEAN, SPREAD = 6, 0.5, 2.0


def gaussian(draws: int, seed: int) -> Tensor:
    """Draws with ||g||^2 = 6/4 and V = 24."""
    generator = torch.Generator().manual_seed(seed)
    return MEAN + SPREAD * torch.randn(draws, WIDTH, generator=generator, dtype=torch.float64)


def test_moments_are_those_of_the_definition() -> None:
    rows = gaussian(12, 0)
    found = moments(rows @ rows.T)
    assert found.variance == pytest.approx(float(rows.var(0).sum()))
    expected = rows.mean(0).square().sum() - rows.var(0).sum() / 12
    assert found.squared_norm == pytest.approx(float(expected))
    for j in range(12):
        left = rows[torch.arange(12) != j]
        assert float(found.without[j, 0]) == pytest.approx(float(left.var(0).sum()))


@pytest.mark.parametrize("draws", [12, 25])
def test_groups_give_the_moments_of_single_draws(
    draws: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = gaussian(draws, 0)
    expected = moments(rows @ rows.T)
    monkeypatch.setattr(moments_module, "KEPT_NUMBERS", 1)  # so that there are ten groups only
    grouped = GroupedDraws(draws, coordinates=True)
    for row in rows:
        grouped.add(row)
    found = grouped.moments()
    assert len(found.without) == 10
    assert found.variance == pytest.approx(expected.variance)
    assert found.squared_norm == pytest.approx(expected.squared_norm)
    coordinates = (rows.var(0) / rows.square().mean(0)).mean()
    assert grouped.coordinate_mean(confidence=0.95).value == pytest.approx(float(coordinates))


@pytest.mark.parametrize("groups", [50, 10])
def test_intervals_hold_as_often_as_they_say(groups: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moments_module, "KEPT_NUMBERS", groups * WIDTH)
    truth = {"variance": 24.0, "snr": 1.5 / 24, "zeta": 24 / 1.5, "norm": math.sqrt(1.5)}
    inside = dict.fromkeys(truth, 0)
    for seed in range(300):
        source = GradientTable(gaussian(2000, seed))
        found = estimator_statistics(
            MiniBatch(1, replacement=True), source, generator=torch.Generator().manual_seed(seed)
        )
        came = {
            "variance": found.variance,
            "snr": found.snr,
            "zeta": found.normalised_variance,
            "norm": found.gradient_norm,
        }
        for name, measured in came.items():
            inside[name] += measured.low <= truth[name] <= measured.high
    # 95 % of 300 less four standard deviations, and some for the skewness of a variance.
    assert all(count >= 260 for count in inside.values()), inside
    assert min(inside.values()) < 300, "intervals that always hold are too wide"


@pytest.mark.parametrize(("freedom", "expected"), [(3, 3.1824), (9, 2.2622), (49, 2.0096)])
def test_quantiles_are_students(freedom: int, expected: float) -> None:
    assert student_quantile(0.975, freedom) == pytest.approx(expected, rel=2e-3)


def test_the_noise_scale_does_not_depend_on_the_batch_size() -> None:
    rows = gaussian(60, 3) + 1
    population = (rows - rows.mean(0)).square().sum() / 59
    expected = float(population / rows.mean(0).square().sum())
    generator = torch.Generator().manual_seed(0)
    for size in (4, 30):
        found = estimator_statistics(
            MiniBatch(size), GradientTable(rows), draws=2000, generator=generator
        )
        assert found.noise_scale.low <= expected <= found.noise_scale.high
        assert found.noise_scale.value == pytest.approx(expected, rel=0.1)
        best = found.diminishing_batch_size.value
        assert best == pytest.approx(1 / (1 / expected + 1 / 60), rel=0.1)
    # At that batch size, drawn without replacement, noise is as strong as the gradient.
    variance = MiniBatch(1).exact_variance(GradientTable(rows)) * (1 / best - 1 / 60) / (1 - 1 / 60)
    assert variance / float(rows.mean(0).square().sum()) == pytest.approx(1, rel=0.1)


def test_an_estimate_without_noise_has_zeta_zero() -> None:
    found = estimator_statistics(
        MiniBatch(1), GradientTable(torch.ones(8, 3)), generator=torch.Generator()
    )
    assert found.normalised_variance.value == found.normalised_variance.high == 0
    assert found.gradient_norm.value == pytest.approx(math.sqrt(3))


def test_a_mean_gradient_of_zero_has_zeta_without_upper_bound() -> None:
    rows = gaussian(500, 0)
    found = estimator_statistics(
        MiniBatch(5), GradientTable(rows - rows.mean(0)), generator=torch.Generator()
    )
    assert found.normalised_variance.high == math.inf
    assert found.normalised_variance.low > 1
    assert "pays" in found.advice


class Noisy(nn.Module):
    """Batch norm in train mode and dropout: random, with buffers, examples mixed."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Dropout(0.3), nn.ReLU(), nn.Linear(6, 3)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x)


class RandomData:
    """Examples with augmentation from all three global generators."""

    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        noise = random.random() + np.random.rand() + float(torch.rand(()))  # noqa: NPY002
        return torch.full((4,), index / 40 + 0.1 * noise), index % 3


def loss_fn(model: nn.Module, batch: list[Tensor]) -> Tensor:
    return nn.functional.cross_entropy(model(batch[0]), batch[1], reduction="none")


def test_measuring_leaves_no_trace() -> None:
    torch.manual_seed(0)
    model = Noisy()
    nn.functional.cross_entropy(model(torch.randn(5, 4)), torch.zeros(5).long()).backward()
    waiting = model(torch.randn(5, 4)).sum()  # a graph whose backward pass is yet to come
    state = copy.deepcopy(model.state_dict())
    gradients = [parameter.grad.clone() for parameter in model.parameters()]
    randomness = (torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist())  # noqa: NPY002
    found = gradient_variance(
        model,
        loss_fn,
        RandomData(),
        [MiniBatch(8), SVRG(8, 5), Stratified(torch.arange(40) % 4, batch_size=8)],
        draws=10,
        generator=torch.Generator().manual_seed(0),
    )
    assert all(math.isfinite(one.variance.value) for one in found.values())
    assert all(torch.equal(state[name], value) for name, value in model.state_dict().items())
    for parameter, gradient in zip(model.parameters(), gradients, strict=True):
        assert torch.equal(parameter.grad, gradient)
    assert torch.equal(torch.get_rng_state(), randomness[0])
    assert random.getstate() == randomness[1]
    assert np.random.get_state()[1].tolist() == randomness[2]  # noqa: NPY002
    assert model.training
    waiting.backward()


def test_measuring_is_repeatable_and_depends_on_its_generator_alone() -> None:
    torch.manual_seed(0)
    model = Noisy()

    def measure(seed: int) -> float:
        torch.rand(3)
        generator = torch.Generator().manual_seed(seed)
        found = gradient_variance(
            model, loss_fn, RandomData(), MiniBatch(8), draws=10, generator=generator
        )
        return found["SG-8"].variance.value

    assert measure(0) == measure(0) != measure(1)


def test_a_mean_loss_serves_estimators_that_weigh_alike() -> None:
    """In-batch negatives have no loss per example."""
    model = nn.Linear(3, 3).double()
    data = torch.randn(30, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def contrastive(model: nn.Module, batch: Tensor) -> Tensor:
        scores = model(batch) @ batch.T
        return nn.functional.cross_entropy(scores, torch.arange(len(batch)))

    options = {"draws": 10, "generator": torch.Generator().manual_seed(0)}
    found = gradient_variance(model, contrastive, data, [MiniBatch(6), SVRG(6)], **options)
    assert found["SVRG-6"].variance.value < found["SG-6"].variance.value
    uneven = Stratified(torch.tensor([0] * 20 + [1] * 10), batch_size=2)
    with pytest.raises(InputError, match="weighs the examples of a batch differently"):
        gradient_variance(model, contrastive, data, uneven, **options)
    with pytest.raises(InputError, match="one loss per example"):
        gradient_variance(model, contrastive, data, ImportanceSampling(4), **options)


def test_one_batch_of_examples_gives_the_statistics_of_its_gradients() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3)).double()
    batch = [torch.randn(12, 4, dtype=torch.float64), torch.arange(12) % 3]
    rows = torch.cat(
        [
            part.materialise().flatten(1)
            for part in per_example_gradients(model, loss_fn, batch).values()
        ],
        dim=1,
    )
    found = per_example_statistics(model, loss_fn, batch, batch_size=3)
    assert found.variance.value == pytest.approx(float(rows.var(0).sum() / 3))
    squared = float(rows.mean(0).square().sum() - rows.var(0).sum() / 12)
    assert found.snr.value == pytest.approx(squared / found.variance.value)
    assert found.parameters == rows.shape[1]
    assert found.average_variance.value == pytest.approx(found.variance.value / rows.shape[1])


def test_a_compiled_or_wrapped_model_is_measured_as_itself() -> None:
    model = nn.Linear(4, 3)
    data = torch.utils.data.TensorDataset(torch.randn(20, 4), torch.arange(20) % 3)
    found = [
        gradient_variance(each, loss_fn, data, MiniBatch(4), draws=10, generator=torch.Generator())[
            "SG-4"
        ].variance.value
        for each in (model, torch.compile(model), nn.DataParallel(model))
    ]
    assert found[0] == found[1] == found[2]


def test_tables_carry_every_number(tmp_path) -> None:
    pandas = pytest.importorskip("pandas")
    model = nn.Linear(4, 3)
    data = torch.utils.data.TensorDataset(torch.randn(20, 4), torch.arange(20) % 3)
    found = gradient_variance(
        model,
        loss_fn,
        data,
        [MiniBatch(4)],
        draws=10,
        coordinates=True,
        generator=torch.Generator(),
    )
    table = found.to_pandas()
    assert isinstance(table, pandas.DataFrame)
    assert table.loc[0, "normalised_variance"] == found["SG-4"].normalised_variance.value
    assert 0 < table.loc[0, "coordinate_normalised_variance"] <= 10 / 9
    found.save_html(tmp_path / "a.html")
    assert "SG-4" in (tmp_path / "a.html").read_text()
    assert "SG-4" in found._repr_html_()
    assert "SG-4" in str(found)


def test_requests_that_make_no_sense_are_refused() -> None:
    with pytest.raises(InputError, match="at least 10 draws"):
        GroupedDraws(9)
    with pytest.raises(InputError, match="two estimators are called 'SG-4'"):
        gradient_variance(
            nn.Linear(1, 1),
            loss_fn,
            torch.ones(5, 1),
            [MiniBatch(4), MiniBatch(4)],
            generator=torch.Generator(),
        )
