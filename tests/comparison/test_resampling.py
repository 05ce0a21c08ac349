"""The bootstrap interval by its properties."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import bootstrap

from fmnas.comparison.resampling import mean_interval

VALUES = st.lists(st.floats(-100, 100), min_size=2, max_size=10).map(np.array)


@settings(max_examples=50, deadline=None)
@given(values=VALUES)
def test_it_holds_the_mean_and_lies_among_the_values(values):
    low, high = mean_interval(values)
    assert values.min() <= low <= high <= values.max()
    slack = 1e-12 * np.abs(values).max()
    assert low - slack <= values.mean() <= high + slack


@settings(max_examples=30, deadline=None)
@given(values=VALUES, shift=st.floats(-10, 10), scale=st.floats(0.1, 10))
def test_it_moves_and_grows_with_the_values(values, shift, scale):
    expected = [scale * end + shift for end in mean_interval(values)]
    np.testing.assert_allclose(mean_interval(scale * values + shift), expected, rtol=1e-9, atol=1e-9)


def test_the_same_values_give_the_same_interval():
    values = np.random.default_rng(0).normal(size=(6, 4))
    first, second = mean_interval(values), mean_interval(values.copy())
    assert [end.tobytes() for end in first] == [end.tobytes() for end in second]
    columns = [mean_interval(values[:, i]) for i in range(4)]
    np.testing.assert_allclose(np.array(first).T, np.array(columns), rtol=1e-12)


def test_few_values():
    assert np.isnan(mean_interval(np.array([1.0]))).all()
    assert np.isnan(mean_interval(np.array([]))).all()
    assert mean_interval(np.array([1.0, 3.0])) == (1.0, 3.0)  # no resampling goes further
    assert mean_interval(np.array([0.1, 0.1, 0.1])) == (0.1, 0.1)


def test_a_missing_value_leaves_no_interval():
    low, high = mean_interval(np.array([[1.0, np.nan], [2.0, 1.0], [3.0, 1.0]]))
    assert np.isfinite([low[0], high[0]]).all()
    assert np.isnan([low[1], high[1]]).all()


@pytest.mark.parametrize(("repeats", "about"), [(4, 0.89), (6, 0.93), (10, 0.95)])
def test_it_covers_the_mean_as_often_as_it_says(repeats, about):
    values = np.random.default_rng(1).normal(size=(repeats, 600))
    low, high = mean_interval(values)
    covered = ((low <= 0) & (high >= 0)).mean()
    assert abs(covered - about) < 0.04
    percentile = bootstrap((values,), np.mean, axis=0, method="percentile", n_resamples=400, rng=0)
    ends = percentile.confidence_interval
    assert covered > ((ends.low <= 0) & (ends.high >= 0)).mean()
