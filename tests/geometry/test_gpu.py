"""The same answers on a GPU as on the processor."""

import math

import pytest
import torch

from strop.geometry import Fourier, Lp, Norm, low_band, project_ball_and_box, project_simplex

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
]

EXPONENTS = (1, 1.3, 2, 3, math.inf)
BAND = low_band((16, 15), 0.2)
NORMS: list[Norm] = [
    norm
    for p in EXPONENTS
    for norm in (
        Lp(p),
        Fourier(Lp(p), dims=2),
        Fourier(Lp(p), dims=2, band=BAND),
        Fourier(Lp(p), dims=2, band=0.5 + BAND.double()),
    )
]


@pytest.mark.parametrize("norm", NORMS, ids=str)
def test_a_gpu_gives_the_same_answers(norm: Norm) -> None:
    x = torch.randn(8, 3, 16, 15, generator=torch.Generator().manual_seed(0))
    x = norm.project(x, math.inf)
    radius = torch.linspace(0.0, 2.0, 8)
    for operation in (
        norm,
        norm.dual,
        norm.steepest,
        lambda x: norm.project(x, 1.0),
        lambda x: norm.project(x, radius.to(x.device)),
        lambda x: norm.prox(x, radius.to(x.device)),
        lambda x: project_ball_and_box(x, 0.5, norm=norm, low=-0.1, high=0.1, steps=50),
    ):
        there = operation(x.cuda())
        assert there.is_cuda
        torch.testing.assert_close(there.cpu(), operation(x), rtol=1e-4, atol=1e-5)


def test_simplex_on_a_gpu() -> None:
    x = torch.randn(5, 70_000, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(project_simplex(x.cuda()).cpu(), project_simplex(x))
