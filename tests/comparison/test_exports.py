import json

import pandas as pd
import pytest

from fmnas.comparison import Budget, ReportContext, anytime_curves, ledger_table
from fmnas.comparison.report import CURVES, GRID, MEAN_CURVE_COLUMNS, write_tables
from fmnas.comparison.summary import summarise

BUDGET = Budget(evaluations=3, epochs_per_evaluation=25)


def exported(trials, folder):
    """The summary, and every table as it reads back."""
    curves = anytime_curves(trials, BUDGET)
    context = ReportContext("n", "p", BUDGET, {}, "")
    summary = summarise(trials, curves, ledger_table(trials, BUDGET), context)
    json.dumps(summary.to_json(), allow_nan=False)
    paths = write_tables(summary, curves, folder)
    return summary, {path.stem: pd.read_csv(path) for path in paths}, curves


def test_the_tables_hold_what_the_summary_holds(make_table, tmp_path):
    runs = {(name, r): [3.0 + r, 2.0 + r + (name == "b"), 1.0 + r] for name in "ab" for r in range(2)}
    summary, tables, curves = exported(make_table(runs), tmp_path)
    assert list(tables["curves"].columns) == list(CURVES)
    assert list(tables["curves"]["incumbent"]) == list(curves["incumbent"])
    mean = tables["mean_curves"]
    assert list(mean.columns) == list(MEAN_CURVE_COLUMNS)
    assert len(mean) == 5 * 2 * GRID
    last = mean[(mean["axis"] == "evaluations") & (mean["optimizer"] == "a")].iloc[-1]
    assert (last["at"], last["mean"], last["low"], last["high"]) == (3.0, 1.5, 1.0, 2.0)
    points = tables["checkpoints"]
    assert list(points["share"].unique()) == [0.25, 0.5, 1.0]
    ends = points[points["share"] == 1].to_dict("records")
    assert [(row["optimizer"], row["mean"], row["repeat_0"], row["repeat_1"]) for row in ends] == [
        (row.optimizer, row.mean, row.values[0], row.values[1]) for row in summary.checkpoints[-1].rows
    ]
    assert list(tables["tests"]["verdict"]) == ["too few repeats to tell"]
    assert list(tables["ledger"]["run"]) == [row.run for row in summary.ledger]
    assert set(tables["ledger"]["wall_seconds"]) == {27.0}
    assert list(tables["honesty"]["share_random"]) == [1.0, 1.0]
    assert set(tables["targets"]["from"]) == {"a's mean at 100%", "b's mean at 100%"}


@pytest.mark.parametrize("trials", [[], [{"status": "failed"}] * 3])
def test_without_results_the_tables_have_their_columns(make_run, tmp_path, trials):
    table = make_run("a", 0, trials or [1.0]).iloc[: len(trials)]
    _, tables, _ = exported(table, tmp_path)
    assert {"optimizer", "mean"} <= set(tables["checkpoints"].columns)
    assert {"first", "p_corrected"} <= set(tables["tests"].columns)
    assert len(tables["targets"]) == 0


def test_the_same_results_give_the_same_bytes(make_table, tmp_path):
    trials = make_table({(name, r): [1.0 + r / 7, 0.3 * r] for name in "ab" for r in range(4)})
    for folder in ("first", "second"):
        exported(trials, tmp_path / folder)
    for path in (tmp_path / "first").iterdir():
        assert path.read_bytes() == (tmp_path / "second" / path.name).read_bytes()
