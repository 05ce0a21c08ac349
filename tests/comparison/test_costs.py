from dataclasses import asdict
from datetime import timedelta

import numpy as np
import pytest

from fmnas.comparison import Budget, ReportContext, ledger_table
from fmnas.comparison.analysis.costs import (
    LEDGER_COLUMNS,
    LedgerRow,
    Pending,
    in_working_time,
    ledger_rows,
    wall_seconds,
)
from fmnas.comparison.report import compute_results
from fmnas.search_spaces.records import ORIGINS, STATUSES

BUDGET = Budget(evaluations=4, epochs_per_evaluation=25)


def costs(trials):
    """The only row of the ledger."""
    (row,) = ledger_table(trials, BUDGET).to_dict("records")
    return row


def test_by_hand(make_run):
    trials = [
        {"epochs": 3, "objective": 0.2, "x": 0.5},
        {"epochs": 3, "objective": 0.2, "x": 0.5, "origin": "model", "note": "fell back"},  # a duplicate
        {"epochs": 25, "objective": 0.1, "x": 0.5, "origin": "promotion"},  # not a duplicate: other epochs
        {"epochs": 25, "objective": 0.9, "origin": "model", "diverged": True},
        *({"epochs": 9, "status": status} for status in ("failed", "timed_out", "lost", "cancelled")),
    ]
    run = costs(make_run("bohb", 0, trials))
    assert (run["run"], run["trials"]) == ("bohb/repeat-0", 8)
    assert [run[name] for name in ("finished", "failed", "timed_out", "lost", "cancelled")] == [4, 1, 1, 1, 1]
    assert run["epochs"] == 3 + 3 + 25 + 25 + 9 + 9
    assert run["evaluations"] == pytest.approx(74 / 25)
    assert run["full_evaluations"] == 2
    # Failed and timed out: 7 s from start to finish each. Lost and cancelled: nothing.
    assert run["train_seconds"] == pytest.approx(4 * 10 + 2 * 7)
    assert run["suggest_seconds"] == pytest.approx(8)
    assert (run["diverged"], run["duplicates"], run["notes"]) == (1, 1, 1)
    shares = {name: share for name, share in run.items() if name.startswith("share_") and share}
    assert shares == {"share_random": 5 / 8, "share_model": 2 / 8, "share_promotion": 1 / 8}


def test_rows_and_records(make_table):
    trials = make_table({("b", 10): [1.0], ("b", 9): [2.0], ("a", 0): [1.0, {"status": "failed"}]})
    ledger = ledger_table(trials, BUDGET)
    assert list(ledger["run"]) == ["a/repeat-0", "b/repeat-9", "b/repeat-10"]
    assert [asdict(row) for row in ledger_rows(ledger)] == ledger.to_dict("records")
    assert len(ledger_table(trials.iloc[:0], BUDGET)) == 0


def test_lost_work_is_not_charged(make_run):
    """Attempts before the last, and the last if it was lost or cancelled; 7 s from start to finish each."""
    trials = [
        {"objective": 1.0, "attempt": 3, "lost_seconds": 12.5, "at": 40},
        {"status": "lost", "attempt": 2, "lost_seconds": 4.0},
        {"status": "cancelled", "lost_seconds": 0.0},
        {"status": "failed", "attempt": 2, "lost_seconds": 1.0},
    ]
    run = costs(make_run("a", 0, trials))
    assert run["lost_seconds"] == pytest.approx(12.5 + (4 + 7) + 7 + 1)
    assert run["train_seconds"] == pytest.approx(10 + 7)
    assert run["epochs"] == 50


@pytest.mark.parametrize(
    ("trials", "seconds"),
    [
        ([{"objective": 1.0, "at": 100}, {"objective": 1.0, "at": 60}, {"status": "lost", "at": 130}], 130 - (60 - 7)),
        (
            [{"objective": 1.0, "at": 100, "attempt": 2, "lost_seconds": 30.0}, {"at": 90, "lost_seconds": 0.0}],
            100 - (93 - 30),
        ),
    ],
)
def test_wall_clock_time_is_from_first_start_to_last_finish(make_run, trials, seconds):
    assert costs(make_run("a", 0, trials))["wall_seconds"] == pytest.approx(seconds)


def test_warm_start_trials_cost_epochs_and_no_wall_clock_time(make_run):
    known = {"objective": 1.0, "origin": "warm_start", "note": "trial 3 of a/repeat-0 in runs/earlier", "at": 10}
    run = make_run("a", 0, [known, known, {"objective": 2.0, "at": 100}])
    row = costs(run)
    assert (row["wall_seconds"], row["train_seconds"], row["epochs"]) == (7.0, 30.0, 75)
    assert (row["share_warm_start"], row["notes"]) == (pytest.approx(2 / 3), 0)
    assert list(wall_seconds(run)) == [0.0, 0.0, 7.0]
    assert list(wall_seconds(run.iloc[:2])) == [7.0, 7.0]


def test_suggestions_of_pending_trials_cost_time(make_table):
    trials = make_table({("a", 0): [1.0, 2.0], ("b", 0): [1.0]})
    pending = [Pending("a/repeat-0", 5.0), Pending("a/repeat-0", 0.5)]
    a, b = ledger_table(trials, BUDGET, pending).to_dict("records")
    assert (a["pending"], a["suggest_seconds"], a["trials"], a["epochs"]) == (2, 7.5, 2, 50)
    assert (b["pending"], b["suggest_seconds"]) == (0, 1.0)


def test_the_columns_name_every_status_and_every_origin_in_their_order():
    assert tuple(name for name in LEDGER_COLUMNS if name in STATUSES) == STATUSES
    shares = tuple(name.removeprefix("share_") for name in LEDGER_COLUMNS if name.startswith("share_"))
    assert shares == tuple(LedgerRow(*[0] * len(LEDGER_COLUMNS)).shares) == ORIGINS


def test_seconds_are_rounded_to_those_of_the_trials(make_run):
    run = costs(make_run("a", 0, [{"objective": 1.0, "train_seconds": 0.1, "suggest_seconds": 0.2}] * 3))
    assert (run["train_seconds"], run["suggest_seconds"]) == (0.3, 0.6)


def test_time_without_a_driver_is_not_wall_clock_time(make_run):
    """Trials end at 10, 20, 1030 and 1040 s; no driver worked from 25 to 1020 s, nor from 1031 to 1032 s."""
    run = make_run("a", 0, [{"objective": 1.0, "at": at} for at in (10, 20, 1030, 1040)])
    start = (run["finished_at"].iloc[0] - timedelta(seconds=10)).timestamp()
    pauses = [(start + 25, start + 1020), (start + 1031, start + 1032)]
    worked = in_working_time(run, {"": pauses})
    np.testing.assert_allclose(wall_seconds(worked), [7, 17, 32, 41], atol=1e-5)
    assert worked.dtypes.equals(run.dtypes)
    assert in_working_time(run, {"elsewhere": pauses}).equals(run)
    results = compute_results(run, ReportContext("e", "p", BUDGET, {}, "", pauses={"": pauses}))
    assert results.summary.ledger[0].wall_seconds == pytest.approx(41, abs=1e-4)
    assert results.curves["wall_seconds"].max() == pytest.approx(41, abs=1e-4)
