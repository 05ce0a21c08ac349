"""Duplicates of a list by hand, and in ledger, summary and page."""

import pandas as pd
import pytest

from fmnas.comparison import Budget, ReportContext, ledger_table, write_report
from fmnas.comparison.analysis.costs import count_duplicates
from fmnas.comparison.report import compute_results
from fmnas.search_spaces import SpaceError

pytestmark = pytest.mark.slow

BUDGET = Budget(evaluations=4, epochs_per_evaluation=25)
CELL = {"op1": "conv1x1", "op2": "conv3x3", "op3": "conv5x5", "op4": "identity", "op5": "identity", "op6": "identity"}
CELL |= {"op7": "sepconv3x3", "op8": "maxpool3x3", "in2": "-1,1", "in3": "-1,0", "in4": "0,1", "output": 2}
DEAD = {**CELL, "op5": "conv3x3", "in3": "1,2"}
MIRROR = {**CELL, "op1": "conv3x3", "op2": "conv1x1", "op3": "sepconv3x3", "op4": "maxpool3x3"}
MIRROR |= {"op7": "conv5x5", "op8": "identity"}
OTHER = {**CELL, "op1": "conv5x5"}


def count(configurations):
    return count_duplicates(pd.DataFrame(configurations))


def test_by_hand():
    assert count([]) == (0, 0)
    assert count([CELL, DEAD, MIRROR, OTHER, DEAD, CELL]) == (2, 2)
    assert count([{**CELL, "momentum": 0.9}, {**DEAD, "momentum": 0.8}]) == (0, 0)
    assert count([{"x": 1.0}, {"x": 2.0}, {"x": 1.0}, {"x": 1.0}]) == (2, 0)
    assert count([CELL, {**CELL, "output": 2.0, "in3": "-1, 0"}]) == (0, 1), "a different spelling"
    assert count([{"m": value} for value in (True, 1, "1", "True", True)]) == (1, 0)
    with pytest.raises(SpaceError, match="conv9x9"):
        count([{**CELL, "op1": "conv9x9"}])


def test_in_ledger_summary_and_page(make_run, tmp_path, no_figures):
    """`x` is the schedule: it differs unless set."""
    cells = [CELL, {**DEAD, "x": 0.0}, {**CELL, "x": 0.0}, MIRROR, {**CELL, "epochs": 5}, {**OTHER, "status": "lost"}]
    trials = make_run("re", 0, [{"objective": 1.0, **cell} for cell in cells])
    (run,) = ledger_table(trials, BUDGET).to_dict("records")
    names = ("duplicates", "isomorphic_duplicates")
    assert [run[name] for name in names] == [1, 1]
    summary = write_report(trials, ReportContext("a", "joint", BUDGET, {}, ""), tmp_path)
    assert [getattr(summary.optimizers["re"], name) for name in names] == [1, 1]
    page = (tmp_path / "index.html").read_text()
    assert "1 exact, 1 isomorphic" in page
    assert "Isomorphic: the same network" in page


def summary_of(trials):
    return compute_results(trials, ReportContext("a", "joint", BUDGET, {}, "")).summary


def test_runs_are_counted_separately(make_table):
    trials = make_table({("re", r): [{"objective": 1.0, "x": 0.5}] * 3 for r in (0, 1)})
    assert list(ledger_table(trials, BUDGET)["duplicates"]) == [2, 2]
    cells = [{"objective": 1.0, "x": 0.5, **cell} for cell in (CELL, DEAD, CELL)]
    table = make_table({("re", r): cells for r in (0, 1)})
    (final,) = summary_of(table).optimizers.values()
    assert (final.duplicates, final.isomorphic_duplicates) == (2, 2)
