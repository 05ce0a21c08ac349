"""Clocks that were set, and hours in which nothing ran."""

from datetime import timedelta

import pandas as pd
import pytest

from fmnas.comparison import Budget, ReportContext, anytime_curves, ledger_table
from fmnas.comparison.analysis.sanity_checks import clock_remarks
from fmnas.comparison.summary import summarise


@pytest.fixture
def trials(make_run):
    """Three trainings of 10 s, each 10 s long by the clock."""
    run = make_run("a", 0, [3.0, 2.0, 1.0])
    return run.assign(started_at=run["finished_at"] - timedelta(seconds=10))


def moved(trials, column, row, seconds):
    """One time of day changed."""
    times = trials[column].copy()
    times.iloc[row] += pd.Timedelta(seconds=seconds)
    return trials.assign(**{column: times})


def test_of_honest_clocks_nothing_is_said(trials):
    assert clock_remarks(trials) == []
    assert clock_remarks(trials.iloc[:0]) == []
    assert clock_remarks(moved(trials, "finished_at", 1, -9)) == []  # within what messages and rounding may take


@pytest.mark.parametrize("seconds", [-20.0 - 60, -400.0 * 86_400])
def test_a_clock_that_was_set_back_is_named(trials, seconds):
    (remark,) = clock_remarks(moved(trials, "finished_at", 1, seconds))
    assert remark.startswith("1 trial ended before the start")
    assert "Do not believe wall-clock times" in remark


def test_what_was_known_was_not_trained_by_this_clock(trials):
    known = trials.assign(started_at=trials["finished_at"], train_seconds=1000.0)
    assert clock_remarks(known) != []
    assert clock_remarks(known.assign(origin="warm_start")) == []


def test_a_training_that_is_longer_than_it_lasted_is_named(trials):
    (remark,) = clock_remarks(trials.assign(train_seconds=[10.0, 1000.0, 2000.0]))
    assert remark.startswith("2 trials ended before the start, or sooner than the training can have")


def test_a_clock_that_was_set_ahead_in_a_training_is_named(trials):
    jumped = moved(moved(trials, "finished_at", 1, 400 * 86_400), "finished_at", 2, 400 * 86_400)
    remarks = clock_remarks(moved(jumped, "started_at", 2, 400 * 86_400))
    assert [remark.split(" by the clock")[0] for remark in remarks] == ["1 trial lasted"]


def test_hours_without_a_trial_are_named(trials):
    later = moved(moved(trials, "finished_at", 2, 7300), "started_at", 2, 7300)
    assert clock_remarks(later) == [
        "For 2.0 h in all no trial ran: the experiment was interrupted, or a clock was set ahead; wall-clock times "
        "include that."
    ]
    thought = later.assign(suggest_seconds=[1.0, 1.0, 7295.0])
    assert clock_remarks(thought) == []  # its optimizer thought all the time


def test_the_clocks_of_two_run_directories_are_not_one(trials):
    late = trials.assign(
        run="b/repeat-0", optimizer="b", started_at=trials["started_at"] + pd.Timedelta(days=3),
        finished_at=trials["finished_at"] + pd.Timedelta(days=3),
    )  # fmt: skip
    together = pd.concat([trials, late], ignore_index=True)
    assert len(clock_remarks(together)) == 1
    assert clock_remarks(together.assign(run_directory=["one"] * 3 + ["two"] * 3)) == []


def test_the_summary_warns_of_them(trials):
    context = ReportContext("n", "p", Budget(3, 25), {}, "")
    jumped = moved(trials, "finished_at", 2, 400 * 86_400)
    curves, ledger = anytime_curves(jumped, context.budget), ledger_table(jumped, context.budget)
    summary = summarise(jumped, curves, ledger, context)
    assert len(summary.clocks) == 1
    assert summary.clocks[0] in summary.caution
