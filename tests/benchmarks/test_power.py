"""The power of the test: none without repeats, all with many; its level without a difference."""

import numpy as np
import power
import pytest

RESIDUALS = [np.random.default_rng(0).normal(size=400), np.random.default_rng(1).normal(size=400)]


def test_residuals_are_differences_by_repeat_without_their_mean() -> None:
    values = {"a": {0: 1.0, 1: 2.0, 2: 9.0}, "b": {1: 1.0, 0: 4.0}}
    assert power.find_residuals(values, "a")[0].tolist() == [-2.0, 2.0]


@pytest.mark.parametrize("values", [{"a": {0: 1.0, 1: 2.0}}, {"b": {0: 1.0}, "c": {0: 2.0}}, {"b": {0: 1.0, 1: 2.0}}])
def test_differences_that_do_not_vary_have_no_power(values: dict[str, dict[int, float]]) -> None:
    """Without the reference, of one repeat, without another optimizer."""
    with pytest.raises(SystemExit):
        power.find_residuals(values, "b")


@pytest.mark.parametrize(
    ("difference", "repeats", "expected"), [(0.0, 20, 0.02), (1.0, 5, 0.0), (1.0, 20, 0.96), (3.0, 20, 1.0)]
)
def test_power(difference: float, repeats: int, expected: float) -> None:
    """Two others: each test is at 0.025, which five repeats cannot reach. By a noncentral t, 20 repeats have 0.97."""
    share = power.measure_power(RESIDUALS, difference, repeats, np.random.default_rng(2), draws=400)
    assert share == pytest.approx(expected, abs=0.035)
