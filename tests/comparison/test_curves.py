import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import sem

from fmnas.comparison import Budget, anytime_curves
from fmnas.comparison.analysis.curves import incumbent_at, mean_curve, standard_error

NAN = float("nan")
BUDGET = Budget(evaluations=4, epochs_per_evaluation=25)


def test_short_trainings_cost_but_are_never_incumbents(make_run):
    short = [{"epochs": 5, "objective": 0.01}, 0.5, {"epochs": 10, "objective": 0.02}]
    curve = anytime_curves(make_run("bohb", 0, [*short, 0.7, {"error": 0.3, "objective": 0.4}]), BUDGET)
    assert list(curve["epochs"]) == [5, 30, 40, 65, 90]
    assert list(curve["evaluations"]) == [0.2, 1.2, 1.6, 2.6, 3.6]
    assert list(curve["seconds"]) == [11, 22, 33, 44, 55]
    np.testing.assert_equal(curve["incumbent"].to_numpy(), [NAN, 0.5, 0.5, 0.5, 0.4])
    np.testing.assert_equal(curve["incumbent_trial"].to_numpy(), [NAN, 1, 1, 1, 4])
    np.testing.assert_equal(curve["incumbent_error"].to_numpy(), [NAN, NAN, NAN, NAN, 0.3])
    np.testing.assert_equal(curve["objective"].to_numpy(), [NAN, 0.5, NAN, 0.7, 0.4])


@pytest.mark.parametrize(
    ("trials", "incumbents"),
    [
        ([{"objective": 1.0, "at": 40}, {"objective": 3.0, "at": 20}, {"objective": 2.0, "at": 30}], [3.0, 2.0, 1.0]),
        ([float("inf"), NAN, 2.0], [NAN, NAN, 2.0]),
        ([3.0, 1.0, 2.0], [3.0, 1.0, 1.0]),
    ],
    ids=["by finish time", "finite results only", "the best so far"],
)
def test_incumbents(make_run, trials, incumbents):
    np.testing.assert_equal(anytime_curves(make_run("a", 0, trials), BUDGET)["incumbent"].to_numpy(), incumbents)


def test_the_first_of_equals_stays_with_its_error(make_run):
    curve = anytime_curves(make_run("a", 0, [{"objective": 2.0, "error": 0.3}, 1.0, 1.0]), BUDGET)
    assert list(curve["incumbent_trial"]) == [0, 1, 1]
    np.testing.assert_equal(curve["incumbent_error"].to_numpy(), [0.3, NAN, NAN])


def test_failed_trials_cost_and_lost_ones_do_not(make_run):
    curve = anytime_curves(make_run("a", 0, [{"status": "failed"}, {"status": "lost"}, 1.0]), BUDGET)
    assert list(curve["epochs"]) == [25, 25, 50]
    assert list(curve["seconds"]) == [8, 9, 20]  # 7 + 1, a suggestion of 1, 10 + 1
    np.testing.assert_equal(curve["incumbent"].to_numpy(), [NAN, NAN, 1.0])


def test_a_step_is_where_its_cost_is_spent(make_run):
    curve = anytime_curves(make_run("a", 0, [3.0, 1.0]), BUDGET)
    at = incumbent_at(curve, "epochs", [0, 24.9, 25, 49.9, 50, 1000])
    np.testing.assert_equal(at, [NAN, NAN, 3.0, 3.0, 1.0, 1.0])


def test_mean_over_repeats(make_table):
    runs = {("a", 0): [4.0, 3.0, 1.0], ("a", 1): [{"epochs": 5, "objective": 0.0}, 2.0, 2.5], ("a", 2): [6.0, 7.0, 0.5]}
    mean = mean_curve(anytime_curves(make_table({**runs, ("b", 0): [9.0]}), BUDGET), "epochs", [0, 25, 30, 55, 75])
    mine = mean[mean["optimizer"] == "a"]
    values = np.array([[4.0, 3.0, 1.0], [2.0, 2.0, 2.0], [6.0, 6.0, 0.5]])  # at 30, 55, 75: step, never between
    np.testing.assert_allclose(mine["mean"], [NAN, NAN, *values.mean(axis=0)])
    np.testing.assert_allclose(mine["standard_error"], [NAN, NAN, *sem(values, axis=0, ddof=1)])
    other = mean[mean["optimizer"] == "b"]
    np.testing.assert_equal(other["mean"].to_numpy(), [NAN, 9, 9, 9, 9])
    assert other["standard_error"].isna().all()
    assert list(other["repeats"]) == [1] * 5


def test_the_order_of_addition_adds_no_spread():
    folds = np.array([[(0.1 + 0.2 + 0.3) / 3], [(0.3 + 0.2 + 0.1) / 3]])
    assert folds[0] != folds[1]
    assert standard_error(folds).tolist() == [0.0]
    assert standard_error(np.array([[1.0, 1.0, np.nan], [1.0, 1.0 + 1e-9, 1.0]]))[:2] == pytest.approx([0.0, 5e-10])
    assert np.isnan(standard_error(np.array([np.nan, 1.0, 1.0])))


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_the_standard_error_of_values_whose_squares_are_no_floats(size):
    assert float(standard_error(np.array([1.0, 3.0]) * size)) == pytest.approx(size, rel=1e-9, abs=0)


def test_every_axis_of_an_asynchronous_run_by_hand(make_run):
    """Two workers: trial 1 ends first; trial 2 was lost once and repeated; trial 3 failed."""
    first = {"objective": 3.0, "started_at": "2026-01-01T00:00:00Z", "at": 50, "train_seconds": 48.0}
    trials = [
        first,
        {"objective": 4.0, "at": 30, "train_seconds": 6.5, "suggest_seconds": 2.0, "lost_seconds": 0.0},
        {"objective": 2.0, "at": 90, "attempt": 2, "lost_seconds": 20.0, "suggest_seconds": 0.5},
        {"status": "failed", "at": 95, "suggest_seconds": 0.0},
    ]
    curve = anytime_curves(make_run("a", 0, trials), BUDGET)
    assert list(curve["trial"]) == [1, 0, 2, 3]
    assert list(curve["incumbent"]) == [4.0, 3.0, 2.0, 2.0]
    assert list(curve["epochs"]) == [25, 50, 75, 100]
    assert list(curve["train_seconds"]) == [6.5, 54.5, 64.5, 71.5]
    assert list(curve["seconds"]) == [8.5, 57.5, 68.0, 75.0]
    assert list(curve["wall_seconds"]) == [30, 50, 90, 95]
    assert list(incumbent_at(curve, "wall_seconds", [30, 49, 90])) == [4.0, 4.0, 2.0]


TRIAL = st.fixed_dictionaries(
    {
        "epochs": st.sampled_from([1, 5, 25]),
        "objective": st.floats(-10, 10),
        "status": st.sampled_from(["finished", "finished", "finished", "failed", "lost"]),
        "at": st.integers(0, 20),
    }
)


@settings(max_examples=40, deadline=None)
@given(trials=st.lists(TRIAL, min_size=1, max_size=12), shuffle=st.randoms(use_true_random=False))
def test_properties(make_run, trials, shuffle):
    table = make_run("a", 0, trials)
    curve = anytime_curves(table, BUDGET)
    known = curve["incumbent"].dropna()
    assert (known.diff().dropna() <= 0).all()
    assert curve[["epochs", "seconds"]].diff().dropna().ge(0).all(axis=None)
    full = [t["objective"] for t in trials if t["epochs"] == 25 and t["status"] == "finished"]
    assert len(known) == 0 if not full else known.iloc[-1] == min(full)
    assert curve["epochs"].iloc[-1] == sum(t["epochs"] for t in trials if t["status"] != "lost")
    order = list(range(len(table)))
    shuffle.shuffle(order)
    pd.testing.assert_frame_equal(curve, anytime_curves(table.iloc[order], BUDGET))
