"""Every solver against the certificate, an oracle, and the invariances of a margin."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from strop.data import separable_gaussian
from strop.geometry import L1, L2, Fourier, Linf, Lp, Norm, low_band
from strop.margins import Status, certify, max_margin, signed_data, solve
from strop.margins.certificate import project_capped_simplex
from strop.margins.min_norm import solve_min_norm
from strop.support import InputError

ATTACKS = (Linf, L2, L1, Fourier(Linf, dims=1), Fourier(L1, dims=1))
SOLVERS = ("exact", "interior", "pdhg")


def gaussian(count: int, dimension: int, *, seed: int = 0) -> tuple[Tensor, Tensor]:
    drawn = separable_gaussian(
        count=count,
        dimension=dimension,
        generator=torch.Generator().manual_seed(seed),
        dtype=torch.float64,
    )
    return drawn.points, drawn.signs


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("attack", ATTACKS, ids=str)
def test_solvers_agree_with_a_cone_program(attack: Norm, intercept: bool) -> None:
    data = signed_data(*gaussian(12, 30), intercept=intercept)
    oracle = solve_min_norm(data, attack=attack, engine="clarabel")
    assert oracle.gap < 1e-6
    for solver in SOLVERS:
        result = solve(data, attack=attack, solver=solver)
        assert result.status is Status.SOLVED
        assert result.gap <= 1e-6
        assert result.margin == pytest.approx(oracle.margin, rel=3e-6)


@pytest.mark.parametrize("shape", [(30, 8), (8, 30), (1500, 20), (1, 4), (4, 1)])
@pytest.mark.parametrize("attack", ATTACKS, ids=str)
def test_exact_is_certified_for_tall_and_wide_data(attack: Norm, shape: tuple[int, int]) -> None:
    result = max_margin(*gaussian(*shape), attack=attack)
    assert result.status is Status.SOLVED
    assert result.gap <= 1e-6


@pytest.mark.parametrize("attack", [L2, Fourier(Linf, dims=1)], ids=str)
def test_exact_reaches_its_tolerance_on_tall_data(attack: Norm) -> None:
    """Twice as many points as a hyperplane can tell apart by chance, and more: ill-conditioned."""
    points, signs = gaussian(3000, 100, seed=1)
    result = max_margin(points, signs, attack=attack, solver="interior", tol=1e-7)
    assert result.status is Status.SOLVED
    assert result.gap <= 1e-7


@pytest.mark.parametrize("engine", ["highs", "scs"])
def test_peers_are_certified_too(engine: str) -> None:
    data = signed_data(*gaussian(10, 20), intercept=True)
    for attack in (Linf, L1):
        result = solve_min_norm(data, attack=attack, engine=engine, tol=1e-5)
        assert result.gap <= 1e-5
        assert result.margin == pytest.approx(solve(data, attack=attack).margin, rel=1e-4)


def test_any_norm_has_its_margin_by_primal_dual_steps() -> None:
    points, signs = gaussian(10, 16)
    pictures = points.reshape(10, 4, 4)
    cases = (
        (points, Lp(3)),
        (pictures, Fourier(Linf, dims=2)),
        (pictures, Fourier(Linf, dims=2, band=1.0 + low_band((4, 4), 0.2).double())),
    )
    for given_points, attack in cases:
        result = max_margin(given_points, signs, attack=attack, solver="pdhg", tol=1e-5)
        assert result.gap <= 1e-5
        assert result.weights.shape == given_points.shape[1:]
        exact = max_margin(given_points, signs, attack=attack, tol=1e-5)
        assert exact.margin == pytest.approx(result.margin, rel=2e-5)


@given(
    weights=st.lists(st.floats(-5, 5), min_size=6, max_size=6),
    mixture=st.lists(st.floats(0, 1), min_size=5, max_size=5),
    intercept=st.booleans(),
    slack=st.sampled_from([0.0, 0.3]),
)
def test_every_certificate_encloses_the_best_margin(
    weights: list[float], mixture: list[float], intercept: bool, slack: float
) -> None:
    points, signs = gaussian(5, 6, seed=3)
    data = signed_data(points, signs, intercept=intercept)
    for attack in (Linf, L2, Fourier(Linf, dims=1)):
        best = solve(data, attack=attack, slack=slack, solver="exact")
        bounds = certify(
            data, torch.tensor(weights), torch.tensor(mixture), attack=attack, slack=slack
        )
        assert bounds.lower <= best.certificate.upper * (1 + 1e-9)
        assert bounds.upper >= best.certificate.lower * (1 - 1e-9)
        assert float(bounds.mixture.sum()) == pytest.approx(1)


@given(
    values=st.lists(st.floats(-3, 3), min_size=1, max_size=9),
    room=st.floats(0.01, 5),
)
def test_capped_simplex_projection_is_the_nearest_point(values: list[float], room: float) -> None:
    x = torch.tensor(values, dtype=torch.float64)
    most = (1 + room) / len(values)
    v = project_capped_simplex(x, total=1.0, most=most)
    assert float(v.sum()) == pytest.approx(1, abs=1e-9)
    assert float(v.min()) >= -1e-12
    assert float(v.max()) <= most + 1e-12
    # Nearest: no feasible exchange of mass between two coordinates comes closer to x.
    pull = x - v
    giving, taking = v > 1e-9, v < most - 1e-9
    if bool(giving.any()) and bool(taking.any()):
        assert float(pull[taking].max()) <= float(pull[giving].min()) + 1e-7


@pytest.mark.parametrize("attack", ATTACKS, ids=str)
def test_margin_is_where_attacks_begin_to_succeed(attack: Norm) -> None:
    points, signs = gaussian(10, 24)
    for intercept in (False, True):
        result = max_margin(points, signs, attack=attack, intercept=intercept)
        w, b = result.weights, result.intercept
        assert float(attack.dual(w[None])) == pytest.approx(1)
        worst = -signs[:, None] * attack.steepest(w[None])
        assert torch.allclose(attack(worst), torch.ones(10, dtype=torch.float64), atol=1e-9)
        under = signs * ((points + 0.999 * result.margin * worst) @ w + b)
        over = signs * ((points + 1.001 * result.margin * worst) @ w + b)
        assert bool((under > 0).all())
        assert bool((over < 0).any())


@pytest.mark.parametrize("attack", [Linf, L2, L1], ids=str)
def test_margin_scales_and_ignores_order_and_signs_of_features(attack: Norm) -> None:
    points, signs = gaussian(9, 14)
    margin = max_margin(points, signs, attack=attack).margin
    rows, columns = torch.randperm(9), torch.randperm(14)
    flips = torch.where(torch.arange(14) % 2 == 0, 1.0, -1.0).double()
    for changed, labels, factor in (
        (points * 7.5, signs, 7.5),
        (points[rows], signs[rows], 1.0),
        (points[:, columns], signs, 1.0),
        (points * flips, signs, 1.0),
        (-points, -signs, 1.0),
        (torch.cat([points, points]), torch.cat([signs, signs]), 1.0),
        (torch.cat([points, torch.zeros(9, 3)], 1), signs, 1.0),
    ):
        result = max_margin(changed, labels, attack=attack)
        assert result.margin == pytest.approx(factor * margin, rel=3e-6)


def test_intercept_is_worth_as_much_as_a_free_constant_feature() -> None:
    points, signs = gaussian(12, 20)
    shifted = points + 3.0
    free = max_margin(shifted, signs, attack=L2, intercept=True)
    assert free.margin == pytest.approx(
        max_margin(points, signs, attack=L2, intercept=True).margin, rel=1e-6
    )
    large = 1e4
    augmented = torch.cat([shifted, torch.full((12, 1), large, dtype=torch.float64)], 1)
    assert max_margin(augmented, signs, attack=L2).margin == pytest.approx(free.margin, rel=1e-4)
    assert free.margin >= max_margin(shifted, signs, attack=L2).margin


@pytest.mark.parametrize("solver", ["exact", "interior"])
@pytest.mark.parametrize("attack", [Linf, L2, L1, Fourier(Linf, dims=1)], ids=str)
def test_touching_classes_are_found_out(attack: Norm, solver: str) -> None:
    generator = torch.Generator().manual_seed(1)
    points = torch.randn(40, 4, generator=generator, dtype=torch.float64)
    signs = torch.where(torch.rand(40, generator=generator) < 0.5, 1.0, -1.0)
    for intercept in (False, True):
        result = max_margin(points, signs, attack=attack, intercept=intercept, solver=solver)
        assert result.status is Status.NOT_SEPARABLE
        mixture = result.certificate.mixture
        combined = mixture @ (signs[:, None] * points)
        assert float(combined.abs().max()) < 1e-8
        if intercept:
            assert float(mixture @ signs.double()) == pytest.approx(0, abs=1e-12)


def test_rank_deficient_and_duplicated_data_are_solved() -> None:
    points, signs = gaussian(6, 10)
    thin = points @ torch.ones(10, 1, dtype=torch.float64) @ torch.ones(1, 10, dtype=torch.float64)
    labels = torch.sign(thin[:, 0])
    for attack in ATTACKS:
        assert max_margin(thin, labels, attack=attack).status is Status.SOLVED
        repeated = points.repeat(3, 1), signs.repeat(3)
        assert max_margin(*repeated, attack=attack).status is Status.SOLVED


def test_zero_point_touches_without_an_intercept_and_not_with_one() -> None:
    points = torch.tensor([[0.0, 0.0], [1.0, 1.0]])
    signs = torch.tensor([1.0, -1.0])
    assert max_margin(points, signs, attack=L2).status is Status.NOT_SEPARABLE
    result = max_margin(points, signs, attack=L2, intercept=True)
    assert result.margin == pytest.approx(math.sqrt(2) / 2, rel=1e-6)


@pytest.mark.parametrize("attack", [Linf, L2, Fourier(Linf, dims=1)], ids=str)
def test_sparse_data_give_the_same_margin(attack: Norm) -> None:
    sparse = pytest.importorskip("scipy.sparse")
    points, signs = gaussian(15, 40)
    points = torch.where(points.abs() > 0.7, points, 0.0)
    expected = max_margin(points, signs, attack=attack, intercept=True)
    matrix = sparse.csr_matrix(points.numpy())
    for solver in ("auto", "pdhg"):
        result = max_margin(matrix, signs, attack=attack, intercept=True, solver=solver, tol=1e-5)
        assert result.margin == pytest.approx(expected.margin, rel=2e-5)


def test_float32_reaches_what_it_can_and_keeps_its_dtype() -> None:
    points, signs = gaussian(20, 50)
    for solver in ("exact", "pdhg"):
        result = max_margin(points.float(), signs, attack=Linf, solver=solver, tol=1e-4)
        assert result.weights.dtype == torch.float32
        assert result.gap <= 1e-4


def test_results_are_tables_and_pages(tmp_path) -> None:
    pytest.importorskip("pandas")
    result = max_margin(*gaussian(4, 6), attack=Linf)
    (row,) = result.to_pandas().to_dict("records")
    assert row["margin"] == result.margin
    assert row["status"].startswith("solved")
    result.save_html(tmp_path / "margin.html")
    text = (tmp_path / "margin.html").read_text(encoding="utf-8")
    assert f"{result.margin:.6g}" in text


def test_wrong_inputs_are_named() -> None:
    points, signs = gaussian(4, 3)
    with pytest.raises(InputError, match="labels -1 and"):
        max_margin(points, [0, 1, 0, 1])
    with pytest.raises(InputError, match="all labels are the same"):
        max_margin(points, [1, 1, 1, 1], intercept=True)
    with pytest.raises(InputError, match="finite"):
        max_margin(points * math.nan, signs)
    with pytest.raises(InputError, match="solver"):
        max_margin(points, signs, solver="newton")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="slack"):
        max_margin(points, signs, slack=1.0)
    with pytest.raises(InputError, match="pdhg"):
        max_margin(points, signs, attack=Lp(3), solver="interior")
    assert np.isfinite(max_margin(points, signs).margin)
