"""The nearest point of ball and box together."""

import math

import pytest
import torch
from torch import Tensor

import oracles
from strop.geometry import (
    L1,
    L2,
    Fourier,
    Linf,
    Lp,
    Norm,
    high_band,
    low_band,
    project_ball_and_box,
)

PLAIN = [L1, L2, Linf]
FULL = [Lp(1.5), Fourier(L1, 2), Fourier(Linf, 2), Fourier(Linf, 1)]
RADII = 0.5 + low_band((4, 4), 0.25).double()
BANDED = [
    Fourier(Linf, 2, band=low_band((4, 4), 0.25)),
    Fourier(Linf, 2, band=high_band((4, 4), 0.0)),
    Fourier(L2, 2, band=RADII * high_band((4, 4), 0.0)),
]


def picture_and_step(seed: int = 0, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    """Pictures with some black and white pixels, and steps that lead out of [0, 1]."""
    generator = torch.Generator().manual_seed(seed)
    picture = (torch.rand(4, 2, 4, 4, generator=generator, dtype=dtype) * 1.4 - 0.2).clamp(0, 1)
    return picture, torch.randn(picture.shape, generator=generator, dtype=dtype)


@pytest.mark.parametrize("norm", PLAIN + FULL + BANDED, ids=str)
@pytest.mark.parametrize("factor", [0.05, 0.5])
def test_agrees_with_a_cone_solver(norm: Norm, factor: float) -> None:
    picture, x = picture_and_step()
    radius = factor * norm(norm.project(x, math.inf))
    v = project_ball_and_box(x, radius, norm=norm, low=-picture, high=1 - picture, steps=500)
    for i in range(2):
        expected = oracles.nearest_point(
            norm, x[i].numpy(), float(radius[i]), -picture[i].numpy(), 1 - picture[i].numpy()
        )
        torch.testing.assert_close(v[i], torch.from_numpy(expected), atol=2e-5, rtol=2e-5)


@pytest.mark.parametrize("norm", PLAIN + FULL, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_is_inside_both_after_few_turns(norm: Norm, dtype: torch.dtype) -> None:
    picture, x = picture_and_step(1, dtype)
    radius = torch.tensor([0.0, 0.1, 0.7, 3.0], dtype=dtype)
    v = project_ball_and_box(x, radius, norm=norm, low=-picture, high=1 - picture, steps=10)
    assert ((v >= -picture) & (v <= 1 - picture)).all()
    assert (norm(v) <= radius * (1 + 40 * torch.finfo(dtype).eps)).all()


@pytest.mark.parametrize("norm", BANDED, ids=str)
def test_band_is_kept_and_the_box_nearly(norm: Norm) -> None:
    picture, x = picture_and_step(2)
    v = project_ball_and_box(x, 0.3, norm=norm, low=-picture, high=1 - picture)
    assert (norm(v) <= 0.3 * (1 + 1e-12)).all()
    assert (torch.maximum(-picture - v, v - (1 - picture)) <= 1e-3 * 0.3).all()


@pytest.mark.parametrize("norm", PLAIN + FULL + BANDED, ids=str)
def test_one_constraint_alone_gives_its_own_projection(norm: Norm) -> None:
    _, x = picture_and_step(3)
    v = project_ball_and_box(x, 0.5, norm=norm, low=-1e6, high=1e6)
    torch.testing.assert_close(v, norm.project(x, 0.5))
    x = norm.project(x, 1.0)
    torch.testing.assert_close(project_ball_and_box(x, 2.0, norm=norm, low=-9.0, high=9.0), x)


@pytest.mark.parametrize("norm", PLAIN + FULL[:1], ids=str)
def test_huge_and_tiny_steps(norm: Norm) -> None:
    picture, x = picture_and_step(4, torch.float32)
    expected = project_ball_and_box(x, 0.5, norm=norm, low=-picture, high=1 - picture)
    for scale in (1e-25, 1e25):
        v = project_ball_and_box(
            x * scale, 0.5 * scale, norm=norm, low=-picture * scale, high=(1 - picture) * scale
        )
        torch.testing.assert_close(v / scale, expected, rtol=1e-4, atol=1e-5)


def test_shapes_of_bounds_and_refusals() -> None:
    assert project_ball_and_box(torch.ones(0, 3), 1.0, norm=L1, low=-1, high=1).shape == (0, 3)
    half = project_ball_and_box(torch.ones(2, 3).half(), 9.0, norm=L2, low=-0.5, high=0.5)
    assert torch.equal(half, torch.full((2, 3), 0.5).half())
    with pytest.raises(ValueError, match=r"low=-z, high=1 - z"):
        project_ball_and_box(torch.ones(2, 3), 1.0, norm=L2, low=0.1, high=1.0)
    with pytest.raises(ValueError, match="radius >= 0"):
        project_ball_and_box(torch.ones(2, 3), -1.0, norm=L2, low=-1, high=1)
