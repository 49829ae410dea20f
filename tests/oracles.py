"""Slow and obvious versions of the mathematics, for the fast code to agree with."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strop.geometry import Fourier, Lp, Norm

Array = NDArray[Any]


def measured(norm: Norm, shape: tuple[int, ...]) -> tuple[Array, Array, float]:
    """A norm of one example as ||  |A x| / radii ||_p : (A complex, radii, p), by the full DFT."""
    size = int(np.prod(shape))
    identity = np.eye(size).reshape(size, *shape)
    if isinstance(norm, Lp):
        return np.eye(size), np.ones(size), norm.p
    if isinstance(norm, Fourier):
        axes = tuple(range(-norm.dims, 0))
        matrix = np.fft.fftn(identity, axes=axes, norm="ortho").reshape(size, size).T
        radii = np.ones(shape) if norm.band is None else np.broadcast_to(norm.band.numpy(), shape)
        return matrix, radii.reshape(size), norm.norm.p
    raise TypeError(f"no oracle for {norm!r}: add how it measures")


def norm_value(norm: Norm, x: Array) -> float:
    """The norm of one example; coefficients below rounding do not count as out of band."""
    matrix, radii, p = measured(norm, x.shape)
    moduli = np.abs(matrix @ x.reshape(-1))
    if (moduli[radii == 0] > 1e-12).any():
        return np.inf
    inside = radii > 0
    return float(np.linalg.norm(moduli[inside] / radii[inside], p))


def nearest_point(
    norm: Norm, x: Array, radius: float, low: Array | None = None, high: Array | None = None
) -> Array:
    """argmin ||v - x||_2 over ||v|| <= radius and low <= v <= high, by a cone solver."""
    import cvxpy as cp

    matrix, radii, p = measured(norm, x.shape)
    v = cp.Variable(x.size)
    constraints = [] if low is None else [v >= low.reshape(-1), v <= high.reshape(-1)]
    if (radii == 0).any():
        shut = matrix[radii == 0]
        constraints += [shut.real @ v == 0, shut.imag @ v == 0]
    live = (radii > 0) & np.isfinite(radii)
    if live.any():
        rows = matrix[live] / radii[live, None]
        moduli = cp.norm(cp.vstack([rows.real @ v, rows.imag @ v]), 2, axis=0)
        constraints.append(cp.pnorm(moduli, p) <= radius)
    problem = cp.Problem(cp.Minimize(cp.sum_squares(v - x.reshape(-1))), constraints)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # how the solver writes the powers is its own affair
        problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    return np.asarray(v.value).reshape(x.shape)
