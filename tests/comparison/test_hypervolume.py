"""The hypervolume of two objectives: known fronts, the curve over a run, the comparison of optimizers, its page."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fmnas.comparison import Budget, ReportContext, anytime_curves, write_report
from fmnas.comparison.analysis.hypervolume import (
    HYPERVOLUME,
    add_hypervolume,
    compare_hypervolumes,
    hypervolume,
    pareto_front,
    running_hypervolume,
)
from fmnas.comparison.analysis.paired_tests import ALL, FIRST, SECOND, compare
from fmnas.comparison.analysis.trials import PlannedRun
from fmnas.comparison.figures import hypervolume as figure
from fmnas.comparison.figures import tradeoff
from fmnas.comparison.report import compute_results

BUDGET = Budget(evaluations=4, epochs_per_evaluation=25)
NETWORK = {"error": 1.0, "FLOPs": 1.0}
POINTS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=12)


def array(points):
    return np.array(points, dtype=float).reshape(-1, 2)


def test_the_front_has_the_results_that_no_other_dominates():
    results = np.array([(0.2, 0.5), (0.5, 0.2), (0.6, 0.3), (0.2, 0.6), (0.5, 0.2)])
    assert pareto_front(results).tolist() == [[0.2, 0.5], [0.5, 0.2]]


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        ([], 0.0),
        ([(2, 3)], 9 * 8),
        ([(2, 3), (4, 5)], 9 * 8),  # the second is dominated
        ([(2, 3), (2, 3)], 9 * 8),
        ([(2, 3), (5, 1)], 9 * 8 + 6 * 2),
        ([(11, 0), (0, 11), (20, 20)], 0.0),  # none is below the reference in both
        ([(-1, 11), (0, 10)], 11.0),
    ],
)
def test_known_volumes_up_to_11_and_11(points, expected):
    assert hypervolume(array(points), (11.0, 11.0)) == expected


def test_the_front_of_zdt1_converges_to_its_integral():
    """f2 = 1 - sqrt(f1): a third of the square up to (1, 1) is above it; below 1 / f1 from 1 to e the area is 1."""
    x = np.linspace(0.0, 1.0, 20_001)
    assert hypervolume(np.column_stack([x, 1 - np.sqrt(x)]), (1.0, 1.0)) == pytest.approx(2 / 3, abs=1e-4)
    x = np.linspace(1.0, np.e, 20_001)
    assert hypervolume(np.column_stack([x, 1 / x]), (np.e, 1.0)) == pytest.approx(np.e - 2.0, abs=1e-3)


@given(points=POINTS)
def test_it_is_the_number_of_unit_squares_that_are_dominated(points):
    squares = sum(any(a <= x and b <= y for a, b in points) for x in range(8) for y in range(8))
    assert hypervolume(array(points), (8.0, 8.0)) == squares


@given(points=POINTS)
def test_the_running_volume_is_that_of_each_beginning(points):
    expected = [hypervolume(array(points[:n]), (8.0, 8.0)) for n in range(1, len(points) + 1)]
    assert running_hypervolume(array(points), (8.0, 8.0)).tolist() == expected


def trial(error, flops, **more):
    return {"objective": error, "error": error, "flops_ratio": flops, **more}


def curves_of(trials, runs=()):
    return add_hypervolume(anytime_curves(trials, BUDGET, runs), trials, NETWORK)


def test_short_and_failed_trainings_do_not_count(make_table):
    failed = {"status": "failed", "reason": "out of memory"}
    runs = {("a", 0): [trial(0.1, 0.1, epochs=5), failed, trial(0.5, 0.5), trial(0.75, 0.25)], ("b", 0): [failed]}
    curves = curves_of(make_table(runs), [PlannedRun("b/repeat-1", "b", 1)])
    assert curves.loc[curves["optimizer"] == "a", HYPERVOLUME].tolist() == [0.0, 0.0, 0.25, 0.3125]
    np.testing.assert_equal(curves.loc[curves["optimizer"] == "b", HYPERVOLUME].to_numpy(), [0.0, np.nan])


def test_the_objectives_of_a_function_are_its_own_columns(make_table):
    row = {"objective": 3.0, "objective_1": 1.0, "objective_2": 2.0}
    trials = make_table({("a", 0): [row]})
    assert add_hypervolume(anytime_curves(trials, BUDGET), trials, {"f": 4.0, "g": 3.0})[HYPERVOLUME].tolist() == [3.0]


def fronts(better, worse, repeats):
    """Two optimizers; the first dominates more in each repeat, the second has the lower objective."""
    good = {(better, r): [trial(0.5, 0.1 + r / 100)] for r in range(repeats)}
    return good | {(worse, r): [trial(0.4, 0.9 + r / 200)] for r in range(repeats)}


@pytest.mark.parametrize(("better", "worse", "verdict"), [("a", "b", FIRST), ("b", "a", SECOND)])
def test_the_higher_volume_is_better_by_the_test_of_the_objective(make_table, better, worse, verdict):
    curves = curves_of(make_table(fronts(better, worse, 8)))
    against_all, against_a = (compare_hypervolumes(curves, 25, NETWORK, hypotheses) for hypotheses in (ALL, "a"))
    assert [row.optimizer for row in against_all.rows] == [better, worse]
    assert [row.rank for row in against_all.rows] == [1.0, 2.0]
    (test,) = against_a.tests.pairs
    sign = 1 if verdict == FIRST else -1
    values = {row.optimizer: row.values for row in against_a.rows}
    assert values[better][3] == pytest.approx(0.5 * 0.87)
    for row in against_all.rows:
        assert row.mean == pytest.approx(np.mean(list(row.values.values())))
        assert min(row.values.values()) < row.low < row.mean < row.high < max(row.values.values())
    (plain,) = compare(values, "a").pairs
    assert (test.p, test.verdict, test.effect) == (plain.p, verdict, sign)
    assert test.difference == pytest.approx(sign * np.mean([values[better][r] - values[worse][r] for r in range(8)]))
    assert test.low <= test.difference <= test.high


def test_the_report_shows_it_and_a_problem_with_one_objective_has_none(make_table, tmp_path, figures_as_svg):
    trials = make_table(fronts("a", "b", 3))
    summary = write_report(trials, ReportContext("n", "p", BUDGET, {}, "", objectives=NETWORK), tmp_path)
    html = (tmp_path / "index.html").read_text()
    assert "error = 1, FLOPs = 1" in html
    assert 'aria-label="hypervolume"' in html
    assert HYPERVOLUME in (tmp_path / "curves.csv").read_text().splitlines()[0]
    plain = json.loads(json.dumps(summary.to_json(), allow_nan=False))["hypervolumes"]
    assert plain["reference"] == NETWORK
    assert plain["rows"][0]["values"]["0"] == pytest.approx(0.45)
    assert plain["tests"]["pairs"][0]["repeats"] == 3
    results = compute_results(trials, ReportContext("n", "p", BUDGET, {}, ""))
    assert results.summary.hypervolumes is None
    assert not list(figure.drawings(results))
    assert list(tradeoff.fronts(results)), "a network's front is drawn anyway"


@pytest.mark.parametrize(("repeats", "has_bars"), [(1, False), (3, True)])
def test_its_caption_speaks_of_bars_where_there_are_some(make_table, repeats, has_bars):
    trials = make_table(fronts("a", "b", repeats))
    (drawing,) = figure.drawings(
        compute_results(trials, ReportContext("n", "p", BUDGET, {}, "", objectives=NETWORK, finished=True))
    )
    assert ("Bars" in drawing.caption) is has_bars
    assert "higher" in drawing.caption
