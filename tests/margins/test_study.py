"""The thesis's methods behind the one door; and the same solvers on a GPU."""

import pytest
import torch

from strop.data import separable_gaussian
from strop.geometry import L1, L2, Fourier, Linf, Norm
from strop.margins import Status, max_margin, signed_data, solve
from strop.margins.min_norm import solve_min_norm
from strop.margins.study import solve_by_study
from strop.support import InputError

SPECTRAL = Fourier(Linf, dims=1)


@pytest.mark.parametrize(
    ("method", "attack", "within"),
    [
        ("steepest", L2, 1e-4),
        ("steepest", Linf, 0.05),
        ("steepest", SPECTRAL, 0.05),
        ("proximal", L1, 0.3),
        ("adversarial", L2, 0.3),
        ("convnet", SPECTRAL, 0.02),
        ("deep-linear", L2, 0.1),
    ],
)
def test_methods_are_solvers_with_certificates(method: str, attack: Norm, within: float) -> None:
    drawn = separable_gaussian(
        count=4, dimension=16, generator=torch.Generator().manual_seed(0), dtype=torch.float64
    )
    data = signed_data(drawn.points, drawn.signs)
    best = solve(data, attack=attack)
    result = solve_by_study(data, attack=attack, method=method, iterations=600)
    assert result.solver == method
    assert result.iterations == 600
    assert result.margin <= best.certificate.upper
    assert result.certificate.upper >= best.margin * (1 - 1e-9)
    assert result.margin >= (1 - within) * best.margin


def test_studies_say_what_they_cannot_do() -> None:
    points, labels = torch.eye(3), torch.ones(3)
    with pytest.raises(InputError, match="whose bias it is"):
        max_margin(points, labels, attack=L1, solver="convnet")
    with pytest.raises(InputError, match="no slack"):
        max_margin(points, labels, attack=L1, solver="proximal", slack=0.1)


def test_margin_times_the_least_norm_is_one() -> None:
    drawn = separable_gaussian(
        count=6, dimension=9, generator=torch.Generator().manual_seed(0), dtype=torch.float64
    )
    data = signed_data(drawn.points, drawn.signs)
    for attack in (Linf, L2, L1, SPECTRAL):
        least = solve_min_norm(data, attack=attack)
        weights = least.weights / float((data.rows @ least.weights).min())
        margin = solve(data, attack=attack).margin
        assert margin * float(attack.dual(weights[None])) == pytest.approx(1, abs=1e-5)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("attack", [Linf, L2, L1, SPECTRAL], ids=str)
def test_solvers_on_a_gpu_agree_with_the_cpu(attack: Norm) -> None:
    drawn = separable_gaussian(
        count=40, dimension=200, generator=torch.Generator().manual_seed(0), dtype=torch.float64
    )
    expected = max_margin(drawn.points, drawn.signs, attack=attack, intercept=True)
    for solver, dtype in (("exact", torch.float64), ("pdhg", torch.float32)):
        result = max_margin(
            drawn.points.to("cuda", dtype),
            drawn.signs.cuda(),
            attack=attack,
            intercept=True,
            solver=solver,
            tol=1e-4,
        )
        assert result.weights.is_cuda
        assert result.status is Status.SOLVED
        assert result.margin == pytest.approx(expected.margin, rel=2e-4)
