"""The contract of an attack, run over every attack and norm. A new attack is a new line in ATTACKS.

On a linear model the worst case is known: the least margin over ||delta|| <= eps is the margin
less eps times the dual norm of the difference of the two rows of weights.
"""

import math
import warnings
from collections.abc import Callable
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from strop.attacks import AttackResult, apgd, pgd
from strop.geometry import L1, L2, Fourier, Linf, Lp, Norm, high_band, low_band

Attack = Callable[..., AttackResult]
ATTACKS: dict[str, Attack] = {
    "pgd-ce": partial(pgd, steps=20),
    "pgd-margin": partial(pgd, steps=20, loss="margin"),
    "apgd-ce": partial(apgd, steps=20),
    "apgd-margin": partial(apgd, steps=20, loss="margin"),
    "apgd-dlr": partial(apgd, steps=20, loss="dlr"),
    "apgd-targeted-dlr": partial(apgd, steps=20, loss="targeted-dlr"),
}
SHAPE = (2, 6, 5)


def radii(height: int, width: int) -> Tensor:
    drawn = torch.rand(height, width, generator=torch.Generator().manual_seed(5))
    return 0.3 + drawn + drawn.flip(0, 1).roll((1, 1), (0, 1))


def bands(height: int, width: int) -> dict[str, Tensor | None]:
    return {
        "full": None,
        "low": low_band((height, width), 0.2),
        "high": high_band((height, width), 0.2),
        "uneven": radii(height, width),
        "holed": radii(height, width) * high_band((height, width), 0.2),
    }


def norms(height: int, width: int) -> dict[str, Norm]:
    chosen: dict[str, Norm] = {"L1": L1, "L2": L2, "Linf": Linf, "Lp(3)": Lp(3)}
    for inner in (L1, L2, Linf):
        for name, band in bands(height, width).items():
            chosen[f"Fourier({inner})-{name}"] = Fourier(inner, dims=2, band=band)
    return chosen


NORMS = norms(*SHAPE[1:])
each_attack = pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
each_norm = pytest.mark.parametrize("norm", NORMS.values(), ids=NORMS)


class TwoSided(nn.Module):
    """Logits s, -s, and as many as are asked for far below, with s = <w, x> + b."""

    def __init__(self, shape: tuple[int, ...], idle: int, seed: int = 0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.weight = nn.Parameter(torch.randn(shape, generator=generator))
        self.idle = idle

    def forward(self, x: Tensor) -> Tensor:
        score = (x * self.weight).flatten(1).sum(dim=1)
        below = torch.full((len(x), self.idle), -1e3, dtype=x.dtype) - torch.arange(self.idle)
        return torch.cat([score[:, None], -score[:, None], below], dim=1)


def draw(shape: tuple[int, ...], seed: int = 1) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def small_net(shape: tuple[int, ...], classes: int = 5) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        width = math.prod(shape)
        return nn.Sequential(
            nn.Flatten(), nn.Linear(width, 16), nn.ReLU(), nn.Linear(16, classes)
        ).eval()


def pictures(shape: tuple[int, ...], seed: int = 2) -> Tensor:
    """Within [0, 1], a quarter of the pixels at a bound, as in photographs."""
    drawn = torch.rand(shape, generator=torch.Generator().manual_seed(seed))
    return (1.3 * drawn - 0.15).clamp(0, 1)


def predicted(model: nn.Module, x: Tensor) -> Tensor:
    with torch.no_grad():
        return model(x).argmax(dim=1)


@each_attack
@each_norm
@pytest.mark.parametrize("share", [0.5, 1.5], ids=["within", "across"])
def test_worst_case_of_a_linear_model(attack: Attack, norm: Norm, share: float) -> None:
    model = TwoSided(SHAPE, idle=3)
    x = draw((4, *SHAPE))
    with torch.no_grad():
        margin = 2 * model(x)[:, 0]
    y = (margin < 0).long()
    steepness = 2 * norm.dual(norm.dual.project(model.weight.detach()[None], math.inf))
    eps = share * margin.abs() / steepness
    result = attack(model, x, y, norm=norm, eps=eps, bounds=None)
    with torch.no_grad():
        logits = model(result.adversarial)
    reached = logits[:, 0] - logits[:, 1]
    worst = margin - margin.sign() * eps * steepness
    torch.testing.assert_close(reached, worst, rtol=1e-3, atol=1e-4)
    assert (result.success == (share > 1)).all()


@each_norm
@pytest.mark.filterwarnings("ignore:the loss 'targeted-dlr' needs")
def test_targets_find_the_worst_class_of_a_linear_model(norm: Norm) -> None:
    """Where the class that is nearest in logits is not the one that is nearest in the norm.

    Of three classes: the target's margin is then climbed, whose worst case is the closed form.
    """
    generator = torch.Generator().manual_seed(0)
    scale = torch.tensor([0.1, 0.1, 4.0])[:, None, None, None]
    weight = torch.randn(3, *SHAPE, generator=generator) * scale

    def model(x: Tensor) -> Tensor:
        return torch.einsum("bkij,ckij->bc", x, weight) + torch.tensor([9.0, 8.0, 0.0])

    x, y = torch.zeros(1, *SHAPE), torch.tensor([0])
    steepness = norm.dual(norm.dual.project(weight[0] - weight[1:], math.inf))
    gaps = model(x)[0, 0] - model(x)[0, 1:]
    assert (gaps / steepness).argmin() == 1
    eps = float(0.99 * (gaps / steepness).min())
    result = apgd(model, x, y, norm=norm, eps=eps, loss="targeted-dlr", bounds=None, steps=20)
    logits = model(result.adversarial)[0]
    expected = (gaps - eps * steepness).min()
    torch.testing.assert_close(logits[0] - logits[1:].max(), expected, rtol=1e-3, atol=1e-4)


def assert_inside(
    result: AttackResult, x: Tensor, norm: Norm, eps: float, bounds: tuple[float, float] | None
) -> None:
    change = result.adversarial.double() - x.double()
    seen = norm.project(change, math.inf)
    assert (norm(seen) <= eps * (1 + 1e-6)).all()
    torch.testing.assert_close(norm(seen).to(result.norm), result.norm, rtol=1e-5, atol=1e-30)
    largest = max(1.0, float(result.adversarial.abs().max()))
    assert ((change - seen).abs() <= 4 * torch.finfo(x.dtype).eps * largest).all()
    if bounds is not None:
        assert result.adversarial.min() >= bounds[0]
        assert result.adversarial.max() <= bounds[1]


@given(
    attack=st.sampled_from(sorted(ATTACKS)),
    norm=st.sampled_from(sorted(NORMS)),
    shape=st.tuples(st.integers(1, 3), st.integers(1, 7), st.integers(1, 7)),
    eps=st.one_of(st.just(0.0), st.floats(-8, 6).map(lambda power: 10.0**power)),
    dtype=st.sampled_from([torch.float32, torch.float64, torch.float16]),
    boxed=st.booleans(),
    seed=st.integers(0, 99),
)
@settings(max_examples=150)
def test_box_and_budget_hold(
    attack: str,
    norm: str,
    shape: tuple[int, int, int],
    eps: float,
    dtype: torch.dtype,
    boxed: bool,
    seed: int,
) -> None:
    if dtype == torch.float16:
        eps = min(eps, 100.0)  # what half precision can hold without a box
    model = small_net(shape).to(dtype)
    x = pictures((3, *shape), seed).to(dtype)
    chosen, bounds = norms(*shape[1:])[norm], (0.0, 1.0) if boxed else None
    if not boxed:
        eps = min(eps, 1e3)
    result = ATTACKS[attack](
        model, x, predicted(model, x), norm=chosen, eps=eps, bounds=bounds, steps=5, restarts=2,
        generator=torch.Generator().manual_seed(seed),
    )  # fmt: skip
    assert result.adversarial.dtype == dtype
    assert_inside(result, x, chosen, eps, bounds)
    assert torch.equal(result.success, predicted(model, result.adversarial) != predicted(model, x))


@pytest.mark.parametrize("attack", [ATTACKS["pgd-ce"], ATTACKS["apgd-dlr"]], ids=["pgd", "apgd"])
@each_norm
def test_what_is_found_is_misclassified_and_more_with_a_larger_budget(
    attack: Attack, norm: Norm
) -> None:
    model, x = small_net(SHAPE), pictures((8, *SHAPE))
    y = predicted(model, x)
    none = attack(model, x, y, norm=norm, eps=0.0)
    assert torch.equal(none.adversarial, x)
    assert not none.success.any()
    many = attack(model, x, y, norm=norm, eps=20.0)
    assert torch.equal(many.success, predicted(model, many.adversarial) != y)
    assert many.success.any()


@each_attack
def test_what_is_misclassified_already_is_left_alone(attack: Attack) -> None:
    model, x = small_net(SHAPE), pictures((6, *SHAPE))
    y = predicted(model, x)
    y[::2] = (y[::2] + 1) % 5
    result = attack(model, x, y, norm=Linf, eps=0.1)
    assert torch.equal(result.adversarial[::2], x[::2])
    assert result.success[::2].all()
    assert (result.norm[::2] == 0).all()
    assert (result.norm[1::2] > 0).all()


@each_attack
def test_the_same_generator_gives_the_same_result(attack: Attack) -> None:
    model, x = small_net(SHAPE), pictures((6, *SHAPE))
    y = predicted(model, x)
    state = torch.get_rng_state()

    def run(seed: int) -> Tensor:
        generator = torch.Generator().manual_seed(seed)
        return attack(model, x, y, norm=L2, eps=0.2, restarts=3, generator=generator).adversarial

    assert torch.equal(run(0), run(0))
    assert torch.equal(torch.get_rng_state(), state)


@each_attack
def test_the_model_stays_as_it_was(attack: Attack) -> None:
    model, x = small_net(SHAPE).train(), pictures((3, *SHAPE))
    model[1].weight.grad = torch.ones_like(model[1].weight)
    model[3].eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with torch.no_grad():
        attack(model, x, predicted(model, x), norm=Linf, eps=0.1)
    assert [module.training for module in model] == [True, True, True, False]
    assert (model[1].weight.grad == 1).all()
    assert model[3].weight.grad is None
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


@each_attack
def test_each_example_has_its_own_budget(attack: Attack) -> None:
    model, x = small_net(SHAPE).double(), pictures((3, *SHAPE)).double()
    y, eps = predicted(model, x), torch.tensor([0.0, 0.01, 0.3])
    together = attack(model, x, y, norm=L2, eps=eps)
    for i in range(3):
        row = slice(i, i + 1)
        apart = attack(model, x[row], y[row], norm=L2, eps=float(eps[i]))
        torch.testing.assert_close(together.adversarial[row], apart.adversarial)


@each_attack
def test_an_empty_batch(attack: Attack) -> None:
    result = attack(
        small_net(SHAPE), torch.zeros(0, *SHAPE), torch.zeros(0).long(), norm=L2, eps=1.0
    )
    assert result.adversarial.shape == (0, *SHAPE)
    assert result.success.shape == (0,)


@each_attack
def test_refusals_name_the_remedy(attack: Attack) -> None:
    model, x, y = small_net(SHAPE), pictures((3, *SHAPE)), torch.tensor([0, 1, 2])
    call = partial(attack, model, norm=Linf, eps=0.1)
    for message, wrong in (
        ("labels from 0 to 4", lambda: call(x, y + 3)),
        ("labels from 0 to 4", lambda: call(x, y - 1)),
        ("class indices", lambda: call(x, y.float())),
        ("class indices", lambda: call(x, y[:2])),
        ("put the normalisation into the model", lambda: call(2 * x, y)),
        ("low < high", lambda: call(x, y, bounds=(1, 0))),
        ("NaN", lambda: call(x.masked_fill(x == x.max(), math.nan), y)),
        ("eps", lambda: call(x, y, eps=-1.0)),
        ("eps", lambda: call(x, y, eps=math.inf)),
        ("eps", lambda: call(x, y, eps=torch.ones(2))),
        ("a norm", lambda: call(x, y, norm="linf")),
        ("a loss out of", lambda: call(x, y, loss="hinge")),
        ("restarts", lambda: call(x, y, restarts=0)),
        ("floating-point", lambda: call(x.long(), y)),
    ):
        with pytest.raises(ValueError, match=message):
            wrong()
    with pytest.raises(ValueError, match="finite logits"):
        attack(lambda x: model(x) / 0, x, y, norm=Linf, eps=0.1)
    with pytest.raises(ValueError, match="a single score"):
        attack(lambda x: model(x)[:, 0], x, y, norm=Linf, eps=0.1)


def test_too_few_classes_for_a_ratio_of_logits_are_said() -> None:
    x = pictures((3, *SHAPE))
    for classes, loss, needed in ((2, "dlr", 3), (3, "targeted-dlr", 4), (2, "targeted-dlr", 4)):
        model = small_net(SHAPE, classes)
        with pytest.warns(UserWarning, match=f"at least {needed} classes"):
            result = apgd(model, x, predicted(model, x), norm=Linf, eps=0.9, loss=loss, steps=10)
        assert result.success.any()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = small_net(SHAPE, 4)
        apgd(model, x, predicted(model, x), norm=Linf, eps=0.1, loss="targeted-dlr", steps=2)
