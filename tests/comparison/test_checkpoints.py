import numpy as np
import pytest
from scipy.stats import sem

from fmnas.comparison import Budget, anytime_curves
from fmnas.comparison.analysis.checkpoints import checkpoints, mean_ranks

BUDGET = Budget(evaluations=4, epochs_per_evaluation=25)
NAN = float("nan")


def test_by_hand(make_table):
    short = {"epochs": 10, "objective": 0.0}
    trials = make_table(
        {
            ("a", 0): [4.0, 3.0, 2.0, 1.0],
            ("a", 1): [5.0, 5.0, 5.0, 3.0],
            ("b", 0): [short, 6.0, 2.5, 2.5],
            ("b", 1): [4.5, 4.0, short, short],
        }
    )
    quarter, half, whole = checkpoints(anytime_curves(trials, BUDGET), 100, BUDGET)
    assert [(p.share, p.epochs, p.evaluations) for p in (quarter, half, whole)] == [
        (0.25, 25, 1.0),
        (0.5, 50, 2.0),
        (1.0, 100, 4.0),
    ]
    a, b = quarter.rows
    assert (a.optimizer, a.mean, a.values) == ("a", 4.5, {0: 4.0, 1: 5.0})
    np.testing.assert_equal(b.values, {0: NAN, 1: 4.5})
    assert np.isnan(b.mean)
    assert (a.rank, b.rank) == (2.0, 1.0)  # of repeat 1, the only one in which both have a value
    a, b = half.rows
    assert (a.values, b.values) == ({0: 3.0, 1: 5.0}, {0: 6.0, 1: 4.0})
    assert (a.rank, b.rank) == (1.5, 1.5)
    assert a.standard_error == pytest.approx(sem([3.0, 5.0]))
    assert (a.low, a.high) == (3.0, 5.0)
    a, b = whole.rows
    assert (a.values, b.values) == ({0: 1.0, 1: 3.0}, {0: 2.5, 1: 4.0})
    assert (a.rank, b.rank) == (1.0, 2.0)


def test_one_repeat_has_no_interval(make_table):
    points = checkpoints(anytime_curves(make_table({("a", 0): [1.0] * 4}), BUDGET), 100, BUDGET)
    assert all(np.isnan([row.standard_error, row.low, row.high]).all() for point in points for row in point.rows)


def test_ranks_share_ties_and_need_a_shared_repeat():
    assert mean_ranks({"a": {0: 1.0}, "b": {0: 1.0}, "c": {0: 0.5}}) == {"a": 2.5, "b": 2.5, "c": 1.0}
    assert mean_ranks({"a": {0: 1.0}, "b": {1: 1.0}}) == {}
    assert mean_ranks({}) == {}
