"""Our attacks through the interfaces of foolbox and AutoAttack."""

import math

import pytest
import torch
from torch import Tensor, nn

from strop.attacks import apgd, pgd
from strop.attacks.bridges import AutoAttackStep, foolbox_attack
from strop.geometry import L2, Fourier, Linf, Norm, high_band
from strop.support import MissingExtraError

BAND = Fourier(Linf, dims=2, band=high_band((6, 6), 0.2))
NORMS = [Linf, L2, Fourier(Linf, dims=2), BAND]


def net() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return nn.Sequential(nn.Flatten(), nn.Linear(108, 16), nn.ReLU(), nn.Linear(16, 5)).eval()


def examples(model: nn.Module) -> tuple[Tensor, Tensor]:
    drawn = torch.rand(8, 3, 6, 6, generator=torch.Generator().manual_seed(2))
    x = (1.3 * drawn - 0.15).clamp(0, 1)
    with torch.no_grad():
        return x, model(x).argmax(dim=1)


class Loop:
    """What AutoAttack does with its attacks, for two of them."""

    def __init__(self, apgd: AutoAttackStep, apgd_targeted: AutoAttackStep) -> None:
        self.apgd, self.apgd_targeted = apgd, apgd_targeted

    def run(self, model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        robust, moved = torch.ones_like(y, dtype=torch.bool), x.clone()
        for attack, loss in ((self.apgd, "ce"), (self.apgd, "dlr"), (self.apgd_targeted, "")):
            attack.loss, attack.seed = loss, 7
            rest = robust.nonzero().flatten()
            if len(rest) == 0:
                break
            found = attack.perturb(x[rest], y[rest])
            with torch.no_grad():
                broken = model(found).argmax(dim=1) != y[rest]
            moved[rest[broken]], robust[rest[broken]] = found[broken], False
        return moved


@pytest.mark.parametrize("norm", NORMS, ids=str)
def test_the_loop_of_autoattack_runs_in_any_norm(norm: Norm) -> None:
    model = net()
    x, y = examples(model)
    first = AutoAttackStep(model, norm=norm, eps=0.3, steps=10)
    targeted = AutoAttackStep(model, norm=norm, eps=0.3, steps=10, loss="targeted-dlr")
    moved = Loop(first, targeted).run(model, x, y)
    change = norm.project(moved.double() - x.double(), math.inf)
    assert (norm(change) <= 0.3 * (1 + 1e-6)).all()
    assert bool((model(moved).argmax(dim=1) != y).any())


def test_a_slot_of_autoattack_is_the_attack_itself() -> None:
    model = net()
    x, y = examples(model)
    step = AutoAttackStep(model, norm=L2, eps=0.2, attack=pgd, steps=5, restarts=2)
    generator = torch.Generator().manual_seed(0)
    own = pgd(model, x, y, norm=L2, eps=0.2, steps=5, restarts=2, generator=generator)
    assert torch.equal(step.perturb(x), own.adversarial)


@pytest.mark.parametrize("norm", NORMS, ids=str)
def test_foolbox_calls_our_attack_at_every_budget(norm: Norm) -> None:
    foolbox = pytest.importorskip("foolbox", reason="foolbox is not installed")
    model = net()
    x, y = examples(model)
    wrapped = foolbox.PyTorchModel(model, bounds=(0, 1), device="cpu")
    budgets = [0.0, 0.1, 0.4]
    raw, clipped, success = foolbox_attack(norm, steps=10)(wrapped, x, y, epsilons=budgets)
    for eps, moved, same, broken in zip(budgets, raw, clipped, success, strict=True):
        own = apgd(model, x, y, norm=norm, eps=eps, steps=10)
        assert torch.equal(moved, own.adversarial)
        assert torch.equal(same, moved)
        assert torch.equal(broken, own.success)


def test_without_foolbox_the_remedy_is_named() -> None:
    try:
        import foolbox  # noqa: F401
    except ImportError:
        with pytest.raises(MissingExtraError, match="foolbox"):
            foolbox_attack(Linf)
    else:
        pytest.skip("foolbox is installed")
