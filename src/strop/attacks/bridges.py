"""Our attacks behind the interfaces of other libraries, for those who evaluate with these.

Neither library is needed to import this module; :func:`foolbox_attack` needs foolbox when called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from strop.attacks.apgd import apgd
from strop.attacks.search import AttackResult
from strop.geometry import Norm
from strop.support import InputError, require

__all__ = ["AutoAttackStep", "foolbox_attack"]


class AutoAttackStep:
    """An attack for a slot of AutoAttack: ``perturb(x, y)`` gives x + delta.

    AutoAttack sets ``loss`` ("ce", "dlr") and ``seed`` before it calls ``perturb``; a loss that is
    given here stays. The budget is in our norm, so that AutoAttack's loop over batches and attacks
    runs over Fourier norms too:

        adversary = AutoAttack(model, norm="Linf", eps=eps, version="custom",
                               attacks_to_run=["apgd-ce", "apgd-t"])
        adversary.apgd = AutoAttackStep(model, norm=Fourier(Linf, dims=2), eps=eps)
        adversary.apgd_targeted = AutoAttackStep(
            model, norm=Fourier(Linf, dims=2), eps=eps, loss="targeted-dlr")

    Args:
        model: gives the logits of a batch.
        norm: of the perturbation.
        eps: the budget.
        loss: as of ``attack``; if None, what AutoAttack asks for.
        attack: :func:`~strop.attacks.apgd` or one like it.
        options: more for the attack, such as ``steps`` and ``restarts``.

    >>> from strop.geometry import Linf
    >>> model = torch.nn.Linear(2, 2, bias=False)
    >>> _ = model.weight.data.copy_(torch.tensor([[1.0, 1.0], [-1.0, 0.0]]))
    >>> step = AutoAttackStep(model, norm=Linf, eps=0.125)
    >>> step.perturb(torch.tensor([[0.5, 0.2]]), torch.tensor([0]))
    tensor([[0.3750, 0.0750]])
    """

    def __init__(
        self,
        model: Callable[[Tensor], Tensor],
        *,
        norm: Norm,
        eps: float,
        loss: str | None = None,
        attack: Callable[..., AttackResult] = apgd,
        **options: Any,
    ) -> None:
        self.model, self.norm, self.eps, self.attack = model, norm, eps, attack
        self.options = options
        self.fixed_loss, self.loss, self.seed = loss, "ce", 0

    def perturb(self, x: Tensor, y: Tensor | None = None) -> Tensor:
        """x + delta, within the budget and the box."""
        if y is None:
            with torch.no_grad():
                y = self.model(x).argmax(dim=1)
        generator = torch.Generator().manual_seed(int(self.seed))
        return self.attack(
            self.model,
            x,
            y,
            norm=self.norm,
            eps=self.eps,
            loss=self.fixed_loss or self.loss,
            **{"generator": generator, **self.options},
        ).adversarial


def foolbox_attack(
    norm: Norm, *, attack: Callable[..., AttackResult] = apgd, **options: Any
) -> Any:
    """An attack of foolbox: ``attack(fmodel, inputs, labels, epsilons=[…])`` as all of its own.

    Its ``distance`` is our norm, so that foolbox's budgets are in it, Fourier norms included. Only
    untargeted misclassification of PyTorch models is attacked.

    Args:
        norm: of the perturbation.
        attack: :func:`~strop.attacks.apgd`, :func:`~strop.attacks.pgd` or one like them.
        options: more for the attack, such as ``steps`` and ``loss``.
    """
    require("foolbox", extra="bridges", purpose="an attack for foolbox")
    import eagerpy
    from foolbox.attacks.base import FixedEpsilonAttack, get_criterion, raise_if_kwargs
    from foolbox.criteria import Misclassification
    from foolbox.distances import Distance

    class NormDistance(Distance):
        def __call__(self, references: Any, perturbed: Any) -> Any:
            (x, moved), restore = eagerpy.astensors_(references, perturbed)
            return restore(eagerpy.astensor(norm(moved.raw - x.raw)))

        def clip_perturbation(self, references: Any, perturbed: Any, epsilon: float) -> Any:
            return perturbed  # verified in float64 already; a clip would leave a band

    class StropAttack(FixedEpsilonAttack):
        distance = NormDistance()

        def run(
            self, model: Any, inputs: Any, criterion: Any, *, epsilon: float, **kwargs: Any
        ) -> Any:
            raise_if_kwargs(kwargs)
            x, restore = eagerpy.astensor_(inputs)
            criterion = get_criterion(criterion)
            if not isinstance(criterion, Misclassification) or not isinstance(x.raw, Tensor):
                raise InputError(
                    "expected a PyTorch model and labels to move away from, came "
                    f"{type(criterion).__name__} of {type(x.raw).__name__}: pass torch labels"
                )
            low, high = model.bounds
            result = attack(
                model,
                x.raw,
                criterion.labels.raw,
                norm=norm,
                eps=epsilon,
                bounds=(float(low), float(high)),
                **options,
            )
            return restore(eagerpy.astensor(result.adversarial))

    return StropAttack()
