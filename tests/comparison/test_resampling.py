"""The bootstrap interval by its properties."""

import re
from math import erfc, pi, sqrt, tan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fmnas.comparison.analysis import resampling
from fmnas.comparison.analysis.resampling import (
    COVERAGE,
    coverage_warning,
    mean_interval,
    resampling_weights,
    tail_probability,
)

VALUES = st.lists(st.floats(-100, 100), min_size=2, max_size=10).map(np.array)


@settings(max_examples=50, deadline=None)
@given(values=VALUES)
def test_it_contains_the_mean_and_is_within_the_values(values):
    low, high = mean_interval(values)
    assert values.min() <= low <= high <= values.max()
    slack = 1e-12 * np.abs(values).max()
    assert low - slack <= values.mean() <= high + slack


def test_the_same_values_give_the_same_interval():
    values = np.random.default_rng(0).normal(size=(6, 4))
    first, second = mean_interval(values), mean_interval(values.copy())
    assert [end.tobytes() for end in first] == [end.tobytes() for end in second]
    columns = [mean_interval(values[:, i]) for i in range(4)]
    np.testing.assert_allclose(np.array(first).T, np.array(columns), rtol=1e-12)


@pytest.mark.parametrize(
    ("repeats", "student"),
    [(2, tan(0.475 * pi)), (3, 0.95 / sqrt(2 * 0.025 * 0.975)), (5, 2.7764451051977987), (10, 2.2621571627409915)],
)
def test_the_percentiles_are_expanded(repeats, student):
    """The tail of the normal distribution beyond sqrt(n / (n - 1)) t; for 1 and 2 degrees t has a closed form."""
    beyond = sqrt(repeats / (repeats - 1)) * student
    assert tail_probability(repeats) == pytest.approx(erfc(beyond / sqrt(2)) / 2, rel=1e-6)


def test_the_ends_are_the_percentiles_of_the_resampled_means():
    values = np.random.default_rng(5).normal(size=8)
    means = resampling_weights(8) @ values
    low, high = mean_interval(values)
    assert (means < low).mean() == pytest.approx(tail_probability(8), abs=1 / len(means))
    assert (means > high).mean() == pytest.approx(tail_probability(8), abs=1 / len(means))


def test_the_warning_agrees_with_the_table():
    rows = re.findall(r"^\| (\d+) \| \.\d+ \| \.\d+ \| (\.\d+) \|$", resampling.__doc__, flags=re.MULTILINE)
    assert {int(repeats): float(covered) for repeats, covered in rows} == COVERAGE
    assert [repeats for repeats in range(2, 30) if coverage_warning(repeats)] == [2, 3, 4, 5]
    assert "88%" in coverage_warning(4)
    assert coverage_warning(9, 1, 4) == coverage_warning(4)  # one repeat has no interval
    assert coverage_warning(1) == coverage_warning() == ""


def test_few_values():
    assert np.isnan(mean_interval(np.array([1.0]))).all()
    assert np.isnan(mean_interval(np.array([]))).all()
    assert mean_interval(np.array([1.0, 3.0])) == (1.0, 3.0)  # no resampling goes further
    assert mean_interval(np.array([0.1, 0.1, 0.1])) == (0.1, 0.1)
    low, high = mean_interval(np.array([[1.0, np.nan], [2.0, 1.0], [3.0, 1.0]]))
    assert np.isfinite([low, high]).tolist() == [[True, False], [True, False]], "one value of the second is missing"
