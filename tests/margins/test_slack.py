"""The slack formulation against the thesis's own words, solved by bisection."""

import numpy as np
import pytest
import torch
from torch import Tensor

from strop.geometry import L1, L2, Fourier, Linf, Norm
from strop.margins import Status, automatic_slack, least_slack, signed_data, solve
from strop.margins.slack import AUTO_MULTIPLE, _least_by_margins

cp = pytest.importorskip("cvxpy")


def overlapping(count: int = 60, dimension: int = 6) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    points = torch.randn(count, dimension, generator=generator, dtype=torch.float64)
    noise = torch.randn(count, generator=generator, dtype=torch.float64)
    return points, torch.sign(points[:, 0] + 0.3 + noise)


def robust_hinge(points: Tensor, signs: Tensor, exponent: float, eps: float) -> float:
    """min_{w,b} mean_i [1 - y_i (w.x_i + b) + eps ||w||_*]_+, as the appendix writes it."""
    w, b = cp.Variable(points.shape[1]), cp.Variable()
    values = cp.multiply(signs.numpy(), points.numpy() @ w + b)
    loss = cp.sum(cp.pos(1 - values + eps * cp.norm(w, exponent))) / len(signs)
    return float(cp.Problem(cp.Minimize(loss)).solve(solver="CLARABEL"))


@pytest.mark.parametrize(("attack", "dual"), [(Linf, 1), (L2, 2)], ids=["linf", "l2"])
def test_slack_margin_is_the_largest_eps_of_the_thesis(attack: Norm, dual: float) -> None:
    points, signs = overlapping()
    data = signed_data(points, signs, intercept=True)
    slack = automatic_slack(data, attack=attack)
    result = solve(data, attack=attack, slack=slack)
    assert result.status is Status.SOLVED_WITH_SLACK
    low, high = 0.0, 4 * result.margin
    for _ in range(18):
        middle = (low + high) / 2
        if robust_hinge(points, signs, dual, middle) <= slack:
            low = middle
        else:
            high = middle
    assert result.margin == pytest.approx(low, rel=1e-3)


@pytest.mark.parametrize("attack", [Linf, L2, L1, Fourier(Linf, dims=1)], ids=str)
@pytest.mark.parametrize("intercept", [False, True])
def test_slack_solvers_agree(attack: Norm, intercept: bool) -> None:
    data = signed_data(*overlapping(), intercept=intercept)
    expected = solve(data, attack=attack, slack=0.7, solver="clarabel")
    result = solve(data, attack=attack, slack=0.7)
    assert result.gap <= 1e-6
    assert result.margin == pytest.approx(expected.margin, rel=3e-6)
    steps = solve(data, attack=attack, slack=0.7, solver="pdhg", tol=1e-3)
    assert steps.margin == pytest.approx(expected.margin, rel=2e-3)


def test_least_slack_is_the_least_hinge_loss() -> None:
    points, signs = overlapping()
    data = signed_data(points, signs, intercept=True)
    least = robust_hinge(points, signs, 2, 0.0)
    found = least_slack(data, attack=L2)
    assert found.exact
    assert found.value == pytest.approx(least, rel=1e-5)
    for attack in (Linf, L2):
        # What is too large for a dense matrix goes by margins; here both can be had.
        by_margins = _least_by_margins(data, attack=attack, tol=1e-5)
        assert least * (1 - 1e-6) <= by_margins.value <= least * 1.01
    assert automatic_slack(data, attack=Linf) == pytest.approx(AUTO_MULTIPLE * least, rel=0.01)


def test_more_slack_buys_a_wider_margin_and_none_is_the_hard_margin() -> None:
    generator = torch.Generator().manual_seed(2)
    points = torch.randn(20, 40, generator=generator, dtype=torch.float64)
    signs = torch.sign(points[:, 0])
    data = signed_data(points, signs)
    margins = [solve(data, attack=Linf, slack=s).margin for s in (0.0, 1e-3, 0.1, 0.4, 0.9)]
    assert margins[1] == pytest.approx(margins[0], rel=1e-5)
    assert bool((np.diff(margins) >= -1e-6 * margins[0]).all())
    assert margins[-1] > margins[0]
