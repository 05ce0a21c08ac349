"""Duplicates of a list by hand, against a slow count, and in ledger, summary and page."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fmnas.comparison import Budget, ReportContext, ledger_table, write_report
from fmnas.comparison.analysis.costs import count_duplicates
from fmnas.search_spaces import Cell, SpaceError, canonical_form, joint_space

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
    with pytest.raises(SpaceError, match="conv9x9"):
        count([{**CELL, "op1": "conv9x9"}])


@settings(max_examples=30)
@given(st.lists(st.integers(0, 5), max_size=8))
def test_against_a_count_of_pairs(draws):
    space = joint_space()
    fresh = [space.sample(np.random.default_rng(seed)) for seed in range(2)]
    pool = [*fresh, *({**fresh[0], **cell} for cell in (CELL, DEAD, MIRROR, OTHER))]
    chosen = [pool[i] for i in draws]
    schedule = [tuple(c[name] for name in space.names[:6]) for c in chosen]
    forms = [canonical_form(Cell.from_configuration(c)) for c in chosen]
    exact = [any(chosen[i] == chosen[j] for j in range(i)) for i in range(len(chosen))]
    isomorphic = [
        any(schedule[i] == schedule[j] and forms[i] == forms[j] for j in range(i)) and not exact[i]
        for i in range(len(chosen))
    ]
    assert count(chosen) == (sum(exact), sum(isomorphic))


def test_in_ledger_summary_and_page(make_run, tmp_path):
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


def test_runs_are_counted_separately(make_table):
    trials = make_table({("re", r): [{"objective": 1.0, "x": 0.5}] * 3 for r in (0, 1)})
    assert list(ledger_table(trials, BUDGET)["duplicates"]) == [2, 2]
