"""Several classes at once: the joint margin.

    max eps  over  W, b  with  (w_y - w_k).x + b_y - b_k >= eps   for every point and every k != y,
                               ||w_k - w_l||_* <= 1               for every pair of classes.

No perturbation shorter than eps then changes the largest of the scores, on any training point. For
two classes it is the margin. The certificate: a mixture q of the (point, wrong class) pairs, and a
flow f_kl between the classes that carries what the mixture piles up on each (the q x of its own
points less those whose wrong class it is), bounds eps by sum_{k<l} ||f_kl||. With offsets the
mixture must also balance on every class, which it does to the accuracy of the cone solver.

Legend: n points, d features, c classes, pairs k < l.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from strop.geometry import Fourier, Lp, Norm
from strop.margins.coordinates import as_blocks
from strop.support import InputError, StropError, require

__all__ = ["JointResult", "joint_margin", "weight_norm"]

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class JointResult:
    """Scores W x + b, the joint margin they reach, and a proven bound on any."""

    weights: Tensor
    intercepts: Tensor
    margin: float
    upper: float
    iterations: int

    @property
    def gap(self) -> float:
        return max(0.0, (self.upper - self.margin) / self.upper) if self.upper > 0 else 0.0


def joint_margin(
    points: Tensor, classes: Tensor, *, attack: Norm, intercept: bool = True
) -> JointResult:
    """The joint maximum-margin classifier by a cone program (extra ``solvers``).

    Args:
        points: (n, …).
        classes: (n,) class numbers 0 … c - 1, each of which occurs.
        attack: the norm of the perturbations.
        intercept: whether each class has a free offset.

    >>> from strop.geometry import L2
    >>> points = torch.tensor([[1.0, 0.0], [-1.0, 0.0]])
    >>> round(joint_margin(points, torch.tensor([0, 1]), attack=L2).margin, 5)
    1.0
    """
    cp = require("cvxpy", extra="solvers", purpose="multi_class='joint'")
    flat = points.double().reshape(len(points), -1).cpu().numpy()
    labels = classes.cpu().numpy()
    count = int(labels.max()) + 1
    if count < 2 or len(np.unique(labels)) != count:
        raise InputError(f"expected classes 0 … {count - 1}, two or more, each with a point")
    pairs = [(k, m) for k in range(count) for m in range(k + 1, count)]
    w = cp.Variable((count, flat.shape[1]))
    b = cp.Variable(count)
    eps = cp.Variable()
    scores = flat @ w.T + (np.ones((len(flat), 1)) @ cp.reshape(b, (1, count), order="C"))
    rows = {
        (y, k): scores[labels == y, y] - scores[labels == y, k] >= eps
        for y in range(count)
        for k in range(count)
        if k != y
    }
    difference = {pair: cp.Variable(flat.shape[1]) for pair in pairs}
    links = {(k, m): difference[k, m] == w[k] - w[m] for k, m in pairs}
    limits = [
        weight_norm(cp, difference[pair], attack, tuple(points.shape[1:])) <= 1 for pair in pairs
    ]
    fixed = [] if intercept else [b == 0]
    gauge = [cp.sum(w, axis=0) == 0]  # only differences count
    problem = cp.Problem(
        cp.Maximize(eps), [*rows.values(), *links.values(), *limits, *fixed, *gauge]
    )
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    if w.value is None:
        raise StropError(f"the cone solver stopped without a solution: {problem.status}")
    weights, intercepts = np.asarray(w.value), np.asarray(b.value)
    mixture = {key: np.clip(np.asarray(row.dual_value), 0, None) for key, row in rows.items()}
    flows = {pair: np.asarray(link.dual_value) for pair, link in links.items()}
    lower = _lower(flat, labels, weights, intercepts, attack, points)
    upper = _upper(flat, labels, mixture, flows, attack, points, intercept=intercept)
    return JointResult(
        torch.as_tensor(weights),
        torch.as_tensor(intercepts),
        max(lower, 0.0),
        upper,
        int(problem.solver_stats.num_iters or 0),
    )


def weight_norm(cp: Any, weights: Any, attack: Norm, shape: tuple[int, ...]) -> Any:
    """The dual of the attack norm of a CVXPY expression for flattened weights."""
    if isinstance(attack, Lp):
        return cp.pnorm(weights, attack.dual.p)
    if isinstance(attack, Fourier):
        identity = torch.eye(int(np.prod(shape)), dtype=torch.float64)
        # <w, x> = <block weights, block entries>: the dual's blocks measure the weights.
        blocks = as_blocks(identity, shape, attack.dual)
        d, m, k = blocks.entries.shape
        mapped = cp.reshape(blocks.entries.reshape(d, -1).numpy().T @ weights, (m, k), order="C")
        lengths = cp.norm(mapped, 2, axis=1)
        return cp.max(lengths) if blocks.largest else cp.sum(lengths)
    raise InputError(f"expected an Lp or a Fourier norm for the joint margin, came {attack!r}")


def _lower(
    flat: Array, labels: NDArray[Any], weights: Array, offsets: Array, attack: Norm, points: Tensor
) -> float:
    scores = flat @ weights.T + offsets
    own = np.take_along_axis(scores, labels[:, None], axis=1)
    rivals = np.where(np.arange(len(weights)) == labels[:, None], -np.inf, scores)
    largest = max(
        _measure(attack.dual, weights[k] - weights[m], points)
        for k in range(len(weights))
        for m in range(k)
    )
    return float((own[:, 0] - rivals.max(axis=1)).min()) / largest if largest > 0 else 0.0


def _upper(
    flat: Array,
    labels: Array,
    mixture: dict[tuple[int, int], Array],
    flows: dict[tuple[int, int], Array],
    attack: Norm,
    points: Tensor,
    *,
    intercept: bool,
) -> float:
    """sum_{k<l} ||f_kl||, the flow mended so that it carries the mixture exactly."""
    count = int(labels.max()) + 1
    mixture = _balanced(mixture, count) if intercept else mixture
    total = sum(float(q.sum()) for q in mixture.values())
    piled = np.zeros((count, flat.shape[1]))
    for (y, k), q in mixture.items():
        moved = (q / total) @ flat[labels == y]
        piled[y] += moved
        piled[k] -= moved
    sign = _sign_of_flow(piled, flows, total)
    carried = {pair: sign * f / total for pair, f in flows.items()}
    for (k, m), f in carried.items():
        piled[k] -= f
        piled[m] += f
    for k in range(count - 1):  # what rounding has left goes through the last class
        carried[k, count - 1] = carried[k, count - 1] + piled[k]
    return sum(_measure(attack, f, points) for f in carried.values())


def _balanced(mixture: dict[tuple[int, int], Array], count: int) -> dict[tuple[int, int], Array]:
    """Masses between classes made symmetric: then no offset can gain anything."""
    result = {}
    for (y, k), q in mixture.items():
        here, back = float(q.sum()), float(mixture[k, y].sum())
        if count == 2:
            result[y, k] = q * ((here + back) / 2 / here) if here > 0 else q
        else:
            result[y, k] = q
    return result


def _sign_of_flow(piled: Array, flows: dict[tuple[int, int], Array], total: float) -> float:
    """Solvers differ in the sign of an equality's multiplier; the right one carries the pile."""
    carried = np.zeros_like(piled)
    for (k, m), f in flows.items():
        carried[k] += f / total
        carried[m] -= f / total
    return 1.0 if float((carried * piled).sum()) >= 0 else -1.0


def _measure(norm: Norm, vector: Array, points: Tensor) -> float:
    return float(norm(torch.as_tensor(vector).reshape(1, *points.shape[1:])))
