"""The thesis's methods as solvers: slow, certified like every other, and here to be studied."""

from __future__ import annotations

from typing import Literal

import torch

from strop.geometry import L2, Fourier, Linf, Norm
from strop.margins.convnet import train_convnet
from strop.margins.data import SignedData
from strop.margins.deep_linear import train_deep_linear
from strop.margins.proximal import proximal_path
from strop.margins.result import MarginResult, finish
from strop.margins.solve import solve
from strop.margins.steepest import adversarial_training, steepest_descent
from strop.support import InputError

__all__ = ["solve_by_study"]

Study = Literal["steepest", "proximal", "adversarial", "convnet", "deep-linear"]

_ITERATIONS = 10_000


def solve_by_study(
    data: SignedData,
    *,
    attack: Norm,
    method: Study,
    tol: float = 1e-6,
    slack: float = 0.0,
    iterations: int = _ITERATIONS,
) -> MarginResult:
    """The classifier that a method of the thesis ends with, certified.

    "steepest" is normalised steepest descent in the dual of the attack norm (for l2 with dual
    acceleration); "proximal" is FISTA with lambda continued to zero; "adversarial" is adversarial
    training at the maximal eps, which it is told; "convnet" (Fourier-linf) is gradient descent on a
    two-layer network with relative steps, "deep-linear" (l2) the same with line search.

    >>> from strop.margins.data import signed_data
    >>> data = signed_data([[2.0, 0.0], [0.0, 1.0]], [1, 1])
    >>> result = solve_by_study(data, attack=L2, method="steepest", tol=1e-3, iterations=500)
    >>> result.status.name
    'SOLVED'
    """
    if slack > 0:
        raise InputError(f"expected no slack for solver={method!r}: use solver='exact'")
    generator = torch.Generator().manual_seed(0)
    if method == "steepest":
        kind: Literal["accelerated", "normalised"] = "accelerated" if attack == L2 else "normalised"
        path = steepest_descent(data, norm=attack.dual, kind=kind, iterations=iterations)
    elif method == "proximal":
        path = proximal_path(data, norm=attack.dual, iterations=iterations)
    elif method == "adversarial":
        eps = solve(data, attack=attack).margin
        path = adversarial_training(data, attack=attack, eps=eps, iterations=iterations)
    elif method == "convnet":
        _expect(attack, Fourier(Linf, dims=1), method)
        path = train_convnet(data, method="relative", iterations=iterations, generator=generator)
    elif method == "deep-linear":
        _expect(attack, L2, method)
        path = train_deep_linear(data, iterations=iterations, generator=generator)
    else:
        raise InputError(f"expected a method of the thesis, came {method!r}")
    return finish(
        data,
        path.weights.reshape(-1),
        path.mixture,
        attack=attack,
        tol=tol,
        iterations=iterations,
        solver=method,
    )


def _expect(attack: Norm, wanted: Norm, method: str) -> None:
    if attack != wanted:
        raise InputError(
            f"expected the attack {wanted!r} for solver={method!r}, whose bias it is, came "
            f"{attack!r}"
        )
