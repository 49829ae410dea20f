"""The minimum-norm problem through general solvers: HiGHS (linear programs), CVXPY with Clarabel.

    min_{w,b} ||w||_*    subject to    y_i (w.x_i + b) >= 1        Thesis eq. (5.6)

These are the peers of the solvers here, an independent check of them, and the way for norms that
they do not know. The multipliers of the constraints, scaled to sum one, are the mixture of the
certificate.

Legend: n points, d features, m blocks, k entries of a block.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from strop.geometry import Fourier, Lp, Norm
from strop.margins.certificate import cap
from strop.margins.coordinates import as_blocks
from strop.margins.data import SignedData
from strop.margins.result import MarginResult, finish
from strop.support import InputError, StropError, require

__all__ = ["solve_min_norm"]

Array = NDArray[np.float64]


def solve_min_norm(
    data: SignedData,
    *,
    attack: Norm,
    tol: float = 1e-6,
    slack: float = 0.0,
    engine: Literal["highs", "clarabel", "scs"] = "clarabel",
) -> MarginResult:
    """The minimum-norm classifier by a general solver, certified like every other.

    Args:
        data: signed points.
        attack: for "highs" l1 or linf; for the others any Lp, or Fourier with open frequencies.
        tol: the certified relative gap that counts as solved; the engine is asked for more.
        slack: 0 <= xi < 1; not for "highs".
        engine: who solves.

    >>> from strop.geometry import L1
    >>> from strop.margins.data import signed_data
    >>> data = signed_data([[2.0, 0.0], [0.0, 1.0]], [1, 1])
    >>> round(solve_min_norm(data, attack=L1, engine="highs").margin, 5)
    1.0
    """
    if engine == "highs":
        if slack > 0:
            raise InputError("expected no slack for the engine 'highs': use solver='exact'")
        weights, mixture, iterations = _highs(data, attack)
    elif engine in ("clarabel", "scs"):
        weights, mixture, iterations = _cvxpy(data, attack, tol, slack, engine)
    else:
        raise InputError(f"expected the engine highs, clarabel or scs, came {engine!r}")
    return finish(
        data,
        weights,
        mixture,
        attack=attack,
        tol=tol,
        iterations=iterations,
        solver=engine,
        slack=slack,
    )


def _highs(data: SignedData, attack: Norm) -> tuple[Tensor, Tensor, int]:
    optimize = require("scipy.optimize", extra="solvers", purpose="solver='highs'")
    sparse = require("scipy.sparse", extra="solvers", purpose="solver='highs'")
    if not isinstance(attack, Lp) or attack.p not in (1, math.inf):
        raise InputError(
            f"expected the attack l1 or linf for 'highs', which solves linear programs, came "
            f"{attack!r}: use solver='exact' or 'clarabel'"
        )
    rows, signs = _numpy(data)
    n, d = rows.shape
    free = [signs[:, None]] if data.intercept else []
    if attack.p == math.inf:  # w = u - v, u and v >= 0
        matrix = np.concatenate([rows, -rows, *free], axis=1)
        cost = np.concatenate([np.ones(2 * d), np.zeros(len(free))])
        bounds = [(0, None)] * (2 * d) + [(None, None)] * len(free)
        limits: Any = -matrix
        right = -np.ones(n)
    else:  # w free, -t <= w <= t
        body = sparse.csr_matrix(np.concatenate([-rows, np.zeros((n, 1)), *[-f for f in free]], 1))
        identity, ones = sparse.identity(d), np.ones((d, 1))
        pad = [np.zeros((d, 1))] * len(free)
        limits = sparse.vstack(
            [body, sparse.hstack([identity, -ones, *pad]), sparse.hstack([-identity, -ones, *pad])]
        ).tocsr()
        right = np.concatenate([-np.ones(n), np.zeros(2 * d)])
        cost = np.concatenate([np.zeros(d), [1.0], np.zeros(len(free))])
        bounds = [(None, None)] * d + [(0, None)] + [(None, None)] * len(free)
    found = optimize.linprog(cost, A_ub=limits, b_ub=right, bounds=bounds, method="highs-ipm")
    if found.x is None:
        raise StropError(f"HiGHS found no classifier ({found.message}): use solver='exact'")
    weights = found.x[:d] - found.x[d : 2 * d] if attack.p == math.inf else found.x[:d]
    mixture = -np.asarray(found.ineqlin.marginals[:n])
    return _tensor(weights, data), _tensor(mixture, data), int(found.nit)


def _cvxpy(
    data: SignedData, attack: Norm, tol: float, slack: float, engine: str
) -> tuple[Tensor, Tensor, int]:
    cp = require("cvxpy", extra="solvers", purpose=f"solver={engine!r}")
    _, signs = _numpy(data)
    blocks = None
    if isinstance(attack, Fourier):  # in real variables of the half spectrum, not complex ones
        blocks = as_blocks(data.dense().double(), data.shape, attack)
        count, k = blocks.entries.shape[1:]
        rows = blocks.entries.reshape(len(data), -1).cpu().numpy()
        w = cp.Variable(rows.shape[1])
        lengths = cp.norm(cp.reshape(w, (count, k), order="C"), 2, axis=1)
        size = cp.sum(lengths) if blocks.largest else cp.max(lengths)
    elif isinstance(attack, Lp):
        rows, _ = _numpy(data)
        w = cp.Variable(rows.shape[1])
        size = (
            cp.norm(w, attack.dual.p)
            if attack.p in (1, 2, math.inf)
            else cp.pnorm(w, attack.dual.p)
        )
    else:
        raise InputError(f"expected an Lp or a Fourier norm, came {attack!r}: use solver='pdhg'")
    values = rows @ w
    if data.intercept:
        values = values + cp.multiply(signs, cp.Variable())
    if slack == 0:
        limits = [values >= 1]
        problem = cp.Problem(cp.Minimize(size), limits)
    else:
        level, short = cp.Variable(), cp.Variable(len(data), nonneg=True)
        limits = [values + short >= level]
        goal = cp.Maximize(level - cap(data, slack) * cp.sum(short))
        problem = cp.Problem(goal, [*limits, size <= 1])
    accuracy = (
        {"eps_abs": tol / 10, "eps_rel": tol / 10, "max_iters": 1_000_000}
        if engine == "scs"
        else {"tol_gap_abs": 1e-10, "tol_gap_rel": 1e-10, "tol_feas": 1e-10}
    )
    problem.solve(solver=engine.upper(), **accuracy)
    if w.value is None:
        raise StropError(
            f"{engine} found no classifier (it says {problem.status}): use solver='exact', which "
            "shows the certificate if the data are not separable"
        )
    weights = _tensor(w.value, data)
    if blocks is not None:
        weights = blocks.weights_of(weights.reshape(blocks.entries.shape[1:]))
    iterations = int(problem.solver_stats.num_iters or 0)
    return weights, _tensor(limits[0].dual_value, data).reshape(-1), iterations


def _numpy(data: SignedData) -> tuple[Array, Array]:
    return data.dense().double().cpu().numpy(), data.signs.double().cpu().numpy()


def _tensor(values: Any, data: SignedData) -> Tensor:
    return torch.as_tensor(np.array(values, dtype=np.float64), device=data.rows.device)
