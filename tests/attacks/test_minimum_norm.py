"""The smallest perturbation: the exact margin of linear models, and what holds of any result."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
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


@given(
    kind=st.sampled_from(["L1", "L2", "Linf", "full", "low", "high"]),
    inner=st.sampled_from([L1, L2, Linf]),
    shape=st.tuples(st.integers(1, 3), st.integers(1, 7), st.integers(1, 7)),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    boxed=st.booleans(),
    seed=st.integers(0, 99),
)
@settings(max_examples=60)
def test_box_and_said_norm_hold_for_any_shape(
    kind: str, inner: Lp, shape: tuple[int, int, int], dtype: torch.dtype, boxed: bool, seed: int
) -> None:
    bands = {"full": None, "low": low_band(shape[1:], 0.2), "high": high_band(shape[1:], 0.2)}
    norm: Norm = {"L1": L1, "L2": L2, "Linf": Linf}.get(kind) or Fourier(inner, 2, bands[kind])
    drawn = torch.rand((3, *shape), generator=torch.Generator().manual_seed(seed))
    x = (1.3 * drawn - 0.15).clamp(0, 1).to(dtype)
    weight = torch.randn((4, x[0].numel()), generator=torch.Generator().manual_seed(seed)).to(dtype)
    y = (x.flatten(1) @ weight.T).argmax(dim=1)
    result = minimum_norm(
        lambda z: z.flatten(1) @ weight.T,
        x,
        y,
        norm=norm,
        steps=10,
        bounds=(0, 1) if boxed else None,
    )
    if boxed:
        assert result.adversarial.min() >= 0
        assert result.adversarial.max() <= 1
    wrong = (result.adversarial.flatten(1) @ weight.T).argmax(dim=1) != y
    assert torch.equal(wrong, result.success)
    change = result.adversarial.double() - x.double()
    seen = norm.project(change, math.inf)
    largest = max(1.0, float(result.adversarial.abs().max()))
    assert ((change - seen).abs() <= 4 * torch.finfo(dtype).eps * largest).all()
    found = result.success
    torch.testing.assert_close(norm(seen)[found].to(dtype), result.norm[found])
    assert torch.equal(result.adversarial[~found], x[~found])
