"""Without a gradient: what is found is allowed and misclassified, in every norm and band."""

import math

import pytest
import torch
from torch import Tensor, nn

from strop.attacks import apgd, margin
from strop.attacks.square import square
from strop.geometry import L1, L2, Fourier, Linf, Norm, high_band, low_band

SHAPE = (3, 9, 8)
BANDS = {"full": None, "low": low_band(SHAPE[1:], 0.2), "high": high_band(SHAPE[1:], 0.2)}
NORMS: dict[str, Norm] = {"L1": L1, "L2": L2, "Linf": Linf} | {
    f"Fourier({inner})-{name}": Fourier(inner, dims=2, band=band)
    for inner in (L1, L2, Linf)
    for name, band in BANDS.items()
}


class Quantised(nn.Module):
    """Rounds its logits to steps: right as before, and without a gradient."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        return (self.network(x) * 64).round() / 64


def masked_net() -> tuple[nn.Module, Tensor, Tensor]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        flat = nn.Flatten()
        net = nn.Sequential(flat, nn.Linear(math.prod(SHAPE), 24), nn.ReLU(), nn.Linear(24, 4))
    x = torch.rand(8, *SHAPE, generator=torch.Generator().manual_seed(1))
    x = (0.1 + 0.85 * x).clamp(0.15, 0.9) - 0.1 * (x < 0.02)
    model = Quantised(net).eval()
    with torch.no_grad():
        return model, x, model(x).argmax(dim=1)


@pytest.mark.parametrize("norm", NORMS.values(), ids=NORMS)
def test_what_gradients_cannot_break_is_broken_within_the_budget(norm: Norm) -> None:
    model, x, y = masked_net()
    noise = torch.randn(x.shape, generator=torch.Generator().manual_seed(2))
    noise = norm.project(noise, math.inf)
    eps = 0.3 * norm(noise) * L2(noise).reciprocal() * math.sqrt(math.prod(SHAPE))
    blind = apgd(model, x, y, norm=norm, eps=eps, steps=10)
    found = square(
        model, x, y, norm=norm, eps=eps, queries=60, generator=torch.Generator().manual_seed(0)
    )
    assert not blind.success.any()
    assert found.success.any()
    with torch.no_grad():
        assert torch.equal(found.success, margin(model(found.adversarial), y) > 0)
    change = found.adversarial.double() - x.double()
    seen = norm.project(change, math.inf)
    assert (norm(seen) <= eps.double() * (1 + 1e-6)).all()
    assert ((change - seen).abs() <= 4 * torch.finfo(x.dtype).eps).all()
    assert found.adversarial.min() >= 0
    assert found.adversarial.max() <= 1
    assert found.gradient_calls == 0


def test_trials_are_repeatable_and_leave_the_global_randomness_alone() -> None:
    model, x, y = masked_net()
    state = torch.get_rng_state()

    def run(seed: int) -> Tensor:
        generator = torch.Generator().manual_seed(seed)
        return square(model, x, y, norm=Linf, eps=0.01, queries=20, generator=generator).adversarial

    assert torch.equal(run(0), run(0))
    assert not torch.equal(run(0), run(1))
    assert torch.equal(torch.get_rng_state(), state)


def test_more_queries_come_near_to_the_best_perturbation_of_a_linear_model() -> None:
    weight = torch.randn(SHAPE, generator=torch.Generator().manual_seed(0))

    def model(x: Tensor) -> Tensor:
        score = (x * weight).flatten(1).sum(dim=1)
        return torch.stack([score * 0 + 100, score], dim=1)

    x = torch.full((4, *SHAPE), 0.5)
    best = 0.1 * weight.abs().sum()
    gained = []
    for queries in (30, 1500):
        found = square(
            model, x, torch.zeros(4).long(), norm=Linf, eps=0.1, queries=queries,
            generator=torch.Generator().manual_seed(0),
        )  # fmt: skip
        gained.append(float(((found.adversarial - x) * weight).flatten(1).sum(dim=1).mean()))
    assert gained[0] < 0.6 * best
    assert gained[1] > 0.85 * best
