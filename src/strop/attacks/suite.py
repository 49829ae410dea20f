"""Attacks as values, and the suites of them that an evaluation runs."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from strop.attacks.apgd import apgd
from strop.attacks.minimum_norm import minimum_norm
from strop.attacks.search import AttackResult
from strop.attacks.square import square

__all__ = ["Attack", "quick_suite", "standard_suite"]


@dataclass(frozen=True)
class Attack:
    """One attack of a suite.

    Args:
        name: in reports; it must tell attacks of other settings apart, for a run is resumed by it.
        run: called as ``run(model, x, y, norm=, eps=, bounds=, generator=)``, eps one for each
            example; gives an :class:`AttackResult`. What it claims is verified.
        smallest: whether it looks for the smallest perturbation, whatever eps. Such an attack ends
            at the boundary itself, where the precision of the model decides: it is always run in
            float32.
    """

    name: str
    run: Callable[..., AttackResult]
    smallest: bool = False


def standard_suite(
    *, steps: int = 100, restarts: int = 1, queries: int = 5000
) -> tuple[Attack, ...]:
    """APGD on the cross-entropy, APGD on the DLR loss towards each of nine targets, the
    minimum-norm attack, and the square attack, which asks for no gradient. 0 queries: without it.

    >>> [attack.name for attack in standard_suite(queries=0)]
    ['apgd-ce 100x1', 'apgd-targeted-dlr 100x1', 'minimum-norm 100']
    """
    gradients = (_apgd("ce", steps, restarts), _apgd("targeted-dlr", steps, restarts))
    blind = (_square(queries),) if queries else ()
    return (*gradients, _minimum(steps), *blind)


def quick_suite(*, steps: int = 20) -> tuple[Attack, ...]:
    """APGD on the cross-entropy and on the DLR loss, and the minimum-norm attack, with few steps:
    for looking around. The thesis measures figure 5.5 with the first two at 20 steps.

    >>> [attack.name for attack in quick_suite()]
    ['apgd-ce 20x1', 'apgd-dlr 20x1', 'minimum-norm 40']
    """
    return _apgd("ce", steps, 1), _apgd("dlr", steps, 1), _minimum(2 * steps)


def _apgd(loss: Any, steps: int, restarts: int) -> Attack:
    run = partial(apgd, loss=loss, steps=steps, restarts=restarts)
    return Attack(f"apgd-{loss} {steps}x{restarts}", run)


def _minimum(steps: int) -> Attack:
    def run(model: Any, x: Any, y: Any, *, norm: Any, bounds: Any, **_: Any) -> AttackResult:
        return minimum_norm(model, x, y, norm=norm, bounds=bounds, steps=steps)

    return Attack(f"minimum-norm {steps}", run, smallest=True)


def _square(queries: int) -> Attack:
    return Attack(f"square {queries}", partial(square, queries=queries))
