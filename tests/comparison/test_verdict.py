"""Headline and caution: an optimizer is called better only after a significant test."""

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import sem

from fmnas.comparison import Budget, anytime_curves, ledger_table
from fmnas.comparison.analysis.checkpoints import FinalNumbers, FinalTable, final_table
from fmnas.comparison.analysis.paired_tests import compare
from fmnas.comparison.analysis.trials import PlannedRun
from fmnas.comparison.analysis.verdict import INTERIM_NOTE, ORDER_NOTE, caution, headline
from fmnas.comparison.summary import ReportContext, summarise

BUDGET = Budget(evaluations=3, epochs_per_evaluation=25)
CLAIM = re.compile(r"(?<!whether )\b(\S+) is better(?: than (\S+))?", re.IGNORECASE)


def final(results):
    """The final table of {optimizer: {repeat: objective}}."""
    rows = {}
    for name, mine in results.items():
        values = np.array(list(mine.values()))
        error = sem(values) if len(values) > 1 else np.nan
        best = (values.min(), np.nan, f"{name}/repeat-0", 0)
        rows[name] = FinalNumbers(len(mine), values.mean(), error, mine, *best, 25.0, 1.0, 0.0, 0, 0)
    in_order = sorted(rows, key=lambda name: (rows[name].mean, rows[name].best, name))
    return FinalTable({name: rows[name] for name in in_order}, 25, Budget(1, 25))


def texts(results, seconds=None, hypotheses="all"):
    """Headline, caution and tests."""
    table = final(results)
    tests = compare({name: row.values for name, row in table.rows.items()}, hypotheses)
    return headline(table, tests, seconds), caution(table, tests), tests


def texts_of(trials):
    """Headline and caution of a table of trials."""
    table = final_table(anytime_curves(trials, BUDGET), ledger_table(trials, BUDGET), BUDGET)
    tests = compare({name: row.values for name, row in table.rows.items()})
    return headline(table, tests), caution(table, tests)


def by_repeat(*rows):
    return {name: dict(enumerate(row)) for name, row in zip("pqrs", rows, strict=False)}


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 3).flatmap(lambda k: st.lists(st.lists(st.integers(0, 9), min_size=k, max_size=k), max_size=9)))
def test_nothing_is_called_better_without_a_test(rows):
    results = by_repeat(*zip(*[[float(v) for v in row] for row in rows], strict=True)) if rows else {"p": {0: 1.0}}
    first, second, tests = texts(results)
    significant = [test for test in tests.pairs if test.verdict.endswith("better")]
    assert all(test.p_corrected < 0.05 for test in significant)
    assert bool(CLAIM.search(first + second)) <= bool(significant)
    if len(rows) < 6:
        assert not significant


def test_the_cost_of_the_comparison():
    table, tests = final(by_repeat([1.0, 2.0], [3.0, 4.0])), compare({})
    assert "after 25 epochs in each repeat" in headline(table, tests)
    less = {name: replace(row, epochs=22.5) for name, row in table.rows.items()}
    assert "within 25 epochs in each repeat" in headline(replace(table, rows=less), tests)
    assert "by method" not in caution(table, tests)
    assert "at 25 of 75 epochs" in caution(replace(table, budget=BUDGET), tests)
    assert "by method are of all trials" in caution(replace(table, budget=BUDGET), tests)
    timed, *_ = texts(by_repeat([1.0]), seconds=300.0)
    assert "p reached this objective: 1.000, within 5.0 min" in timed


UP = [i + 1.0 for i in range(9)]
NEAR = [i + (0.9 if i % 2 else 1.3) for i in range(9)]
FAR = [2.0 * i + 9 for i in range(9)]
TIED = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]
ROWS = [[i * (1.0 + j) + j for i in range(7)] for j in range(4)]


@pytest.mark.parametrize(
    ("results", "hypotheses", "first_has", "second_has", "second_lacks"),
    [
        (
            by_repeat(UP[:7], [2.0 * i + 3 for i in range(7)], [3.0 * i + 9 for i in range(7)]),
            "all",
            ["better than q and r (corrected p ≤ 0.047)"],
            ["7 paired repeats", "0.0469 after correction for 3 comparisons", "p is better than q (p = 0.047)"],
            [ORDER_NOTE],
        ),
        (
            by_repeat(UP, NEAR, FAR),
            "all",
            ["better than r (corrected p = 0.0", "no difference to q is shown"],
            ["Undecided: 1 of 3 pairs."],
            [ORDER_NOTE],
        ),
        (
            by_repeat([1.0, 2, 3, 4, 5, 6.0], [1.5, 1.9, 3.5, 4.2, 5.5, 5.9]),
            "all",
            ["No difference to q is shown."],
            ["No test shows a difference", ORDER_NOTE],
            ["better"],
        ),
        (
            by_repeat(*ROWS),
            "q",
            ["better than q (corrected p = 0.047)."],
            ["0.0469 after correction for 3 comparisons", "q is better than r (p = 0.047)"],
            ["undecided"],
        ),
        (by_repeat(*ROWS), "z", ["p has the lowest"], ["z is tested", "no test"], ["better"]),
        (
            by_repeat(UP, [2.0 * i + 3 for i in range(9)]) | {"r": {0: 30.0}},
            "all",
            ["better than q (corrected p = 0.012); too few repeats to tell whether it is better than r."],
            ["1 to 9 paired repeats", "0.0117 after correction for 3", "p is better than q (p = 0.012)"],
            ["anecdotal"],
        ),
        (
            by_repeat(
                TIED, [x + (i < 6) * (i + 1) for i, x in enumerate(TIED)], [x + 10 + i for i, x in enumerate(TIED)]
            ),
            "all",
            ["better than q and r (corrected p ≤ 0.031)."],  # six differ: enough at Holm's last step
            [],
            [ORDER_NOTE],
        ),
        (
            by_repeat([1.0] * 4, [2.0, 3.0, 4.0, 5.0], [6.0, 7.0, 8.0, 9.0]),
            "all",
            ["Too few repeats to tell whether it is better than q and r."],
            ["0.375", "7 repeats without ties can show one.", ORDER_NOTE],
            ["better"],
        ),
        (
            by_repeat([1.0] * 7, [1.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
            "all",
            ["Too few repeats to tell whether it is better than q."],
            ["7 paired repeats", "0.0156 without ties, of which there are too many.", ORDER_NOTE],
            ["better"],
        ),
        (by_repeat([1.0], [2.0]), "all", [], ["1 repeat: no standard error, no test"], ["better"]),
        (
            {"p": {0: 1.0, 1: 2.0}, "q": {2: 1.0, 3: 2.0}},
            "all",
            [],
            ["0 shared by all", "No shared repeat: no test"],
            ["better", "no standard error"],  # each has one over its own repeats
        ),
    ],
    ids=[
        "better than all",
        "better than one",
        "no difference",
        "one against the others",
        "without a trial",
        "a single repeat",
        "ties at the last step",
        "too few",
        "too many ties",
        "one repeat",
        "no shared repeat",
    ],
)
def test_what_is_said(results, hypotheses, first_has, second_has, second_lacks):
    first, second, _ = texts(results, hypotheses=hypotheses)
    for text, parts in ((first, first_has), (second, second_has)):
        for part in parts:
            assert part in text
    assert not [part for part in second_lacks if part in second]


def test_the_leader_may_be_worse_where_both_have_repeats():
    """q's many good repeats are its own; on the six that it shares with p it loses every time."""
    shared = {r: 10.0 + r for r in range(6)}
    results = {"p": shared, "q": {r: 11.0 + 2 * r for r in range(6)} | dict.fromkeys(range(6, 60), 0.0)}
    first, second, _ = texts(results)
    assert first.startswith("q has the lowest mean objective")
    assert "on the repeats that both have, p is better" in first
    assert "not a fair comparison" in second


def test_the_same_values_in_another_order_have_no_leader():
    values = [0.1, 0.3, 0.3, 0.2, 0.7]
    assert np.mean(values) != np.mean(values[::-1])
    first, *_ = texts(by_repeat(values, values[::-1]))
    assert "share the lowest mean objective" in first


def test_an_early_look_at_the_tests_gets_a_warning(make_table):
    runs = {(name, r): [1.0 + r / 10 + (name == "b")] * 2 for name in "ab" for r in range(3)}
    _, early = texts_of(make_table(runs))
    assert INTERIM_NOTE in early
    assert "at 50 of 75 epochs" in early
    _, at_end = texts_of(make_table({key: [*run, 1.0] for key, run in runs.items()}))
    assert INTERIM_NOTE not in at_end
    _, without_test = texts_of(make_table({("a", 0): [1.0], ("b", 0): [2.0]}))
    assert INTERIM_NOTE not in without_test


def test_an_optimizer_that_has_not_begun_is_named(make_table):
    """Two of three optimizers have finished; their p is corrected for one comparison, where there will be three."""
    trials = make_table({(name, r): [1.0 + r / 10 + (name == "b")] * 3 for name in "ab" for r in range(7)})
    runs = [PlannedRun(f"{name}/repeat-{r}", name, r) for name in "abc" for r in range(7)]
    curves, ledger = anytime_curves(trials, BUDGET, runs), ledger_table(trials, BUDGET)

    def caution_with(**context):
        return summarise(trials, curves, ledger, ReportContext("n", "p", BUDGET, {}, "", **context)).caution

    assert caution_with(runs=runs).startswith(f"Not all runs of c have begun. {INTERIM_NOTE}")
    for text in (caution_with(runs=runs[:14]), caution_with(runs=runs, finished=True), caution_with()):
        assert "have begun" not in text
        assert INTERIM_NOTE not in text


def test_the_cost_of_a_problem_without_epochs_is_in_evaluations():
    table, tests = final(by_repeat([1.0, 2.0], [3.0, 4.0])), compare({})
    for budget, unit, other in ((Budget(75, 1), "75 evaluation", "epoch"), (BUDGET, "75 epoch", "evaluation")):
        said = headline(replace(table, budget=budget), tests) + caution(replace(table, budget=budget), tests)
        assert unit in said
        assert other not in said


def test_no_optimizer_is_the_best_while_another_has_no_mean(make_table):
    """As after Ctrl-C: of b, one repeat has no full result by then; of c, nothing has begun."""
    early = make_table({("a", 0): [1.0, 0.5], ("a", 1): [1.0], ("b", 0): [2.0], ("b", 1): [{"status": "failed"}]})
    first, _ = texts_of(early)
    assert first.startswith("No comparison yet: b ")
    done = make_table({(name, repeat): [1.0, 2.0, 3.0] for name in "ab" for repeat in range(2)})
    runs = [PlannedRun(f"{name}/repeat-{r}", name, r) for name in "abc" for r in range(2)]
    context = ReportContext("n", "p", BUDGET, {}, "", runs=runs)
    curves, ledger = anytime_curves(done, BUDGET), ledger_table(done, BUDGET)
    assert summarise(done, curves, ledger, context).headline.startswith("No comparison yet: c ")
    over = summarise(done, curves, ledger, replace(context, runs=runs[:4]))
    assert "objective: 1.000" in over.headline


def test_without_results(make_table):
    first, second = texts_of(make_table({("a", 0): [{"status": "failed"}] * 3, ("b", 0): [{"epochs": 5}] * 15}))
    assert first.startswith("No comparison yet")
    assert second == ""
    _, alone = texts_of(make_table({("a", 0): [1.0] * 3}))
    assert "only one optimizer" in alone
    _, ragged = texts_of(make_table({("a", 0): [1.0] * 3, ("b", 0): [2.0] * 3, ("b", 1): [2.0] * 3}))
    assert "(a 1, b 2; 1 shared by all)" in ragged


@pytest.mark.parametrize(
    ("runs", "text"),
    [
        ({("b", 0): 1.0, ("a", 0): 2.0}, "b has the lowest objective: 1.000, after 75 epochs in one repeat."),
        ({("b", 0): 1.0, ("a", 0): 1.0}, "a and b share the lowest objective: 1.000, after 75 epochs in one repeat."),
        ({("b", 0): -0.2063}, "b reached this objective: -0.2063, after 75 epochs in one repeat."),
    ],
)
def test_headlines_of_one_repeat(make_table, runs, text):
    first, _ = texts_of(make_table({key: [value] * 3 for key, value in runs.items()}))
    assert first == text
