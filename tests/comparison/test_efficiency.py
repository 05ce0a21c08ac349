import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fmnas.comparison import Budget, anytime_curves, incumbent_at
from fmnas.comparison.analysis.checkpoints import checkpoints
from fmnas.comparison.analysis.efficiency import areas, equivalents, targets

BUDGET = Budget(evaluations=4, epochs_per_evaluation=25)
NAN = float("nan")
SHORT = {"epochs": 5, "objective": 0.0}


@pytest.fixture
def curves(make_table):
    return anytime_curves(
        make_table(
            {
                ("a", 0): [4.0, 3.0, 3.0, 1.0],
                ("a", 1): [2.0, 2.0, 1.5, 1.5],
                ("b", 0): [SHORT, SHORT, 5.0, 3.0, 2.5],
                ("b", 1): [6.0, 4.0, 2.0, 2.0],
            }
        ),
        BUDGET,
    )


def test_areas_by_hand(curves):
    a, b = areas(curves, 4.0)
    # From 1 to 4. b/0's first full training comes after 35 epochs, at 1.4, and counts from 1 on.
    assert (a.optimizer, b.optimizer) == ("a", "b")
    assert a.values == pytest.approx({0: (1 * 4 + 2 * 3) / 3, 1: (2 * 2 + 1 * 1.5) / 3})
    assert b.values == pytest.approx({0: (5 * 1.4 + 3 * 1 + 2.5 * 0.6) / 3, 1: (1 * 6 + 4 + 2) / 3})
    assert a.mean == pytest.approx(np.mean(list(a.values.values())))


def test_an_area_does_not_depend_on_who_else_takes_part(curves):
    alone = areas(curves[curves["optimizer"] == "a"], 4.0)
    assert alone == areas(curves, 4.0)[:1]


def test_targets_by_hand(curves):
    first, second = targets(curves, checkpoints(curves, 100, BUDGET)[-1])
    assert (first.target, first.source) == (1.25, "a's mean at 100%")
    assert [(row.optimizer, row.reached, row.repeats) for row in first.rows] == [("a", 1, 2), ("b", 0, 2)]
    assert first.rows[0].values == pytest.approx({0: 4.0, 1: NAN}, nan_ok=True)
    assert (second.target, second.source) == (2.25, "b's mean at 100%")
    a, b = second.rows
    assert (a.values, a.evaluations) == ({0: 4.0, 1: 1.0}, 2.5)
    assert (b.reached, b.evaluations) == (1, 3.0)


def test_equivalents_by_hand(curves):
    found = {(e.optimizer, e.at): e for e in equivalents(curves, checkpoints(curves, 100, BUDGET))}
    # b's mean: 5.5 from 1.4 on, 4.5 from 2 on, then 3.5 from 2.4, 2.5 from 3, 2.25 from 3.4.
    assert (found["a", 1.0].value, found["a", 1.0].evaluations) == (3.0, 3.0)
    assert (found["a", 2.0].value, found["a", 2.0].evaluations) == (2.5, 3.0)
    assert np.isnan(found["a", 4.0].evaluations)
    assert (found["b", 4.0].value, found["b", 4.0].evaluations) == (2.25, 3.0)
    assert ("b", 1.0) not in found  # no mean yet


def test_the_interval_of_an_equivalent_by_hand(curves):
    """b's runs are 5, 3, 2.5 from 1.4, 2.4, 3.4 on, and 6, 4, 2 from 1, 2, 3 on; a resample may hold one twice."""
    found = {(e.optimizer, e.at): e for e in equivalents(curves, checkpoints(curves, 100, BUDGET))}
    a = found["a", 1.0]  # 3.0: run 0 alone at 2.4, both at 3, run 1 alone at 3
    assert (a.value, a.evaluations, a.low, a.high, a.late) == (3.0, 3.0, 2.4, 3.0, 0.0)
    a = found["a", 2.0]  # 2.5: run 0 alone at 3.4, both at 3, run 1 alone at 3
    assert (a.value, a.evaluations, a.low, a.high, a.late) == (2.5, 3.0, 3.0, 3.4, 0.0)
    a = found["a", 4.0]  # 1.25: never
    assert np.isnan([a.evaluations, a.low, a.high]).all()
    assert a.late == 1.0


def test_an_equivalent_that_some_resamples_do_not_reach(make_table):
    runs = {("a", r): [3.0, 2.0, 2.0, 2.0] for r in range(2)} | {("b", 0): [3.0, 1.0] * 2, ("b", 1): [3.0] * 4}
    curves = anytime_curves(make_table(runs), BUDGET)
    found = {(e.optimizer, e.at): e for e in equivalents(curves, checkpoints(curves, 100, BUDGET))}
    a = found["a", 4.0]
    assert (a.evaluations, a.low) == (2.0, 2.0)  # the mean of 1 and 3 is 2
    assert np.isnan(a.high)
    assert a.late == pytest.approx(0.25, abs=0.03)  # twice b/1


def test_one_repeat_has_no_interval(make_table):
    curves = anytime_curves(make_table({("a", 0): [3.0, 1.0], ("b", 0): [2.0, 1.0]}), BUDGET)
    for each in equivalents(curves, checkpoints(curves, 50, BUDGET)):
        assert np.isnan([each.low, each.high, each.late]).all()


def test_rounding_of_resampled_means_makes_nobody_late(make_table):
    """Seven equal runs on each side: every resampled mean is that value, but for what is lost in adding sevenths."""
    curves = anytime_curves(make_table({(name, r): [0.3, 0.1] for name in "ab" for r in range(7)}), BUDGET)
    for each in equivalents(curves, checkpoints(curves, 50, BUDGET)):
        assert (each.low, each.high, each.late) == (each.evaluations, each.evaluations, 0.0)


@pytest.mark.parametrize("repeats", [3, 5, 7, 10])
@pytest.mark.parametrize("optimum", [0.000470111, 13 / 270, 2996.348165])
def test_an_optimum_that_all_repeats_reached_is_reached(make_table, repeats, optimum):
    """The mean of n equal numbers may be below them, by what rounding takes."""
    runs = {(name, r): [2 * optimum, optimum] for name in "ab" for r in range(repeats)}
    curves = anytime_curves(make_table(runs), BUDGET)
    points = checkpoints(curves, 50, BUDGET)
    for target in targets(curves, points[-1]):
        assert [(row.reached, row.evaluations) for row in target.rows] == [(repeats, 2.0)] * 2
    assert all(each.evaluations == each.at for each in equivalents(curves, points))


def test_what_lies_beyond_the_comparison_does_not_count(curves):
    points = checkpoints(curves, 50, BUDGET)
    first = targets(curves, points[-1])[0]
    assert (first.target, [row.reached for row in first.rows]) == (2.5, [1, 0])  # later, all four are there
    assert all(np.isnan(e.evaluations) or e.evaluations <= 2.0 for e in equivalents(curves, points))
    assert areas(curves, 2.0)[0].values == pytest.approx({0: 4.0, 1: 2.0})


def test_runs_without_a_result(make_table):
    curves = anytime_curves(make_table({("a", 0): [1.0, 1.0], ("b", 0): [SHORT], ("b", 1): [2.0]}), BUDGET)
    points = checkpoints(curves, 50, BUDGET)
    a, b = areas(curves, 2.0)
    assert (a.optimizer, a.mean) == ("a", 1.0)
    np.testing.assert_equal(b.values, {0: NAN, 1: 2.0})
    assert np.isnan(b.mean)
    assert [target.source for target in targets(curves, points[-1])] == ["a's mean at 100%"]
    (only,) = [e for e in equivalents(curves, points) if e.at == 2.0]
    assert (only.optimizer, only.other) == ("a", "b")
    assert np.isnan(only.evaluations)


OBJECTIVES = st.lists(st.floats(0, 10), min_size=4, max_size=4)


@settings(max_examples=30, deadline=None)
@given(rows=st.lists(OBJECTIVES, min_size=1, max_size=3))
def test_the_area_is_that_of_the_step_curve(make_table, rows):
    curves = anytime_curves(make_table({("a", r): row for r, row in enumerate(rows)}), BUDGET)
    (area,) = areas(curves, 4.0)
    places = np.linspace(1, 4, 601)[:-1]  # hits every whole number from the right
    for (_, run), height in zip(curves.groupby("run"), area.values.values(), strict=True):
        assert height == pytest.approx(incumbent_at(run, "evaluations", places).mean())
