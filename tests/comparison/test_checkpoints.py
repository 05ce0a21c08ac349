"""The optimizers at equal cost: checkpoints, the final table, and the epochs at which it is made."""

import numpy as np
import pytest
from scipy.stats import sem

from fmnas.comparison import Budget, anytime_curves, ledger_table
from fmnas.comparison.analysis.checkpoints import (
    checkpoints,
    common_epochs,
    final_table,
    rank_within_repeats,
    values_at,
)
from fmnas.comparison.analysis.curves import mean_curve
from fmnas.comparison.analysis.trials import PlannedRun

BUDGET = Budget(evaluations=4, epochs_per_evaluation=25)
THREE = Budget(evaluations=3, epochs_per_evaluation=25)
NAN = float("nan")


def final(trials, budget=THREE):
    return final_table(anytime_curves(trials, budget), ledger_table(trials, budget), budget)


def test_checkpoints_by_hand(make_table):
    short = {"epochs": 10, "objective": 0.0}
    trials = make_table(
        {
            ("a", 0): [4.0, 3.0, 2.0, 1.0],
            ("a", 1): [5.0, 5.0, 5.0, 3.0],
            ("b", 0): [short, 6.0, 2.5, 2.5],
            ("b", 1): [4.5, 4.0, short, short],
        }
    )
    points = checkpoints(anytime_curves(trials, BUDGET), 100, BUDGET)
    assert [(p.share, p.epochs, p.evaluations) for p in points] == [(0.25, 25, 1.0), (0.5, 50, 2.0), (1.0, 100, 4.0)]
    a, b = points[0].rows
    assert (a.optimizer, a.mean, a.values) == ("a", 4.5, {0: 4.0, 1: 5.0})
    np.testing.assert_equal(b.values, {0: NAN, 1: 4.5})
    assert np.isnan(b.mean)
    assert (a.rank, b.rank) == (1.5, 1.5)  # b is behind in repeat 0, where it has no value yet
    a, b = points[1].rows
    assert (a.values, b.values) == ({0: 3.0, 1: 5.0}, {0: 6.0, 1: 4.0})
    assert (a.rank, b.rank) == (1.5, 1.5)
    assert a.standard_error == pytest.approx(sem([3.0, 5.0]))
    assert (a.low, a.high) == (3.0, 5.0)
    a, b = points[2].rows
    assert (a.values, b.values) == ({0: 1.0, 1: 3.0}, {0: 2.5, 1: 4.0})
    assert (a.rank, b.rank) == (1.0, 2.0)


def test_ranks_share_ties_and_need_a_shared_repeat():
    assert rank_within_repeats({"a": {0: 0.3}, "b": {0: 0.1 + 0.2}, "c": {0: 0.1}}) == {"a": 2.5, "b": 2.5, "c": 1.0}
    assert rank_within_repeats({"a": {0: 1.0}, "b": {1: 1.0}}) == {}
    assert rank_within_repeats({}) == {}


def test_an_optimizer_without_a_value_ranks_behind_all_others():
    assert rank_within_repeats({"a": {0: NAN, 1: 2.0}, "b": {0: 9.0, 1: 1.0}, "c": {0: NAN, 1: 3.0}}) == {
        "a": 2.25,
        "b": 1.0,
        "c": 2.75,
    }
    assert rank_within_repeats({"a": {0: NAN}, "b": {0: NAN}}) == {}


def test_fractions_of_epochs_that_add_up_to_the_budget_are_within_it(make_table):
    """Raced trials cost fractions: as floats, twenty of 0.4 and three of 1 are more than 11."""
    budget = Budget(11, 1)
    raced = [{"objective": 2.0 + i, "epochs": 0.4} for i in range(20)]
    whole = [{"objective": objective, "epochs": 1.0} for objective in (9.0, 8.0, 1.0)]
    trials = make_table({("a", 0): [*raced, *whole]})
    curves = anytime_curves(trials, budget)
    assert curves["epochs"].iloc[-1] == 11
    assert values_at(curves, 11) == {"a": {0: 1.0}}


def test_final_table_by_hand(make_table):
    trials = make_table(
        {
            ("re", 0): [5.0, 4.0, 3.0, 0.1],  # the fourth is beyond the budget
            ("re", 1): [9.0, 2.0, {"objective": 1.0, "error": 0.25}],
            ("bohb", 0): [{"epochs": 5, "objective": 0.0}, 6.0, {"epochs": 20, "objective": 0.0}, {"objective": 0.5}],
            ("bohb", 1): [3.0, 8.0, {"epochs": 24, "objective": 0.0, "origin": "model"}],
        }
    )
    table = final(trials)
    assert list(table.rows) == ["bohb", "re"]  # 1.75, 2.0
    bohb, re = table.rows.values()
    assert re.values == {0: 3.0, 1: 1.0}
    assert (re.mean, re.standard_error) == (2.0, pytest.approx(sem([3.0, 1.0])))
    assert (re.best, re.best_error, re.best_run, re.best_trial) == (1.0, 0.25, "re/repeat-1", 2)
    assert (re.epochs, re.evaluations) == (75.0, 3.0)
    assert bohb.values == {0: 0.5, 1: 3.0}
    assert bohb.epochs == (75 + 74) / 2
    assert bohb.model_share == pytest.approx(1 / 7)
    assert table.common_epochs == 75


def test_an_unfinished_run_limits_the_comparison(make_table):
    table = final(make_table({("a", 0): [5.0, 4.0, 3.0], ("b", 0): [6.0]}))
    assert table.common_epochs == 25
    assert [row.mean for row in table.rows.values()] == [5.0, 6.0]
    assert final(make_table({("a", 0): [5.0, 4.0], ("b", 0): [6.0], ("b", 1): [5.0] * 3})).common_epochs == 25


def test_a_run_that_cannot_pay_another_full_training_has_finished(make_table):
    for trials, epochs in (([1.0, 1.0, {"epochs": 1}], 75), ([1.0, 1.0], 50)):
        assert common_epochs(ledger_table(make_table({("a", 0): trials}), THREE), THREE) == epochs


def test_a_run_whose_seconds_are_spent_has_finished(make_table):
    timed = Budget(evaluations=3, epochs_per_evaluation=25, seconds=22.0)
    slow, fast = [5.0, {"objective": 4.0, "suggest_seconds": 9.0}], [6.0, 3.0, 2.0]
    ledger = ledger_table(make_table({("a", 0): slow, ("b", 0): fast}), timed)
    assert common_epochs(ledger, timed) == 75
    assert common_epochs(ledger, THREE) == 50
    ledger = ledger_table(make_table({("a", 0): [{"suggest_seconds": 20.0}], ("b", 0): [6.0]}), timed)
    assert common_epochs(ledger, timed) == 25  # b is unfinished
    assert common_epochs(ledger, timed, finished=True) == 75
    # A run that spent its seconds on fewer epochs than the unfinished ones does not limit the comparison.
    slow, fast = [{"suggest_seconds": 20.0}], [6.0, 3.0]
    ledger = ledger_table(make_table({("a", 0): slow, ("b", 0): fast}), Budget(3, 25, seconds=30.0))
    assert list(ledger["epochs"]) == [25, 50]
    assert common_epochs(ledger, Budget(3, 25, seconds=30.0)) == 50


def test_a_repeat_without_any_trial_leaves_no_mean(make_table):
    trials = make_table({("a", 0): [1.0] * 3, ("b", 0): [2.0] * 3, ("b", 1): [4.0] * 3})
    runs = [PlannedRun(f"{name}/repeat-{r}", name, r) for name in "abc" for r in range(2)]
    curves = anytime_curves(trials, THREE, runs=runs)
    table = final_table(curves, ledger_table(trials, THREE), THREE)
    assert list(table.rows) == ["b", "a"]  # c has no trial at all, and so no row
    b, a = table.rows.values()
    assert (b.mean, b.repeats, b.epochs) == (3.0, 2, 75.0)
    np.testing.assert_equal(a.values, {0: 1.0, 1: NAN})
    assert np.isnan([a.mean, a.standard_error]).all()
    assert (a.repeats, a.best, a.best_trial, a.epochs) == (2, 1.0, 0, 37.5)
    at_end = {row.optimizer: row.mean for row in checkpoints(curves, 75, THREE)[-1].rows}
    assert at_end == pytest.approx({"a": NAN, "b": 3.0}, nan_ok=True)
    means = mean_curve(curves, "epochs", [75]).set_index("optimizer")["mean"]
    assert dict(means) == pytest.approx({"a": NAN, "b": 3.0}, nan_ok=True)
