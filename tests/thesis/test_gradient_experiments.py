"""The closed forms behind chapter 4's experiments, against the library's own estimators."""

import pytest
import torch
from torch.utils.data import TensorDataset

from strop.gradients import SVRG, GradientTable, MiniBatch, Stratified, per_example_gradients
from strop.models import mlp
from strop.thesis import side_by_side_networks as networks
from strop.thesis.claim_g3 import objective, step
from strop.thesis.claim_g15 import quadratic
from strop.thesis.claim_g19 import relative_variance
from strop.thesis.random_features import _Measure, _slopes
from strop.thesis.trajectories import losses


def rows_of(model, batch):
    found = per_example_gradients(model, losses, batch)
    return torch.cat([part.materialise().flatten(1) for part in found.values()], dim=1).detach()


@pytest.fixture
def features():
    generator = torch.Generator().manual_seed(0)
    phi = torch.rand(2, 40, 6, generator=generator)
    signs = torch.randint(2, (2, 40), generator=generator) * 2.0 - 1
    return phi, signs, torch.randn(2, 6, generator=generator)


def test_random_features_variances_are_those_of_the_estimators(features):
    phi, signs, weights = features
    measure = _Measure(phi, signs, batch=4, seeds=[0, 1], clusters=True)
    measure.renew(weights)
    moved = weights + 0.3
    found = measure.variances(moved)
    for seed in range(2):
        rows, anchor = (
            (_slopes(phi, signs, w).unsqueeze(2) * phi)[seed].double() for w in (moved, weights)
        )
        table = GradientTable(rows)
        single = (rows - rows.mean(0)).square().sum() / len(rows)
        svrg = anchor - rows
        expected = {
            "SG-B": MiniBatch(4, replacement=True).exact_variance(table),
            "SG-2B": MiniBatch(8, replacement=True).exact_variance(table),
            "SVRG": float((svrg - svrg.mean(0)).square().sum() / len(rows) / 4),
            "GC": Stratified(measure.clusters["GC"][seed]).exact_variance(table),
        }
        for name, value in expected.items():
            assert float(found[name][seed]) * 6 == pytest.approx(value, rel=1e-5)
        zeta = single / 4 / rows.mean(0).square().sum()
        assert float(found["zeta"][seed]) == pytest.approx(float(zeta), rel=1e-5)


def test_svrg_variance_vanishes_at_its_anchor(features):
    phi, signs, weights = features
    measure = _Measure(phi, signs, batch=4, seeds=[0, 1], clusters=False)
    measure.renew(weights)
    assert float(measure.variances(weights)["SVRG"].max()) == 0
    svrg = SVRG(4)
    table = GradientTable(_slopes(phi, signs, weights)[0].unsqueeze(1) * phi[0])
    svrg.update(table)
    assert svrg.exact_variance(table) == 0


def test_networks_side_by_side_are_single_networks():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(30, 5, generator=generator)
    labels = torch.randint(3, (30,), generator=generator)
    parameters = networks.networks(5, 7, 3, seeds=[0, 1], rates=[0.1, 0.2])
    rows = torch.randint(30, (4, 8), generator=generator)
    moved = networks.step(parameters, x[rows], labels[rows], torch.tensor([0.1, 0.2, 0.1, 0.2]))
    for number, rate in enumerate([0.1, 0.2, 0.1, 0.2]):
        model = mlp((5, 7, 3))
        with torch.no_grad():
            for own, value in zip(model.parameters(), parameters, strict=True):
                own.copy_(value[number].T.reshape(own.shape))
        found = networks.statistics([p[number : number + 1] for p in parameters], x, labels)
        table = GradientTable(rows_of(model, (x, labels)).double())
        size = table.rows.shape[1]
        expected = MiniBatch(1, replacement=True).exact_variance(table)
        assert float(found["variance"]) * size == pytest.approx(expected, rel=1e-4)
        assert float(found["zeta"]) == pytest.approx(
            expected / float(table.mean().square().sum()), rel=1e-4
        )
        losses(model, (x[rows[number]], labels[rows[number]])).mean().backward()
        for own, value in zip(model.parameters(), moved, strict=True):
            stepped = (own - rate * own.grad).detach()
            torch.testing.assert_close(stepped, value[number].T.reshape(own.shape))


def test_relative_variance_is_that_of_the_stratified_estimator():
    generator = torch.Generator().manual_seed(0)
    data = TensorDataset(
        torch.randn(50, 5, generator=generator), torch.randint(3, (50,), generator=generator)
    )
    model = mlp((5, 4, 3), generator=generator)
    clusters = torch.randint(6, (50,), generator=generator)
    found = relative_variance(model, data, {"GC": clusters}, batch=6)["GC"]
    table = GradientTable(rows_of(model, data[:]).double())
    plain = MiniBatch(6, replacement=True).exact_variance(table)
    assert found == pytest.approx(Stratified(clusters).exact_variance(table) / plain, rel=1e-4)


def test_quadratic_without_noise_takes_the_steps_of_gradient_descent():
    assert quadratic(zeta=0.0, condition=1.0)["steps_at_best"] == 1
    noisy = quadratic(zeta=4.0, condition=10.0)
    assert noisy["steps_at_best"] > quadratic(zeta=0.0, condition=10.0)["steps_at_best"]
    assert noisy["bound_exceeded_by"] < 1e-12


def test_a_and_u_step_is_that_of_the_thesis():
    """Clusters {0, 3, 9} and {1} have centres 4 and 1: N_k (C_k - g)^2 by hand."""
    rows = torch.tensor([[0.0], [3.0], [9.0], [1.0]])
    before = torch.tensor([0, 0, 0, 1])
    assert step(rows, before, clusters=2, running=False).tolist() == [1, 0, 1, 1]
    assert float(objective(rows, before)) == 126
