import pytest

from fmnas.comparison import Budget, ledger_table

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
