"""The content of summary.json, compared with a stored file: every key in order, every text, every number."""

import json
from pathlib import Path

import pandas as pd
import pytest

from fmnas.comparison import Budget, ReportContext, Summary, anytime_curves, ledger_table
from fmnas.comparison.analysis.costs import Pending
from fmnas.comparison.analysis.trials import PlannedRun
from fmnas.comparison.summary import Remark, summarise

STORED = Path(__file__).with_name("summary.json")
BUDGET = Budget(evaluations=3, epochs_per_evaluation=25)


def summary(make_table) -> Summary:
    """Two optimizers with failures, notes and a retraining, and a third without a result."""
    failed = {"status": "failed", "reason": "out of memory"}
    runs = {
        **{("bo-fm", r): [3.0, {"objective": 1.0 + r / 8, "origin": "model"}, 2.0] for r in range(2)},
        **{("random", r): [4.0 - r / 8, {"objective": 1.5, "epochs": 5}, failed, 1.25 + r] for r in range(2)},
        ("bohb", 0): [{"status": "lost"}, {"objective": 9.0, "epochs": 5, "note": "odd"}],
    }
    common = {"trial": 1, "selected_objective": 1.0, "selected_error": 0.1, "epochs": 50, "images": 9, "test_images": 5}
    common |= {"train_seconds": 2.5, "started_at": "", "finished_at": "", "worker": "w"}
    retrained = [
        {"run": f"{name}/repeat-{r}", "optimizer": name, "repeat": r, "test_error": error, "test_error_seed_1": error}
        | common
        for name, r, error in (("bo-fm", 0, 0.125), ("bo-fm", 1, 0.25), ("random", 0, 0.5))
    ]
    context = ReportContext(
        "a name",
        "a problem",
        BUDGET,
        {},
        "",
        pending=[Pending("bohb/repeat-0", 2.0)],
        retrained=pd.DataFrame(retrained),
        remarks=[Remark("of all"), Remark("of one", "random")],
        runs=[PlannedRun("bohb/repeat-1", "bohb", 1)],
        finished=True,
        by_design={"random": "random"},
    )
    trials = make_table(runs)
    curves, ledger = anytime_curves(trials, BUDGET, runs=context.runs), ledger_table(trials, BUDGET, context.pending)
    return summarise(trials, curves, ledger, context)


def flatten(value, place=""):
    """(place, value) of every leaf, in order."""
    if isinstance(value, dict | list):
        for name, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from flatten(part, f"{place}/{name}")
    else:
        yield place, value


def test_the_file_is_unchanged(make_table):
    plain = json.loads(json.dumps(summary(make_table).to_json(), allow_nan=False))
    places, values = zip(*flatten(plain), strict=True)
    stored_places, stored = zip(*flatten(json.loads(STORED.read_text())), strict=True)
    assert places == stored_places
    for place, value, before in zip(places, values, stored, strict=True):
        assert type(value) is type(before), place
        assert value == (pytest.approx(before, rel=1e-9) if isinstance(before, float) else before), place


def test_the_note_of_a_warm_start_trial_is_not_an_incident(make_run):
    notes = [{"origin": "warm_start", "note": "trial 3 of a/repeat-0 in runs/earlier"}, {"note": "odd"}]
    trials = make_run("a", 0, notes)
    curves, ledger = anytime_curves(trials, BUDGET), ledger_table(trials, BUDGET)
    incidents = summarise(trials, curves, ledger, ReportContext("a", "p", BUDGET, {}, "")).incidents
    assert [incident.text for incident in incidents] == ["odd"]


def test_the_only_optimizer_is_not_said_to_have_no_trial(make_run):
    trials = make_run("a", 0, [1.0])
    curves, ledger = anytime_curves(trials, BUDGET), ledger_table(trials, BUDGET)
    result = summarise(trials, curves, ledger, ReportContext("a", "p", BUDGET, {}, "", hypotheses="a"))
    assert "it has no trial" not in result.to_json()["tests"]["power"]
