import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fmnas.comparison import Budget, anytime_curves, incumbent_at
from fmnas.comparison.checkpoints import checkpoints
from fmnas.comparison.efficiency import areas, equivalents, targets

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
    # All have an incumbent from 1.4 evaluations on: b/0's first full training comes after 35 epochs.
    assert (a.optimizer, b.optimizer) == ("a", "b")
    assert a.values == pytest.approx({0: (0.6 * 4 + 2 * 3) / 2.6, 1: (1.6 * 2 + 1 * 1.5) / 2.6})
    assert b.values == pytest.approx({0: (5 * 1 + 3 * 1 + 2.5 * 0.6) / 2.6, 1: (0.6 * 6 + 4 + 2) / 2.6})
    assert a.mean == pytest.approx(np.mean(list(a.values.values())))


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
