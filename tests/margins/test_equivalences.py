"""Lemma 1, the limit of adversarial training, and lemma 2."""

import itertools

import pytest
import torch
from torch import nn

from strop.data import separable_gaussian
from strop.geometry import L1, L2, Fourier, Linf, Norm
from strop.margins import signed_data, solve
from strop.margins.equivalences import (
    compare_formulations,
    constant_limit,
    robust_by_bisection,
    saddle_point,
    slack_by_bisection,
    withstands,
)
from strop.margins.locally_linear import certify_locally
from strop.support import InputError


@pytest.mark.parametrize("attack", [Linf, L2, L1, Fourier(Linf, dims=1)], ids=str)
def test_three_formulations_have_one_answer(attack: Norm) -> None:
    drawn = separable_gaussian(
        count=6, dimension=10, generator=torch.Generator().manual_seed(0), dtype=torch.float64
    )
    data = signed_data(drawn.points, drawn.signs, intercept=True)
    found = compare_formulations(data, attack=attack, tol=1e-5)
    assert found.difference < 5e-5
    best = solve(data, attack=attack)
    for share, holds in ((0.999, True), (1.001, False)):
        eps = share * best.margin
        weights = best.weights.reshape(-1)
        assert withstands(data, weights, best.intercept, attack=attack, eps=eps) is holds


def test_bisection_does_not_give_up_close_to_the_margin() -> None:
    # Asked for the least norm with robust values >= 1, the cone solver failed on these data: close
    # to the margin that norm grows without bound.
    drawn = separable_gaussian(
        count=10, dimension=20, generator=torch.Generator().manual_seed(1), dtype=torch.float64
    )
    data = signed_data(drawn.points, drawn.signs)
    found = robust_by_bisection(data, attack=L2, tol=1e-6)
    assert found == pytest.approx(solve(data, attack=L2, tol=1e-8).margin, rel=3e-6)


@pytest.mark.parametrize("attack", [Linf, L2], ids=str)
def test_slack_by_bisection_is_the_one_convex_problem(attack: Norm) -> None:
    generator = torch.Generator().manual_seed(0)
    signs = torch.tensor([1.0, -1.0]).repeat(10)
    noise = torch.randn(20, 3, generator=generator, dtype=torch.float64)
    data = signed_data(noise + 0.4 * signs[:, None], signs, intercept=True)
    best = solve(data, attack=attack, slack=0.9)
    found = slack_by_bisection(data, attack=attack, slack=0.9, tol=1e-5)
    assert found == pytest.approx(best.margin, rel=1e-4)


def test_unknown_loss_of_the_saddle_point_is_refused() -> None:
    data = signed_data([[1.0], [-1.0]], [1, -1])
    with pytest.raises(InputError, match="hinge"):
        saddle_point(data, attack=L2, eps=0.1, loss="square")  # type: ignore[arg-type]


@pytest.mark.parametrize("loss", ["exponential", "logistic"])
def test_large_eps_leaves_the_constant_majority_predictor(loss: str) -> None:
    generator = torch.Generator().manual_seed(0)
    points = torch.randn(20, 4, generator=generator, dtype=torch.float64)
    signs = torch.tensor([1.0] * 15 + [-1.0] * 5)
    data = signed_data(points, signs, intercept=True)
    weights, offset = saddle_point(data, attack=Linf, eps=50.0, loss=loss)
    assert float(weights.abs().max()) < 1e-4
    assert offset == pytest.approx(constant_limit(15, 5, loss=loss), abs=1e-3)
    small, _ = saddle_point(data, attack=Linf, eps=0.01, loss=loss)
    assert float(small.abs().max()) > 0.01


def network(*sizes: int, seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(sizes[:-1]):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(sizes[-2], sizes[-1])).double()


@pytest.mark.parametrize("attack", [Linf, L2, L1, Fourier(Linf, dims=1)], ids=str)
def test_local_certificate_is_exact_inside_the_linear_region(attack: Norm) -> None:
    model = network(5, 4, 3, 1)
    generator = torch.Generator().manual_seed(1)
    points = torch.randn(40, 5, generator=generator, dtype=torch.float64)
    with torch.no_grad():
        # The border in the midst of the points, so that it cuts some of their regions.
        model[-1].bias -= model(points).mean() + 1e-3
        labels = model(points)[:, 0].sign()
    found = certify_locally(model, points, labels, attack=attack)
    assert bool(found.exact.any())
    for point, label, radius, exact, linear in zip(
        points, labels, found.certified, found.exact, found.linear_radius, strict=True
    ):
        noise = torch.randn(300, 5, generator=generator, dtype=torch.float64)
        noise = noise / attack(noise)[:, None]
        base, gradient = value_and_gradient(model, point)
        inside = 0.999 * torch.minimum(linear, torch.tensor(10.0)) * noise
        with torch.no_grad():
            # Linear inside the region, to rounding.
            assert torch.allclose(model(point + inside)[:, 0], base + inside @ gradient)
            worst = -label * attack.steepest(gradient[None])
            under = model(point + 0.999 * radius * torch.cat([noise, worst]))[:, 0]
            assert bool((label * under > 0).all())
            if exact:
                over = model(point + min(1.001 * radius, linear) * worst)
                assert float(label * over) < float(label * base) * 0.01


def value_and_gradient(
    model: nn.Sequential, point: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    leaf = point.clone().requires_grad_()
    value = model(leaf[None])[0, 0]
    (gradient,) = torch.autograd.grad(value, leaf)
    return value.detach(), gradient


def test_certificate_stops_where_the_network_bends() -> None:
    """max(x, 0) - 20 max(x - 1, 0) + 0.5 at 0.9: the gradient knows nothing of the fold."""
    model = nn.Sequential(nn.Linear(1, 2), nn.ReLU(), nn.Linear(2, 1)).double()
    with torch.no_grad():
        model[0].weight.copy_(torch.ones(2, 1))
        model[0].bias.copy_(torch.tensor([0.0, -1.0]))
        model[2].weight.copy_(torch.tensor([[1.0, -20.0]]))
        model[2].bias.fill_(0.5)
    point = torch.tensor([[0.9]], dtype=torch.float64)
    found = certify_locally(model, point, torch.tensor([1.0]), attack=L2)
    assert float(found.gradient_radius) == pytest.approx(1.4)
    assert float(found.linear_radius) == pytest.approx(0.1)
    assert float(found.certified) == pytest.approx(0.1)
    assert float(model(point + 0.2)) < 0  # well within what the gradient alone promises


def test_other_layers_are_refused() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.GELU(), nn.Linear(2, 1))
    with pytest.raises(InputError, match="GELU"):
        certify_locally(model, torch.ones(1, 2), torch.ones(1), attack=L2)
