"""Steepest descent on the empirical risk: the thesis's optimisers, and their faster relatives.

    w <- w - step ||grad L||_* v,   v = argmax <grad L, v> over ||v|| <= 1       Thesis eq. (5.8)

with the l2 norm gradient descent, with linf sign gradient descent, with l1 coordinate descent. Its
direction tends to the maximum margin of that norm, hence to the maximally robust classifier
against the dual norm's attack (thesis theorem 1, corollary 1): the gap falls like 1 / log t with
steps of fixed size, 1 / t with normalised ones, 1 / t^2 with dual acceleration.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from strop.geometry import L2, Norm
from strop.margins.data import SignedData
from strop.margins.path import MarginPath, Recorder
from strop.margins.result import MarginResult
from strop.margins.risk import Loss, log_risk, pull
from strop.support import InputError

__all__ = ["Falling", "LineSearch", "adversarial_training", "steepest_descent"]

Kind = Literal["plain", "normalised", "accelerated"]

_HALVINGS = 20


@dataclass(frozen=True)
class LineSearch:
    """Armijo's rule from min(largest, 1 / (B^2 L(w))), B the largest dual norm of a point."""

    largest: float = 1000.0
    decrease: float = 0.5


@dataclass(frozen=True)
class Falling:
    """A step that falls linearly to zero over the run, and settles what long steps stir up."""

    first: float = 100.0


def steepest_descent(
    data: SignedData,
    *,
    norm: Norm,
    loss: Loss = "exponential",
    step: float | LineSearch | Falling = 1.0,
    kind: Kind = "plain",
    iterations: int = 10_000,
    reference: MarginResult | None = None,
    attack: Norm | None = None,
    eps: float = 0.0,
) -> MarginPath:
    """Minimise mean_i zeta(y_i w.x_i) by steepest descent in ``norm``, from w = 0.

    Args:
        data: signed points without an intercept.
        norm: L2 for gradient descent, Linf for sign descent, L1 for coordinate descent.
        loss: "exponential" (the theory's) or "logistic".
        step: times 1 / B^2, with B the largest dual norm of a point; falling; or a line search.
        kind: "plain"; "normalised", the step divided by the risk; "accelerated", the dual
            acceleration of Ji, Srebro and Telgarsky (2021), for L2.
        iterations: how many.
        reference: the exact solution, for the gap and the direction error.
        attack: whose margin to record; the dual of ``norm`` if not given.
        eps: train on the worst perturbations of this attack norm, see :func:`adversarial_training`.

    >>> from strop.margins.data import signed_data
    >>> data = signed_data([[2.0, 0.0], [0.0, 1.0]], [1, 1])
    >>> path = steepest_descent(data, norm=L2, kind="normalised", iterations=2000)
    >>> path.gap < 1e-2
    True
    """
    measured = norm.dual if attack is None else attack
    if kind not in ("plain", "normalised", "accelerated"):
        raise InputError(f"expected kind plain, normalised or accelerated, came {kind!r}")
    if kind == "accelerated" and norm != L2:
        raise InputError(f"expected norm=L2 for dual acceleration, came {norm!r}: use normalised")
    if isinstance(step, LineSearch) and kind != "plain":
        raise InputError(f"expected a number as step with kind={kind!r}, came a line search")
    descent = _Descent(data, norm, loss, measured, eps)
    recorder = Recorder(data, measured, iterations, reference)
    rows = data.rows
    w = torch.zeros(data.dimension, dtype=rows.dtype, device=rows.device)
    momentum = torch.zeros_like(w)
    values = descent.values(w)
    for iteration in range(1, iterations + 1):
        left = (iterations + 1 - iteration) / iterations
        now = step.first * left if isinstance(step, Falling) else step
        shares = pull(values, loss)
        if kind == "accelerated":
            ascent = descent.ascent(w, shares)
            share = (iteration - 1) / iteration
            momentum = share * (momentum + ascent)
            w = w + now / descent.bound**2 * (momentum + ascent)  # type: ignore[operator]
        else:
            direction = descent.direction(w, shares)
            size = descent.step_size(w, values, shares, direction, now, kind)
            w = w + size * direction
        values = descent.values(w)
        if recorder.due(iteration):
            recorder.take(iteration, w, pull(values, loss), float(log_risk(values, loss)))
    name = {"plain": "", "normalised": "normalised ", "accelerated": "accelerated "}[kind]
    return recorder.path(f"{name}steepest descent in {norm!r}", w)


def adversarial_training(
    data: SignedData,
    *,
    attack: Norm,
    eps: float,
    loss: Loss = "exponential",
    step: float | LineSearch | Falling = Falling(),  # noqa: B008 (frozen)
    kind: Kind = "normalised",
    iterations: int = 10_000,
    reference: MarginResult | None = None,
) -> MarginPath:
    """Gradient descent on mean_i max_{||delta|| <= eps} zeta(y_i w.(x_i + delta)).

    For linear models the inner maximum is zeta(y_i w.x_i - eps ||w||_*). Thesis eq. (5.3).

    Args:
        data, loss, step, kind, iterations, reference: as in :func:`steepest_descent`.
        attack: the norm of the perturbations.
        eps: their size; it finds the maximally robust classifier only if this is its eps.
    """
    path = steepest_descent(
        data,
        norm=L2,
        loss=loss,
        step=step,
        kind=kind,
        iterations=iterations,
        reference=reference,
        attack=attack,
        eps=eps,
    )
    return replace(path, method=f"adversarial training at eps={eps:.4g}")


class _Descent:
    """The risk of signed values less eps ||w||_*, its ascent directions and step sizes."""

    def __init__(self, data: SignedData, norm: Norm, loss: Loss, attack: Norm, eps: float) -> None:
        self.data, self.norm, self.loss, self.attack, self.eps = data, norm, loss, attack, eps
        self.bound = data.scale(norm.dual) or 1.0

    def values(self, w: Tensor) -> Tensor:
        values = self.data.values(w)
        if self.eps == 0:
            return values
        return values - self.eps * self.data.measure(self.attack.dual, w)

    def ascent(self, w: Tensor, shares: Tensor) -> Tensor:
        """-grad log L: the pull of the points, less that of the perturbations."""
        mixed = self.data.mix(shares)
        if self.eps == 0:
            return mixed
        worst = self.attack.steepest(w.reshape(1, *self.data.shape)).reshape(-1)
        return mixed - self.eps * float(shares.sum()) * worst

    def direction(self, w: Tensor, shares: Tensor) -> Tensor:
        """||g||_* times the steepest direction of g = -grad log L."""
        ascent = self.ascent(w, shares).reshape(1, *self.data.shape)
        return (self.norm.dual(ascent) * self.norm.steepest(ascent)).reshape(-1)

    def step_size(
        self,
        w: Tensor,
        values: Tensor,
        shares: Tensor,
        direction: Tensor,
        step: float | LineSearch,
        kind: Kind,
    ) -> float:
        """The factor of ``direction``, which is that of log L: times L it is that of L."""
        if kind == "normalised":
            assert not isinstance(step, LineSearch)
            return step / self.bound**2
        now = log_risk(values, self.loss)
        risk = float(now.exp())
        if not isinstance(step, LineSearch):
            return step / self.bound**2 * risk
        size = min(step.largest * risk, 1 / self.bound**2)
        along = self.data.values(direction)
        slope = float(shares @ along)
        if self.eps > 0:
            slope = float(self.ascent(w, shares) @ direction)
        for _ in range(_HALVINGS):
            moved = values + size * along if self.eps == 0 else self.values(w + size * direction)
            # Armijo for the risk itself: L(new) <= L (1 - decrease * size * slope).
            wanted = 1 - step.decrease * size * slope
            if wanted > 0 and float(log_risk(moved, self.loss) - now) <= math.log(wanted):
                break
            size /= 2
        return size
