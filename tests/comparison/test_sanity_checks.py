"""How trials were chosen, what failed or was repeated, and the warnings about it."""

from math import isnan

import pytest

from fmnas.comparison import Budget, ReportContext, anytime_curves, ledger_table
from fmnas.comparison.analysis.costs import Pending
from fmnas.comparison.analysis.sanity_checks import (
    check_optimizers,
    failure_warnings,
    lost_trial_warnings,
    unused_method_warnings,
)
from fmnas.comparison.summary import summarise
from fmnas.search_spaces.records import FAILED_FIT, FALLBACK, ORIGINS

BUDGET = Budget(evaluations=4, epochs_per_evaluation=25)
INITIAL, RANDOM, MODEL, MUTATED, PROMOTED = (
    {"objective": 1.0, "origin": origin} for origin in ("initial", "random", "model", "mutation", "promotion")
)
KNOWN = {"objective": 1.0, "origin": "warm_start", "note": "trial 3 of a/repeat-0 in runs/earlier"}
BY_DESIGN = {"random": "random", "regularized-evolution": "mutation", "bo-fm": "model"}


def check(trials, pending=()):
    """The checks of a table with one optimizer."""
    (checks,) = check_optimizers(trials, ledger_table(trials, BUDGET, pending), BY_DESIGN)
    return checks


def test_by_hand(make_table):
    failed = {**RANDOM, "fallback": FAILED_FIT}
    repeated = {**RANDOM, "fallback": FALLBACK, "x": 0.0}
    runs = {("bo-fm", 0): [INITIAL, MODEL, failed, MODEL], ("bo-fm", 1): [INITIAL, MODEL, repeated, MODEL]}
    table = make_table(runs).fillna({"fallback": ""})
    checks = check(table, [Pending("bo-fm/repeat-1", 2.0)])
    assert (checks.optimizer, checks.trials, checks.model_share) == ("bo-fm", 8, 0.5)
    assert checks.shares == {**dict.fromkeys(ORIGINS, 0.0), "initial": 0.25, "random": 0.25, "model": 0.5}
    assert (checks.fallbacks, checks.failed_fits) == (2, 1)
    assert (checks.duplicates, checks.isomorphic_duplicates) == (1, 0)
    assert (checks.charged, checks.unfinished) == (8, 0)
    assert checks.suggest_seconds == pytest.approx(10 / 9)
    assert checks.suggest_share == pytest.approx(10 / 90)
    fits, duplicates = checks.warnings
    assert "1 of 9" in fits
    assert "1 of its 8 charged trials (12%)" in duplicates


@pytest.mark.parametrize(
    ("name", "trials", "is_random"),
    [
        ("bo-fm", [INITIAL] * 5 + [RANDOM, MODEL], False),
        ("bo-fm", [INITIAL] * 5 + [RANDOM, RANDOM, MODEL], True),
        ("bohb", [RANDOM] * 5, True),
        ("bohb", [RANDOM, MODEL, PROMOTED], False),
        ("bohb", [RANDOM, RANDOM, MODEL] + [PROMOTED] * 2, True),  # 2 of 3, not of 5
        ("regularized-evolution", [INITIAL, RANDOM, RANDOM, MUTATED], True),
        ("random", [INITIAL] + [RANDOM] * 9, False),
        ("bo-fm", [INITIAL] * 3, False),
    ],
)
def test_random_search_under_another_name_gets_a_warning(make_run, name, trials, is_random):
    warnings = check(make_run(name, 0, trials)).warnings
    assert any("random search" in text for text in warnings) == is_random
    if not is_random:
        assert warnings == ()


def test_the_share_of_trials_far_from_what_is_recorded(make_run):
    trials = [{"objective": 1.0, "origin": "model", "extrapolated": far} for far in (True, False, False, False)]
    assert check(make_run("bo-fm", 0, trials)).extrapolated == 0.25


def test_warm_start_trials_are_not_suggestions(make_run):
    checks = check(make_run("bo-fm", 0, [KNOWN] * 4 + [RANDOM, RANDOM, MODEL, MODEL]))
    assert checks.warnings == ()
    assert (checks.shares["warm_start"], checks.model_share, checks.fallbacks) == (0.5, 0.25, 0)
    checks = check(make_run("bo-fm", 0, [KNOWN] * 4 + [RANDOM]))
    assert checks.method_unused
    assert "1 of its 1 new" in checks.warnings[0]


@pytest.mark.parametrize(
    ("name", "trials", "method_unused"),
    [
        ("bohb", [RANDOM, RANDOM, PROMOTED], True),
        ("bohb", [RANDOM, RANDOM, MODEL], False),
        ("bo-fm", [INITIAL, RANDOM], True),
        ("bo-fm", [INITIAL, INITIAL], False),  # no new configurations yet
        ("random", [RANDOM], False),
        ("regularized-evolution", [INITIAL, RANDOM], True),
        ("regularized-evolution", [RANDOM, MUTATED], False),
    ],
)
def test_unused_models_and_mutations(make_run, name, trials, method_unused):
    checks = check(make_run(name, 0, trials))
    assert checks.method_unused == method_unused
    warnings = unused_method_warnings([checks])
    assert [text.startswith(f"{name} never") for text in warnings] == [True] * method_unused


@pytest.mark.parametrize(
    ("trials", "count"),
    [
        ([INITIAL, {"status": "failed"}, {**MODEL, "status": "timed_out"}, MODEL], "2 of its 4"),
        ([{**MODEL, "x": 0.5}] * 3 + [{**MODEL, "x": 0.25}], "2 of its 4"),
        ([{"status": "lost"}, MODEL, MODEL], None),
    ],
    ids=["failures", "duplicates", "lost"],
)
def test_many_failures_and_duplicates_are_cautions(make_run, trials, count):
    warnings = failure_warnings([check(make_run("bo-fm", 0, trials))])
    assert [f"bo-fm: {count}" in text for text in warnings] == [True] * (count is not None)


def test_lost_trials_are_cautions(make_table):
    lost = {"status": "lost", "reason": "its process died"}
    runs = {("a", 0): [MODEL, lost, lost], ("a", 1): [lost], ("b", 0): [MODEL, lost], ("c", 0): [MODEL, MODEL]}
    trials = make_table(runs)
    ledger = ledger_table(trials, BUDGET)
    a, b, cause = lost_trial_warnings(ledger)
    assert "a: 3 of its 4 trials were lost" in a
    assert "b: 1 of its 2 trials was lost" in b
    assert "workers.attempts" in cause
    context = ReportContext("n", "p", BUDGET, {}, "")
    assert " ".join([a, b, cause]) in summarise(trials, anytime_curves(trials, BUDGET), ledger, context).caution
    assert lost_trial_warnings(ledger_table(make_table({("c", 0): [MODEL]}), BUDGET)) == []


@pytest.mark.parametrize(
    ("name", "trials", "by_method"),
    [
        ("bo-fm", [INITIAL, RANDOM, MODEL, MODEL], 0.5),
        ("regularized-evolution", [INITIAL, RANDOM, MUTATED, MUTATED], 0.5),
        ("bohb", [RANDOM, RANDOM, MODEL, PROMOTED], 0.25),
        ("random", [INITIAL, RANDOM], None),
    ],
)
def test_the_share_of_the_method(make_run, name, trials, by_method):
    checks = check(make_run(name, 0, trials))
    assert checks.method_share == by_method or (by_method is None and isnan(checks.method_share))


def test_designs(make_run):
    trials = make_run("a", 0, [RANDOM])
    ledger = ledger_table(trials, BUDGET)
    assert check_optimizers(trials, ledger)[0].method_unused, "the default gives the most warnings"
    assert not check_optimizers(trials, ledger, {"a": "random"})[0].method_unused
