"""Robust training: what the inner search reaches and keeps to, the losses, an exact resume."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from strop.attacks import InnerSearch, RobustSettings, adversarial_loss, trades_loss, train_robust
from strop.attacks import training as module
from strop.attacks.averaging import WeightAverage
from strop.attacks.robust_losses import worst_nearby
from strop.attacks.training import MODEL_FILE, measure_robustness, search_of
from strop.attacks.training_settings import PRESETS
from strop.data import LabelledImages
from strop.geometry import L1, L2, Fourier, Linf, Norm, high_band
from strop.models import load_classifier

NORMS: dict[str, Norm] = {
    "L1": L1,
    "L2": L2,
    "Linf": Linf,
    "Fourier-Linf": Fourier(Linf, dims=2),
    "Fourier-L2-high": Fourier(L2, dims=2, band=high_band((6, 6), 0.2)),
}
each_norm = pytest.mark.parametrize("norm", NORMS.values(), ids=NORMS)


def pictures(*shape: int) -> Tensor:
    drawn = torch.rand(shape, generator=torch.Generator().manual_seed(0))
    return (1.3 * drawn - 0.15).clamp(0, 1)


@each_norm
@pytest.mark.parametrize("optimizer", ["steepest", "adam"])
def test_the_inner_search_keeps_to_ball_and_box_and_climbs(norm: Norm, optimizer: str) -> None:
    x, weight = pictures(4, 3, 6, 6), torch.randn(3, 6, 6, generator=torch.Generator())
    search = InnerSearch(norm, eps=0.2, steps=3, optimizer=optimizer, step_size=0.1)  # type: ignore[arg-type]
    found = worst_nearby(lambda point: (point * weight).sum(), x, search=search)
    change = (found - x).double()
    within = norm.project(change, math.inf)
    assert (norm(within) <= 0.2 * (1 + 1e-5)).all()
    assert (change - within).abs().max() < 1e-6
    assert found.min() >= -1e-6
    assert found.max() <= 1 + 1e-6
    assert ((change * weight).flatten(1).sum(dim=1) > 0).all()


@pytest.mark.parametrize("norm", [L1, L2, Linf, Fourier(Linf, dims=2)], ids=str)
def test_adversarial_loss_of_a_linear_model_is_the_closed_form(norm: Norm) -> None:
    """CE at the margin less eps times the dual norm of the difference of the rows."""
    x, y = pictures(5, 2, 4, 4), torch.tensor([0, 1, 0, 1, 1])
    model = nn.Sequential(nn.Flatten(), nn.Linear(32, 2))
    search = InnerSearch(norm, eps=0.3, steps=60, step_size=0.1, bounds=None)
    loss, logits = adversarial_loss(model, x, y, search=search)
    with torch.no_grad():
        scores, weight = model(x), model[1].weight
        margin = (scores[:, 0] - scores[:, 1]) * torch.where(y == 0, 1.0, -1.0)
        worst = margin - 0.3 * norm.dual((weight[0] - weight[1]).reshape(1, 2, 4, 4))
    # Steps in L1 go through one pixel at a time, and noise is spread over all of them.
    torch.testing.assert_close(
        loss.detach(), functional.softplus(-worst).mean(), rtol=0.02 if norm == L1 else 2e-3, atol=0
    )
    assert logits.shape == (5, 2)


def test_trades_is_the_plain_loss_and_beta_times_the_drift() -> None:
    x, y = pictures(6, 3, 6, 6), torch.arange(6) % 3
    model = nn.Sequential(nn.Flatten(), nn.Linear(108, 8), nn.ReLU(), nn.Linear(8, 3))
    search = InnerSearch(Linf, eps=0.1, steps=3)
    plain = functional.cross_entropy(model(x), y)
    losses = []
    for beta in (0.0, 1.0, 3.0):
        torch.manual_seed(0)
        loss, moved = trades_loss(model, x, y, search=search, beta=beta)
        losses.append(loss.detach())
    wanted, reached = model(x).softmax(dim=1), moved.softmax(dim=1)
    drift = (wanted * (wanted.log() - reached.log())).sum(dim=1).mean()
    torch.testing.assert_close(losses[0], plain)
    torch.testing.assert_close(losses[1], plain + drift)
    torch.testing.assert_close(losses[2], plain + 3 * drift)
    assert drift > 0


@pytest.mark.parametrize("method", ["adversarial", "trades"])
def test_the_search_leaves_modes_and_running_statistics_alone(method: str) -> None:
    model = nn.Sequential(nn.BatchNorm2d(3), nn.Flatten(), nn.Dropout(0.5), nn.Linear(108, 3))
    model[2].eval()
    x, y, search = pictures(6, 3, 6, 6), torch.arange(6) % 3, InnerSearch(Linf, eps=0.1, steps=4)
    if method == "trades":
        trades_loss(model, x, y, search=search, beta=1.0)
    else:
        adversarial_loss(model, x, y, search=search)
    assert [part.training for part in model] == [True, True, False, True]
    assert model[0].num_batches_tracked == (2 if method == "trades" else 1)
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize("method", ["adversarial", "trades"])
def test_all_weights_learn_in_half_precision(method: str) -> None:
    """A cast of the weights that the search has made must not hide them from the loss."""
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3))
    settings = RobustSettings(method=method, network="small-cnn")  # type: ignore[arg-type]
    objective = module.RobustObjective(settings, size=(6, 6))
    with torch.autocast("cpu", torch.bfloat16):
        loss, _ = objective(model, (pictures(6, 3, 6, 6), torch.arange(6) % 3))
    loss.backward()
    assert all(bool(parameter.grad.abs().sum() > 0) for parameter in model.parameters())


def test_the_average_follows_the_weights_and_is_what_is_evaluated() -> None:
    model = WeightAverage(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)), decay=0.5)
    first = model.average.state_dict()["0.weight"].clone()
    with torch.no_grad():
        model.online[0].weight += 1
        model.online[1].running_mean += 1
        model.online[1].num_batches_tracked += 7
    model.update(step=1000)
    torch.testing.assert_close(model.average[0].weight, first + 0.5)
    assert (model.average[1].running_mean == 0.5).all()
    assert model.average[1].num_batches_tracked == 7
    x = torch.rand(3, 2)
    model.eval()
    torch.testing.assert_close(model(x), model.average(x))
    assert not any(parameter.requires_grad for parameter in model.average.parameters())


def two_signals(count: int) -> LabelledImages:
    """One pixel tells the class surely by a step of 4 / 255; the rest by a large step, 9 in 10."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(2, (count,), generator=generator)
    agree = torch.rand(count, generator=generator) < 0.9
    strong = torch.where(agree, labels, 1 - labels)
    pixels = 100 + 40 * strong[:, None, None, None].expand(-1, 3, 8, 8).clone()
    pixels += torch.randint(-3, 4, pixels.shape, generator=generator)
    pixels[:, :, :4] = 128 + 4 * labels[:, None, None, None]
    return LabelledImages.from_tensors(pixels.to(torch.uint8), labels, class_names=("a", "b"))


SMALL = RobustSettings(
    network="small-cnn",
    batch_size=50,
    epochs=6,
    learning_rate=0.05,
    warmup_epochs=1,
    augment=False,
    held_out=100,
    average=0.9,
)


def test_robust_training_learns_the_signal_that_an_attack_cannot_reach() -> None:
    data = two_signals(500)
    search = search_of(SMALL, size=(8, 8))
    plain = train_robust(data, settings=replace(SMALL, eps=0.0), device="cpu", progress="quiet")
    robust = train_robust(data, settings=SMALL, device="cpu", progress="quiet")
    before = measure_robustness(plain.model, data, search=search)
    after = measure_robustness(robust.model, data, search=search)
    assert before["accuracy"] > 0.95 > before["robust_accuracy"] + 0.15
    assert after["robust_accuracy"] > 0.85
    assert robust.held_out["robust_accuracy"] == max(
        event["robust_accuracy"]
        for event in robust.history.records
        if event["event"] == "validation"
    )


def test_a_killed_run_ends_with_the_weights_it_would_have_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = two_signals(300)
    settings = replace(SMALL, epochs=3, augment=True, norm="fourier-linf", eps=0.1)
    train_robust(data, settings=settings, out=tmp_path / "whole", device="cpu", progress="quiet")

    def follow_and_die(state: object, follow: object = module._follow) -> None:
        follow(state)  # type: ignore[operator]
        if state.step == 6:  # type: ignore[attr-defined]
            raise KeyboardInterrupt

    monkeypatch.setattr(module, "_follow", follow_and_die)
    with pytest.raises(KeyboardInterrupt):
        train_robust(data, settings=settings, out=tmp_path / "cut", device="cpu", progress="quiet")
    monkeypatch.undo()
    resumed = train_robust(
        data, settings=settings, out=tmp_path / "cut", device="cpu", progress="quiet", resume=True
    )
    whole, cut = (load_classifier(tmp_path / name / MODEL_FILE) for name in ("whole", "cut"))
    assert resumed.history.steps == 12
    for name, weight in whole.state_dict().items():
        assert torch.equal(weight, cut.state_dict()[name]), name


def test_the_presets_have_the_schedule_of_the_thesis() -> None:
    for name in ("wide-resnet-28-10", "resnet-18", "resnet-20"):
        preset = PRESETS[name]
        assert preset.network == name
        assert (preset.batch_size, preset.epochs, preset.warmup_epochs) == (1024, 200, 10)
        assert preset.learning_rate == pytest.approx(0.4)
        assert (preset.inner_optimizer, preset.step_size) == ("adam", 0.1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"eps": -1.0}, "eps"),
        ({"average": 1.0}, "average"),
        ({"epochs": 3, "warmup_epochs": 3.0}, "warmup"),
        ({"step_size": 0.0}, "step_size"),
        ({"examples": 0}, "examples"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changes: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RobustSettings(**changes)  # type: ignore[arg-type]


def test_more_held_out_than_there_is_is_refused() -> None:
    with pytest.raises(ValueError, match="held_out"):
        train_robust(two_signals(50), settings=SMALL, device="cpu", progress="quiet")


@pytest.mark.parametrize("held_out", [0, 100])
def test_a_trial_sees_some_of_the_examples_and_none_that_is_held_out(held_out: int) -> None:
    data = two_signals(200)
    settings = replace(SMALL, examples=40, held_out=held_out)
    kept, apart = module._split(data, settings)
    assert len(kept) == 40
    assert (0 if apart is None else len(apart)) == held_out
    seen = {image.numpy().tobytes() for image in kept.images}
    assert apart is None or not any(image.numpy().tobytes() in seen for image in apart.images)
