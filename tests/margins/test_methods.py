"""The thesis's methods tend to the exact solutions, each at its own pace."""

import math

import pytest
import torch

from strop.data import separable_gaussian
from strop.geometry import L1, L2, Fourier, Linf, Norm
from strop.margins import MarginResult, SignedData, signed_data, solve
from strop.margins.convnet import _ConvNets, train_convnet, train_convnets
from strop.margins.deep_linear import train_deep_linear
from strop.margins.path import log_times
from strop.margins.proximal import proximal_path
from strop.margins.risk import log_risk, pull
from strop.margins.steepest import LineSearch, adversarial_training, steepest_descent
from strop.support import InputError

SPECTRAL = Fourier(Linf, dims=1)


@pytest.fixture(scope="module")
def data() -> SignedData:
    drawn = separable_gaussian(
        count=6, dimension=24, generator=torch.Generator().manual_seed(0), dtype=torch.float64
    )
    return signed_data(drawn.points, drawn.signs)


def exact(data: SignedData, attack: Norm) -> MarginResult:
    return solve(data, attack=attack, tol=1e-8)


@pytest.mark.parametrize("norm", [L1, L2, Linf], ids=str)
@pytest.mark.parametrize("loss", ["exponential", "logistic"])
def test_steepest_descent_tends_to_the_margin_of_its_norm(
    data: SignedData, norm: Norm, loss: str
) -> None:
    best = exact(data, norm.dual)
    plain = steepest_descent(
        data, norm=norm, loss=loss, step=LineSearch(), iterations=600, reference=best
    )
    fixed = steepest_descent(data, norm=norm, loss=loss, iterations=600, reference=best)
    fast = steepest_descent(
        data, norm=norm, loss=loss, kind="normalised", iterations=600, reference=best
    )
    gaps = [record.gap for record in plain.records]
    assert gaps[-1] < 0.25
    assert gaps[-1] < gaps[len(gaps) // 2]
    assert fast.gap < 0.02 < fixed.gap
    # Sparse and box-shaped optima need not be unique; the Euclidean one is.
    if norm == L2:
        assert fast.records[-1].direction_error < plain.records[0].direction_error


def test_dual_acceleration_is_faster_than_normalised_steps(data: SignedData) -> None:
    best = exact(data, L2)
    slow = steepest_descent(data, norm=L2, kind="normalised", iterations=500, reference=best)
    fast = steepest_descent(data, norm=L2, kind="accelerated", iterations=500, reference=best)
    assert fast.gap < 0.1 * slow.gap
    assert fast.gap < 1e-4


def test_every_record_is_below_the_exact_margin(data: SignedData) -> None:
    best = exact(data, L2)
    path = steepest_descent(data, norm=L2, kind="normalised", iterations=200)
    for record in path.records:
        assert record.margin <= best.certificate.upper
        assert record.gap >= 0
    assert path.upper >= best.margin * (1 - 1e-9)
    assert [r.iteration for r in path.records] == log_times(200)


@pytest.mark.parametrize("norm", [L1, L2, Linf, SPECTRAL.dual], ids=str)
def test_vanishing_regularisation_tends_to_the_margin(data: SignedData, norm: Norm) -> None:
    best = exact(data, norm.dual)
    gaps = [
        proximal_path(
            data, norm=norm, iterations=1500, lambda_ratio=ratio, stages=20, reference=best
        ).gap
        for ratio in (1e-3, 1e-20)
    ]
    assert gaps[1] < 0.05
    assert gaps[1] < 0.9 * gaps[0]
    plain = proximal_path(
        data, norm=norm, iterations=1500, lambda_ratio=1e-8, accelerated=False, reference=best
    )
    assert plain.gap < 0.2


def test_adversarial_training_is_robust_at_its_eps(data: SignedData) -> None:
    best = exact(data, L2)
    path = adversarial_training(data, attack=L2, eps=0.8 * best.margin, iterations=800)
    assert path.margin > 0.8 * best.margin


@pytest.mark.parametrize("attack", [Linf, L1], ids=str)
def test_adversarial_training_told_the_maximal_eps_finds_its_classifier(
    data: SignedData, attack: Norm
) -> None:
    best = exact(data, attack)
    settings = {"attack": attack, "eps": best.margin, "iterations": 800, "reference": best}
    falling = adversarial_training(data, **settings)
    assert falling.gap < 0.05
    assert falling.gap < 0.5 * adversarial_training(data, step=1.0, **settings).gap


def test_conv_net_spectra_are_the_convolutions_of_the_definition() -> None:
    drawn = separable_gaussian(
        count=3, dimension=5, generator=torch.Generator().manual_seed(1), dtype=torch.float64
    )
    data = signed_data(drawn.points, drawn.signs)
    network = _ConvNets(
        [data], 3, 1.0, "exponential", [torch.Generator().manual_seed(2)], zero_last=False
    )
    layers = torch.fft.irfft(network.spectra[0], n=5, norm="ortho")

    def convolve(w: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        d = len(x)
        return torch.stack(
            [sum(w[-k % d] * x[(i + k) % d] for k in range(d)) / math.sqrt(d) for i in range(d)]
        )

    for row in data.rows:
        hidden = convolve(layers[1], convolve(layers[0], row))
        assert float(layers[2] @ hidden) == pytest.approx(float(row @ network.weights()[0]))


@pytest.mark.parametrize("layers", [2, 3])
def test_conv_net_gradient_is_that_of_autograd(data: SignedData, layers: int) -> None:
    network = _ConvNets(
        [data], layers, 1.0, "exponential", [torch.Generator().manual_seed(2)], zero_last=False
    )
    kernels = torch.fft.irfft(network.spectra, n=24, norm="ortho").requires_grad_()
    network.spectra = torch.fft.rfft(kernels, norm="ortho")
    values = network.values()[0]
    assert torch.allclose(values, data.rows @ network.weights()[0])
    log_risk(values, "exponential").backward()
    ascent, _, _ = network.ascent(network.spectra.detach())
    assert kernels.grad is not None
    assert torch.allclose(torch.fft.irfft(ascent, n=24, norm="ortho"), -kernels.grad)


@pytest.mark.parametrize("method", ["plain", "normalised", "search", "flow", "relative"])
@pytest.mark.parametrize("loss", ["exponential", "logistic"])
def test_conv_nets_trained_together_are_as_if_alone(method: str, loss: str) -> None:
    problems = []
    for seed, count in enumerate((7, 2, 4)):
        drawn = separable_gaussian(
            count=count,
            dimension=10,
            generator=torch.Generator().manual_seed(seed),
            dtype=torch.float64,
        )
        problems.append(signed_data(drawn.points, drawn.signs))
    settings = {"method": method, "loss": loss, "iterations": 60, "scale": 0.5}
    together = train_convnets(
        problems,
        generators=[torch.Generator().manual_seed(seed) for seed in range(3)],
        references=[None] * 3,
        **settings,
    )
    for seed, (data, path) in enumerate(zip(problems, together, strict=True)):
        alone = train_convnet(data, generator=torch.Generator().manual_seed(seed), **settings)
        assert torch.allclose(path.weights, alone.weights, rtol=1e-6)
        assert path.records[-1].log_loss == pytest.approx(alone.records[-1].log_loss)
        assert len(path.mixture) == len(data)


def test_relative_steps_close_the_gap_of_the_conv_net(data: SignedData) -> None:
    best = exact(data, SPECTRAL)
    paths = {
        iterations: train_convnet(
            data,
            method="relative",
            iterations=iterations,
            reference=best,
            generator=torch.Generator().manual_seed(0),
        )
        for iterations in (300, 3000)
    }
    assert paths[3000].gap < 1e-3
    assert paths[3000].gap < 0.3 * paths[300].gap


def test_long_steps_end_before_numbers_do(data: SignedData) -> None:
    with pytest.raises(InputError, match="leave the range"):
        train_convnet(
            data, method="relative", step=0.5, iterations=10_000, generator=torch.Generator()
        )
    # With two points and a line search the steps grow without end.
    drawn = separable_gaussian(
        count=2, dimension=10, generator=torch.Generator().manual_seed(0), dtype=torch.float64
    )
    few = signed_data(drawn.points, drawn.signs)
    path = train_convnet(
        few, method="search", iterations=3000, generator=torch.Generator().manual_seed(0)
    )
    assert bool(path.weights.isfinite().all())
    assert math.isfinite(path.gap)


def test_two_layer_conv_net_tends_to_the_spectral_margin(data: SignedData) -> None:
    best = exact(data, SPECTRAL)
    gaps = {}
    for method, step in (("plain", 0.02), ("search", 0.1), ("flow", 0.02)):
        gaps[method] = train_convnet(
            data,
            step=step,
            method=method,
            iterations=1000,
            reference=best,
            generator=torch.Generator().manual_seed(0),
        ).gap
    assert gaps["search"] < 0.1
    assert gaps["flow"] < 0.2
    assert gaps["search"] < gaps["plain"]


def test_deep_linear_net_tends_to_the_euclidean_margin(data: SignedData) -> None:
    best = exact(data, L2)
    path = train_deep_linear(
        data,
        layers=3,
        width=8,
        scale=0.5,
        iterations=1000,
        reference=best,
        generator=torch.Generator().manual_seed(0),
    )
    assert path.gap < 0.1


def test_pull_is_the_gradient_of_the_log_risk() -> None:
    values = torch.tensor([-3.0, 0.2, 5.0, 29.0], dtype=torch.float64, requires_grad=True)
    for loss in ("exponential", "logistic"):
        (gradient,) = torch.autograd.grad(log_risk(values, loss), values)
        assert torch.allclose(pull(values.detach(), loss), -gradient)
    far = torch.tensor([900.0, 905.0], dtype=torch.float64)
    assert float(log_risk(far, "logistic")) == pytest.approx(float(log_risk(far, "exponential")))


def test_paths_are_tables_and_pages(data: SignedData, tmp_path) -> None:
    pytest.importorskip("pandas")
    path = steepest_descent(data, norm=L2, iterations=20)
    table = path.to_pandas()
    assert list(table["iteration"]) == log_times(20)
    path.save_html(tmp_path / "path.html")
    assert "certified gap" in (tmp_path / "path.html").read_text(encoding="utf-8")
    assert path.to_dict()["records"][0]["direction_error"] is None


def test_wrong_settings_are_named(data: SignedData) -> None:
    with pytest.raises(InputError, match="dual acceleration"):
        steepest_descent(data, norm=L1, kind="accelerated", iterations=1)
    with pytest.raises(InputError, match="line search"):
        steepest_descent(data, norm=L1, kind="normalised", step=LineSearch(), iterations=1)
    with pytest.raises(InputError, match="loss"):
        steepest_descent(data, norm=L1, loss="hinge", iterations=1)
    with pytest.raises(InputError, match="without an intercept"):
        steepest_descent(
            signed_data(data.rows * data.signs[:, None], data.signs, intercept=True), norm=L2
        )
