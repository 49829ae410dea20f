"""The contract of a norm, run over every norm there is. A new norm is a new line in CASES.

Optimality is shown by certificates rather than by golden numbers: p is the nearest point of the
ball of radius r to x exactly when ||p|| <= r and <x - p, p> = r ||x - p||_dual.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

import oracles
from strop.geometry import L1, L2, Fourier, Linf, Lp, Norm, high_band, low_band

EXPONENTS = (1, 1.3, 2, 3, math.inf)


def radii(*shape: int) -> Tensor:
    """Uneven radii, the same at k and -k."""
    drawn = torch.rand(shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    dims = tuple(range(len(shape)))
    mirrored = drawn.flip(dims).roll((1,) * len(shape), dims)
    return 0.3 + drawn + mirrored


def holed(*shape: int) -> Tensor:
    return radii(*shape) * high_band(shape, 0.2)


@dataclass(frozen=True)
class Case:
    norm: Norm
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.norm}@{'x'.join(map(str, self.shape))}"


def cases() -> Iterator[Case]:
    for p in EXPONENTS:
        lp = Lp(p)
        yield Case(lp, (7,))
        yield Case(Fourier(lp, dims=1), (8,))
        yield Case(Fourier(lp, dims=1), (2, 7))
        yield Case(Fourier(lp, dims=2), (3, 4))
        yield Case(Fourier(lp, dims=2), (2, 4, 3))
        yield Case(Fourier(lp, dims=1, band=low_band((9,), 0.3)), (9,))
        yield Case(Fourier(lp, dims=2, band=high_band((4, 5), 0.2)), (4, 5))
        yield Case(Fourier(lp, dims=1, band=radii(8)), (8,))
        yield Case(Fourier(lp, dims=2, band=radii(3, 4)), (2, 3, 4))
        yield Case(Fourier(lp, dims=2, band=holed(4, 4)), (4, 4))
        yield Case(Fourier(lp, dims=1, band=holed(9)).dual, (9,))


CASES = list(cases())
each_norm = pytest.mark.parametrize("case", CASES, ids=str)
each_dtype = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
BATCH = 4


def draw(
    case: Case, seed: int = 0, dtype: torch.dtype = torch.float64, batch: int = BATCH
) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn((batch, *case.shape), generator=generator, dtype=dtype)


def draw_inside(case: Case, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    """Examples of finite norm: nothing where a band is shut."""
    return case.norm.project(draw(case, seed, dtype), math.inf)


def inner(u: Tensor, v: Tensor) -> Tensor:
    return (u * v).flatten(1).sum(dim=1)


def finite_dual(case: Case, g: Tensor, rounding: Tensor) -> Tensor:
    """The dual norm of g, where it is finite but for rounding."""
    seen = case.norm.dual.project(g, math.inf)
    assert (L2(g - seen) <= rounding).all()
    return case.norm.dual(seen)


def tolerance(case: Case, dtype: torch.dtype) -> float:
    return 200 * torch.finfo(dtype).eps * math.prod(case.shape) ** 0.5


def middle_radius(case: Case, x: Tensor, factor: float = 0.4) -> Tensor:
    """A radius, one for each example, that leaves x outside of the ball."""
    return factor * case.norm(case.norm.project(x, math.inf))


@each_norm
def test_value_agrees_with_the_full_transform(case: Case) -> None:
    x = draw_inside(case)
    expected = [oracles.norm_value(case.norm, example.numpy()) for example in x]
    torch.testing.assert_close(case.norm(x), torch.tensor(expected, dtype=x.dtype))


@each_norm
def test_norm_axioms(case: Case) -> None:
    x, y = draw_inside(case, 1), draw_inside(case, 2)
    scale = torch.tensor([0.5, -2.0, 1e-3, 7.0], dtype=x.dtype)
    scaled = x * scale.reshape(-1, *[1] * len(case.shape))
    torch.testing.assert_close(case.norm(scaled), scale.abs() * case.norm(x))
    assert (case.norm(x + y) <= (case.norm(x) + case.norm(y)) * (1 + 1e-12)).all()
    assert (case.norm(x) > 0).all()
    assert (case.norm(torch.zeros_like(x)) == 0).all()


@each_norm
def test_dual_of_the_dual_is_the_norm(case: Case) -> None:
    assert case.norm.dual.dual == case.norm
    assert hash(case.norm.dual.dual) == hash(case.norm)


@each_norm
@each_dtype
def test_hoelder_with_equality_at_the_steepest_direction(case: Case, dtype: torch.dtype) -> None:
    v = draw_inside(case, 3, dtype)
    g = draw_inside(Case(case.norm.dual, case.shape), 4, dtype)
    room = 1 + tolerance(case, dtype)
    assert (inner(g, v).abs() <= case.norm(v) * case.norm.dual(g) * room).all()
    best = case.norm.steepest(g)
    assert (case.norm(best) <= room).all()
    torch.testing.assert_close(
        inner(g, best), case.norm.dual(g), rtol=tolerance(case, dtype), atol=0
    )


@each_norm
def test_steepest_direction_of_zero_is_in_the_ball(case: Case) -> None:
    best = case.norm.steepest(torch.zeros_like(draw(case)))
    assert best.isfinite().all()
    assert (case.norm(best) <= 1).all()


@each_norm
@each_dtype
@pytest.mark.parametrize("factor", [0.999, 0.4, 1e-3])
def test_projection_is_nearest_point(case: Case, dtype: torch.dtype, factor: float) -> None:
    x = 3 * draw(case, 5, dtype)
    radius = middle_radius(case, x, factor)
    p = case.norm.project(x, radius)
    room = tolerance(case, dtype)
    assert p.dtype == dtype
    size = L2(x)
    assert (case.norm(p) <= radius * (1 + room) + room * L2(p) / 100).all()
    gap = radius * finite_dual(case, x - p, room * size) - inner(x - p, p)
    assert (gap.abs() <= room * size * (size + radius)).all()


@each_norm
def test_projection_agrees_with_a_cone_solver(case: Case) -> None:
    x = draw(case, 6)[:1]
    radius = middle_radius(case, x)
    expected = oracles.nearest_point(case.norm, x[0].numpy(), float(radius))
    torch.testing.assert_close(
        case.norm.project(x, radius)[0], torch.from_numpy(expected), rtol=1e-5, atol=1e-5
    )


@each_norm
@each_dtype
def test_projection_is_idempotent_and_leaves_the_ball_alone(case: Case, dtype: torch.dtype) -> None:
    x = draw(case, 7, dtype)
    radius = middle_radius(case, x)
    p = case.norm.project(x, radius)
    room = tolerance(case, dtype)
    torch.testing.assert_close(case.norm.project(p, radius), p, rtol=room, atol=room)
    inside = draw_inside(case, 7, dtype)
    kept = case.norm.project(inside, 1.01 * case.norm(inside))
    torch.testing.assert_close(kept, inside, rtol=room, atol=room)


@each_norm
@each_dtype
@pytest.mark.parametrize("factor", [0.01, 0.7, 1.5])
def test_prox_meets_its_optimality_condition(case: Case, dtype: torch.dtype, factor: float) -> None:
    """x - prox is in scale times the subdifferential of the norm at prox."""
    x = draw(case, 8, dtype)
    in_dual = case.norm.dual.project(x, math.inf)
    scale = factor * case.norm.dual(in_dual)
    v = case.norm.prox(x, scale)
    room = tolerance(case, dtype)
    assert (finite_dual(case, x - v, room * L2(x)) <= scale * (1 + room) + room).all()
    gap = scale * case.norm(v) - inner(x - v, v)
    assert (gap.abs() <= room * (L2(x) ** 2 + scale * case.norm(v))).all()


@each_norm
def test_moreau_splits_every_example(case: Case) -> None:
    x = draw(case, 9)
    torch.testing.assert_close(case.norm.prox(x, 0.8) + case.norm.dual.project(x, 0.8), x)


@each_norm
def test_radius_zero_and_infinity(case: Case) -> None:
    x = draw_inside(case, 10)
    nothing = case.norm.project(x, 0.0)
    assert (case.norm(nothing) <= 1e-14).all()
    torch.testing.assert_close(case.norm.project(x, math.inf), x)
    torch.testing.assert_close(case.norm.prox(x, 0.0), x)


@each_norm
def test_each_example_has_its_own_radius(case: Case) -> None:
    x = draw(case, 11)
    radius = torch.tensor([0.0, 0.1, 1.0, math.inf], dtype=x.dtype)
    for operation in (case.norm.project, case.norm.prox):
        together = operation(x, radius)
        apart = torch.cat([operation(x[i : i + 1], float(radius[i])) for i in range(BATCH)])
        torch.testing.assert_close(together, apart)


@each_norm
def test_empty_batches_and_zeros(case: Case) -> None:
    empty, zero = draw(case, batch=0), torch.zeros_like(draw(case))
    assert case.norm(empty).shape == (0,)
    for x in (empty, zero):
        for result in (case.norm.steepest(x), case.norm.project(x, 1.0), case.norm.prox(x, 1.0)):
            assert result.shape == x.shape
            assert (result == 0).all()


@each_norm
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_is_float32_inside(case: Case, dtype: torch.dtype) -> None:
    x = draw(case, 12, torch.float32).to(dtype)
    raised = x.float()
    for low, high in (
        (case.norm.project(x, 0.5), case.norm.project(raised, 0.5)),
        (case.norm.prox(x, 0.5), case.norm.prox(raised, 0.5)),
        (case.norm.steepest(x), case.norm.steepest(raised)),
    ):
        assert low.dtype == dtype
        assert torch.equal(low, high.to(dtype))


@each_norm
def test_maps_do_not_change_or_share_their_input(case: Case) -> None:
    x = draw_inside(case, 13)
    before = x.clone()
    for result in (
        case.norm.project(x, 0.1),
        case.norm.project(x, 1e9),
        case.norm.prox(x, 0.0),
        case.norm.steepest(x),
    ):
        result.zero_()
        assert torch.equal(x, before)


@each_norm
def test_projection_has_the_right_derivative(case: Case) -> None:
    x = draw(case, 14)[:2]
    radius = middle_radius(case, x)
    direction = draw(case, 15)[:2]
    step = 1e-6
    ahead = case.norm.project(x + step * direction, radius)
    behind = case.norm.project(x - step * direction, radius)
    _, derivative = torch.autograd.functional.jvp(
        lambda moved: case.norm.project(moved, radius), x, direction
    )
    torch.testing.assert_close(derivative, (ahead - behind) / (2 * step), rtol=1e-4, atol=1e-5)


@each_norm
def test_refusals_name_the_remedy(case: Case) -> None:
    x = draw(case)
    for wrong in (-1.0, math.nan, torch.tensor([1.0, 1.0, -1.0, 1.0])):
        with pytest.raises(ValueError, match="expected radius >= 0"):
            case.norm.project(x, wrong)
    with pytest.raises(ValueError, match="one for each"):
        case.norm.project(x, torch.ones(BATCH + 1))
    with pytest.raises(ValueError, match="batch"):
        case.norm(torch.ones(3))
    with pytest.raises(TypeError, match="floating-point"):
        case.norm(x.long())


def test_fourier_linf_of_a_constant_is_its_mean_stretched() -> None:
    """Thesis appendix B.3: only the coefficient of frequency 0 is there, and it is sqrt(d) c."""
    x = torch.full((1, 3, 16, 16), 0.5)
    torch.testing.assert_close(Fourier(Linf, dims=2)(x), torch.tensor([0.5 * 16]))
    torch.testing.assert_close(Fourier(L1, dims=2)(x), torch.tensor([3 * 0.5 * 16]))
