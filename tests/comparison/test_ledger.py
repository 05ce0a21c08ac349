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
from fmnas.comparison.figures.timeline import timeline
from fmnas.comparison.report import results_of
from fmnas.search_spaces.records import ORIGINS, STATUSES

BUDGET = Budget(evaluations=4, epochs_per_evaluation=25)


def test_by_hand(make_run):
    trials = make_run(
        "bohb",
        0,
        [
            {"epochs": 3, "objective": 0.2, "x": 0.5},
            {"epochs": 3, "objective": 0.2, "x": 0.5, "origin": "model", "note": "fell back"},  # a duplicate
            {"epochs": 25, "objective": 0.1, "x": 0.5, "origin": "promotion"},  # no duplicate: other epochs
            {"epochs": 25, "objective": 0.9, "origin": "model", "diverged": True},
            {"epochs": 9, "status": "failed"},
            {"epochs": 9, "status": "timed_out"},
            {"epochs": 9, "status": "lost"},
            {"epochs": 9, "status": "cancelled"},
        ],
    )
    (run,) = ledger_table(trials, BUDGET).to_dict("records")
    assert run["run"] == "bohb/repeat-0"
    assert [run[name] for name in ("trials", "finished", "failed", "timed_out", "lost", "cancelled")] == [
        8,
        4,
        1,
        1,
        1,
        1,
    ]
    assert run["epochs"] == 3 + 3 + 25 + 25 + 9 + 9
    assert run["evaluations"] == pytest.approx(74 / 25)
    assert run["full_evaluations"] == 2
    # Failed and timed out: 7 s from start to finish each. Lost and cancelled: nothing.
    assert run["train_seconds"] == pytest.approx(4 * 10 + 2 * 7)
    assert run["suggest_seconds"] == pytest.approx(8)
    assert (run["diverged"], run["duplicates"], run["notes"]) == (1, 1, 1)
    shares = {name: share for name, share in run.items() if name.startswith("share_") and share}
    assert shares == {"share_random": 5 / 8, "share_model": 2 / 8, "share_promotion": 1 / 8}


def test_one_row_per_run_in_order(make_table):
    ledger = ledger_table(make_table({("b", 10): [1.0], ("b", 9): [1.0], ("a", 0): [1.0]}), BUDGET)
    assert list(ledger["run"]) == ["a/repeat-0", "b/repeat-9", "b/repeat-10"]


def test_no_trials(make_run):
    assert len(ledger_table(make_run("a", 0, [1.0]).iloc[:0], BUDGET)) == 0


def test_lost_work_is_the_platforms(make_run):
    """Attempts before the last, and the last if it was lost or cancelled; 7 s from start to finish each."""
    trials = make_run(
        "a",
        0,
        [
            {"objective": 1.0, "attempt": 3, "lost_seconds": 12.5, "at": 40},
            {"status": "lost", "attempt": 2, "lost_seconds": 4.0},
            {"status": "cancelled", "lost_seconds": 0.0},
            {"status": "failed", "attempt": 2, "lost_seconds": 1.0},
        ],
    )
    (run,) = ledger_table(trials, BUDGET).to_dict("records")
    assert run["lost_seconds"] == pytest.approx(12.5 + (4 + 7) + 7 + 1)
    assert run["train_seconds"] == pytest.approx(10 + 7)
    assert run["epochs"] == 50


def test_the_clock_runs_from_the_first_start_to_the_last_finish(make_run):
    trials = make_run(
        "a", 0, [{"objective": 1.0, "at": 100}, {"objective": 1.0, "at": 60}, {"status": "lost", "at": 130}]
    )
    assert ledger_table(trials, BUDGET)["wall_seconds"].item() == pytest.approx(130 - (60 - 7))
    repeated = [{"objective": 1.0, "at": 100, "attempt": 2, "lost_seconds": 30.0}, {"at": 90, "lost_seconds": 0.0}]
    assert ledger_table(make_run("a", 0, repeated), BUDGET)["wall_seconds"].item() == pytest.approx(100 - (93 - 30))


def test_what_was_known_takes_its_seconds_and_epochs_and_no_time_of_the_clock(make_run):
    known = {"objective": 1.0, "origin": "warm_start", "note": "trial 3 of a/repeat-0 in runs/earlier", "at": 10}
    run = make_run("a", 0, [known, known, {"objective": 2.0, "at": 100}])
    (row,) = ledger_table(run, BUDGET).to_dict("records")
    assert (row["wall_seconds"], row["train_seconds"], row["epochs"]) == (7.0, 30.0, 75)
    assert (row["share_warm_start"], row["notes"]) == (pytest.approx(2 / 3), 0)
    assert list(wall_seconds(run)) == [0.0, 0.0, 7.0]
    assert list(wall_seconds(run.iloc[:2])) == [7.0, 7.0]


def test_an_older_file_does_not_say_what_was_lost_before(make_run):
    assert ledger_table(make_run("a", 0, [1.0, 2.0]), BUDGET)["lost_seconds"].item() == 0.0
    assert np.isnan(ledger_table(make_run("a", 0, [1.0, {"attempt": 2}]), BUDGET)["lost_seconds"].item())


def test_pending_trials_were_thought_of(make_table):
    trials = make_table({("a", 0): [1.0, 2.0], ("b", 0): [1.0]})
    pending = [Pending("a/repeat-0", 5.0), Pending("a/repeat-0", 0.5)]
    a, b = ledger_table(trials, BUDGET, pending).to_dict("records")
    assert (a["pending"], a["suggest_seconds"], a["trials"], a["epochs"]) == (2, 7.5, 2, 50)
    assert (b["pending"], b["suggest_seconds"]) == (0, 1.0)
    assert a["idle_seconds"] - 5.5 == ledger_table(trials, BUDGET)["idle_seconds"].iloc[0]


def test_the_columns_name_every_status_and_every_origin_in_their_order():
    assert tuple(name for name in LEDGER_COLUMNS if name in STATUSES) == STATUSES
    assert tuple(name for name in LEDGER_COLUMNS if name.startswith("share_")) == tuple(
        f"share_{origin}" for origin in ORIGINS
    )
    assert tuple(LedgerRow(*[0] * len(LEDGER_COLUMNS)).shares) == ORIGINS


def test_the_rows_as_records(make_table):
    ledger = ledger_table(make_table({("a", 0): [1.0, {"status": "failed"}], ("b", 1): [2.0]}), BUDGET)
    rows = ledger_rows(ledger)
    assert [asdict(row) for row in rows] == ledger.to_dict("records")
    assert [(row.run, row.finished, row.failed, row.shares["random"]) for row in rows] == [
        ("a/repeat-0", 1, 1, 1.0),
        ("b/repeat-1", 1, 0, 1.0),
    ]


def test_seconds_are_no_longer_than_those_of_the_trials(make_run):
    trials = make_run("a", 0, [{"objective": 1.0, "train_seconds": 0.1, "suggest_seconds": 0.2}] * 3)
    (run,) = ledger_table(trials, BUDGET).to_dict("records")
    assert (run["train_seconds"], run["suggest_seconds"], run["idle_seconds"]) == (0.3, 0.6, 0.6)


def test_a_time_without_a_driver_is_no_wall_clock_time(make_run):
    """Trials end at 10, 20, 1030 and 1040 s; no driver worked from 25 to 1020 s, nor from 1031 to 1032 s."""
    run = make_run("a", 0, [{"objective": 1.0, "at": at} for at in (10, 20, 1030, 1040)])
    start = (run["finished_at"].iloc[0] - timedelta(seconds=10)).timestamp()
    pauses = [(start + 25, start + 1020), (start + 1031, start + 1032)]
    worked = in_working_time(run, {"": pauses})
    np.testing.assert_allclose(wall_seconds(worked), [7, 17, 32, 41], atol=1e-5)
    assert worked.dtypes.equals(run.dtypes)
    assert in_working_time(run, {"elsewhere": pauses}).equals(run)

    context = ReportContext("e", "p", BUDGET, {}, "", pauses={"": pauses})
    results = results_of(run, context)
    assert results.summary.ledger[0].wall_seconds == pytest.approx(41, abs=1e-4)
    assert results.curves["wall_seconds"].max() == pytest.approx(41, abs=1e-4)
    assert timeline(results.trials).busy_share == pytest.approx(28 / 41, abs=1e-4)
