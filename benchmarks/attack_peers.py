"""The attacks of foolbox, adv-lib and torchattacks behind one signature, where they are installed.

adv-lib and foolbox import packages at their top that their attacks do not use (plots, downloads):
where these are absent, empty modules stand in for them.
"""

import importlib
import math
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

Peer = Callable[..., Tensor]
"""``peer(model, x, y, p, eps, calls, loss)``: x + delta of an attack with so many gradients."""

STAND_INS = {"visdom": (), "torchvision": ("models",), "git": ("Repo",), "requests": ()}


def peers() -> dict[str, Peer]:
    """Those that can be imported, by name."""
    for name, attributes in STAND_INS.items():
        try:
            importlib.import_module(name)
        except ImportError:
            module: Any = ModuleType(name)
            for attribute in attributes:
                setattr(module, attribute, ModuleType(attribute))
            sys.modules[name] = module
    found: dict[str, Peer] = {}
    for name, attack in (
        ("adv-lib APGD", adv_lib),
        ("torchattacks APGD", torchattacks),
        ("foolbox PGD", foolbox),
    ):
        try:
            importlib.import_module(attack.__name__)
        except ImportError as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
        else:
            found[name] = attack
    return found


def adv_lib(
    model: nn.Module, x: Tensor, y: Tensor, p: float, eps: float, calls: int, loss: str
) -> Tensor:
    from adv_lib.attacks.auto_pgd import apgd

    return apgd(model, x, y, eps=eps, norm=p, n_iter=calls - 1, loss_function=loss)


def torchattacks(
    model: nn.Module, x: Tensor, y: Tensor, p: float, eps: float, calls: int, loss: str
) -> Tensor:
    from torchattacks import APGD

    norm = {math.inf: "Linf", 2: "L2"}[p]
    return APGD(model, norm=norm, eps=eps, steps=calls - 1, loss=loss)(x, y)


def foolbox(
    model: nn.Module, x: Tensor, y: Tensor, p: float, eps: float, calls: int, loss: str
) -> Tensor:
    """Of the cross-entropy, whatever the loss."""
    from foolbox import PyTorchModel
    from foolbox.attacks import L1PGD, L2PGD, LinfPGD

    kind = {math.inf: LinfPGD, 2: L2PGD, 1: L1PGD}[p]
    wrapped = PyTorchModel(model, bounds=(0, 1), device=x.device)
    return kind(steps=calls)(wrapped, x, y, epsilons=eps)[1]


class Counted(nn.Module):
    """A model that counts the calls which a gradient follows."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model, self.calls = model, 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += int(torch.is_grad_enabled() and x.requires_grad)
        return self.model(x)
