"""The least mean hinge loss of a linear classifier, by an interior-point method of its own.

    min_{w,b}  mean_i [1 - y_i (w.x_i + b)]_+      =      max  sum_i q_i
                                                   over   0 <= q <= 1/n,   Z'q = 0   (and y'q = 0),

a linear program with one Newton system [D Z; Z' -rho] a step, that of the margin itself
(:mod:`strop.margins.normal_equations`). The weights are free and need not be unique: each step
stays near the last weights, a proximal term rho that moves no solution.

Legend: n points, d features; q (n,) mixture; a, c (n,) duals of its bounds: how far a value lies
beyond one, and how far it falls short.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from strop.margins.data import SignedData
from strop.margins.normal_equations import NormalEquations

__all__ = ["LeastHinge", "least_hinge"]

_ITERATIONS = 80
_TO_EDGE = 0.99
_PROXIMAL = 1e-6
_LEAST_ROOT = 1e-10


@dataclass(frozen=True, eq=False)
class LeastHinge:
    """A classifier whose mean hinge loss is ``value``; none has less than ``lower`` or so."""

    value: float
    lower: float
    """The dual's value, true but for the residual of its equations."""
    weights: Tensor
    intercept: float
    iterations: int


def least_hinge(data: SignedData, *, tol: float = 1e-6) -> LeastHinge:
    """argmin_{w,b} mean_i [1 - y_i (w.x_i + b)]_+ to a difference of ``tol`` of the loss.

    Args:
        data: signed points; sparse ones are made dense.
        tol: where the loss and its dual count as equal, relative, or absolute below a loss of tol.

    >>> from strop.margins.data import signed_data
    >>> data = signed_data([[1.0], [1.0], [1.0], [-1.0]], [1, 1, 1, 1])
    >>> round(least_hinge(data).value, 6)
    0.5
    """
    rows = data.dense().to(torch.float64)
    unit = float(torch.linalg.vector_norm(rows, dim=1).max()) or 1.0
    rows = rows / unit
    if data.intercept:
        rows = torch.cat([rows, data.signs.to(rows)[:, None]], 1)
    program = _Program(rows)
    iterations = program.run(tol=tol)
    return LeastHinge(
        value=program.upper,
        lower=min(program.lower, program.upper),
        weights=program.best[: data.dimension] / unit,
        intercept=float(program.best[-1]) if data.intercept else 0.0,
        iterations=iterations,
    )


class _Program:
    """In units where the mixture's bound is one: the dual's value is then the mean of q."""

    def __init__(self, rows: Tensor) -> None:
        self.rows = rows
        self.w = rows.new_zeros(rows.shape[1])
        self.q = torch.full_like(rows[:, 0], 0.5)
        self.a, self.c = torch.ones_like(self.q), torch.full_like(self.q, 2.0)
        self.best, self.upper, self.lower = self.w, 1.0, 0.0

    def run(self, *, tol: float) -> int:
        for iteration in range(_ITERATIONS):  # noqa: B007 (its last value is the count)
            upper = float((1 - self.rows @ self.w).clamp(min=0).mean())
            if upper < self.upper:
                self.best, self.upper = self.w, upper
            self.lower = float(self.q.mean())
            residual = float((self.rows.T @ self.q).abs().max()) / len(self.q)
            near = self.upper - self.lower <= tol * max(self.upper, tol)
            if (near and residual <= tol) or not self._step():
                break
        return iteration

    def _step(self) -> bool:
        q, room = self.q, 1 - self.q
        a, c = self.a, self.c
        dual = 1 - self.rows @ self.w + a - c
        balance = self.rows.T @ q
        # A proximal term in the units of the equations: small beside what a step moves.
        root = (_PROXIMAL * float((q * a + room * c).mean())) ** 0.5 + _LEAST_ROOT
        system = NormalEquations(a / q + c / room, self.rows / root)
        mu = (q @ a + room @ c) / (2 * len(q))

        def direction(target: Tensor, da_dq: Tensor, dc_dq: Tensor) -> tuple[Tensor, ...]:
            ra, rc = (target - da_dq) / q - a, (target + dc_dq) / room - c
            dq, tail = system.solve((dual + ra - rc)[:, None], -balance[:, None] / root)
            dq, dw = dq[:, 0], tail[:, 0] / root
            return dq, dw, ra - a / q * dq, rc + c / room * dq

        zero = torch.zeros_like(q)
        dq, _, da, dc = direction(mu * 0, zero, zero)
        primal, dual_step = _longest((q, dq), (room, -dq)), _longest((a, da), (c, dc))
        reached = (q + primal * dq) @ (a + dual_step * da)
        reached = reached + (room - primal * dq) @ (c + dual_step * dc)
        centring = (reached / (2 * len(q)) / mu).clamp(0, 1) ** 3
        dq, dw, da, dc = direction(centring * mu, dq * da, dq * dc)
        primal = _TO_EDGE * _longest((q, dq), (room, -dq))
        dual_step = _TO_EDGE * _longest((a, da), (c, dc))
        moved = (q + primal * dq, self.w + dual_step * dw, a + dual_step * da, c + dual_step * dc)
        if max(primal, dual_step) < 1e-8 or not all(bool(m.isfinite().all()) for m in moved):
            return False
        self.q, self.w, self.a, self.c = moved
        return True


def _longest(*pairs: tuple[Tensor, Tensor]) -> float:
    """The largest step of at most one that keeps x + step dx >= 0 for each pair."""
    step = 1.0
    for x, dx in pairs:
        falling = dx < 0
        if bool(falling.any()):
            step = min(step, float((-x[falling] / dx[falling]).min()))
    return step
