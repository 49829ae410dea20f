"""A dense interior-point method for the margin game: a few dozen matrix products to any accuracy.

The game's dual is a cone program in the mixture q and the heads t of the blocks g = Z^T q,

    min t  (or sum_j t_j)   over   |g_j| <= t  (or t_j),   0 <= q <= cap,   P' q = shares,

whose own dual holds the weights w (|w_j| <= u_j, sum u_j = 1 or all u_j = 1), the levels e of the
groups, and a, c >= 0 with  Z w - P e = a - c.  Both sides are strictly feasible whatever the data,
so the method starts feasible, and data that cannot be separated end as an optimum near zero.

All the work is in S = diag + (Z R)(Z R)', one matrix product and one Cholesky factor of size n or
d, whichever is smaller, in each iteration: where general solvers keep sparse matrices, this runs at
the speed of dense ones, on a GPU too. Mehrotra's predictor and corrector, Nesterov-Todd scaling.

Legend: n points, m blocks, k entries of a block, p groups.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from strop.geometry import Norm
from strop.margins.certificate import cap
from strop.margins.cones import (
    Cone,
    Scaling,
    arrow_divide,
    arrow_product,
    inner,
    scaling,
    step_to_edge,
)
from strop.margins.coordinates import Blocks, as_blocks
from strop.margins.data import SignedData
from strop.margins.normal_equations import NormalEquations
from strop.margins.result import MarginResult, finish

__all__ = ["solve_interior"]

_ITERATIONS = 120
_TO_EDGE = 0.99
_PATIENCE = 8
# Points measure one here: a mixture this short is zero but for rounding.
_TOUCHING = 1e-11


def solve_interior(
    data: SignedData, *, attack: Norm, tol: float = 1e-6, slack: float = 0.0
) -> MarginResult:
    """The maximum-margin classifier by a dense interior-point method, in float64.

    argmax_{||w||_* <= 1, b}  worst_i y_i (w.x_i + b)      Thesis eq. (5.5); with slack appendix B.1

    Args:
        data: signed points; sparse ones are made dense.
        attack: l1, l2, linf, or Fourier of one of these.
        tol: the certified relative gap to stop at.
        slack: 0 <= xi < 1, see :mod:`strop.margins.slack`.

    >>> from strop.geometry import Linf
    >>> from strop.margins.data import signed_data
    >>> data = signed_data([[2.0, 0.0], [0.0, 1.0]], [1, 1])
    >>> result = solve_interior(data, attack=Linf)
    >>> round(result.margin, 5), [round(w, 4) for w in result.weights.tolist()]
    (0.66667, [0.3333, 0.6667])
    """
    rows = data.dense().to(torch.float64)
    unit = float(torch.linalg.vector_norm(rows, dim=1).max()) or 1.0
    blocks = as_blocks(rows / unit, data.shape, attack)
    solver = _Interior(data, blocks, cap(data, slack))
    # The certificate is computed anew at the end: rounding in here cannot pass for accuracy.
    iterations = solver.run(tol=tol / 2)
    weights, mixture = blocks.weights_of(solver.point.z.tail.neg()), solver.point.q
    return finish(
        data,
        weights,
        mixture,
        attack=attack,
        tol=tol,
        iterations=iterations,
        solver="interior",
        slack=slack,
    )


@dataclass(frozen=True, eq=False)
class _Point:
    """q (n,), s = (t, Z'q) and its dual z = (u, -w), a and c (n,) duals of the bounds, e (p,)."""

    q: Tensor
    s: Cone
    z: Cone
    a: Tensor
    c: Tensor
    e: Tensor


class _Interior:
    def __init__(self, data: SignedData, blocks: Blocks, most: float) -> None:
        self.entries, self.largest = blocks.entries, blocks.largest
        self.n, self.m, self.k = self.entries.shape
        self.most = most
        groups = list(data.groups())
        self.groups = torch.stack([members for members, _ in groups], 1).to(self.entries)
        self.shares = self.entries.new_tensor([share for _, share in groups])
        self.point = self._start()

    def values(self, tail: Tensor) -> Tensor:
        """Z w for block weights (m, k)."""
        return self.entries.reshape(self.n, -1) @ tail.reshape(-1)

    def mix(self, q: Tensor) -> Tensor:
        """Z^T q in blocks (m, k)."""
        return (self.entries.reshape(self.n, -1).T @ q).reshape(self.m, self.k)

    def _start(self) -> _Point:
        q = self.groups @ (self.shares / self.groups.sum(0))
        g = self.mix(q)
        lengths = torch.linalg.vector_norm(g, dim=1)
        spread = float(lengths.max()) or 1.0
        heads = spread * 2 if self.largest else 0
        s = Cone(lengths * 0 + heads if self.largest else lengths + spread, g)
        u = torch.full((self.m,), 1 / self.m if self.largest else 1.0).to(q)
        z = Cone(u, torch.zeros_like(g))
        # a - c = -e at w = 0, both positive.
        depth = float(inner(s, z)) + spread * 1e-3
        if self.most == math.inf:
            a, c = torch.full_like(q, depth), torch.zeros_like(q)
        else:
            a, c = torch.full_like(q, 2 * depth), torch.full_like(q, depth)
        return _Point(q, s, z, a, c, torch.full_like(self.shares, -depth))

    def gap(self) -> tuple[float, float]:
        """The certified relative gap and the upper bound, in these coordinates."""
        p = self.point
        lengths = torch.linalg.vector_norm(p.s.tail, dim=1)
        upper = float(lengths.max() if self.largest else lengths.sum())
        weights = torch.linalg.vector_norm(p.z.tail, dim=1)
        size = float(weights.sum() if self.largest else weights.max())
        # With bounds c: e . shares - most sum c is a true lower bound for feasible duals.
        levels = self.values(p.z.tail.neg())
        if self.most == math.inf:
            worst = sum(
                float(share) * float(levels[members > 0].min())
                for members, share in zip(self.groups.T, self.shares, strict=True)
            )
        else:
            worst = float(p.e @ self.shares) - self.most * float(p.c.sum())
        lower = worst / size if size > 0 else 0.0
        return ((upper - lower) / upper if upper > 0 else 0.0), upper

    def run(self, *, tol: float) -> int:
        best, best_merit, since = self.point, math.inf, 0
        for iteration in range(_ITERATIONS):  # noqa: B007 (its last value is the count)
            gap, upper = self.gap()
            # Until the weights separate anything, only the upper bound tells of progress.
            merit = gap if gap < 1 else 1 + upper
            if merit < best_merit:
                best, best_merit, since = self.point, merit, 0
            else:
                since += 1
            if gap <= tol or upper <= _TOUCHING or since > _PATIENCE or not self._step():
                break
        self.point = best
        return iteration

    def _step(self) -> bool:
        """One predictor and corrector; False when rounding allows no further progress."""
        p = self.point
        bounded = self.most < math.inf
        room = self.most - p.q if bounded else torch.ones_like(p.q)
        nt, scaled = scaling(p.s, p.z)
        diagonal = p.a / p.q + p.c / room
        system = _System(self, nt, diagonal)
        degree = self.n * (2 if bounded else 1) + self.m
        mu = (p.q @ p.a + room @ p.c + inner(p.s, p.z)) / degree

        def direction(target: Tensor | float, corrector: _Point | None) -> _Point:
            ra, rc = target - p.q * p.a, target - room * p.c
            d = Cone(
                target - arrow_product(scaled, scaled).head, -arrow_product(scaled, scaled).tail
            )
            if corrector is not None:
                ra = ra - corrector.q * corrector.a
                rc = rc + corrector.q * corrector.c
                d = d - arrow_product(nt.inverse(corrector.s), nt.apply(corrector.z))
            if not bounded:
                rc = torch.zeros_like(rc)
            return system.solve(p, ra / p.q, rc / room, nt.inverse(arrow_divide(scaled, d)), room)

        affine = direction(0.0, None)
        primal, dual = self._steps(affine, room)
        new = self._moved(affine, primal, dual)
        left = self.most - new.q if bounded else room
        reached = (new.q @ new.a + left @ new.c + inner(new.s, new.z)) / degree
        centring = float((reached / mu).clamp(0, 1)) ** 3
        full = direction(centring * mu, affine)
        primal, dual = (min(1.0, _TO_EDGE * step) for step in self._steps(full, room))
        moved = self._moved(full, primal, dual)
        if not _finite(moved) or max(primal, dual) < 1e-8:
            return False
        self.point = self._restored(moved)
        return True

    def _restored(self, p: _Point) -> _Point:
        """The same point with  a = Z w - P e + c  again, where rounding has eaten at it."""
        a = p.c - self.values(p.z.tail) - self.groups @ p.e
        return replace(p, a=torch.where(a > 0.1 * p.a, a, p.a))

    def _steps(self, d: _Point, room: Tensor) -> tuple[float, float]:
        p = self.point
        primal = min(_ratio(p.q, d.q), step_to_edge(p.s, d.s))
        dual = min(_ratio(p.a, d.a), step_to_edge(p.z, d.z))
        if self.most < math.inf:
            primal, dual = min(primal, _ratio(room, -d.q)), min(dual, _ratio(p.c, d.c))
        return min(primal, 1.0), min(dual, 1.0)

    def _moved(self, d: _Point, primal: float, dual: float) -> _Point:
        p = self.point
        return _Point(
            p.q + primal * d.q,
            p.s + d.s.times(primal),
            p.z + d.z.times(dual),
            p.a + dual * d.a,
            p.c + dual * d.c,
            p.e + dual * d.e,
        )


class _System:
    """Newton's equations of one iterate, reduced to [D F; F' -I] and a border of p + 1 columns."""

    def __init__(self, game: _Interior, nt: Scaling, diagonal: Tensor) -> None:
        self.game, p = game, game.point
        self.a, self.b = nt.inverse_square()
        self.factor = nt.tail_factor(without_head=not game.largest)
        scaled = self.factor.times(game.entries).reshape(game.n, -1)
        self.normal = NormalEquations(diagonal, scaled)
        self.dual_residual = p.c - p.a - game.values(p.z.tail) - game.groups @ p.e
        right, h = game.groups, scaled.new_zeros(scaled.shape[1], game.groups.shape[1])
        if game.largest:
            bend = self.factor.divide(self.b).reshape(-1, 1)
            self.column = scaled @ bend
            right = torch.cat([right, torch.zeros_like(self.column)], 1)
            h = torch.cat([h, -bend], 1)
        self.solved, self.tails = self.normal.solve(right, h)
        rows = torch.cat([game.groups, self.column], 1) if game.largest else game.groups
        self.rows = rows
        self.small = rows.T @ self.solved
        if game.largest:
            self.small[-1, -1] += self.a.sum()

    def solve(self, p: _Point, ra: Tensor, rc: Tensor, q: Cone, room: Tensor) -> _Point:
        """The direction for complementarity residuals ra / q, rc / room and W^-1 (scaled \\ d)."""
        game = self.game
        equality = game.shares - game.groups.T @ p.q
        wanted = q.head + p.z.head - (0 if game.largest else 1)
        if game.largest:
            tail = q.tail
            equality = torch.cat([equality, wanted.sum()[None] - 1])
        else:
            tail = q.tail - self.b * (wanted / self.a)[:, None]
        right = ra - rc - self.dual_residual
        h = self.factor.divide(tail).reshape(-1, 1)
        first, tails = self.normal.solve(right[:, None], h)
        multipliers = torch.linalg.solve(self.small, equality - self.rows.T @ first[:, 0])
        dq = first[:, 0] + self.solved @ multipliers
        dw = self.factor.times((tails[:, 0] + self.tails @ multipliers).reshape(game.m, game.k))
        dg = game.mix(dq)
        along = (self.b * dg).sum(1)
        if game.largest:
            dt, de = multipliers[-1].expand(game.m), multipliers[:-1]
            du = q.head - self.a * dt - along
        else:
            dt, de = (wanted - along) / self.a, multipliers
            du = 1 - p.z.head
        da = ra - p.a / p.q * dq
        dc = rc + p.c / room * dq
        return _Point(dq, Cone(dt, dg), Cone(du, -dw), da, dc, de)


def _ratio(x: Tensor, direction: Tensor) -> float:
    """The largest step along ``direction`` that keeps x >= 0."""
    falling = direction < 0
    steps = torch.where(falling, -x / torch.where(falling, direction, 1.0), torch.inf)
    return float(steps.min())


def _finite(p: _Point) -> bool:
    parts = (p.q, p.s.head, p.s.tail, p.z.head, p.z.tail, p.a, p.e)
    return all(bool(part.isfinite().all()) for part in parts)
