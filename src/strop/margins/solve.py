"""One door to the solvers."""

from __future__ import annotations

import math
from typing import Any, Literal, get_args

from strop.geometry import Fourier, Linf, Lp, Norm
from strop.margins.coordinates import has_blocks
from strop.margins.data import SignedData, signed_data
from strop.margins.gram import solve_gram
from strop.margins.interior import solve_interior
from strop.margins.pdhg import solve_pdhg
from strop.margins.result import MarginResult, Status
from strop.support import InputError

__all__ = ["Solver", "max_margin", "solve"]

Solver = Literal[
    "auto",
    "exact",
    "gram",
    "interior",
    "pdhg",
    "highs",
    "clarabel",
    "steepest",
    "proximal",
    "adversarial",
    "convnet",
    "deep-linear",
]

# A dense factor of n points costs n^3; beyond these sizes steps that only multiply are faster.
_DENSE_ENTRIES = 1e8
_DENSE_POINTS = 12_000
_GRAM_POINTS = 6000


def max_margin(
    points: Any,
    labels: Any,
    *,
    attack: Norm = Linf,
    intercept: bool = False,
    solver: Solver = "auto",
    tol: float = 1e-6,
    slack: float = 0.0,
) -> MarginResult:
    """The linear classifier that withstands the largest perturbations, with a certificate.

    argmax_{w,b} { eps : y_i (w.(x_i + delta) + b) > 0 for all i and all ||delta|| <= eps }

    Thesis definition 1 and lemma 1, eq. (5.4)-(5.6); with ``slack`` appendix B.1.

    Args:
        points: (n, …), tensor, array or sparse matrix.
        labels: (n,) of -1 and +1.
        attack: the norm of the perturbations.
        intercept: whether b is free, or zero.
        solver: "exact" takes "gram" (l2) or "interior" (l1, linf, Fourier); "pdhg" takes any norm,
            size and device; "highs" and "clarabel" are peers from the extra ``solvers``; "auto"
            chooses the fastest that reaches ``tol``. "steepest", "proximal", "adversarial",
            "convnet" and "deep-linear" are the thesis's methods, for study: see
            :mod:`strop.margins.study`.
        tol: the certified relative gap to reach.
        slack: 0 <= xi < 1, the mean hinge loss under attack that is allowed.

    >>> import torch
    >>> from strop.data import separable_gaussian
    >>> data = separable_gaussian(count=20, dimension=50, generator=torch.Generator())
    >>> result = max_margin(data.points, data.signs, attack=Linf)
    >>> result.status.name, result.gap <= 1e-6
    ('SOLVED', True)
    """
    data = signed_data(points, labels, intercept=intercept)
    return solve(data, attack=attack, solver=solver, tol=tol, slack=slack)


def solve(
    data: SignedData,
    *,
    attack: Norm,
    solver: Solver = "auto",
    tol: float = 1e-6,
    slack: float = 0.0,
) -> MarginResult:
    """:func:`max_margin` for signed data."""
    _check(data, solver, tol, slack)
    if solver == "auto":
        return _automatic(data, attack, tol, slack)
    if solver == "exact":
        solver = _exact_for(data, attack, slack)
    if solver == "gram":
        if not _euclidean(attack) or slack > 0:
            raise InputError(
                f"expected the l2 attack without slack for solver='gram', came {attack!r} with "
                f"slack {slack}: use solver='exact'"
            )
        return solve_gram(data, attack=attack, tol=tol)
    if solver == "interior":
        return solve_interior(data, attack=attack, tol=tol, slack=slack)
    if solver == "pdhg":
        return solve_pdhg(data, attack=attack, tol=tol, slack=slack)
    if solver in ("highs", "clarabel"):
        from strop.margins.min_norm import solve_min_norm

        return solve_min_norm(data, attack=attack, tol=tol, slack=slack, engine=solver)
    if solver in ("steepest", "proximal", "adversarial", "convnet", "deep-linear"):
        from strop.margins.study import solve_by_study

        return solve_by_study(data, attack=attack, tol=tol, slack=slack, method=solver)
    raise InputError(f"expected a solver of {get_args(Solver)}, came {solver!r}")


def _automatic(data: SignedData, attack: Norm, tol: float, slack: float) -> MarginResult:
    first: MarginResult | None = None
    if fits_densely(data) and has_blocks(attack):
        first = solve(
            data, attack=attack, solver=_exact_for(data, attack, slack), tol=tol, slack=slack
        )
        if first.status is not Status.STOPPED:
            return first
    steps = 200_000 if first is None else 4_000
    second = solve_pdhg(data, attack=attack, tol=tol, slack=slack, iterations=steps)
    if first is None or second.gap < first.gap:
        return second
    return first


def fits_densely(data: SignedData) -> bool:
    """Whether methods that factor a dense matrix of the points are the fast ones."""
    entries = _DENSE_ENTRIES * (10 if data.rows.is_cuda else 1)
    smaller = min(len(data), data.dimension)
    return len(data) * data.dimension <= entries and smaller <= _DENSE_POINTS


def _exact_for(data: SignedData, attack: Norm, slack: float) -> Solver:
    # With more points than features the Gram matrix is singular, its support long to find.
    few = len(data) <= min(_GRAM_POINTS, data.dimension)
    if _euclidean(attack) and slack == 0 and few:
        return "gram"
    if has_blocks(attack):
        return "interior"
    return "clarabel"


def _euclidean(attack: Norm) -> bool:
    if isinstance(attack, Fourier):
        return attack.norm.p == 2 and attack.band is None
    return isinstance(attack, Lp) and attack.p == 2


def _check(data: SignedData, solver: str, tol: float, slack: float) -> None:
    if solver not in get_args(Solver):
        raise InputError(f"expected a solver of {', '.join(get_args(Solver))}, came {solver!r}")
    if not 0 < tol < 1:
        raise InputError(f"expected a tolerance between 0 and 1, came {tol}: 1e-6 is usual")
    most = largest_slack(data)
    if not 0 <= slack < most or math.isnan(slack):
        raise InputError(
            f"expected a slack of at least 0 and below {most:.4g} (where a constant classifier "
            f"would do and no margin is the largest), came {slack}: allow less"
        )


def largest_slack(data: SignedData) -> float:
    """From here on w = 0 meets the slack: 1, or with an intercept twice the rarer class's share."""
    if not data.intercept:
        return 1.0
    rarer = min(int((data.signs > 0).sum()), int((data.signs < 0).sum()))
    return 2 * rarer / len(data)
