"""The functions behind the norms: agreement with sorting, certificates, and the hard corners."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from strop.geometry import (
    L1,
    L2,
    Linf,
    Lp,
    project_l1_ball,
    project_l2_ball,
    project_linf_ball,
    project_lp_ball,
    project_simplex,
)
from strop.geometry.multipliers import climbing_level, newton_level, sorted_level

FUNCTIONS = [(project_l1_ball, L1), (project_l2_ball, L2), (project_linf_ball, Linf)]


def simplex_by_sorting(x: Tensor, total: Tensor) -> Tensor:
    """The level read off the sorted row (Held, Wolfe and Crowder 1974)."""
    ordered = x.sort(dim=1, descending=True).values
    counts = torch.arange(1, x.shape[1] + 1, dtype=x.dtype)
    levels = (ordered.cumsum(dim=1) - total) / counts
    last = (ordered > levels).sum(dim=1, keepdim=True).clamp(min=1) - 1
    return (x - levels.gather(1, last)).relu()


rows = st.integers(1, 5)
columns = st.integers(1, 40)
seeds = st.integers(0, 10_000)


@given(rows, columns, seeds, st.sampled_from([1e-3, 0.5, 1.0, 30.0]))
def test_simplex_projection_agrees_with_sorting(
    batch: int, size: int, seed: int, total: float
) -> None:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(batch, size, generator=generator, dtype=torch.float64)
    x = (x * 4).round() / 4 if seed % 2 else x  # half of the rows have ties
    v = project_simplex(x, total)
    torch.testing.assert_close(v, simplex_by_sorting(x, torch.tensor(total, dtype=x.dtype)))
    torch.testing.assert_close(v.sum(dim=1), torch.full((batch,), total, dtype=x.dtype))


@given(rows, columns, seeds, st.booleans())
def test_both_ways_to_the_level_agree(batch: int, size: int, seed: int, weighted: bool) -> None:
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(batch, size, generator=generator, dtype=torch.float64)
    total = torch.rand(batch, 1, generator=generator, dtype=torch.float64) * 3
    weights = torch.rand(size, generator=generator, dtype=torch.float64) + 0.1 if weighted else None
    level = climbing_level(values, total, weights)
    torch.testing.assert_close(level, sorted_level(values, total, weights))
    parts = (values - level).relu() * (1.0 if weights is None else weights)
    torch.testing.assert_close(parts.sum(dim=1, keepdim=True), total)


@given(rows, columns, seeds, st.booleans(), st.floats(0, 10))
def test_the_level_is_found_from_any_guess(
    batch: int, size: int, seed: int, weighted: bool, guess: float
) -> None:
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(batch, size, generator=generator, dtype=torch.float64).abs()
    total = torch.rand(batch, 1, generator=generator, dtype=torch.float64) * 3
    weights = torch.rand(size, generator=generator, dtype=torch.float64) + 0.1 if weighted else None
    start, expected = torch.full_like(total, guess), sorted_level(values, total, weights).relu()
    for steps, asking in ((0, True), (size + 2, False)):
        level = newton_level(values, total, weights, start, steps=steps, asking=asking)
        torch.testing.assert_close(level, expected)
    early = newton_level(values, total, weights, start, steps=1, asking=False)
    assert bool((early <= expected + 1e-12).all())


@given(rows, columns, seeds)
def test_l1_ball_agrees_with_the_simplex_of_moduli(batch: int, size: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(batch, size, generator=generator, dtype=torch.float64)
    radius = L1(x) * torch.rand(batch, generator=generator, dtype=torch.float64)
    expected = simplex_by_sorting(x.abs(), radius[:, None]) * x.sign()
    torch.testing.assert_close(project_l1_ball(x, radius), expected)


@pytest.mark.parametrize("p", [1, 1.05, 1.5, 2, 2.5, 10, 200, math.inf])
def test_stretched_ball_is_the_plain_one_in_stretched_coordinates(p: float) -> None:
    """At the answer x - v is normal to the ball: <x - v, v> = radius ||r (x - v)||_q."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(6, 5, 4, generator=generator, dtype=torch.float64)
    radii = torch.rand(5, 4, generator=generator, dtype=torch.float64) + 0.1
    radius = 0.3 * Lp(p)(x / radii)
    v = project_lp_ball(x, radius, p=p, radii=radii)
    torch.testing.assert_close(Lp(p)(v / radii), radius)
    normal = x - v
    torch.testing.assert_close((normal * v).flatten(1).sum(1), radius * Lp(p).dual(radii * normal))


@pytest.mark.parametrize("p", [1, 1.3, 2, 3, 50, math.inf])
@pytest.mark.parametrize("magnitude", [1e-37, 1e-30, 1e-10, 1e10, 1e30, 2e37])
def test_huge_and_tiny_examples_neither_overflow_nor_vanish(p: float, magnitude: float) -> None:
    x = torch.tensor([[3.0, -4.0, 1.0, 0.0, 0.5, 2.0, -2.0, 1.5]])
    scaled = x * magnitude
    torch.testing.assert_close(Lp(p)(scaled), Lp(p)(x) * magnitude, atol=0, rtol=1e-5)
    v = Lp(p).project(scaled, magnitude)
    torch.testing.assert_close(
        v, Lp(p).project(x, 1.0) * magnitude, atol=1e-6 * magnitude, rtol=1e-5
    )
    torch.testing.assert_close(Lp(p).steepest(scaled), Lp(p).steepest(x))
    assert Lp(p).project(torch.full((1, 50), torch.finfo().max), 1.0).isfinite().all()


@pytest.mark.parametrize("offset", [-3e38, -1e10, 1e10, 3e38])
def test_simplex_projection_does_not_mind_an_offset(offset: float) -> None:
    v = project_simplex(torch.full((2, 50), offset))
    torch.testing.assert_close(v, torch.full((2, 50), 1 / 50))


@pytest.mark.parametrize("p", [1, 1.3, 2, 3, math.inf])
def test_all_entries_equal_share_the_radius(p: float) -> None:
    v = Lp(p).project(torch.ones(2, 10, dtype=torch.float64), 0.5)
    torch.testing.assert_close(v, torch.full_like(v, 0.5 * 10 ** (-1 / p)))


@pytest.mark.parametrize("p", [1, 1.3, 2, 3, math.inf])
def test_one_coordinate_and_none(p: float) -> None:
    one = torch.tensor([[3.0], [-0.2]])
    torch.testing.assert_close(Lp(p).project(one, 1.0), torch.tensor([[1.0], [-0.2]]))
    torch.testing.assert_close(Lp(p).prox(one, 1.0), torch.tensor([[2.0], [0.0]]))
    none = torch.ones(2, 0)
    assert torch.equal(Lp(p)(none), torch.zeros(2))
    assert Lp(p).project(none, 1.0).shape == Lp(p).steepest(none).shape == (2, 0)


@pytest.mark.parametrize("p", [1, 1.3, 2, 3, math.inf])
def test_a_broken_example_spoils_no_other(p: float) -> None:
    x = torch.randn(3, 6, generator=torch.Generator().manual_seed(2))
    broken = x.clone()
    broken[1, 2] = math.nan
    v = Lp(p).project(broken, 0.5)
    torch.testing.assert_close(v[[0, 2]], Lp(p).project(x, 0.5)[[0, 2]])
    assert v[1].isnan().any()


@pytest.mark.parametrize(("function", "norm"), FUNCTIONS)
def test_named_balls_are_those_of_the_norms(function, norm) -> None:  # type: ignore[no-untyped-def]
    x = torch.randn(3, 2, 5, generator=torch.Generator().manual_seed(3))
    assert torch.equal(function(x, 0.7), norm.project(x, 0.7))


def test_slowly_falling_values_still_end() -> None:
    """Geometric rows take the active set apart slowly: the worst case of the search."""
    x = 0.5 ** torch.arange(60, dtype=torch.float64)[None]
    for radius in (1e-15, 1e-6, 0.5, 1.5, 1.999):
        v = project_l1_ball(x, radius)
        torch.testing.assert_close(v, simplex_by_sorting(x, torch.tensor(radius).double()))


def test_refusals_name_the_remedy() -> None:
    x = torch.ones(2, 3)
    with pytest.raises(ValueError, match=r"1 <= p <= inf, came p=0\.5"):
        project_lp_ball(x, 1.0, p=0.5)
    with pytest.raises(ValueError, match="shape of one example"):
        project_l1_ball(x, 1.0, radii=torch.ones(4))
    with pytest.raises(ValueError, match="positive finite radii"):
        project_l1_ball(x, 1.0, radii=torch.tensor([1.0, 0.0, 1.0]))
    with pytest.raises(ValueError, match="total >= 0"):
        project_simplex(x, -1.0)
    with pytest.raises(ValueError, match="without coordinates"):
        project_simplex(torch.ones(2, 0))
    for p in (0.5, math.nan, -1, "1"):
        with pytest.raises(ValueError, match="1 <= p <= inf"):
            Lp(p)  # type: ignore[arg-type]


@pytest.mark.parametrize("p", [1, 1.001, 1.1, 1.9, 2, 2.5, 10, 1000, math.inf])
@pytest.mark.parametrize("factor", [1e-5, 0.5, 0.999])
def test_single_precision_keeps_its_digits(p: float, factor: float) -> None:
    """Measured in double: the result is inside by a few ulp and its certificate closes."""
    x = torch.randn(5, 2000, generator=torch.Generator().manual_seed(4))
    radius = Lp(p)(x) * factor
    v = Lp(p).project(x, radius).double()
    x, radius = x.double(), radius.double()
    assert (Lp(p)(v) <= radius * (1 + 4 * torch.finfo(torch.float32).eps)).all()
    gap = radius * Lp(p).dual(x - v) - ((x - v) * v).sum(dim=1)
    assert (gap.abs() <= 16 * torch.finfo(torch.float32).eps * L2(x) * L2(v)).all()


def test_long_rows_are_projected_like_short_ones() -> None:
    """More numbers than stay in a processor's cache are taken block by block."""
    generator = torch.Generator().manual_seed(6)
    x = torch.randn(3, 300_000, generator=generator)
    radius = torch.tensor([0.0, 10.0, 1e9])
    for p in (1, 2, 3):
        apart = [Lp(p).project(row[None], r)[0] for row, r in zip(x, radius, strict=True)]
        assert torch.equal(Lp(p).project(x, radius), torch.stack(apart))
    torch.testing.assert_close(
        project_l1_ball(x[1:2], 10.0),
        simplex_by_sorting(x[1:2].abs().double(), torch.tensor(10.0)).float() * x[1:2].sign(),
        atol=1e-6,
        rtol=1e-5,
    )
