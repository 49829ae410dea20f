"""The smallest perturbation: the exact margin of linear models, and what holds of any result."""

import math

import pytest
import torch
from torch import Tensor, nn

from strop.attacks import minimum_norm
from strop.geometry import L1, L2, Fourier, Linf, Lp, Norm, high_band, low_band

SHAPE = (2, 6, 5)
DRAWN = torch.rand(SHAPE[1:], generator=torch.Generator().manual_seed(5))
RADII = 0.3 + DRAWN + DRAWN.flip(0, 1).roll((1, 1), (0, 1))
BANDS = {
    "full": None,
    "low": low_band(SHAPE[1:], 0.2),
    "high": high_band(SHAPE[1:], 0.2),
    "uneven": RADII,
    "holed": RADII * high_band(SHAPE[1:], 0.2),
}
NORMS: dict[str, Norm] = {"L1": L1, "L2": L2, "Linf": Linf, "Lp(3)": Lp(3)} | {
    f"Fourier({inner})-{name}": Fourier(inner, dims=2, band=band)
    for inner in (L1, L2, Linf)
    for name, band in BANDS.items()
}
each_norm = pytest.mark.parametrize("norm", NORMS.values(), ids=NORMS)


def two_sided(shape: tuple[int, ...]) -> tuple[nn.Module, Tensor]:
    weight = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    model = nn.Sequential(nn.Flatten(), nn.Linear(weight.numel(), 2, bias=False))
    model[1].weight.data.copy_(torch.stack([weight.flatten(), -weight.flatten()]))
    return model, weight


@each_norm
def test_exact_margin_of_a_linear_model(norm: Norm) -> None:
    model, weight = two_sided(SHAPE)
    x = torch.randn(4, *SHAPE, generator=torch.Generator().manual_seed(1))
    score = (x * weight).flatten(1).sum(dim=1)
    exact = score.abs() / norm.dual(norm.dual.project(weight[None], math.inf))
    result = minimum_norm(model, x, (score < 0).long(), norm=norm, bounds=None)
    assert result.success.all()
    torch.testing.assert_close(result.norm, exact, rtol=5e-3, atol=0)
    assert (result.norm >= exact * (1 - 1e-5)).all()


@each_norm
def test_what_is_found_is_misclassified_in_the_box_and_as_long_as_said(norm: Norm) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        model = nn.Sequential(nn.Flatten(), nn.Linear(60, 16), nn.ReLU(), nn.Linear(16, 5))
    x = torch.rand(6, *SHAPE, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        y = model(x).argmax(dim=1)
        y[0] = (y[0] + 1) % 5
        result = minimum_norm(model, x, y, norm=norm, steps=40)
        assert torch.equal(result.success, model(result.adversarial).argmax(dim=1) != y)
    assert result.success.any()
    assert result.norm[0] == 0
    assert torch.equal(result.adversarial[0], x[0])
    assert result.adversarial.min() >= 0
    assert result.adversarial.max() <= 1
    change = result.adversarial.double() - x.double()
    seen = norm.project(change, math.inf)
    assert ((change - seen).abs() <= 4 * torch.finfo(x.dtype).eps).all()
    found = result.success
    torch.testing.assert_close(norm(seen)[found].float(), result.norm[found])
    assert (result.norm[~found] == math.inf).all()


def test_where_nothing_can_be_found_that_is_said() -> None:
    def model(x: Tensor) -> Tensor:
        return torch.tensor([[1.0, 0.0]]) + 0 * x.flatten(1)[:, :1]

    x = torch.full((2, 1, 3, 3), 0.5)
    result = minimum_norm(model, x, torch.zeros(2).long(), norm=Linf, steps=5)
    assert torch.equal(result.adversarial, x)
    assert not result.success.any()
    assert (result.norm == math.inf).all()
