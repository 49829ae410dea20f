"""Several classes at once: the joint margin.

    max eps  over  W, b  with  (w_y - w_k).x + b_y - b_k >= eps   for every point and every k != y,
                               ||w_k - w_l||_* <= 1               for every pair of classes.

No perturbation shorter than eps then changes the largest of the scores, on any training point. For
two classes it is the margin. The certificate: a mixture q of the (point, wrong class) pairs, and a
flow f_kl between the classes that carries what the mixture piles up on each (the q x of its own
points less those whose wrong class it is), bounds eps by sum_{k<l} ||f_kl||. With offsets the
mixture must also balance on every class. Slack xi is that of :mod:`strop.margins.slack`, the value
of a point being its lead over the best rival: no point then has more of the mixture than 1/(xi n).

Legend: n points, d features, c classes, pairs k < l.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from strop.geometry import Fourier, Lp, Norm
from strop.margins.certificate import Certificate, tail_mean
from strop.margins.coordinates import as_blocks
from strop.support import InputError, StropError, require

__all__ = ["JointResult", "joint_margin", "largest_joint_slack", "least_joint_slack", "weight_norm"]

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class JointResult:
    """Scores W x + b, the joint margin they reach, and a proven bound on any."""

    weights: Tensor
    intercepts: Tensor
    margin: float
    upper: float
    mixture: Tensor
    """(n, c) how much of the bound each point carries against each wrong class."""
    iterations: int
    slack: float = 0.0

    @property
    def certificate(self) -> Certificate:
        return Certificate(self.margin, self.upper, self.mixture.sum(1))

    @property
    def gap(self) -> float:
        return self.certificate.gap


def joint_margin(
    points: Tensor, classes: Tensor, *, attack: Norm, intercept: bool = True, slack: float = 0.0
) -> JointResult:
    """The joint maximum-margin classifier by a cone program (extra ``solvers``).

    Args:
        points: (n, …).
        classes: (n,) class numbers 0 … c - 1, each of which occurs.
        attack: the norm of the perturbations.
        intercept: whether each class has a free offset.
        slack: the mean hinge loss under attack that is allowed, below :func:`largest_joint_slack`.

    >>> from strop.geometry import L2
    >>> points = torch.tensor([[1.0, 0.0], [-1.0, 0.0]])
    >>> round(joint_margin(points, torch.tensor([0, 1]), attack=L2).margin, 5)
    1.0
    """
    cp = require("cvxpy", extra="solvers", purpose="multi_class='joint'")
    flat, labels, count = _arrays(points, classes)
    most = largest_joint_slack(classes)
    if not 0 <= slack < most:
        raise InputError(f"expected a slack of at least 0 and below {most:.4g}, came {slack}")
    w, b, leads = _leads(cp, flat, labels, count, intercept)
    level, short = cp.Variable(), cp.Variable(len(flat), nonneg=True)
    rows = {
        (y, k): lead + (short[labels == y] if slack else 0) >= level
        for (y, k), lead in leads.items()
    }
    pairs = list(itertools.combinations(range(count), 2))
    difference = {pair: cp.Variable(flat.shape[1]) for pair in pairs}
    links = {(k, m): difference[k, m] == w[k] - w[m] for k, m in pairs}
    shape = tuple(points.shape[1:])
    limits = [weight_norm(cp, difference[pair], attack, shape) <= 1 for pair in pairs]
    gauge = [cp.sum(w, axis=0) == 0]  # only differences count
    goal = level - cp.sum(short) / (slack * len(flat)) if slack else level
    problem = cp.Problem(cp.Maximize(goal), [*rows.values(), *links.values(), *limits, *gauge])
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    if w.value is None:
        raise StropError(f"the cone solver stopped without a solution: {problem.status}")
    weights, intercepts = np.asarray(w.value), np.asarray(b.value)
    mixture = np.zeros((len(flat), count))
    for (y, k), row in rows.items():
        mixture[labels == y, k] = np.asarray(row.dual_value)
    mixture = _feasible(mixture, labels, balanced=intercept, slack=slack)
    flows = {pair: np.asarray(link.dual_value) for pair, link in links.items()}
    lower = _lower(flat, labels, weights, intercepts, attack, points, slack)
    return JointResult(
        torch.as_tensor(weights),
        torch.as_tensor(intercepts),
        max(lower, 0.0),
        _upper(flat, labels, mixture, flows, attack, points),
        torch.as_tensor(mixture),
        int(problem.solver_stats.num_iters or 0),
        slack,
    )


def least_joint_slack(points: Tensor, classes: Tensor, *, intercept: bool = True) -> float:
    """min_{W,b} mean_i [1 - lead_i]_+: below it no joint margin is above zero; a linear program.

    >>> points, classes = torch.tensor([[0.0], [1.0], [2.0]]), torch.tensor([0, 1, 0])
    >>> round(least_joint_slack(points, classes), 4)
    0.6667
    """
    cp = require("cvxpy", extra="solvers", purpose="multi_class='joint' with slack")
    flat, labels, count = _arrays(points, classes)
    _, _, leads = _leads(cp, flat, labels, count, intercept)
    short = cp.Variable(len(flat), nonneg=True)
    limits = [lead + short[labels == y] >= 1 for (y, _), lead in leads.items()]
    return float(cp.Problem(cp.Minimize(cp.sum(short) / len(flat)), limits).solve(solver="HIGHS"))


def largest_joint_slack(classes: Tensor) -> float:
    """c times the share of the rarest class, or 1: up to here an even mixture keeps to the cap.

    >>> largest_joint_slack(torch.tensor([0, 0, 0, 1]))
    0.5
    """
    sizes = torch.bincount(classes.cpu())
    return min(1.0, len(sizes) * int(sizes.min()) / len(classes))


def _arrays(points: Tensor, classes: Tensor) -> tuple[Array, Array, int]:
    labels = classes.cpu().numpy()
    count = int(labels.max()) + 1
    if count < 2 or len(np.unique(labels)) != count:
        raise InputError(f"expected classes 0 … {count - 1}, two or more, each with a point")
    return points.double().reshape(len(points), -1).cpu().numpy(), labels, count


def _leads(
    cp: Any, flat: Array, labels: Array, count: int, intercept: bool
) -> tuple[Any, Any, dict[tuple[int, int], Any]]:
    """W, b, and for classes y != k the lead of y over k on the points of y."""
    w = cp.Variable((count, flat.shape[1]))
    b = cp.Variable(count) if intercept else cp.Constant(np.zeros(count))
    own = {y: flat[labels == y] for y in range(count)}
    leads = {
        (y, k): own[y] @ (w[y] - w[k]) + (b[y] - b[k])
        for y, k in itertools.permutations(range(count), 2)
    }
    return w, b, leads


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
    flat: Array,
    labels: Array,
    weights: Array,
    offsets: Array,
    attack: Norm,
    points: Tensor,
    slack: float,
) -> float:
    scores = flat @ weights.T + offsets
    own = np.take_along_axis(scores, labels[:, None], axis=1)
    rivals = np.where(np.arange(len(weights)) == labels[:, None], -np.inf, scores)
    leads = torch.as_tensor(own[:, 0] - rivals.max(axis=1))
    largest = max(
        _measure(attack.dual, weights[k] - weights[m], points)
        for k, m in itertools.combinations(range(len(weights)), 2)
    )
    worst = float(leads.min()) if slack == 0 else tail_mean(leads, slack)
    return worst / largest if largest > 0 else 0.0


def _feasible(mixture: Array, labels: Array, *, balanced: bool, slack: float) -> Array:
    """The mixture made one: q >= 0 of sum 1, balanced on every class, none above 1 / (xi n)."""
    q = np.clip(mixture, 0, None)
    q = q / q.sum() if q.sum() > 0 else _even(labels, q.shape[1])
    last = q.shape[1] - 1
    for k in range(last if balanced else 0):
        surplus = q[labels == k].sum() - q[:, k].sum()
        if surplus > 0:  # more against the class, on points of the last
            q[labels == last, k] += surplus / (labels == last).sum()
        else:
            q[labels == k, last] -= surplus / (labels == k).sum()
    q /= q.sum()
    if slack > 0:
        cap, even = 1 / (slack * len(labels)), _even(labels, q.shape[1])
        over, room = q.sum(1) - cap, q.sum(1) - even.sum(1)
        share = max([0.0, *(over[over > 0] / room[over > 0])])
        q = (1 - share) * q + share * even
    return q


def _even(labels: Array, count: int) -> Array:
    """Every ordered pair of classes alike, every point of a class alike: balanced."""
    sizes = np.bincount(labels, minlength=count)
    even = np.repeat(1 / (count * (count - 1) * sizes[labels])[:, None], count, axis=1)
    even[np.arange(len(labels)), labels] = 0
    return np.asarray(even)


def _upper(
    flat: Array,
    labels: Array,
    mixture: Array,
    flows: dict[tuple[int, int], Array],
    attack: Norm,
    points: Tensor,
) -> float:
    """sum_{k<l} ||f_kl||, the flow mended so that it carries the mixture exactly."""
    count = mixture.shape[1]
    piled = -mixture.T @ flat
    for y in range(count):
        piled[y] += mixture[labels == y].sum(1) @ flat[labels == y]
    sign = _sign_of_flow(piled, flows)
    carried = {pair: sign * f for pair, f in flows.items()}
    for (k, m), f in carried.items():
        piled[k] -= f
        piled[m] += f
    for k in range(count - 1):  # what rounding has left goes through the last class
        carried[k, count - 1] = carried[k, count - 1] + piled[k]
    return sum(_measure(attack, f, points) for f in carried.values())


def _sign_of_flow(piled: Array, flows: dict[tuple[int, int], Array]) -> float:
    """Solvers differ in the sign of an equality's multiplier; the right one carries the pile."""
    carried = np.zeros_like(piled)
    for (k, m), f in flows.items():
        carried[k] += f
        carried[m] -= f
    return 1.0 if float((carried * piled).sum()) >= 0 else -1.0


def _measure(norm: Norm, vector: Array, points: Tensor) -> float:
    return float(norm(torch.as_tensor(vector).reshape(1, *points.shape[1:])))
