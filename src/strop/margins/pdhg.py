"""Restarted primal-dual steps for the margin game: only products with Z, so any size and device.

    max_{||w||_* <= 1}  min_{q in mixtures}   q' Z w

The primal-dual hybrid gradient of Chambolle and Pock (2011), with the averages, restarts and primal
weights of Applegate et al. (PDLP, 2021); the projections are those of :mod:`strop.geometry`, so
every norm there has its margin here.

Legend: n points, d features.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from strop.geometry import Norm, project_simplex
from strop.margins.certificate import cap, project_capped_simplex, worst_value
from strop.margins.data import SignedData
from strop.margins.result import TOUCHING, MarginResult, finish

__all__ = ["solve_pdhg"]

_CHECK = 40
_POWER_STEPS = 30
_RESTART_ENOUGH, _RESTART_SURE = 0.8, 0.2


def solve_pdhg(
    data: SignedData,
    *,
    attack: Norm,
    tol: float = 1e-6,
    slack: float = 0.0,
    iterations: int = 200_000,
) -> MarginResult:
    """The maximum-margin classifier by restarted primal-dual steps, in the precision of the data.

    Args:
        data: signed points, dense or sparse, on any device. In float32 gaps below about 1e-5 are
            out of reach.
        attack: any norm.
        tol: the certified relative gap to stop at.
        slack: 0 <= xi < 1.
        iterations: to stop at the latest.

    >>> from strop.geometry import Linf
    >>> from strop.margins.data import signed_data
    >>> data = signed_data([[2.0, 0.0], [0.0, 1.0]], [1, 1])
    >>> round(solve_pdhg(data, attack=Linf, tol=1e-8).margin, 5)
    0.66667
    """
    game = _Game(data, attack, cap(data, slack), slack)
    best, done = game.run(tol=tol, iterations=iterations)
    return finish(
        data,
        best.w,
        best.q,
        attack=attack,
        tol=tol,
        iterations=done,
        solver="pdhg",
        slack=slack,
    )


@dataclass(frozen=True, eq=False)
class _Pair:
    """Weights and mixture with their images: v = Z w, g = Z^T q."""

    w: Tensor
    q: Tensor
    v: Tensor
    g: Tensor

    def mean(self, other: _Pair, share: float) -> _Pair:
        pairs = zip(
            (self.w, self.q, self.v, self.g), (other.w, other.q, other.v, other.g), strict=True
        )
        return _Pair(*(torch.lerp(a, b, share) for a, b in pairs))


class _Game:
    def __init__(self, data: SignedData, attack: Norm, most: float, slack: float) -> None:
        self.data, self.attack, self.most, self.slack = data, attack, most, slack
        self.weight_norm = attack.dual
        self.length = _largest_singular_value(data)
        self.touching = TOUCHING * data.scale(attack)

    def project_weights(self, w: Tensor) -> Tensor:
        return self.weight_norm.project(w.reshape(1, *self.data.shape), 1.0).reshape(-1)

    def project_mixture(self, q: Tensor) -> Tensor:
        result = torch.empty_like(q)
        for members, share in self.data.groups():
            part = q[members]
            result[members] = (
                project_simplex(part[None], share)[0]
                if self.most == math.inf
                else project_capped_simplex(part, total=share, most=self.most)
            )
        return result

    def pair(self, w: Tensor, q: Tensor) -> _Pair:
        return _Pair(w, q, self.data.values(w), self.data.mix(q))

    def bounds(self, pair: _Pair) -> tuple[float, float]:
        """Lower and upper bound; in the working precision, exact ones come at the end."""
        size = self.data.measure(self.weight_norm, pair.w)
        lower = worst_value(self.data, pair.v, slack=self.slack) / size if size > 0 else 0.0
        return lower, self.data.measure(self.attack, pair.g)

    def run(self, *, tol: float, iterations: int) -> tuple[_Pair, int]:
        rows = self.data.rows
        w = torch.zeros(self.data.dimension, dtype=rows.dtype, device=rows.device)
        q = self.project_mixture(torch.zeros(len(self.data), dtype=rows.dtype, device=rows.device))
        now = self.pair(w, q)
        start = average = best = now
        w = self.project_weights(now.g / self.length)
        # The balance of the two step sizes: how far weights travel over how far mixtures do.
        omega = float(q.norm() / w.norm().clamp(min=torch.finfo(w.dtype).tiny))
        best_lower, best_upper = -math.inf, math.inf
        since, at_restart, at_last = 0, math.inf, math.inf
        done = 0
        while done < iterations:
            for _ in range(_CHECK):
                now = self.step(now, omega)
                since += 1
                average = average.mean(now, 1 / since) if since > 1 else now
            done += _CHECK
            chosen, gap = now, math.inf
            for candidate in (now, average):
                lower, upper = self.bounds(candidate)
                if lower > best_lower:
                    best_lower, best = lower, _Pair(candidate.w, best.q, candidate.v, best.g)
                if upper < best_upper:
                    best_upper, best = upper, _Pair(best.w, candidate.q, best.v, candidate.g)
                if upper - lower < gap:
                    chosen, gap = candidate, upper - lower
            if best_upper - best_lower <= 0.5 * tol * best_upper or best_upper <= self.touching:
                break
            falling = gap <= _RESTART_ENOUGH * at_restart and gap > at_last
            if gap <= _RESTART_SURE * at_restart or falling or since >= max(_CHECK, 0.36 * done):
                omega = _rebalanced(omega, start, chosen)
                start = now = average = chosen
                since, at_restart, at_last = 0, gap, math.inf
            else:
                at_last = gap
        return best, done

    def step(self, now: _Pair, omega: float) -> _Pair:
        tau, sigma = 0.99 / (omega * self.length), 0.99 * omega / self.length
        w = self.project_weights(now.w + tau * now.g)
        v = self.data.values(w)
        q = self.project_mixture(now.q - sigma * (2 * v - now.v))
        return _Pair(w, q, v, self.data.mix(q))


def _rebalanced(omega: float, start: _Pair, end: _Pair) -> float:
    moved_w, moved_q = float((end.w - start.w).norm()), float((end.q - start.q).norm())
    if moved_w <= 0 or moved_q <= 0:
        return omega
    return math.exp(0.5 * math.log(moved_q / moved_w) + 0.5 * math.log(omega))


def _largest_singular_value(data: SignedData) -> float:
    """||Z||_2 by the power method, with a little to spare."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(len(data), generator=generator, dtype=torch.float64).to(data.rows)
    size = 1.0
    for _ in range(_POWER_STEPS):
        x = data.values(data.mix(x / x.norm()))
        size = float(x.norm())
        if size == 0:
            return 1.0
    return 1.02 * math.sqrt(size)
