"""Every mistake, planted, is found and has its remedy; where there is none, none is found."""

import math
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from strop.attacks import PreflightError, preflight, quick_suite, robust_accuracy
from strop.geometry import Linf
from strop.models import Normalize

CLASSES, COUNT = 4, 120
MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)


def pictures() -> tuple[Tensor, Tensor]:
    """Classes by colour, as far as any picture of a class differs from another."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(COUNT) % CLASSES
    base = torch.tensor([[0.8, 0.3, 0.3], [0.3, 0.8, 0.3], [0.3, 0.3, 0.8], [0.6, 0.6, 0.2]])
    noise = 0.1 * torch.randn(COUNT, 3, 6, 6, generator=generator)
    noise[:, :, 0, 0] += torch.randn(COUNT, 3, generator=generator)
    return (base[y][:, :, None, None] + noise).clamp(0, 1), y


class Colours(nn.Module):
    """Which colour is nearest, in units of ``scale`` around ``shift``."""

    def __init__(self, normalize: nn.Module | None = None, sharpness: float = 20.0) -> None:
        super().__init__()
        base = torch.tensor([[0.8, 0.3, 0.3], [0.3, 0.8, 0.3], [0.3, 0.3, 0.8], [0.6, 0.6, 0.2]])
        if normalize is not None:
            base = normalize(base[:, :, None, None])[:, :, 0, 0]
        self.base = nn.Parameter(base)
        self.sharpness = sharpness

    def forward(self, x: Tensor) -> Tensor:
        colour = x.mean(dim=(2, 3))
        return -self.sharpness * ((colour[:, None] - self.base) ** 2).sum(dim=2)


X, Y = pictures()


def checks(model: Any, x: Tensor = X, y: Tensor = Y, **options: Any) -> list[str]:
    found = preflight(model, x, y, **options)
    assert all(finding.saw and finding.remedy for finding in found)
    return [finding.check for finding in found]


def remedy(model: Any, x: Tensor = X, y: Tensor = Y) -> str:
    (finding,) = preflight(model, x, y)
    return finding.remedy


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    model = Colours()
    assert (model(X).argmax(dim=1) == Y).double().mean() > 0.95
    assert checks(model) == []
    within = nn.Sequential(Normalize(mean=MEAN, std=STD), Colours(Normalize(mean=MEAN, std=STD), 1))
    assert checks(within) == []
    dropping = nn.Sequential(nn.Dropout(0.5), model, nn.BatchNorm1d(CLASSES)).eval()
    assert checks(dropping) == []


def test_input_range() -> None:
    model = Colours()
    assert "divide" in remedy(model, 255 * X)
    assert "twice" in remedy(model, X / 255)
    assert "true bounds" in remedy(model, 1.5 * X)
    assert checks(model, 1.5 * X, bounds=None) == []
    assert checks(lambda x: model(x / 255), 255 * X, bounds=(0, 255)) == []
    assert checks(model, X.masked_fill(X > 0.9, math.nan)) == ["range"]


def test_train_mode_is_found_before_it_does_harm() -> None:
    normalised = nn.Sequential(Colours(), nn.BatchNorm1d(CLASSES))
    assert "model.eval()" in remedy(normalised)
    assert int(normalised[1].num_batches_tracked) == 0
    assert "model.eval()" in remedy(nn.Sequential(nn.Dropout(0.1), Colours()))


def test_randomness_in_the_forward_pass() -> None:
    state = torch.get_rng_state()

    def noisy(x: Tensor) -> Tensor:
        return Colours()(x) + 0.1 * torch.randn(len(x), CLASSES)

    assert checks(noisy)[0] == "randomness"
    assert torch.equal(torch.get_rng_state(), state)
    assert "mean of several passes" in preflight(noisy, X, Y)[0].remedy


def test_wrong_labels() -> None:
    assert "subtract 1" in remedy(Colours(), X, Y + 1)
    assert "order of the model's classes" in remedy(Colours(), X, (Y + 1) % CLASSES)
    swapped = torch.tensor([2, 0, 3, 1])[Y]
    assert checks(Colours(), X, swapped) == ["labels"]
    at_random = torch.randint(CLASSES, (COUNT,), generator=torch.Generator().manual_seed(0))
    assert "labels" not in checks(Colours(), X, at_random)


def test_outputs_that_are_probabilities() -> None:
    probable = nn.Sequential(Colours(), nn.Softmax(dim=1))
    assert "return the logits" in remedy(probable)
    assert checks(nn.Sequential(Colours(), nn.LogSoftmax(dim=1))) == []


def test_gradients_that_are_zero_or_lead_nowhere() -> None:
    model = Colours()

    class Rounded(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return model((8 * x).round() / 8)

    class Detached(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return model(x.detach()).detach()

    class Shattered(nn.Module):
        """Right as before, but for a ripple too fine to matter and too steep to climb."""

        def forward(self, x: Tensor) -> Tensor:
            ripple = 1e-3 * torch.sin(1e7 * x).flatten(1).sum(dim=1)
            return model(x) + ripple[:, None] * torch.arange(CLASSES)

    assert "without gradients" in remedy(Rounded())
    assert "detach()" in remedy(Detached())
    assert checks(Shattered()) == ["gradients"]
    assert "cross-entropy's gradient" in preflight(Colours(sharpness=1e5), X, Y)[0].saw


def test_too_few_classes_for_dlr() -> None:
    for classes, said in ((2, True), (3, True), (4, False)):
        weight = torch.randn(108, classes, generator=torch.Generator().manual_seed(0))

        def model(x: Tensor, weight=weight) -> Tensor:
            return x.flatten(1) @ weight

        y = model(X).argmax(dim=1)
        assert ("classes" in checks(model, X, y)) is said


def test_normalisation_outside_the_model() -> None:
    normalize = Normalize(mean=MEAN, std=STD)
    assert "Normalize(mean" in remedy(Colours(normalize), normalize(X))
    forgotten = preflight(Colours(normalize), X, Y)
    assert [finding.check for finding in forgotten] == ["normalisation"]
    assert "CIFAR-10's" in forgotten[0].saw


def test_logits_of_another_shape() -> None:
    assert "torch.stack" in remedy(lambda x: Colours()(x)[:, 0])


def test_an_evaluation_looks_first() -> None:
    model = Colours()
    options: dict[str, Any] = {"norm": Linf, "eps": 0.01, "attacks": quick_suite(steps=2)}
    options["progress"] = "quiet"
    shifted = (X, (Y + 1) % CLASSES)
    with pytest.raises(PreflightError, match="check='warn'") as raised:
        robust_accuracy(model, shifted, **options)
    assert raised.value.findings[0].check == "labels"
    with pytest.warns(UserWarning, match="order of the model's classes"):
        result = robust_accuracy(model, shifted, check="warn", **options)
    assert [finding.check for finding in result.findings] == ["labels"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert robust_accuracy(model, shifted, check="off", **options).findings == ()
        assert robust_accuracy(model, (X, Y), **options).findings == ()
