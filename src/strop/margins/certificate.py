"""The certificate: two numbers between which the best margin lies, computed in float64.

For signed data Z (rows y_i x_i), an attack norm ||.|| with dual ||.||_* and any mixture q of the
points (q >= 0, sum_i q_i = 1; with an intercept half of it in each class) weak duality says

    worst(w) / ||w||_*  <=  best margin  <=  ||Z^T q||,     worst(w) = min over mixtures of q'Zw.

Without slack worst(w) is the least signed value, after the best intercept. With slack xi every
mixture has q_i <= 1 / (xi n), and worst(w) is the mean of the worst share xi of the signed values.

Legend: n points, d features, c groups of points that carry a fixed share of the mixture.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from strop.geometry import Norm
from strop.margins.data import SignedData
from strop.support import InputError

__all__ = ["Certificate", "NotSeparableError", "best_intercept", "certify", "feasible_mixture"]


@dataclass(frozen=True, eq=False)
class Certificate:
    """The best margin lies in [lower, upper]: by the weights, and by the mixture.

    >>> Certificate(lower=0.99, upper=1.0, mixture=torch.ones(1)).gap
    0.010000000000000009
    """

    lower: float
    upper: float
    mixture: Tensor
    """(n,) q: Z^T q is a point of the convex hull of the signed data, short in the attack norm."""

    @property
    def gap(self) -> float:
        """(upper - lower) / upper: how much of the best margin is at most missing."""
        if self.upper <= 0:
            return 0.0
        return max(0.0, (self.upper - self.lower) / self.upper)


class NotSeparableError(InputError):
    """No hyperplane separates the classes; ``certificate`` proves it."""

    def __init__(self, certificate: Certificate, *, scale: float) -> None:
        self.certificate = certificate
        involved = int((certificate.mixture > 0).sum())
        super().__init__(
            f"expected data that a hyperplane separates, but a mixture of {involved} points of the "
            f"one class coincides with a mixture of the other up to {certificate.upper:.1e} "
            f"(points measure {scale:.1e}): no margin is above that. "
            "Allow slack (slack='auto' or a number), or add features"
        )


def certify(
    data: SignedData,
    weights: Tensor,
    mixture: Tensor,
    *,
    attack: Norm,
    slack: float = 0.0,
) -> Certificate:
    """Bounds on the best margin from any ``weights`` (d,) and any ``mixture`` (n,), in float64.

    Thesis lemma 1 (maximally robust = maximum margin = minimum norm) and its Lagrange dual. The
    mixture is made feasible first, so that whatever is passed, both numbers are true bounds.

    >>> from strop.geometry import Linf
    >>> from strop.margins.data import signed_data
    >>> data = signed_data(torch.eye(2), torch.ones(2))
    >>> bounds = certify(data, torch.ones(2), torch.ones(2), attack=Linf)
    >>> bounds.lower, bounds.upper
    (0.5, 0.5)
    """
    exact = weights.to(torch.float64)
    size = data.measure(attack.dual, exact)
    values = data.values(exact)
    q = feasible_mixture(data, mixture.to(torch.float64), slack=slack)
    lower = worst_value(data, values, slack=slack) / size if 0 < size < math.inf else 0.0
    # w = 0 reaches nothing, but costs nothing: no optimum is below zero.
    return Certificate(max(lower, 0.0), data.measure(attack, data.mix(q)), q)


def cap(data: SignedData, slack: float) -> float:
    """The largest share of a mixture that one point may have: 1 / (slack n)."""
    return math.inf if slack == 0 else 1 / (slack * len(data))


def worst_value(data: SignedData, values: Tensor, *, slack: float = 0.0) -> float:
    """min q . values over the feasible mixtures q: the part of the least values, group by group."""
    most = cap(data, slack)
    total = 0.0
    for members, share in data.groups():
        part = values[members]
        if most == math.inf:
            total += share * float(part.min())
        else:
            total += float(_fill(part.sort().values, share, most))
    return total


def best_intercept(data: SignedData, weights: Tensor, *, slack: float = 0.0) -> float:
    """argmax_b of the worst signed value of x -> w.x + b; zero without an intercept."""
    if not data.intercept:
        return 0.0
    values = data.values(weights.to(torch.float64))
    most = cap(data, slack)
    levels = []
    for members, share in data.groups():
        part = values[members].sort().values
        place = 0 if most == math.inf else min(math.ceil(share / most) - 1, len(part) - 1)
        levels.append(float(part[place]))
    positive, negative = levels
    return (negative - positive) / 2


def feasible_mixture(data: SignedData, mixture: Tensor, *, slack: float = 0.0) -> Tensor:
    """The nearest kind of feasible mixture: clipped, each group scaled to its share.

    Where scaling would break the cap of ``slack``, the group is projected instead.
    """
    most = cap(data, slack)
    q = mixture.clamp(min=0.0)
    for members, share in data.groups():
        part = q[members]
        total = float(part.sum())
        part = part * (share / total) if total > 0 else torch.full_like(part, share / len(part))
        if float(part.max()) > most:
            part = project_capped_simplex(part, total=share, most=most)
        q[members] = part
    return q


def project_capped_simplex(x: Tensor, *, total: float, most: float) -> Tensor:
    """argmin ||v - x||_2 over 0 <= v_k <= most, sum_k v_k = total, for one vector.

    v_k = clip(x_k - level, 0, most). The sum falls in the level, linearly between the 2n places
    where a coordinate meets a bound: it is evaluated at all of them, and interpolated.

    >>> project_capped_simplex(torch.tensor([3.0, 1.0, 0.0]), total=1.0, most=0.6)
    tensor([0.6000, 0.4000, 0.0000])
    """
    ordered = x.sort().values
    above = torch.cat([ordered.flip(0).cumsum(0).flip(0), ordered.new_zeros(1)])
    levels = torch.cat([ordered - most, ordered]).sort().values

    def excess(level: Tensor) -> Tensor:
        """sum_k max(x_k - level, 0)."""
        place = torch.searchsorted(ordered, level)
        return above[place] - (len(x) - place) * level

    sums = excess(levels) - excess(levels + most)
    right = int((sums > total).sum().clamp(1, len(levels) - 1))
    rise, run = sums[right - 1] - sums[right], levels[right] - levels[right - 1]
    share = torch.where(rise > 0, (sums[right - 1] - total) / rise.clamp(min=1e-300), 0.0)
    v = (x - (levels[right - 1] + share * run)).clamp(0.0, most)
    free = (v > 0) & (v < most)
    # What rounding has left goes to the coordinates that are at neither bound.
    if bool(free.any()):
        v[free] += (total - v.sum()) / free.sum()
    return v


def tail_mean(values: Tensor, share: float) -> float:
    """The mean of the worst ``share`` of the values, one of them in part.

    >>> round(tail_mean(torch.tensor([3.0, 1.0, 2.0, 9.0]), 0.375), 4)
    1.3333
    """
    return float(_fill(values.sort().values, 1.0, 1 / (share * len(values))))


def _fill(ordered: Tensor, share: float, most: float) -> Tensor:
    """sum of ``ordered`` values, each weighed ``most``, until the weights make up ``share``."""
    places = torch.arange(len(ordered), dtype=ordered.dtype, device=ordered.device)
    return (ordered * (share - places * most).clamp(0.0, most)).sum()
