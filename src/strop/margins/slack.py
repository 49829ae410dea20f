"""Slack: the maximally robust classifier for data that no hyperplane separates.

The thesis defines it (appendix B.1) and leaves it, since the norm stands inside of the hinge:

    max eps   over   w, b   with   mean_i [1 - y_i (w.x_i + b) + eps ||w||_*]_+  <=  xi.

Divide by ||w||_*; write v for the unit weights, k for 1 / ||w||_*, m_i for y_i (v.x_i + b k):

    max eps   with   mean_i [k + eps - m_i]_+ <= xi k,    ||v||_* <= 1,    k >= 0,

jointly convex in (v, b, k, eps). With g = k + eps the best k is mean_i [g - m_i]_+ / xi, so that

    eps*(xi)  =  max_{||v||_* <= 1, b, g}  g - mean_i [g - m_i]_+ / xi,

the largest mean of the worst share xi of the signed values. It is one convex problem, no search
over eps, and its dual is the margin's own with the mixture capped: q_i <= 1 / (xi n). (So the
nu-SVM with nu = xi solves the thesis's problem, for any norm.) It is above zero as soon as xi
exceeds the least mean hinge loss there is, which :func:`least_slack` finds.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from strop.geometry import Norm
from strop.margins.certificate import cap
from strop.margins.coordinates import has_blocks
from strop.margins.data import SignedData
from strop.margins.hinge import least_hinge
from strop.margins.result import Status
from strop.margins.solve import Solver, fits_densely, largest_slack, solve

__all__ = ["AUTO_MULTIPLE", "LeastSlack", "automatic_slack", "hinge_at", "least_slack"]

AUTO_MULTIPLE = 1.5
"""``slack="auto"`` takes this multiple of the least feasible slack."""

_NEAR_ENOUGH = 0.005
_ROUNDS = 30
_BELOW_MOST = 0.999
# A summed loss this small is rounding: the data are separable.
_NOTHING = 1e-6


@dataclass(frozen=True)
class LeastSlack:
    """The least mean hinge loss of a linear classifier lies at most a little below ``value``."""

    value: float
    solves: int
    exact: bool
    """Whether the search ended, or was stopped."""


def least_slack(data: SignedData, *, attack: Norm, tol: float = 1e-5) -> LeastSlack:
    """inf { xi : eps*(xi) > 0 } = min_{w,b} mean_i [1 - y_i (w.x_i + b)]_+, from above.

    The same for every norm, and a linear program (:mod:`strop.margins.hinge`) where the points fit
    a dense matrix; ``attack`` steers the search where they do not.

    >>> from strop.geometry import L2
    >>> from strop.margins.data import signed_data
    >>> data = signed_data([[1.0], [1.0], [1.0], [-1.0]], [1, 1, 1, 1])
    >>> round(least_slack(data, attack=L2).value, 3)
    0.5
    """
    if not fits_densely(data):
        return _least_by_margins(data, attack=attack, tol=tol)
    found = least_hinge(data, tol=tol)
    value = 0.0 if found.value * len(data) < _NOTHING else found.value
    return LeastSlack(value, 1, found.value - found.lower <= _NEAR_ENOUGH * found.value)


def _least_by_margins(data: SignedData, *, attack: Norm, tol: float) -> LeastSlack:
    """Newton's method on eps* as a function of the cap 1 / (xi n), where it is convex and falls.

    Each new xi is the mean hinge loss of the classifier found at the last, scaled best. It falls
    until it stays within half a percent, or the margin vanishes.
    """
    xi = _BELOW_MOST * largest_slack(data)
    solver: Solver = "interior" if has_blocks(attack) else "pdhg"
    for solves in range(1, _ROUNDS + 1):
        # Near the end the margin vanishes and with it any relative gap: no second solver is tried.
        result = solve(data, attack=attack, solver=solver, tol=tol, slack=xi)
        if result.status is Status.NOT_SEPARABLE or result.margin <= 0:
            return LeastSlack(xi, solves, True)
        better = hinge_at(data, result.weights.double().reshape(-1), result.intercept, slack=xi)
        if better >= xi * (1 - _NEAR_ENOUGH):
            return LeastSlack(min(xi, better), solves, True)
        xi = better
        if xi * len(data) < _NOTHING:
            return LeastSlack(0.0, solves, True)
    return LeastSlack(xi, _ROUNDS, False)


def automatic_slack(data: SignedData, *, attack: Norm) -> float:
    """:data:`AUTO_MULTIPLE` times the least feasible slack, kept below what w = 0 meets."""
    most = largest_slack(data)
    # Where no weights do better than none, the least is the most.
    least = min(least_slack(data, attack=attack).value, _BELOW_MOST * most)
    return min(AUTO_MULTIPLE * least, (least + most) / 2)


def hinge_at(data: SignedData, weights: torch.Tensor, intercept: float, *, slack: float) -> float:
    """min over scales s of mean_i [1 - s y_i (w.x_i + b)]_+, at levels that ``slack`` allows."""
    values = data.values(weights.double()) + intercept * data.signs.double()
    ordered = values.sort().values
    place = min(len(ordered) - 1, int(1 / cap(data, slack)))
    candidates = ordered[: place + 1]
    candidates = candidates[candidates > 0]
    if len(candidates) == 0:
        return 1.0
    losses = [(float((level - values).clamp(min=0).mean()) / float(level)) for level in candidates]
    return min(losses)
