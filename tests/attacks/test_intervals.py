"""Intervals against their definition and by simulation."""

import numpy as np
import pytest

from strop.attacks.intervals import Accuracy, binomial_interval, quantile_interval
from strop.support import InputError


@pytest.mark.parametrize(
    ("right", "count"), [(0, 1), (1, 1), (0, 50), (3, 50), (50, 50), (412, 1000), (9999, 10000)]
)
def test_binomial_intervals_are_those_of_clopper_and_pearson(right: int, count: int) -> None:
    beta = pytest.importorskip("scipy.stats").beta
    low, high = binomial_interval(right, count)
    assert low == pytest.approx(0 if right == 0 else beta.ppf(0.025, right, count - right + 1))
    assert high == pytest.approx(1 if right == count else beta.ppf(0.975, right + 1, count - right))


def test_intervals_of_quantiles_hold_the_quantile_as_often_as_they_say() -> None:
    draws = np.random.default_rng(0)
    held = 0
    for _ in range(200):
        values = np.sort(draws.exponential(size=200))
        low, high = quantile_interval(values.tolist(), count=200, share=0.05)
        held += low <= -np.log(1 - 0.05) <= high
    assert held >= 0.93 * 200
    assert quantile_interval([1.0], count=10, share=0.01)[0] == 0.0
    assert quantile_interval([], count=10, share=0.5) == (np.inf, np.inf)


def test_no_examples_say_nothing() -> None:
    with pytest.raises(InputError, match="at least one example"):
        _ = Accuracy(0, 0).interval
