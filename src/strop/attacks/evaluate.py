"""How robust a classifier is: the accuracy under attack, its curve over eps, the maximal eps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Unpack

import torch
from torch import Tensor

from strop.attacks.campaign import Campaign
from strop.attacks.results import AccuracyCurve, MaxEpsilon, RobustAccuracy
from strop.attacks.setup import Model, Options, open_campaign
from strop.attacks.suite import Attack
from strop.attacks.verified import ROOM
from strop.geometry import Norm
from strop.support import InputError

__all__ = ["accuracy_curve", "max_epsilon", "robust_accuracy"]

_MOST_ROUNDS = 20


def robust_accuracy(
    model: Model,
    data: Any,
    *,
    norm: Norm,
    eps: float,
    **options: Unpack[Options],
) -> RobustAccuracy:
    """The share of examples that no attack of the suite breaks within ||delta|| <= eps.

    An upper bound of the accuracy under the worst perturbation. Whatever an attack claims is looked
    at again in float32: misclassified, in the box, its norm taken in float64. What one attack has
    broken the next is not run on. Under ``torchrun`` the batches are shared out, to the same
    answer.

    Args:
        model: gives the logits of a batch; inputs are brought to the device of its parameters.
        data: :class:`~strop.data.LabelledImages`, a pair of tensors (inputs, labels), a ``Dataset``
            or a ``DataLoader`` of such pairs.
        norm: of the perturbation, such as ``Linf`` or ``Fourier(Linf, dims=2, band=…)``.
        eps: the budget.
        options: see :class:`strop.attacks.setup.Options`: ``attacks``, ``bounds``, ``batch_size``,
            ``seed``, ``precision``, ``check``, ``out``, ``resume``, ``overwrite``, ``progress``.

    >>> from strop.geometry import L2
    >>> model = torch.nn.Linear(2, 2, bias=False)
    >>> _ = model.weight.data.copy_(torch.tensor([[0.6, 0.8], [-0.6, -0.8]]))
    >>> data = torch.tensor([[0.3, 0.4], [0.6, 0.8]]), torch.tensor([0, 0])
    >>> from strop.attacks import quick_suite
    >>> result = robust_accuracy(
    ...     model, data, norm=L2, eps=0.7, attacks=quick_suite(), bounds=None, check="off",
    ...     progress="quiet",
    ... )
    >>> float(result.clean), float(result)
    (1.0, 0.5)
    """
    if not eps >= 0:
        raise InputError(f"expected eps >= 0, came {eps}: pass a radius in the units of the inputs")
    kind = {"kind": "robust accuracy", "eps": float(eps)}
    with open_campaign(model, data, norm, kind, options) as (campaign, suite, told):
        campaign.clean()
        for attack in suite:
            campaign.attack(attack, ~campaign.within(eps), eps, draw_back=False)
    return RobustAccuracy(
        distances=campaign.distance, attacks=tuple(campaign.reports), eps=float(eps), **told
    )


def accuracy_curve(
    model: Model,
    data: Any,
    *,
    norm: Norm,
    eps: Sequence[float],
    **options: Unpack[Options],
) -> AccuracyCurve:
    """Accuracy against eps in one run: :func:`robust_accuracy` at every ``eps``, monotone.

    First the attacks of the suite that look for the smallest perturbation tell roughly how far each
    example is from an error. Then each example is attacked by the others at the largest named eps
    below that, all in one batch, each with its own; what breaks is drawn back, and attacked at the
    next smaller one, until it withstands them all. The arguments are those of
    :func:`robust_accuracy`.

    >>> from strop.attacks import quick_suite
    >>> from strop.geometry import L2
    >>> model = torch.nn.Linear(2, 2, bias=False)
    >>> _ = model.weight.data.copy_(torch.tensor([[0.6, 0.8], [-0.6, -0.8]]))
    >>> data = torch.tensor([[0.3, 0.4], [0.6, 0.8]]), torch.tensor([0, 0])
    >>> curve = accuracy_curve(
    ...     model, data, norm=L2, eps=[0.4, 0.7, 1.1], attacks=quick_suite(), bounds=None,
    ...     check="off", progress="quiet",
    ... )
    >>> [float(curve.accuracy(eps)) for eps in (0.4, 0.7, 1.1)]
    [1.0, 0.5, 0.0]
    """
    grid = sorted(float(value) for value in eps)
    if not grid or not grid[0] > 0:
        raise InputError(f"expected one eps > 0 or more, came {list(eps)}: 0 is always there")
    kind = {"kind": "accuracy curve", "eps": grid}
    with open_campaign(model, data, norm, kind, options) as (campaign, suite, told):
        _smallest_first(campaign, suite, grid[-1])
        radii = torch.tensor([0.0, *grid], dtype=torch.float64)
        withstood = torch.zeros_like(campaign.distance)
        while any(not attack.smallest for attack in suite):
            below = torch.searchsorted(radii * (1 + ROOM), campaign.distance)
            goal = radii[(below - 1).clamp(min=0)]
            rows = goal > withstood
            if not bool(rows.any()):
                break
            _attack_all(campaign, suite, rows, goal)
            withstood = torch.where(rows & ~campaign.within(goal), goal, withstood)
    return AccuracyCurve(
        distances=campaign.distance, attacks=tuple(campaign.reports), eps=tuple(grid), **told
    )


def max_epsilon(
    model: Model,
    data: Any,
    *,
    norm: Norm,
    drop: float = 0.01,
    **options: Unpack[Options],
) -> MaxEpsilon:
    """The largest eps at which the accuracy is at most ``drop`` below the clean one.

    Thesis figure 5.5, without a grid: the smallest perturbations of all examples give a first eps.
    All that withstood it is then attacked at that eps by the rest of the suite; what breaks is
    drawn back and lowers the eps, until nothing breaks any more. The arguments are those of
    :func:`robust_accuracy`.

    >>> from strop.attacks import quick_suite
    >>> from strop.geometry import L2
    >>> model = torch.nn.Linear(2, 2, bias=False)
    >>> _ = model.weight.data.copy_(torch.tensor([[0.6, 0.8], [-0.6, -0.8]]))
    >>> data = torch.tensor([[0.3, 0.4], [0.6, 0.8]]), torch.tensor([0, 0])
    >>> result = max_epsilon(
    ...     model, data, norm=L2, attacks=quick_suite(), bounds=None, check="off",
    ...     progress="quiet",
    ... )
    >>> round(float(result), 2)
    0.5
    """
    kind = {"kind": "maximal eps", "drop": drop}
    with open_campaign(model, data, norm, kind, options) as (campaign, suite, told):
        if not any(attack.smallest for attack in suite):
            raise InputError(
                "expected an attack for the smallest perturbation in the suite, came none: "
                "standard_suite() and quick_suite() have one"
            )

        def result() -> MaxEpsilon:
            return MaxEpsilon(
                distances=campaign.distance, attacks=tuple(campaign.reports), drop=drop, **told
            )

        _smallest_first(campaign, suite, 0.0)
        for _ in range(_MOST_ROUNDS):
            claim = result().value
            if not 0 < claim < math.inf:
                break
            # At the claim itself one example more breaks: look just below it.
            goal = torch.full_like(campaign.distance, claim * (1 - 2 * ROOM))
            _attack_all(campaign, suite, ~campaign.within(goal), goal)
            if result().value == claim:
                break
    return result()


def _smallest_first(campaign: Campaign, suite: tuple[Attack, ...], eps: float) -> None:
    campaign.clean()
    for attack in suite:
        if attack.smallest:
            campaign.attack(attack, campaign.distance > 0, eps, draw_back=False)


def _attack_all(campaign: Campaign, suite: tuple[Attack, ...], rows: Tensor, goal: Tensor) -> None:
    for attack in suite:
        if not attack.smallest:
            campaign.attack(attack, rows & ~campaign.within(goal), goal, draw_back=True)
