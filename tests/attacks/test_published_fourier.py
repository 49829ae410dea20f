"""The published Fourier attack and its faults, one by one, beside ours.

docs/guide/attacks.md lists them. ``published`` is its update as it stands, with a switch for each
fault.
"""

import math

import pytest
import torch
from torch import Tensor, nn

from strop.attacks import apgd
from strop.geometry import Fourier, Linf

NORM = Fourier(Linf, dims=2)
EPS, STEPS = 8 / 255, 20


def published(
    model: nn.Module,
    x: Tensor,
    y: Tensor,
    *,
    scaled_twice: bool = True,
    subtracts_the_image: bool = True,
    clips_last: bool = True,
) -> Tensor:
    """x + delta after the steps, with the faults that are switched on."""
    delta, previous = torch.zeros_like(x), torch.zeros_like(x)
    step = 2 * EPS
    for number in range(STEPS):
        point = (x + delta).requires_grad_()
        loss = nn.functional.cross_entropy(model(point), y, reduction="sum")
        (gradient,) = torch.autograd.grad(loss, point)
        direction = NORM.steepest(gradient) * (EPS if scaled_twice else 1.0)
        ahead = NORM.project(delta + step * direction, EPS)
        if number > 0:
            base = x + delta if subtracts_the_image else delta
            ahead = delta + 0.75 * (ahead - base) + 0.25 * (delta - previous)
            ahead = NORM.project(ahead, EPS)
        if clips_last:
            ahead = (x + ahead).clamp(0, 1) - x
        previous, delta = delta, ahead
        if number % 4 == 3:
            step = step / 2
    return x + delta


@pytest.fixture
def linear() -> tuple[nn.Module, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(192, 2))
    with torch.no_grad():
        model[1].weight.copy_(torch.randn(2, 192, generator=generator))
    drawn = torch.rand(6, 3, 8, 8, generator=generator)
    x = (1.6 * drawn - 0.3).clamp(0, 1)
    with torch.no_grad():
        return model, x, model(x).argmax(dim=1)


def gained(model: nn.Module, x: Tensor, moved: Tensor, y: Tensor) -> Tensor:
    """By how much the margin fell, as a share of the most that the budget allows."""
    sign = torch.where(y == 0, 1.0, -1.0)
    weight = model[1].weight[0] - model[1].weight[1]
    most = EPS * NORM.dual(weight.reshape(1, 3, 8, 8))
    return -sign * ((moved - x).flatten(1) @ weight) / most


def test_clipping_to_the_box_after_the_projection_leaves_the_budget(
    linear: tuple[nn.Module, Tensor, Tensor],
) -> None:
    model, x, y = linear
    moved = published(model, x, y, scaled_twice=False, subtracts_the_image=False)
    ours = apgd(model, x, y, norm=NORM, eps=EPS, steps=STEPS)
    change = ours.adversarial.double() - x.double()
    assert (NORM(moved - x) > 1.1 * EPS).all()
    assert (NORM(change) <= EPS * (1 + 1e-6)).all()
    assert ours.adversarial.min() >= 0
    assert ours.adversarial.max() <= 1


def test_a_step_scaled_by_the_budget_twice_hardly_moves(
    linear: tuple[nn.Module, Tensor, Tensor],
) -> None:
    model, x, y = linear
    faults = {"subtracts_the_image": False, "clips_last": False}
    fixed = gained(model, x, published(model, x, y, scaled_twice=False, **faults), y)
    faulty = gained(model, x, published(model, x, y, **faults), y)
    assert (fixed > 0.99).all()
    assert (faulty < 0.75).all()


def test_a_momentum_that_subtracts_the_image_fades_the_picture_instead(
    linear: tuple[nn.Module, Tensor, Tensor],
) -> None:
    model, x, y = linear
    faults = {"scaled_twice": False, "clips_last": False}
    faulty = published(model, x, y, **faults)
    fixed = published(model, x, y, subtracts_the_image=False, **faults)
    assert (gained(model, x, faulty, y) < 0.5).all()
    assert (gained(model, x, fixed, y) > 0.99).all()
    darker = ((faulty - x) * x).flatten(1).sum(dim=1)
    assert (darker < 0).all()


def test_ours_reaches_the_worst_case_of_the_same_model(
    linear: tuple[nn.Module, Tensor, Tensor],
) -> None:
    model, x, y = linear
    ours = apgd(
        model, x, torch.zeros_like(y), norm=NORM, eps=EPS, steps=STEPS, bounds=None, loss="margin"
    )
    right = model(x).argmax(dim=1) == 0
    share = gained(model, x, ours.adversarial, torch.zeros_like(y))
    torch.testing.assert_close(share[right], torch.ones(int(right.sum())), rtol=1e-3, atol=0)
    assert math.isclose(float(ours.norm.max()), EPS, rel_tol=1e-4)
