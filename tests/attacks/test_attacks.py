"""What is particular to one part: losses against loops, the box within a band, what is counted."""

import math
import warnings
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from strop.attacks import apgd, dlr, margin, pgd, targeted_dlr, targeted_margin
from strop.attacks.feasible import Neighbourhood
from strop.attacks.losses import (
    cross_entropy,
    error_log_odds,
    log_odds_with_slopes,
    with_slopes,
)
from strop.geometry import L1, L2, Fourier, Linf, high_band, low_band

LOGITS = torch.tensor([[3.0, 1.0, -1.0, 0.5], [0.0, 2.0, 5.0, 1.0], [1.0, 1.0, 0.0, -4.0]])
LABELS = torch.tensor([0, 1, 3])


def test_losses_agree_with_loops_over_the_classes() -> None:
    targets = torch.tensor([1, 2, 0])
    for i, z in enumerate(LOGITS.tolist()):
        y, t, down = int(LABELS[i]), int(targets[i]), sorted(z, reverse=True)
        gap = max(v for c, v in enumerate(z) if c != y) - z[y]
        row = slice(i, i + 1)
        assert margin(LOGITS[row], LABELS[row]).item() == pytest.approx(gap)
        assert dlr(LOGITS[row], LABELS[row]).item() == pytest.approx(gap / (down[0] - down[2]))
        expected = (z[t] - z[y]) / (down[0] - (down[2] + down[3]) / 2)
        assert targeted_margin(LOGITS, LABELS, targets)[i].item() == pytest.approx(z[t] - z[y])
        assert targeted_dlr(LOGITS, LABELS, targets)[i].item() == pytest.approx(expected)


def test_the_cross_entropy_is_the_softplus_of_the_log_odds_and_points_the_same_way() -> None:
    logits = LOGITS.double().requires_grad_()
    odds, loss = error_log_odds(logits, LABELS), cross_entropy(logits, LABELS)
    torch.testing.assert_close(nn.functional.softplus(odds), loss)
    (along,) = torch.autograd.grad(odds.sum(), logits)
    (direct,) = torch.autograd.grad(loss.sum(), logits)
    torch.testing.assert_close(along * odds.detach().sigmoid()[:, None], direct)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 100.0])
@pytest.mark.parametrize("classes", [2, 3, 10])
def test_the_slopes_of_the_log_odds_are_those_of_autograd(classes: int, scale: float) -> None:
    logits = scale * torch.randn(20, classes, generator=torch.Generator().manual_seed(classes))
    labels = torch.arange(20) % classes
    expected = with_slopes(lambda z, y, _: error_log_odds(z, y))(logits, labels, labels)
    torch.testing.assert_close(log_odds_with_slopes(logits, labels), expected)


@pytest.mark.parametrize("attack", [pgd, apgd])
def test_a_sure_model_does_not_hide_behind_a_cross_entropy_of_zero(attack: object) -> None:
    """At logits 200 apart the cross-entropy and its gradient are zero in float32."""
    weight = torch.tensor([[100.0, 100.0], [-100.0, -100.0]])
    x, y = torch.tensor([[0.5, 0.5]]), torch.tensor([0])
    result = attack(lambda z: z @ weight.T, x, y, norm=Linf, eps=0.25, steps=10)  # type: ignore[operator]
    torch.testing.assert_close(result.adversarial, torch.tensor([[0.25, 0.25]]))


def test_dlr_refuses_two_classes() -> None:
    with pytest.raises(ValueError, match="at least 3 classes"):
        dlr(LOGITS[:, :2], torch.tensor([0, 1, 1]))


def test_dlr_is_finite_where_all_logits_tie() -> None:
    logits = torch.zeros(1, 4, requires_grad=True)
    value = dlr(logits, torch.tensor([0]))
    (gradient,) = torch.autograd.grad(value.sum(), logits)
    assert value.isfinite().all()
    assert gradient.isfinite().all()


def pictures(*shape: int) -> Tensor:
    drawn = torch.rand(shape, generator=torch.Generator().manual_seed(0))
    return (1.3 * drawn - 0.15).clamp(0, 1)


@pytest.mark.parametrize("inner", [L1, L2, Linf], ids=str)
@pytest.mark.parametrize("band", [low_band((16, 16), 0.25), high_band((16, 16), 0.1)])
def test_a_band_leaves_much_of_a_perturbation_of_saturated_pictures(
    inner: object, band: Tensor
) -> None:
    """Scaling alone would leave none of it: a pixel at its bound forbids all moves across it."""
    x = pictures(4, 3, 16, 16)
    norm = Fourier(inner, dims=2, band=band)
    wanted = torch.randn(x.shape, generator=torch.Generator().manual_seed(1))
    wanted = norm.project(wanted, math.inf)
    size = norm(wanted) / 20
    around = Neighbourhood(x, norm, size, (0.0, 1.0))
    kept = around.inside(wanted / 20)
    progress = (kept * wanted / 20).flatten(1).sum(dim=1) / L2(wanted / 20) ** 2
    assert (progress > 0.3).all()


@pytest.mark.parametrize("eps", [0.3, 2.5, 7.0])
def test_one_step_in_l1_and_a_box_is_the_best_one(eps: float) -> None:
    """On a linear model with a box: fill the steepest pixels to their bounds, one after another."""
    x = pictures(1, 1, 4, 4)
    weight = torch.randn(16, generator=torch.Generator().manual_seed(3))
    left, best = eps, 0.0
    for k in weight.abs().argsort(descending=True).tolist():
        room = float(1 - x.flatten()[k] if weight[k] > 0 else x.flatten()[k])
        best += min(room, left) * abs(float(weight[k]))
        left -= min(room, left)

    def model(z: Tensor) -> Tensor:
        score = z.flatten(1) @ weight
        return torch.stack([score * 0 + 100, score], dim=1)

    for attack in (partial(pgd, steps=2, step_size=eps), partial(apgd, steps=2)):
        result = attack(model, x, torch.tensor([0]), norm=L1, eps=eps, loss="margin")
        gained = ((result.adversarial - x).flatten(1) @ weight).item()
        assert gained == pytest.approx(best, rel=1e-4)


def test_a_budget_below_the_rounding_of_the_picture_moves_nothing() -> None:
    x = torch.full((1, 1, 4, 4), 0.7)
    around = Neighbourhood(x, Linf, torch.tensor([1e-9]), (0.0, 1.0))
    delivered, size = around.deliver(torch.full_like(x, 1e-9), torch.float32)
    assert torch.equal(delivered, x)
    assert size.item() == 0


def test_the_budget_holds_for_eps_itself_not_only_for_its_rounding_to_float32() -> None:
    for eps in (0.7, 8 / 255):  # float32 rounds the one down, the other up
        around = Neighbourhood(torch.zeros(1, 1), Linf, torch.tensor([eps]), None)
        for ulps in range(20):
            delta = torch.tensor([[eps * (1 + ulps * 2.0**-24)]])
            delivered, size = around.deliver(delta, torch.float32)
            assert size.item() == delivered.item() <= eps * (1 + 1e-6)


@pytest.mark.parametrize("attack", [pgd, apgd])
def test_calls_of_the_model_are_counted(attack: object) -> None:
    calls = []
    net = nn.Linear(6, 5)

    def model(x: Tensor) -> Tensor:
        calls.append(torch.is_grad_enabled())
        return net(x)

    x = torch.rand(4, 6, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        y = net(x).argmax(dim=1)
    result = attack(model, x, y, norm=Linf, eps=1e-3, steps=7, restarts=2)  # type: ignore[operator]
    assert result.gradient_calls == result.iterations == sum(calls) == 14


def test_train_mode_is_said_where_it_matters() -> None:
    noisy = nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.5))
    x, y = torch.rand(5, 4), torch.zeros(5).long()
    with pytest.warns(UserWarning, match=r"model.eval\(\)"):
        pgd(noisy, x, y, norm=Linf, eps=0.1, steps=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pgd(noisy.eval(), x, y, norm=Linf, eps=0.1, steps=1)
        pgd(noisy[0].train(), x, y, norm=Linf, eps=0.1, steps=1)


@pytest.mark.parametrize("inner", [L1, L2, Linf], ids=str)
def test_a_white_background_costs_little_of_a_fourier_budget(inner: object) -> None:
    """Scaling alone would shrink every wave by what the box adds to one of them."""
    x = pictures(4, 3, 16, 16)
    x[:, :, :10] = 1.0
    norm = Fourier(inner, dims=2)
    wanted = norm.steepest(torch.randn(x.shape, generator=torch.Generator().manual_seed(1)))
    eps = 0.03 / wanted.square().mean().sqrt()
    around = Neighbourhood(x, norm, eps.expand(4), (0.0, 1.0))
    kept = around.inside(wanted * eps)
    clipped = (wanted * eps).clamp(*around.box)
    scaled = clipped * (eps / norm(clipped)).clamp(max=1)[:, None, None, None]
    assert (norm(kept) <= eps * (1 + 1e-5)).all()
    gain = (kept * wanted).flatten(1).sum(dim=1) / (scaled * wanted).flatten(1).sum(dim=1)
    assert (gain > (1.2 if inner == Linf else 0.95)).all()


@pytest.mark.parametrize("norm", [L1, L2, Linf, Fourier(Linf, dims=2)], ids=str)
def test_a_gradient_that_is_not_a_number_is_refused(norm: object) -> None:
    """The square root of nothing: a finite loss, and a slope of 0 times infinity."""

    def model(z: Tensor) -> Tensor:
        score = (0 * z).sqrt().flatten(1).sum(dim=1)
        return torch.stack([score + 1, 2 * score], dim=1)

    with pytest.raises(ValueError, match="finite losses and gradients"):
        apgd(model, pictures(2, 1, 4, 4), torch.tensor([0, 0]), norm=norm, eps=0.1, steps=3)  # type: ignore[arg-type]
