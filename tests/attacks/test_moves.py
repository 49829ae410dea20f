"""The quick moves of a climb against the formulas they stand for."""

import math

import cvxpy
import pytest
import torch
from torch import Tensor

from strop.attacks.feasible import Neighbourhood, each, into_l1_ball
from strop.attacks.moves import Moves, SpectralMoves, WaveMoves, moves_in
from strop.geometry import L1, L2, Fourier, Linf, Norm, low_band
from strop.geometry.fourier import half_spectrum


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def pictures(*shape: int) -> Tensor:
    return (0.5 + 0.6 * drawn(*shape)).clamp(0, 1)


def plain_move(
    around: Neighbourhood, delta: Tensor, previous: Tensor | None, gradient: Tensor, length: Tensor
) -> Tensor:
    ahead = delta + around.step(gradient, delta, length)
    if around.norm == Linf:
        ahead = around.inside(ahead)
    if previous is not None:
        ahead = delta + 0.75 * (ahead - delta) + 0.25 * (delta - previous)
    return around.inside(ahead)


@pytest.mark.parametrize("bounds", [None, (0.0, 1.0)], ids=["free", "box"])
@pytest.mark.parametrize(
    "norm",
    [L1, L2, Linf, *(Fourier(norm, dims=dims) for norm in (L1, L2) for dims in (1, 2, 3))],
    ids=str,
)
def test_moves_are_those_of_the_formula(norm: Norm, bounds: tuple[float, float] | None) -> None:
    x = pictures(3, 2, 6, 5)
    around = Neighbourhood(x, norm, torch.tensor([0.1, 0.4, 0.0]).double(), bounds)
    delta, previous = torch.zeros_like(x), None
    moves = moves_in(around, delta.clone())
    for step in range(6):
        gradient, length = drawn(*x.shape, seed=step), around.eps * 2 / (step + 1)
        if step == 3:  # the second example starts again from somewhere else
            there, where = delta / 2, torch.tensor([False, True, False])
            moves.go_back(where, x + there)
            assert previous is not None
            delta = torch.where(each(where, x), there, delta)
            previous = torch.where(each(where, x), there, previous)
        previous, delta = delta, plain_move(around, delta, previous, gradient, length)
        moved = moves(gradient, length)
        torch.testing.assert_close(moved - x, delta, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("start", [0.0, 0.3, 50.0])
@pytest.mark.parametrize("asking", [True, False])
def test_few_steps_reach_the_nearest_point_of_an_l1_ball(asking: bool, start: float) -> None:
    delta, eps = drawn(5, 3, 8, 8) * drawn(5, 3, 8, 8, seed=1).square(), drawn(5).abs() + 0.1
    nearest = into_l1_ball(delta, eps, torch.full_like(eps, start)[:, None], steps=9, asking=asking)
    torch.testing.assert_close(nearest, L1.project(delta, eps), rtol=1e-9, atol=1e-9)


def test_what_few_steps_leave_outside_of_an_l1_ball_is_scaled_into_it() -> None:
    delta = 0.7 ** torch.arange(200, dtype=torch.float64).expand(2, -1)  # each step sheds a few
    eps = torch.tensor([1e-3, 1e-9], dtype=torch.float64)
    found = into_l1_ball(delta, eps, torch.zeros_like(eps)[:, None], steps=8, asking=False)
    torch.testing.assert_close(L1(found), eps)


@pytest.mark.parametrize("bounds", [None, (0.0, 1.0)], ids=["free", "box"])
def test_waves_moved_without_asking_are_inside_and_near_those_moved_with(
    bounds: tuple[float, float] | None,
) -> None:
    x, norm = pictures(4, 3, 16, 16), Fourier(L1, dims=2)
    around = Neighbourhood(x, norm, torch.tensor([0.3, 3.0, 10.0, 0.0]).double(), bounds)
    asking, unasked, dense = (WaveMoves(around, torch.zeros_like(x)) for _ in range(3))
    dense.here = half_spectrum(around.random(torch.Generator().manual_seed(0)), dims=2)
    unasked.asking = dense.asking = False
    for step in range(8):
        gradient, length = drawn(*x.shape, seed=step), around.eps * 2 / (step + 1)
        expected, moved = asking(gradient, length), unasked(gradient, length)
        for one in (moved, dense(gradient, length)):
            assert bool((norm(one - x) <= around.eps * (1 + 1e-9)).all())
            assert bounds is None or ((one >= -1e-12) & (one <= 1 + 1e-12)).all()
        away = (moved - expected).flatten(1).norm(dim=1)
        # The first levels are guessed from zero, later ones from the last.
        near = 0.1 if step < 5 else 0.02
        assert bool((away <= near * (expected - x).flatten(1).norm(dim=1)).all())


@pytest.mark.parametrize("band", [None, low_band((6, 5), 0.3), 0.5 + low_band((6, 5), 0.2)])
def test_spectral_moves_without_a_box_are_projected_steps(band: Tensor | None) -> None:
    x, norm = pictures(3, 2, 6, 5), Fourier(Linf, dims=2, band=band)
    around = Neighbourhood(x, norm, torch.tensor([0.1, 0.4, 0.0]).double(), None)
    moves, delta = moves_in(around, torch.zeros_like(x)), torch.zeros_like(x)
    assert isinstance(moves, SpectralMoves)
    for step in range(4):
        gradient, length = drawn(*x.shape, seed=step), around.eps / (step + 1)
        delta = norm.project(delta + each(length, x) * norm.steepest(gradient), around.eps)
        torch.testing.assert_close(moves(gradient, length) - x, delta, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("scale", [1e-30, 1e-12, 1.0, 1e30])
def test_spectral_moves_do_not_depend_on_the_scale_of_the_gradient(scale: float) -> None:
    x, gradient = pictures(2, 1, 8, 8).float(), drawn(2, 1, 8, 8, seed=1).float()
    around = Neighbourhood(x, Fourier(Linf, dims=2), torch.tensor([0.1, 0.4]), (0.0, 1.0))
    expected = moves_in(around, torch.zeros_like(x))(gradient, around.eps)
    moved = moves_in(around, torch.zeros_like(x))(scale * gradient, around.eps)
    torch.testing.assert_close(moved, expected, rtol=1e-4, atol=1e-6)


def best_in_ball_and_box(x: Tensor, gradient: Tensor, eps: float) -> float:
    """max <gradient, delta> over |F(delta)_k| <= eps and 0 <= x + delta <= 1, one channel."""
    size = x.shape[-1]
    transform = torch.fft.fft(torch.eye(size, dtype=torch.complex128), norm="ortho").numpy()
    delta = cvxpy.Variable((size, size))
    spectrum = transform @ delta @ transform.T
    limits = [cvxpy.abs(spectrum) <= eps, delta >= -x.numpy(), delta <= 1 - x.numpy()]
    problem = cvxpy.Problem(
        cvxpy.Maximize(cvxpy.sum(cvxpy.multiply(gradient.numpy(), delta))), limits
    )
    return float(problem.solve(solver=cvxpy.CLARABEL))


@pytest.mark.parametrize("eps", [0.03, 0.2])
def test_spectral_moves_climb_to_the_optimum_of_ball_and_box(eps: float) -> None:
    """A picture with a white background, a linear function whose waves are all as steep."""
    x, norm = pictures(1, 1, 8, 8), Fourier(Linf, dims=2)
    x[:, :, :5] = 1.0
    gradient = norm.steepest(drawn(1, 1, 8, 8, seed=1))
    around = Neighbourhood(x, norm, torch.tensor([eps], dtype=torch.float64), (0.0, 1.0))
    moves = moves_in(around, torch.zeros_like(x))
    best = best_in_ball_and_box(x[0, 0], gradient[0, 0], eps)
    gains = []
    for step in range(200):
        delta = moves(gradient, around.eps * 0.95**step) - x
        assert norm(delta) <= eps * (1 + 1e-9)
        assert ((x + delta).clamp(0, 1) - x - delta).abs().max() < 1e-12
        gains.append(float((gradient * delta).sum()))
    assert max(gains) == pytest.approx(best, rel=0.01)
    clipped = (gradient * eps).clamp(*around.box)
    scaled = float((gradient * clipped).sum()) * min(1.0, eps / float(norm(clipped)))
    assert max(gains) > 1.1 * scaled


def test_free_frequencies_and_shut_ones_in_a_box_are_moved_by_the_general_rule() -> None:
    x = pictures(1, 1, 6, 6)
    free = torch.ones(6, 6).index_fill(0, torch.tensor([0]), math.inf)
    for band in (free, low_band((6, 6), 0.2)):
        around = Neighbourhood(
            x, Fourier(Linf, dims=2, band=band), torch.tensor([0.1]).double(), (0.0, 1.0)
        )
        moves = moves_in(around, torch.zeros_like(x))
        assert type(moves) is Moves
        assert moves(drawn(*x.shape), around.eps).isfinite().all()
