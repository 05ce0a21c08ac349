"""Evaluations to reach a target, by hand."""

import pytest

from fmnas.comparison import Budget, anytime_curves
from fmnas.comparison.analysis.checkpoints import checkpoints, targets

BUDGET = Budget(evaluations=4, epochs_per_evaluation=25)
NAN = float("nan")
SHORT = {"epochs": 5, "objective": 0.0}


@pytest.fixture
def curves(make_table):
    runs = {
        ("a", 0): [4.0, 3.0, 3.0, 1.0],
        ("a", 1): [2.0, 2.0, 1.5, 1.5],
        ("b", 0): [SHORT, SHORT, 5.0, 3.0, 2.5],
        ("b", 1): [6.0, 4.0, 2.0, 2.0],
    }
    return anytime_curves(make_table(runs), BUDGET)


def test_targets_by_hand(curves):
    first, second = targets(curves, checkpoints(curves, 100, BUDGET)[-1])
    assert (first.target, first.source) == (1.25, "a's mean at 100%")
    assert [(row.optimizer, row.reached, row.repeats) for row in first.rows] == [("a", 1, 2), ("b", 0, 2)]
    assert first.rows[0].values == pytest.approx({0: 4.0, 1: NAN}, nan_ok=True)
    assert (second.target, second.source) == (2.25, "b's mean at 100%")
    a, b = second.rows
    assert (a.values, a.evaluations) == ({0: 4.0, 1: 1.0}, 2.5)
    assert (b.reached, b.evaluations) == (1, 3.0)


@pytest.mark.parametrize("repeats", [3, 7])
@pytest.mark.parametrize("optimum", [0.000470111, 13 / 270])
def test_an_optimum_that_all_repeats_reached_is_reached(make_table, repeats, optimum):
    """The mean of n equal numbers may be below them, by rounding."""
    runs = {(name, r): [2 * optimum, optimum] for name in "ab" for r in range(repeats)}
    curves = anytime_curves(make_table(runs), BUDGET)
    for target in targets(curves, checkpoints(curves, 50, BUDGET)[-1]):
        assert [(row.reached, row.evaluations) for row in target.rows] == [(repeats, 2.0)] * 2


def test_results_beyond_the_comparison_do_not_count(curves):
    first = targets(curves, checkpoints(curves, 50, BUDGET)[-1])[0]
    assert (first.target, [row.reached for row in first.rows]) == (2.5, [1, 0])  # later, all four reach it


def test_an_optimizer_without_a_mean_sets_no_target(make_table):
    curves = anytime_curves(make_table({("a", 0): [1.0, 1.0], ("b", 0): [SHORT], ("b", 1): [2.0]}), BUDGET)
    assert [target.source for target in targets(curves, checkpoints(curves, 50, BUDGET)[-1])] == ["a's mean at 100%"]
