"""What an attack climbs: one number for each example, the larger the nearer to a mistake.

Legend: b example, c class; z the logits bc, y the labels b, t the targets b.
"""

import warnings
from collections.abc import Callable
from typing import Literal, get_args

import torch
from torch import Tensor
from torch.nn import functional

from strop.support import InputError

__all__ = [
    "Loss",
    "LossName",
    "choose_loss",
    "cross_entropy",
    "dlr",
    "error_log_odds",
    "log_odds_with_slopes",
    "margin",
    "targeted_dlr",
    "targeted_margin",
    "with_slopes",
]

LossName = Literal["ce", "dlr", "targeted-dlr", "margin"]
Loss = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
"""``loss(z, y, t)``: the values b, and their slopes in the logits bc; neither needs autograd."""


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """log sum_c exp(z_c) - z_y, for each example."""
    return functional.cross_entropy(logits, labels, reduction="none")


def error_log_odds(logits: Tensor, labels: Tensor) -> Tensor:
    """log sum_{c != y} exp(z_c) - z_y: what the cross-entropy is the softplus of.

    An attack climbs the one as it climbs the other: they rise together and their gradients point
    the same way. But where a model is sure of itself the cross-entropy and its gradient are zero in
    floating point, and these are not.

    >>> error_log_odds(torch.tensor([[300.0, 0.0, 0.0]]), torch.tensor([0]))
    tensor([-299.3069])
    """
    others = logits.scatter(1, labels[:, None], -torch.inf)
    return others.logsumexp(dim=1) - _of(logits, labels)


def margin(logits: Tensor, labels: Tensor) -> Tensor:
    """max_{c != y} z_c - z_y: above zero exactly where the example is misclassified.

    >>> margin(torch.tensor([[3.0, 1.0, 0.0]]), torch.tensor([0]))
    tensor([-2.])
    """
    others = logits.scatter(1, labels[:, None], -torch.inf)
    return others.amax(dim=1) - _of(logits, labels)


def targeted_margin(logits: Tensor, labels: Tensor, targets: Tensor) -> Tensor:
    """z_t - z_y."""
    return _of(logits, targets) - _of(logits, labels)


def dlr(logits: Tensor, labels: Tensor) -> Tensor:
    """The margin in units of the spread of the logits: (max_{c != y} z_c - z_y) / (z_(1) - z_(3)).

    z_(1) >= z_(2) >= ... are the logits in order, of three classes or more. It neither vanishes
    where a model is sure of itself nor changes when logits are rescaled (Croce and Hein 2020).

    >>> dlr(torch.tensor([[3.0, 1.0, -1.0]]), torch.tensor([0]))
    tensor([-0.5000])
    """
    top = _top(logits, 3)
    return margin(logits, labels) / _spread(top[:, 0] - top[:, 2])


def targeted_dlr(logits: Tensor, labels: Tensor, targets: Tensor) -> Tensor:
    """(z_t - z_y) / (z_(1) - (z_(3) + z_(4)) / 2), of four classes or more."""
    top = _top(logits, 4)
    spread = _spread(top[:, 0] - (top[:, 2] + top[:, 3]) / 2)
    return targeted_margin(logits, labels, targets) / spread


def with_slopes(loss: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Loss:
    """The loss and, by autograd through it alone, its slopes in the logits.

    >>> climbed = with_slopes(targeted_margin)
    >>> climbed(torch.tensor([[3.0, 1.0, 0.0]]), torch.tensor([0]), torch.tensor([2]))
    (tensor([-3.]), tensor([[-1.,  0.,  1.]]))
    """

    def climbed(logits: Tensor, labels: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            leaf = logits.detach().requires_grad_()
            values = loss(leaf, labels, targets)
            (slopes,) = torch.autograd.grad(values.sum(), leaf)
        return values.detach(), slopes

    return climbed


def log_odds_with_slopes(
    logits: Tensor, labels: Tensor, targets: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """:func:`error_log_odds` and its slopes: the softmax of the other classes, -1 at the label.

    In closed form: autograd takes three times as long for a hundred examples of ten classes.
    """
    label = labels[:, None]
    others = logits.detach().scatter(1, label, -torch.inf)
    logarithms = others.log_softmax(dim=1)
    total = others.amax(dim=1) - logarithms.amax(dim=1)  # log sum exp: their difference everywhere
    return total - _of(logits.detach(), labels), logarithms.exp_().scatter_(1, label, -1.0)


def choose_loss(name: LossName, classes: int) -> tuple[Loss, bool]:
    """The loss of this name for so many classes, and whether it wants a target.

    With too few classes for a ratio of logits the margin takes its place, and a warning says so.
    """
    if name == "ce":
        return log_odds_with_slopes, False
    if name == "margin":
        return with_slopes(_without_target(margin)), False
    if name == "dlr":
        return with_slopes(_without_target(dlr if _enough(name, classes, 3) else margin)), False
    if name == "targeted-dlr":
        return with_slopes(targeted_dlr if _enough(name, classes, 4) else targeted_margin), True
    raise InputError(
        f"expected a loss out of {', '.join(get_args(LossName))}, came {name!r}: choose one of them"
    )


def _enough(name: str, classes: int, needed: int) -> bool:
    if classes < needed:
        warnings.warn(
            f"the loss {name!r} needs at least {needed} classes and the model has {classes}: "
            "the margin of the logits is used in its place; pass loss='margin' to silence this",
            stacklevel=5,
        )
    return classes >= needed


def _without_target(
    loss: Callable[[Tensor, Tensor], Tensor],
) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    return lambda logits, labels, targets: loss(logits, labels)


def _of(logits: Tensor, classes: Tensor) -> Tensor:
    return logits.gather(1, classes[:, None])[:, 0]


def _top(logits: Tensor, count: int) -> Tensor:
    if logits.shape[1] < count:
        raise InputError(
            f"expected at least {count} classes, came logits of shape {tuple(logits.shape)}: "
            "use the margin or the cross-entropy"
        )
    return logits.topk(count, dim=1).values


def _spread(difference: Tensor) -> Tensor:
    """Where the leading logits tie there is no unit: a tiny one keeps the sign."""
    return difference.clamp(min=torch.finfo(difference.dtype).eps)
