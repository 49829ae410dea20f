"""The least hinge loss against a general LP solver."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from strop.margins import signed_data
from strop.margins.data import SignedData
from strop.margins.hinge import least_hinge


def by_linear_program(data: SignedData) -> float:
    rows = data.rows.numpy()
    if data.intercept:
        rows = np.hstack([rows, data.signs.numpy()[:, None]])
    count, size = rows.shape
    found = linprog(
        np.r_[np.zeros(size), np.full(count, 1 / count)],
        A_ub=np.hstack([-rows, -np.eye(count)]),
        b_ub=-np.ones(count),
        bounds=[(None, None)] * size + [(0, None)] * count,
    )
    return float(found.fun)


def drawn(count: int, dimension: int, noise: float, intercept: bool, seed: int) -> SignedData:
    generator = np.random.default_rng(seed)
    points = generator.normal(size=(count, dimension))
    signs = np.where(points[:, 0] + noise * generator.normal(size=count) > 0, 1.0, -1.0)
    signs[:2] = 1, -1
    return signed_data(points, signs, intercept=intercept)


@settings(max_examples=40, deadline=None)
@given(
    count=st.integers(2, 60),
    dimension=st.integers(1, 30),
    noise=st.sampled_from([0.0, 0.3, 3.0]),
    intercept=st.booleans(),
    seed=st.integers(0, 10_000),
)
def test_least_hinge_is_the_linear_program_s_value(
    count: int, dimension: int, noise: float, intercept: bool, seed: int
) -> None:
    data = drawn(count, dimension, noise, intercept, seed)
    found = least_hinge(data)
    assert found.value == pytest.approx(by_linear_program(data), rel=1e-5, abs=1e-7)
    values = data.values(found.weights) + found.intercept * data.signs
    assert float((1 - values).clamp(min=0).mean()) == pytest.approx(found.value, abs=1e-9)


def test_repeated_and_empty_columns_and_points_of_any_scale_do_no_harm() -> None:
    data = drawn(50, 4, 3.0, True, seed=3)
    expected = by_linear_program(data)
    signs = data.signs
    points = data.rows * signs[:, None]
    for scale in (1e-6, 1.0, 1e6):
        wide = torch.cat([points * scale, points * scale, torch.zeros(50, 3)], 1)
        found = least_hinge(signed_data(wide, signs, intercept=True))
        assert found.value == pytest.approx(expected, rel=1e-5)


def test_contradictory_labels_with_more_features_than_points_are_found_out() -> None:
    points = torch.randn(10, 40, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    points[1] = points[0]
    signs = torch.tensor([1.0, -1.0] * 5, dtype=torch.float64)
    # Two of ten points are one point with both labels: a loss of one each at best.
    assert least_hinge(signed_data(points, signs)).value == pytest.approx(0.2, rel=1e-5)
