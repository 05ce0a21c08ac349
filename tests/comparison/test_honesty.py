"""Who chose, what failed, what repeated; and that no optimizer writes a note that is not known."""

from math import isnan
from pathlib import Path

import pytest

from fmnas.comparison import Budget, ReportContext, ReportError, anytime_curves, ledger_table
from fmnas.comparison.analysis.costs import Pending
from fmnas.comparison.analysis.sanity_checks import honesty, lost_trials, slow_starts, spoilt_trials, unused_methods
from fmnas.comparison.summary import summarise
from fmnas.search_spaces.records import ORIGINS

ROOT = Path(__file__).resolve().parents[2]
BUDGET = Budget(evaluations=10, epochs_per_evaluation=25)
MODEL, CHANCE = {"objective": 1.0, "origin": "model"}, {"objective": 1.0, "origin": "random"}
INITIAL = {"objective": 1.0, "origin": "initial"}
MUTATED = {**MODEL, "origin": "mutation"}
BY_DESIGN = {"random": "random", "regularized-evolution": "mutation", "bo-fm": "model"}


def only(trials, pending=()):
    (record,) = honesty(trials, ledger_table(trials, BUDGET, pending), BY_DESIGN)
    return record


def test_by_hand(make_table):
    failed = {**CHANCE, "note": "fit failed: not positive definite"}
    fallback = {**CHANCE, "note": "every candidate was tried before", "x": 0.0}
    runs = {("bo-fm", 0): [INITIAL, MODEL, failed, MODEL], ("bo-fm", 1): [INITIAL, MODEL, fallback, MODEL]}
    record = only(make_table(runs), [Pending("bo-fm/repeat-1", 2.0)])
    assert (record.optimizer, record.trials, record.model_share) == ("bo-fm", 8, 0.5)
    expected = {"initial": 0.25, "random": 0.25, "model": 0.5}
    assert record.shares == {**dict.fromkeys(ORIGINS, 0.0), **expected}
    assert (record.fallbacks, record.failed_fits) == (2, 1)
    assert (record.duplicates, record.isomorphic_duplicates) == (1, 0)
    assert record.suggest_seconds == pytest.approx(10 / 9)
    assert record.suggest_share == pytest.approx(10 / 90)
    assert record.idle_seconds >= 10
    assert list(record.warnings) == [
        "its model could not be fitted in 1 of 9 asks",
        "1 of its 8 charged trials (12%) repeat an earlier one of their run",
        "suggestions took 11% of its training and suggestion time",
    ]


def quick(trials):
    return [{**trial, "suggest_seconds": 0.1} for trial in trials]


@pytest.mark.parametrize(
    ("name", "trials", "disguised"),
    [
        ("bo-fm", [INITIAL] * 5 + [CHANCE, MODEL], False),
        ("bo-fm", [INITIAL] * 5 + [CHANCE, CHANCE, MODEL], True),
        ("bohb", [CHANCE] * 5, True),
        ("bohb", [CHANCE, MODEL, {**MODEL, "origin": "promotion"}], False),
        ("bohb", [CHANCE, CHANCE, MODEL] + [{**MODEL, "origin": "promotion"}] * 2, True),  # 2 of 3, not of 5
        ("regularized-evolution", [INITIAL, CHANCE, CHANCE, {**MODEL, "origin": "mutation"}], True),
        ("random", [INITIAL] + [CHANCE] * 9, False),
        ("bo-fm", [INITIAL] * 3, False),
    ],
)
def test_random_search_in_disguise_is_named(make_run, name, trials, disguised):
    warnings = only(make_run(name, 0, quick(trials))).warnings
    assert any("random search" in text for text in warnings) == disguised
    if not disguised:
        assert warnings == ()


def test_what_was_known_was_chosen_by_nobody(make_run):
    known = {"objective": 1.0, "origin": "warm_start", "note": "trial 3 of a/repeat-0 in runs/earlier"}
    record = only(make_run("bo-fm", 0, quick([known] * 4 + [CHANCE, CHANCE, MODEL, MODEL])))
    assert record.warnings == ()
    assert (record.shares["warm_start"], record.model_share, record.fallbacks) == (0.5, 0.25, 0)
    record = only(make_run("bo-fm", 0, quick([known] * 4 + [CHANCE])))
    assert record.model_unused
    assert record.warnings[0].startswith("after the trials that it began with chance chose 1 of its 1 new")


def test_all_of_it(make_run):
    (text,) = only(make_run("bohb", 0, quick([CHANCE] * 3))).warnings
    assert text == "chance chose 3 of its 3 new configurations: all of it was random search"


@pytest.mark.parametrize(
    ("name", "trials", "has_model", "unused"),
    [
        ("bohb", [CHANCE, CHANCE, {**MODEL, "origin": "promotion"}], True, True),
        ("bohb", [CHANCE, CHANCE, MODEL], True, False),
        ("bo-fm", [INITIAL, CHANCE], True, True),
        ("bo-fm", [INITIAL, INITIAL], True, False),  # nothing new was to be chosen yet
        ("random", [CHANCE], False, False),
    ],
)
def test_a_model_that_chose_nothing_is_named(make_run, name, trials, has_model, unused):
    record = only(make_run(name, 0, trials))
    assert (record.has_model, record.model_unused) == (has_model, unused)
    told = f"{name} never used its model: all of its new configurations were drawn at random."
    assert unused_methods([record]) == [told] * unused


def test_evolution_that_never_mutated_is_named(make_run):
    told = "regularized-evolution never mutated: all of its new configurations were drawn at random."
    record = only(make_run("regularized-evolution", 0, [INITIAL, CHANCE]))
    assert (record.has_model, record.model_unused, record.method_unused) == (False, False, True)
    assert unused_methods([record]) == [told]
    assert unused_methods([only(make_run("regularized-evolution", 0, [CHANCE, MUTATED]))]) == []


def test_trials_that_failed_or_repeat_others_are_said_beside_the_result(make_run):
    failed = {"status": "failed", "reason": "broken"}
    records = [only(make_run("bo-fm", 0, [INITIAL, failed, {**MODEL, "status": "timed_out"}, MODEL]))]
    assert spoilt_trials(records) == ["bo-fm: 2 of its 4 charged trials failed or took too long."]
    same = [only(make_run("bo-fm", 0, [{**MODEL, "x": 0.5}] * 3 + [{**MODEL, "x": 0.25}]))]
    assert spoilt_trials(same) == ["bo-fm: 2 of its 4 charged trials repeat an earlier one of their run."]
    assert spoilt_trials([only(make_run("bo-fm", 0, [{"status": "lost"}, MODEL, MODEL]))]) == []


def test_lost_trials_are_said_beside_the_result_of_whom_they_are(make_table):
    lost = {"status": "lost", "reason": "its process died"}
    runs = {("a", 0): [MODEL, lost, lost], ("a", 1): [lost], ("b", 0): [MODEL, lost], ("c", 0): [MODEL, MODEL]}
    trials = make_table(runs)
    ledger = ledger_table(trials, BUDGET)
    *counts, cause = lost_trials(ledger)
    assert counts == [
        "a: 3 of its 4 trials were lost, and charged to nobody.",
        "b: 1 of its 2 trials was lost, and charged to nobody.",
    ]
    assert "a configuration that killed all workers.attempts workers is likely the cause" in cause
    context = ReportContext("n", "p", BUDGET, {}, "")
    caution = summarise(trials, anytime_curves(trials, BUDGET), ledger, context).caution
    assert " ".join([*counts, cause]) in caution
    assert lost_trials(ledger_table(make_table({("c", 0): [MODEL]}), BUDGET)) == []


@pytest.mark.parametrize(
    ("name", "trials", "by_method"),
    [
        ("bo-fm", [INITIAL, CHANCE, MODEL, MODEL], 0.5),
        ("regularized-evolution", [INITIAL, CHANCE, MUTATED, MUTATED], 0.5),
        ("bohb", [CHANCE, CHANCE, MODEL, {**MODEL, "origin": "promotion"}], 0.25),
        ("random", [INITIAL, CHANCE], None),
    ],
)
def test_what_a_method_chose_is_its_models_and_its_mutations(make_run, name, trials, by_method):
    record = only(make_run(name, 0, trials))
    assert record.method_share == by_method or (by_method is None and isnan(record.method_share))


def test_one_that_says_nothing_of_its_design_is_taken_to_have_a_model(make_run):
    trials = make_run("random", 0, [CHANCE])
    ledger = ledger_table(trials, BUDGET)
    assert honesty(trials, ledger)[0].has_model
    assert not honesty(trials, ledger, {"random": "random"})[0].has_model


def test_an_unknown_design_is_named(make_run):
    trials = make_run("a", 0, [CHANCE])
    with pytest.raises(ReportError, match="'a' has 'promotion'; an optimizer chooses by random, mutation, model"):
        honesty(trials, ledger_table(trials, BUDGET), {"a": "promotion"})


def test_fallbacks_are_counted_from_the_table(make_run):
    trials = [{**CHANCE, "fallback": "failed fit"}, {**CHANCE, "fallback": "fallback"}, {**MODEL, "note": "fit failed"}]
    record = only(make_run("x", 0, quick(trials)))
    assert (record.fallbacks, record.failed_fits) == (2, 1)
    assert "its model could not be fitted in 1 of 3 asks" in record.warnings


H200, T4 = {"device": "NVIDIA H200"}, {"device": "Tesla T4"}
GRAPH, PLAIN = {"arrangement": "stacked (captured)"}, {"arrangement": "plain"}


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ([{**H200, **GRAPH}] * 3, ""),
        ([{**H200, **GRAPH}, {}, {**H200, **GRAPH}], ""),  # one that failed, or of an older file
        ([{}] * 3, ""),
        (
            [{**H200, **PLAIN}, {**H200, **GRAPH}, {**H200, **GRAPH}],
            "2 ways, whose results differ by rounding: 2 stacked (captured) on NVIDIA H200, 1 plain on NVIDIA H200",
        ),
        (
            [{**T4, **PLAIN}, {**H200, **PLAIN}],
            "2 ways, whose results differ by rounding: 1 plain on NVIDIA H200, 1 pl",
        ),
    ],
)
def test_an_optimizer_whose_trials_were_trained_in_more_than_one_way_is_named(make_run, how, told):
    plain = {"device": "", "arrangement": ""}
    warnings = only(make_run("bo-fm", 0, quick([{**MODEL, **plain, **each} for each in how]))).warnings
    assert [text.startswith("its trials were trained in " + told) for text in warnings] == [True] * bool(told)


def test_a_slow_first_trial_of_a_worker_is_a_warning_of_its_optimizer(make_table):
    """The first trial on w0 is b's, and takes 6 s; on w1 it takes 0.9 s more than the others, on w2 twice as long."""

    def trial(at, seconds, worker="w0", **more):
        return {"objective": 1.0, "at": at, "train_seconds": seconds, "worker": worker, "suggest_seconds": 0.0, **more}

    first = trial(10, 6.0)
    short = trial(15, 0.01, epochs=3)
    runs = {
        ("a", 0): [*(trial(at, 0.1) for at in (20, 30, 40)), *(trial(at, 0.1, "w1") for at in (20, 30, 40))],
        ("b", 0): [
            first,
            short,
            trial(10, 1.0, "w1"),
            *(trial(at, s, "w2") for at, s in ((10, 9), (20, 4.5), (30, 4.5))),
        ],
    }
    trials = make_table(runs)
    assert list(slow_starts(trials)) == [pytest.approx(5.9)]
    warnings = {row.optimizer: row.warnings for row in honesty(trials, ledger_table(trials, BUDGET))}
    assert sum("first of a worker" in text for text in warnings["b"]) == 1
    assert not any("first of a worker" in text for text in warnings["a"])
    assert slow_starts(trials.iloc[:0]).empty
