import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fmnas.comparison import Budget, anytime_curves, incumbent_at
from fmnas.comparison.analysis.checkpoints import checkpoints
from fmnas.comparison.analysis.efficiency import areas, targets

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


def test_areas_by_hand(curves):
    a, b = areas(curves, 4.0)
    # From 1 to 4. b/0's first full training comes after 35 epochs, at 1.4, and counts from 1 on.
    assert (a.optimizer, b.optimizer) == ("a", "b")
    assert a.values == pytest.approx({0: (1 * 4 + 2 * 3) / 3, 1: (2 * 2 + 1 * 1.5) / 3})
    assert b.values == pytest.approx({0: (5 * 1.4 + 3 * 1 + 2.5 * 0.6) / 3, 1: (1 * 6 + 4 + 2) / 3})
    assert a.mean == pytest.approx(np.mean(list(a.values.values())))
    assert areas(curves[curves["optimizer"] == "a"], 4.0) == [a], "it does not depend on the other optimizers"


def test_targets_by_hand(curves):
    first, second = targets(curves, checkpoints(curves, 100, BUDGET)[-1])
    assert (first.target, first.source) == (1.25, "a's mean at 100%")
    assert [(row.optimizer, row.reached, row.repeats) for row in first.rows] == [("a", 1, 2), ("b", 0, 2)]
    assert first.rows[0].values == pytest.approx({0: 4.0, 1: NAN}, nan_ok=True)
    assert (second.target, second.source) == (2.25, "b's mean at 100%")
    a, b = second.rows
    assert (a.values, a.evaluations) == ({0: 4.0, 1: 1.0}, 2.5)
    assert (b.reached, b.evaluations) == (1, 3.0)


@pytest.mark.parametrize("repeats", [3, 5, 7, 10])
@pytest.mark.parametrize("optimum", [0.000470111, 13 / 270, 2996.348165])
def test_an_optimum_that_all_repeats_reached_is_reached(make_table, repeats, optimum):
    """The mean of n equal numbers may be below them, by rounding."""
    runs = {(name, r): [2 * optimum, optimum] for name in "ab" for r in range(repeats)}
    curves = anytime_curves(make_table(runs), BUDGET)
    for target in targets(curves, checkpoints(curves, 50, BUDGET)[-1]):
        assert [(row.reached, row.evaluations) for row in target.rows] == [(repeats, 2.0)] * 2


def test_results_beyond_the_comparison_do_not_count(curves):
    first = targets(curves, checkpoints(curves, 50, BUDGET)[-1])[0]
    assert (first.target, [row.reached for row in first.rows]) == (2.5, [1, 0])  # later, all four reach it
    assert areas(curves, 2.0)[0].values == pytest.approx({0: 4.0, 1: 2.0})


def test_runs_without_a_result(make_table):
    curves = anytime_curves(make_table({("a", 0): [1.0, 1.0], ("b", 0): [SHORT], ("b", 1): [2.0]}), BUDGET)
    a, b = areas(curves, 2.0)
    assert (a.optimizer, a.mean) == ("a", 1.0)
    np.testing.assert_equal(b.values, {0: NAN, 1: 2.0})
    assert np.isnan(b.mean)
    assert [target.source for target in targets(curves, checkpoints(curves, 50, BUDGET)[-1])] == ["a's mean at 100%"]


OBJECTIVES = st.lists(st.floats(0, 10), min_size=4, max_size=4)


@settings(max_examples=30, deadline=None)
@given(rows=st.lists(OBJECTIVES, min_size=1, max_size=3))
def test_the_area_is_that_of_the_step_curve(make_table, rows):
    curves = anytime_curves(make_table({("a", r): row for r, row in enumerate(rows)}), BUDGET)
    (area,) = areas(curves, 4.0)
    places = np.linspace(1, 4, 601)[:-1]  # hits every whole number from the right
    for (_, run), height in zip(curves.groupby("run"), area.values.values(), strict=True):
        assert height == pytest.approx(incumbent_at(run, "evaluations", places).mean())
