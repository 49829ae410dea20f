"""Explicit regularisation with lambda continued to zero: proximal gradient steps, plain or fast.

    w(lambda) = argmin_w  mean_i zeta(y_i w.x_i) + lambda ||w||        Thesis definition 4

whose direction tends to the maximum margin of that norm as lambda -> 0 (theorem 3, corollary 3).
Each lambda starts where the last one ended, so that no grid of lambdas is solved from zero.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from strop.geometry import Norm
from strop.margins.data import SignedData
from strop.margins.path import MarginPath, Recorder
from strop.margins.result import MarginResult
from strop.margins.risk import Loss, log_risk, pull
from strop.support import InputError

__all__ = ["proximal_path"]

_GROW, _SHRINK = 1.25, 0.5
_SHRINKINGS = 40


def proximal_path(
    data: SignedData,
    *,
    norm: Norm,
    loss: Loss = "exponential",
    accelerated: bool = True,
    iterations: int = 10_000,
    lambda_ratio: float | None = None,
    stages: int = 40,
    reference: MarginResult | None = None,
) -> MarginPath:
    """Continuation of the regularised problem from the lambda where w = 0 down to almost zero.

    Args:
        data: signed points without an intercept.
        norm: of the weights; the recorded margin is against the attack of its dual.
        loss: "exponential" or "logistic".
        accelerated: FISTA with restarts, or ISTA.
        iterations: in all, shared evenly between the stages.
        lambda_ratio: the last lambda over the first; None takes a decade for every 60 iterations,
            about as fast as the steps can follow.
        stages: how many lambdas, evenly in the logarithm.
        reference: the exact solution, for the gap and the direction error.

    >>> from strop.geometry import L1
    >>> from strop.margins.data import signed_data
    >>> data = signed_data([[2.0, 0.0], [0.0, 1.0]], [1, 1])
    >>> proximal_path(data, norm=L1, iterations=1000).gap < 0.05
    True
    """
    if lambda_ratio is None:
        lambda_ratio = 10.0 ** -min(max(iterations / 60, 3), 250)
    if not 0 < lambda_ratio < 1 or stages < 1:
        raise InputError(
            f"expected 0 < lambda_ratio < 1 and stages >= 1, came {lambda_ratio} and {stages}"
        )
    recorder = Recorder(data, norm.dual, iterations, reference)
    rows = data.rows
    w = torch.zeros(data.dimension, dtype=rows.dtype, device=rows.device)
    first = data.measure(norm.dual, _gradient(data, w, loss))
    problem = _Regularised(data, norm, loss)
    step, done = 1.0, 0
    for stage in range(stages):
        weight = first * lambda_ratio ** ((stage + 1) / stages)
        here = (stage + 1) * iterations // stages - done
        previous, look, pace = w, w, 1.0
        for _ in range(here):
            new, step = problem.step(look, weight, step * _GROW)
            if accelerated:
                # Restart where the momentum points uphill (O'Donoghue and Candes 2015).
                if float((look - new) @ (new - previous)) > 0:
                    pace = 1.0
                faster = (1 + math.sqrt(1 + 4 * pace**2)) / 2
                look = new + (pace - 1) / faster * (new - previous)
                pace = faster
            else:
                look = new
            previous = w = new
            done += 1
            if recorder.due(done):
                values = data.values(w)
                recorder.take(done, w, pull(values, loss), float(log_risk(values, loss)))
    return recorder.path(f"{'FISTA' if accelerated else 'ISTA'} with {norm!r}", w)


class _Regularised:
    def __init__(self, data: SignedData, norm: Norm, loss: Loss) -> None:
        self.data, self.norm, self.loss = data, norm, loss

    def step(self, w: Tensor, weight: float, step: float) -> tuple[Tensor, float]:
        """One proximal step from ``w``, shortened until the quadratic model holds.

        Curvature is about as large as the risk, so steps grow as the risk falls.
        """
        values = self.data.values(w)
        now = float(log_risk(values, self.loss).exp())
        gradient = _gradient(self.data, w, self.loss)
        for _ in range(_SHRINKINGS):
            inner = (w - step * gradient).reshape(1, *self.data.shape)
            new = self.norm.prox(inner, step * weight).reshape(-1)
            moved = new - w
            model = now + float(gradient @ moved) + float(moved @ moved) / (2 * step)
            if float(log_risk(self.data.values(new), self.loss).exp()) <= model * (1 + 1e-12):
                break
            step *= _SHRINK
        return new, step


def _gradient(data: SignedData, w: Tensor, loss: Loss) -> Tensor:
    values = data.values(w)
    return -data.mix(pull(values, loss)) * log_risk(values, loss).exp()
