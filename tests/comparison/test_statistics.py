import numpy as np
import pytest
from scipy.stats import sem, wilcoxon

from fmnas.comparison import Budget, anytime_curves, final_table, ledger_table, mean_curve
from fmnas.comparison.analysis import verdict
from fmnas.comparison.analysis.checkpoints import checkpoints, common_epochs
from fmnas.comparison.analysis.formatting import duration, number, with_error
from fmnas.comparison.analysis.paired_tests import compare, smallest_p
from fmnas.comparison.analysis.trials import PlannedRun
from fmnas.comparison.summary import ReportContext, summarise

BUDGET = Budget(evaluations=3, epochs_per_evaluation=25)


def table_of(trials, budget=BUDGET):
    return final_table(anytime_curves(trials, budget), ledger_table(trials, budget), budget)


def paired(table):
    return compare({name: row.values for name, row in table.rows.items()})


def caution(table):
    return verdict.caution(table, paired(table))


def headline(table):
    return verdict.headline(table, paired(table))


def test_by_hand_at_equal_epochs(make_table):
    trials = make_table(
        {
            ("re", 0): [5.0, 4.0, 3.0, 0.1],  # the fourth is beyond the budget
            ("re", 1): [9.0, 2.0, {"objective": 1.0, "error": 0.25}],
            ("bohb", 0): [{"epochs": 5, "objective": 0.0}, 6.0, {"epochs": 20, "objective": 0.0}, {"objective": 0.5}],
            ("bohb", 1): [3.0, 8.0, {"epochs": 24, "objective": 0.0, "origin": "model"}],
        }
    )
    final = table_of(trials)
    assert list(final.rows) == ["bohb", "re"]  # 1.75, 2.0
    bohb, re = final.rows.values()
    assert re.values == {0: 3.0, 1: 1.0}
    assert re.mean == 2.0
    assert re.standard_error == pytest.approx(sem([3.0, 1.0]))
    assert (re.best, re.best_error, re.best_run, re.best_trial) == (1.0, 0.25, "re/repeat-1", 2)
    assert (re.epochs, re.evaluations) == (75.0, 3.0)
    assert bohb.values == {0: 0.5, 1: 3.0}
    assert bohb.epochs == (75 + 74) / 2
    assert bohb.model_share == pytest.approx(1 / 7)
    assert final.common_epochs == 75


def test_a_run_on_its_way_holds_all_at_its_cost(make_table):
    trials = make_table({("a", 0): [5.0, 4.0, 3.0], ("b", 0): [6.0]})
    final = table_of(trials)
    assert final.common_epochs == 25
    assert [row.mean for row in final.rows.values()] == [5.0, 6.0]
    assert "Compared at 25 of 75 epochs" in caution(final)


def test_a_run_that_cannot_pay_another_full_training_is_through(make_table):
    ledger = ledger_table(make_table({("a", 0): [1.0, 1.0, {"epochs": 1}]}), BUDGET)
    assert common_epochs(ledger, BUDGET) == 75
    ledger = ledger_table(make_table({("a", 0): [1.0, 1.0]}), BUDGET)
    assert common_epochs(ledger, BUDGET) == 50


def test_a_run_whose_seconds_are_spent_is_through(make_table):
    timed = Budget(evaluations=3, epochs_per_evaluation=25, seconds=22.0)
    slow, fast = [5.0, {"objective": 4.0, "suggest_seconds": 9.0}], [6.0, 3.0, 2.0]
    ledger = ledger_table(make_table({("a", 0): slow, ("b", 0): fast}), timed)
    assert common_epochs(ledger, timed) == 75
    assert common_epochs(ledger, BUDGET) == 50
    # While b is on its way, a's seconds do not hold it back.
    ledger = ledger_table(make_table({("a", 0): [{"suggest_seconds": 20.0}], ("b", 0): [6.0]}), timed)
    assert common_epochs(ledger, timed) == 25
    assert common_epochs(ledger, timed, finished=True) == 75
    # Nor does one that spent its seconds on fewer epochs than the others have by now.
    slow, fast = [{"suggest_seconds": 20.0}], [6.0, 3.0]
    ledger = ledger_table(make_table({("a", 0): slow, ("b", 0): fast}), Budget(3, 25, seconds=30.0))
    assert list(ledger["epochs"]) == [25, 50]
    assert common_epochs(ledger, Budget(3, 25, seconds=30.0)) == 50


def test_a_repeat_without_any_trial_leaves_no_mean(make_table):
    trials = make_table({("a", 0): [1.0] * 3, ("b", 0): [2.0] * 3, ("b", 1): [4.0] * 3})
    runs = [PlannedRun(f"{name}/repeat-{r}", name, r) for name in "abc" for r in range(2)]
    curves = anytime_curves(trials, BUDGET, runs=runs)
    final = final_table(curves, ledger_table(trials, BUDGET), BUDGET)
    assert list(final.rows) == ["b", "a"]  # c has none at all, and so no row
    b, a = final.rows.values()
    assert (b.mean, b.repeats, b.epochs) == (3.0, 2, 75.0)
    np.testing.assert_equal(a.values, {0: 1.0, 1: float("nan")})
    assert np.isnan(a.mean)
    assert np.isnan(a.standard_error)
    assert (a.repeats, a.best, a.best_trial, a.epochs) == (2, 1.0, 0, 37.5)
    assert headline(final).startswith("b has the lowest mean objective: 3.0")
    assert "(b 2, a 1; 1 shared by all)" in caution(final)
    for name, mean in (("a", float("nan")), ("b", 3.0)):
        assert [row.mean for row in checkpoints(curves, 75, BUDGET)[-1].rows if row.optimizer == name] == [
            pytest.approx(mean, nan_ok=True)
        ]
        assert mean_curve(curves, "epochs", [75]).set_index("optimizer")["mean"][name] == pytest.approx(
            mean, nan_ok=True
        )


def test_before_the_end_a_small_p_is_warned_of(make_table):
    runs = {(name, r): [1.0 + r / 10 + (name == "b")] * 2 for name in "ab" for r in range(3)}
    assert "make p too small" in caution(table_of(make_table(runs)))
    assert "make p too small" not in caution(table_of(make_table({key: [*run, 1.0] for key, run in runs.items()})))
    one = {("a", 0): [1.0], ("b", 0): [2.0]}
    assert "make p too small" not in caution(table_of(make_table(one)))  # there is no test to look at


def test_a_planned_optimizer_that_has_not_begun_is_yet_to_come(make_table):
    """Two of three optimizers are through; the p of two counts one comparison, where there are to be three."""
    trials = make_table({(name, r): [1.0 + r / 10 + (name == "b")] * 3 for name in "ab" for r in range(7)})
    runs = [PlannedRun(f"{name}/repeat-{r}", name, r) for name in "abc" for r in range(7)]
    curves, ledger = anytime_curves(trials, BUDGET, runs), ledger_table(trials, BUDGET)

    def told(**given):
        return summarise(trials, curves, ledger, ReportContext("n", "p", BUDGET, {}, "", **given)).caution

    assert told(runs=runs).startswith(f"Not all runs of c have begun. {verdict.PEEKING}")
    for through in (told(runs=runs[:14]), told(runs=runs, finished=True), told()):
        assert "have begun" not in through
        assert verdict.PEEKING not in through


def test_no_mean_over_the_quick_repeats_alone(make_table):
    bohb = {("bohb", 0): [3.0, 2.0, 1.0], ("bohb", 1): [{"epochs": 15, "objective": 0.0}] * 5}
    final = table_of(make_table({**bohb, ("re", 0): [7.0] * 3, ("re", 1): [8.0] * 3}))
    assert list(final.rows) == ["re", "bohb"]
    row = final.rows["bohb"]
    assert np.isnan(row.mean)
    assert np.isnan(row.standard_error)
    assert row.best == 1.0
    np.testing.assert_equal(row.values, {0: 1.0, 1: float("nan")})
    assert "(re 2, bohb 1; 1 shared by all)" in caution(final)


@pytest.mark.parametrize(("repeats", "says"), [(2, "0.5,"), (4, "0.125,"), (6, "0.0312."), (9, "0.00391.")])
def test_caution_tells_the_power(make_table, repeats, says):
    runs = {(name, r): [1.0 + r / 10 + (name == "b")] * 3 for name in "ab" for r in range(repeats)}
    text = caution(table_of(make_table(runs)))
    assert f"{repeats} paired repeats: the smallest p that a two-sided paired Wilcoxon test can give is {says}" in text
    assert ("no difference" in text) == (repeats < 6)


@pytest.mark.parametrize("repeats", [2, 4, 6, 9])
def test_smallest_p_is_that_of_the_test(repeats):
    differences = np.arange(1.0, repeats + 1)  # one wins every repeat
    assert smallest_p(repeats) == pytest.approx(wilcoxon(differences, method="exact").pvalue)


def test_caution_corrects_for_many_comparisons(make_table):
    runs = {(name, r): [1.0] * 3 for name in "abc" for r in range(6)}
    assert "corrected for 3 comparisons" in caution(table_of(make_table(runs)))


def test_caution_without_much(make_table):
    assert "anecdote" in caution(table_of(make_table({("a", 0): [1.0] * 3, ("b", 0): [2.0] * 3})))
    assert "one optimizer" in caution(table_of(make_table({("a", 0): [1.0] * 3})))
    nothing = table_of(make_table({("a", 0): [{"status": "failed"}] * 3, ("b", 0): [{"epochs": 5}] * 15}))
    assert caution(nothing) == "There is no full-fidelity result to compare."
    assert headline(nothing).startswith("No comparison yet")


def test_headline(make_table):
    one = table_of(make_table({("b", 0): [1.0] * 3, ("a", 0): [2.0] * 3}))
    assert headline(one) == "b has the lowest objective: 1.000, after 75 epochs in one repeat."
    two = table_of(make_table({("b", 0): [1.0] * 3, ("b", 1): [1.1] * 3, ("a", 0): [2.0] * 3, ("a", 1): [2.0] * 3}))
    assert headline(two) == "b has the lowest mean objective: 1.050 ± 0.050, after 75 epochs in each repeat. " + (
        "Too few repeats to tell whether it is better than a."
    )
    tie = table_of(make_table({("b", 0): [1.0] * 3, ("a", 0): [1.0] * 3}))
    assert headline(tie) == "a and b share the lowest objective: 1.000, after 75 epochs in one repeat."
    alone = table_of(make_table({("b", 0): [-0.2063] * 3}))
    assert headline(alone) == "b reached this objective: -0.2063, after 75 epochs in one repeat."


def test_numbers():
    assert with_error(0.0685, 0.000379) == "0.06850 ± 0.00038"
    assert with_error(1234.5, 210.0) == "1234 ± 210"
    assert with_error(1.0, float("nan")) == "1.000"
    assert with_error(1.23456e300, 4e298) == "1.235e+300 ± 4.0e+298"
    assert with_error(1.23456e-300, 4e-302) == "1.235e-300 ± 4.0e-302"
    assert (number(None), number(float("nan")), number(0.0685)) == ("–", "–", "0.06850")
    assert (number(12.3, digits=2), number(1234.4), number(100.0)) == ("12", "1234", "100.0")
    assert (duration(0.123), duration(300), duration(187_920)) == ("0.123 s", "5.0 min", "52.2 h")
