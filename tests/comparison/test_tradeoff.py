"""Error against FLOPs: fronts and hypervolumes by hand, and their figure."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fmnas.comparison import Budget, ReportContext, anytime_curves, write_report
from fmnas.comparison.analysis.tradeoff import hypervolume, pareto_front, tradeoffs

BUDGET = Budget(3, 25)
UNIT = st.floats(0.0, 0.99)


def points(*pairs):
    return np.array(pairs, dtype=float).reshape(-1, 2)


def test_by_hand():
    results = points((0.2, 0.5), (0.5, 0.2), (0.6, 0.3), (0.2, 0.6), (0.5, 0.2))
    assert pareto_front(results).tolist() == [[0.2, 0.5], [0.5, 0.2]]
    assert hypervolume(results) == pytest.approx(0.3 * 0.5 + 0.5 * 0.8)
    assert hypervolume(points((1.0, 0.0))) == 0.0
    assert hypervolume(points()) == 0.0


@given(st.lists(st.tuples(UNIT, UNIT), min_size=1, max_size=12))
def test_the_front_dominates_and_the_hypervolume_is_that_of_a_fine_grid(pairs):
    results = points(*pairs)
    front = pareto_front(results)
    for point in results:
        assert (front <= point).all(axis=1).any()
    middle = (np.arange(200) + 0.5) / 200
    grid = np.stack(np.meshgrid(middle, middle), axis=-1).reshape(-1, 1, 2)
    assert hypervolume(results) == pytest.approx((grid >= front).all(axis=2).any(axis=1).mean(), abs=0.02)


def test_full_results_of_every_repeat(make_table, tmp_path):
    def trial(flops, error, **more):
        return {"objective": error, "flops_ratio": flops, "error": error, **more}

    trials = make_table(
        {
            ("a", 0): [trial(0.5, 0.5), trial(0.1, 0.1, epochs=5)],  # the short training counts for nothing
            ("a", 1): [trial(0.25, 0.5), trial(0.5, 0.25)],
            ("b", 0): [trial(0.1, 0.9)],
            ("c", 0): [1.0],
        }
    )
    a, b = tradeoffs(trials, anytime_curves(trials, BUDGET), 75, BUDGET)
    assert (a.optimizer, b.optimizer) == ("a", "b")
    assert a.values == {0: pytest.approx(0.25), 1: pytest.approx(0.25 * 0.5 + 0.5 * 0.75)}
    assert a.mean == pytest.approx(0.375)
    assert a.front == ((0.25, 0.5), (0.5, 0.25))
    assert np.isnan(b.standard_error)
    write_report(trials, ReportContext("a name", "p", BUDGET, {}, ""), tmp_path)
    assert (tmp_path / "tradeoff.pdf").exists()
    assert "Error against FLOPs" in (tmp_path / "index.html").read_text()


def test_without_flops_the_tradeoff_is_left_out(make_table):
    trials = make_table({("a", 0): [1.0]})
    assert tradeoffs(trials, anytime_curves(trials, BUDGET), 75, BUDGET) == []


def test_at_equal_cost_and_over_all_repeats(make_table, tmp_path):
    """b has more results than a by now, and c none in its second repeat."""

    def trial(flops, error):
        return {"objective": error, "flops_ratio": flops, "error": error}

    trials = make_table(
        {
            ("a", 0): [trial(0.5, 0.5)],
            ("b", 0): [trial(0.5, 0.6), trial(0.1, 0.1)],
            ("c", 0): [trial(0.1, 0.1)],
            ("c", 1): [{"status": "failed"}],
        }
    )
    summary = write_report(trials, ReportContext("a name", "p", BUDGET, {}, ""), tmp_path)
    a, b, c = summary.tradeoff
    assert (summary.compared_at, a.optimizer, b.optimizer, c.optimizer) == (25, "a", "b", "c")
    assert (a.mean, b.mean) == (pytest.approx(0.25), pytest.approx(0.2))
    assert b.front == ((0.5, 0.6),)
    assert c.values == pytest.approx({0: 0.81, 1: float("nan")}, nan_ok=True)
    assert np.isnan(c.mean)


def test_learning_curves_of_the_best(make_table, tmp_path):
    trials = make_table({("a", 0): [2.0, 1.0], ("b", 0): [3.0, 4.0]})
    context = ReportContext("n", "p", BUDGET, {}, "", learning={("a/repeat-0", 1): (0.9, 0.5), ("b/repeat-0", 0): ()})
    summary = write_report(trials, context, tmp_path)
    assert summary.optimizers["a"].best_curve == (0.9, 0.5)
    assert summary.optimizers["b"].best_curve == ()
    assert (tmp_path / "learning.svg").exists()
