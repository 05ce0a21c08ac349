"""Equal values, computed in two ways, are equal; different values are unchanged."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fmnas.comparison.analysis.float_ties import differences_with_ties, is_at_most, is_equal, merge_near_ties
from fmnas.comparison.analysis.paired_tests import compare

FOLDS = st.lists(st.integers(0, 54), min_size=5, max_size=5)
"""Mistakes in five folds of 54 rows each: as the problem dt_wine has them."""
PAIRS = st.lists(st.tuples(FOLDS, FOLDS), min_size=2, max_size=9)


def error(folds):
    return float(np.mean([wrong / 54 for wrong in folds]))


@settings(max_examples=60, deadline=None)
@given(PAIRS)
def test_shares_are_tested_as_the_counts_that_they_are(pairs):
    of = [{name: dict(enumerate(map(what, side))) for name, side in zip("ab", zip(*pairs, strict=True), strict=True)}
          for what in (error, sum)]  # fmt: skip
    (shares,), (counts,) = (compare(values).pairs for values in of)
    assert (shares.p, shares.effect, shares.differing, shares.verdict) == (
        counts.p, counts.effect, counts.differing, counts.verdict,
    )  # fmt: skip


def test_one_more_of_a_thousand_in_each_repeat_is_one_size():
    """Eight differences down and one up, all of one size; as floats the one up is the smallest, and p is .0078."""
    a = [109, 104, 96, 99, 113, 108, 118, 114, 112]
    b = [wrong + step for wrong, step in zip(a, [1, 1, 1, 1, 1, 1, -1, 1, 1], strict=True)]
    (test,) = compare({"a": dict(enumerate(x / 1000 for x in a)), "b": dict(enumerate(x / 1000 for x in b))}).pairs
    assert test.p == pytest.approx(2 * 10 / 2**9)
    assert test.effect == pytest.approx(-7 / 9)


@given(st.lists(st.integers(-(2**39), 2**39), max_size=9), st.integers(-9, 9))
def test_what_differs_stays_to_the_last_digit(numbers, power):
    """Also where repeats are powers of ten apart: a large one makes no small one a tie.

    Beyond 2^39 the share by which neighbouring integers differ is that of rounding.
    """
    first = np.array(numbers, dtype=float) * 2.0**power
    second = np.zeros(len(first))
    np.testing.assert_array_equal(differences_with_ties(first, second), first)
    np.testing.assert_array_equal(differences_with_ties(second, first), -first)
    np.testing.assert_array_equal(merge_near_ties(first), first)


@pytest.mark.parametrize("size", [1e-9, 1.0, 1e9])
def test_rounding_is_a_share_of_the_size(size):
    near, apart = size * (1.0 + 4e-16), size * (1.0 + 1e-9)
    assert is_at_most(np.array([near, apart]), size).tolist() == [True, False]
    assert merge_near_ties(np.array([near, apart, size])).tolist() == [size, apart, size]
    assert differences_with_ties(np.array([near, apart]), np.array([size, size])).tolist() == [0.0, apart - size]


@pytest.mark.parametrize("small", [0.1, 0.3])
def test_of_two_differences_the_one_that_was_computed_from_more_says_how_close_is_equal(small):
    """0.1 and 0.3 added to a million and taken from it again: less than it, and more."""
    differences = differences_with_ties(np.array([small, 1e6 + small]), np.array([0.0, 1e6]))
    assert (1e6 + small) - 1e6 != small
    assert differences[0] == differences[1]


def test_a_mean_of_equals_is_reached():
    values = np.full(5, 0.000470111)
    assert not values[0] <= values.mean()
    assert is_at_most(values, float(values.mean())).all()
    assert not is_at_most(np.array([1.0 + 1e-9, np.nan]), 1.0).any()
    assert is_equal(float(values.mean()), float(values[0]))
    assert not is_equal(1.0, 1.0 + 1e-9)
    assert not is_equal(float("nan"), float("nan"))
    assert differences_with_ties(np.array([]), np.array([])).shape == (0,)
