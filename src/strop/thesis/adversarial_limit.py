"""Where adversarial training of a linear model ends, solved exactly.

Below the maximal epsilon the loss under attack can come to zero, and gradient descent tends to

    argmin ||w||_2   with   y_i w.x_i - eps ||w||_* >= 1

(Li et al., "Implicit bias of gradient descent based adversarial training on separable data", 2020),
which withstands eps but is the maximally robust classifier only as eps reaches its margin. Above,
the saddle point (5.3) is attained.
"""

import torch

from strop.margins import SignedData, solve
from strop.margins.equivalences import saddle_point
from strop.margins.joint import weight_norm
from strop.support import StropError, require
from strop.thesis.calls import Record
from strop.thesis.linear_margins import ATTACKS, gaussian, measured, rounded


def limit_of_training(attack: str, count: int, dimension: int, seed: int, share: float) -> Record:
    """The classifier that training at ``share`` of the maximal epsilon tends to."""
    data, norm = gaussian(count, dimension, seed), ATTACKS[attack]
    best = solve(data, attack=norm, tol=1e-7).margin
    if share < 1:
        weights = _below(data, attack, share * best)
    else:
        weights, _ = saddle_point(data, attack=norm, eps=share * best)
    return {"seed": seed, "share": share, "best": rounded(best), **measured(data, weights)}


def _below(data: SignedData, attack: str, eps: float) -> torch.Tensor:
    cp = require("cvxpy", extra="solvers", purpose="the limit of adversarial training")
    w = cp.Variable(data.dimension)
    values = data.dense().double().numpy() @ w
    withstood = values - eps * weight_norm(cp, w, ATTACKS[attack], data.shape)
    problem = cp.Problem(cp.Minimize(cp.norm(w, 2)), [withstood >= 1])
    problem.solve(solver="CLARABEL")
    if w.value is None:
        raise StropError(f"the cone solver stopped without a solution: {problem.status}")
    return torch.as_tensor(w.value)
