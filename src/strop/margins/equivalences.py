"""Lemma 1 as code: three problems solved independently, one answer; and the limit of large eps.

1. maximally robust:  argmax eps such that no ||delta|| <= eps changes a label        eq. (5.4)
2. maximum margin:    argmax_{||w||_* <= 1} min_i y_i (w.x_i + b)                     eq. (5.5)
3. minimum norm:      argmin ||w||_*  with  y_i (w.x_i + b) >= 1                      eq. (5.6)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from strop.geometry import Norm
from strop.margins.data import SignedData
from strop.margins.joint import weight_norm
from strop.margins.min_norm import solve_min_norm
from strop.margins.risk import Loss
from strop.margins.solve import solve
from strop.support import InputError, require

__all__ = [
    "Equivalence",
    "compare_formulations",
    "constant_limit",
    "robust_by_bisection",
    "saddle_point",
    "slack_by_bisection",
    "withstands",
]


@dataclass(frozen=True)
class Equivalence:
    """The maximal eps by each formulation, and the largest relative difference."""

    maximally_robust: float
    maximum_margin: float
    minimum_norm: float

    @property
    def difference(self) -> float:
        found = (self.maximally_robust, self.maximum_margin, self.minimum_norm)
        return (max(found) - min(found)) / max(found)


def compare_formulations(data: SignedData, *, attack: Norm, tol: float = 1e-6) -> Equivalence:
    """Solve the three problems of lemma 1, each by its own program.

    Maximal robustness by bisection over eps with the attack carried out on every point; maximum
    margin by the interior-point method; minimum norm by CVXPY and Clarabel.

    >>> from strop.geometry import Linf
    >>> from strop.margins.data import signed_data
    >>> data = signed_data([[2.0, 0.0], [0.0, 1.0]], [1, 1])
    >>> compare_formulations(data, attack=Linf).difference < 1e-4
    True
    """
    margin = solve(data, attack=attack, tol=tol)
    norm = solve_min_norm(data, attack=attack, tol=tol)
    robust = robust_by_bisection(data, attack=attack, tol=tol)
    return Equivalence(robust, margin.margin, norm.margin)


def robust_by_bisection(data: SignedData, *, attack: Norm, tol: float = 1e-6) -> float:
    """The largest eps at which some classifier withstands every attack, by asking at each eps.

    At an eps the question is a convex one: is min_i y_i (w.x_i + b) - eps ||w||_* above zero for
    some w of ||w||_* <= 1? It is put to a cone solver; the classifier it answers with is then
    attacked, point by point, with the steepest perturbation of that size.
    """
    cp = require("cvxpy", extra="solvers", purpose="the maximally robust problem by bisection")
    rows = data.dense().double().cpu().numpy()
    w, b, eps = cp.Variable(rows.shape[1]), cp.Variable(), cp.Parameter(nonneg=True)
    values = rows @ w
    if data.intercept:
        values = values + cp.multiply(data.signs.double().cpu().numpy(), b)
    size = weight_norm(cp, w, attack, data.shape)
    problem = cp.Problem(cp.Maximize(cp.min(values) - eps * size), [size <= 1])
    low, high = 0.0, data.scale(attack)
    while high - low > tol * high:
        eps.value = (low + high) / 2
        problem.solve(solver="CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
        offset = float(b.value) if data.intercept and b.value is not None else 0.0
        found = None if w.value is None else torch.as_tensor(w.value)
        if found is not None and withstands(data, found, offset, attack=attack, eps=eps.value):
            low = eps.value
        else:
            high = eps.value
    return low


def withstands(
    data: SignedData, weights: Tensor, intercept: float, *, attack: Norm, eps: float
) -> bool:
    """Whether no perturbation of size ``eps`` changes a label: the worst one is carried out."""
    worst = attack.steepest(weights.reshape(1, *data.shape)).reshape(-1)
    signs = data.signs.to(weights)
    # y (w.(x - y eps v) + b), with y x the rows: the perturbed row is y x - eps v.
    attacked = (data.dense().to(weights) - eps * worst) @ weights + signs * intercept
    return bool((attacked > 0).all())


def constant_limit(positives: int, negatives: int, *, loss: Loss = "exponential") -> float:
    """p* = argmin_p n_- zeta(-p) + n_+ zeta(p): what adversarial training tends to for large eps.

    Exponential loss: log(n_+ / n_-) / 2; logistic: log(n_+ / n_-). Thesis section 5.2.

    >>> round(constant_limit(30, 10, loss="logistic"), 4)
    1.0986
    """
    if positives < 1 or negatives < 1:
        raise InputError(f"expected points of both classes, came {positives} and {negatives}")
    odds = math.log(positives / negatives)
    if loss == "exponential":
        return odds / 2
    if loss == "logistic":
        return odds
    raise InputError(f"expected the loss 'exponential' or 'logistic', came {loss!r}")


def saddle_point(
    data: SignedData, *, attack: Norm, eps: float, loss: Loss | Literal["hinge"] = "exponential"
) -> tuple[Tensor, float]:
    """argmin_{w,b} mean_i zeta(y_i (w.x_i + b) - eps ||w||_*), eq. (5.3), by a cone solver."""
    cp = require("cvxpy", extra="solvers", purpose="the saddle-point problem")
    rows = data.dense().double().cpu().numpy()
    signs = data.signs.double().cpu().numpy()
    w, b = cp.Variable(rows.shape[1]), cp.Variable()
    shortfall = eps * weight_norm(cp, w, attack, data.shape) - rows @ w
    if data.intercept:
        shortfall = shortfall - cp.multiply(signs, b)
    if loss == "exponential":
        risk = cp.sum(cp.exp(shortfall))
    elif loss == "logistic":
        risk = cp.sum(cp.logistic(shortfall))
    elif loss == "hinge":
        risk = cp.sum(cp.pos(1 + shortfall))
    else:
        raise InputError(f"expected the loss exponential, logistic or hinge, came {loss!r}")
    cp.Problem(cp.Minimize(risk / len(signs))).solve(solver="CLARABEL")
    offset = float(b.value) if data.intercept and b.value is not None else 0.0
    return torch.as_tensor(w.value), offset


def slack_by_bisection(data: SignedData, *, attack: Norm, slack: float, tol: float = 1e-5) -> float:
    """max eps such that some (w, b) has mean_i [1 - y_i (w.x_i + b) + eps ||w||_*]_+ <= slack.

    Thesis appendix B.1, as it stands there: at an eps the least loss is a convex problem, and it
    rises with eps, so eps is bisected. :func:`strop.margins.solve` with ``slack`` solves one
    problem in its place, with a certificate.

    >>> from strop.geometry import L2
    >>> from strop.margins.data import signed_data
    >>> data = signed_data([[1.0], [1.0], [1.0], [-1.0]], [1, 1, 1, 1])
    >>> round(slack_by_bisection(data, attack=L2, slack=0.75), 3)
    0.333
    """
    signs = data.signs.double()
    low, high = 0.0, data.scale(attack)
    while high - low > tol * high:
        eps = (low + high) / 2
        w, b = saddle_point(data, attack=attack, eps=eps, loss="hinge")
        values = data.values(w.to(torch.float64)) + signs * b
        size = data.measure(attack.dual, w.double())
        if float((1 - values + eps * size).clamp(min=0).mean()) <= slack:
            low = eps
        else:
            high = eps
    return low
