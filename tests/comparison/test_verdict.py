"""Headline and caution: nothing is better that no test shows."""

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import sem

from fmnas.comparison import caution, headline
from fmnas.comparison.analysis.checkpoints import FinalNumbers, FinalTable
from fmnas.comparison.analysis.formatting import listed
from fmnas.comparison.analysis.paired_tests import compare
from fmnas.comparison.analysis.verdict import power

CLAIM = re.compile(r"(?<!whether )\b(\S+) is better(?: than (\S+))?", re.IGNORECASE)


def final(results):
    """The final table of {optimizer: {repeat: objective}}."""
    rows = {}
    for name, mine in results.items():
        given = np.array(list(mine.values()))
        error = sem(given) if len(given) > 1 else np.nan
        found = (given.min(), np.nan, f"{name}/repeat-0", 0)
        rows[name] = FinalNumbers(len(mine), given.mean(), error, mine, *found, 25.0, 1.0, 0.0, 0, 0, 0, 0)
    in_order = sorted(rows, key=lambda name: (rows[name].mean, rows[name].best, name))
    return FinalTable({name: rows[name] for name in in_order}, 25, 25)


def words(results, seconds=None, hypotheses="all"):
    """Headline, caution and tests."""
    table = final(results)
    tests = compare({name: row.values for name, row in table.rows.items()}, hypotheses)
    return headline(table, tests, seconds), caution(table, tests), tests


def numbered(*rows):
    return {name: dict(enumerate(row)) for name, row in zip("pqrs", rows, strict=False)}


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 3).flatmap(lambda k: st.lists(st.lists(st.integers(0, 9), min_size=k, max_size=k), max_size=9)))
def test_nothing_is_called_better_without_a_test(rows):
    results = numbered(*zip(*[[float(v) for v in row] for row in rows], strict=True)) if rows else {"p": {0: 1.0}}
    first, second, tests = words(results)
    shown = [test for test in tests.pairs if test.verdict.endswith("better")]
    assert all(test.p_corrected < 0.05 for test in shown)
    assert bool(CLAIM.search(first + second)) <= bool(shown)
    if len(rows) < 6:
        assert not shown


def test_who_could_not_spend_it_all_is_within_it_and_a_share_of_all_trials_is_named():
    table, tests = final(numbered([1.0, 2.0], [3.0, 4.0])), compare({})
    assert "after 25 epochs in each repeat" in headline(table, tests)
    less = {name: replace(row, epochs=22.5) for name, row in table.rows.items()}
    assert "within 25 epochs in each repeat" in headline(replace(table, rows=less), tests)
    assert "by method" not in caution(table, tests)
    assert "Compared at 25 of 75 epochs" in caution(replace(table, budget_epochs=75), tests)
    assert "the shares by method are of all trials" in caution(replace(table, budget_epochs=75), tests)


def test_a_leader_that_is_better_than_all():
    results = numbered([i + 1.0 for i in range(7)], [2.0 * i + 3 for i in range(7)], [3.0 * i + 9 for i in range(7)])
    first, second, _ = words(results)
    assert "It is better than q and r (corrected p ≤ 0.047)." in first
    assert "7 paired repeats: the smallest p that a two-sided paired Wilcoxon test can give is 0.0156" in second
    assert "0.0469 corrected for 3 comparisons" in second
    assert "By the tests, after Holm's correction: p is better than q (p = 0.047)" in second


def test_a_leader_that_is_better_than_one():
    low, near = [i + 1.0 for i in range(9)], [i + (0.9 if i % 2 else 1.3) for i in range(9)]
    first, second, _ = words(numbered(low, near, [2.0 * i + 9 for i in range(9)]))
    assert re.search(r"It is better than r \(corrected p = 0\.0\d+\); no difference to q is shown\.", first)
    assert "The other pair is not told apart." in second


def test_a_leader_that_is_not_told_apart():
    first, second, _ = words(numbered([1.0, 2, 3, 4, 5, 6.0], [1.5, 1.9, 3.5, 4.2, 5.5, 5.9]))
    assert first.endswith("No difference to q is shown.")
    assert "No test shows a difference: the order of the means alone is not evidence." in second


def test_the_leader_may_be_worse_where_both_have_repeats():
    """q's many good repeats are its own; on the six that it shares with p it loses every time."""
    shared = {r: 10.0 + r for r in range(6)}
    results = {"p": shared, "q": {r: 11.0 + 2 * r for r in range(6)} | dict.fromkeys(range(6, 60), 0.0)}
    first, second, _ = words(results)
    assert first.startswith("q has the lowest mean objective")
    assert "Yet on the repeats that both have, p is better." in first
    assert "not a fair comparison" in second


def test_one_against_the_rest_in_words():
    results = numbered(*([i * (1.0 + j) + j for i in range(7)] for j in range(4)))
    first, second, _ = words(results, hypotheses="q")
    assert first.endswith("It is better than q (corrected p = 0.047).")  # nothing is said of r and s
    assert "0.0469 corrected for 3 comparisons (q with each of the others)" in second
    assert "q is better than r (p = 0.047)" in second
    assert "not told apart" not in second
    short, few, _ = words({name: {r: mine[r] for r in range(6)} for name, mine in results.items()}, hypotheses="p")
    assert short.endswith("Too few repeats to tell whether it is better than q, r and s.")
    assert "once corrected for 3 comparisons (p with each of the others); 7 repeats without ties suffice" in few
    _, none, _ = words(results, hypotheses="z")
    assert none.startswith("Only z is to be tested against the rest, and it has no trial yet: no test.")


def test_an_optimizer_with_a_single_repeat_silences_nobody():
    """As in the middle of a run, or where a directory with one repeat is put beside others."""
    results = numbered([i + 1.0 for i in range(9)], [2.0 * i + 3 for i in range(9)]) | {"r": {0: 30.0}}
    first, second, _ = words(results)
    assert first.endswith(
        "It is better than q (corrected p = 0.012); too few repeats to tell whether it is better than r."
    )
    assert "1 to 9 paired repeats, by pair: the smallest p" in second
    assert "can give with 9 is 0.00391, 0.0117 corrected for 3 comparisons." in second
    assert "By the tests, after Holm's correction: p is better than q (p = 0.012)." in second
    assert "anecdote" not in second
    lowest, _, _ = words(results | {"r": {0: 0.0}})
    assert lowest.startswith("r has the lowest objective: 0.000")
    assert lowest.endswith("Too few repeats to tell whether it is better than p and q.")


def test_an_optimizer_that_shares_no_repeat_silences_nobody():
    results = numbered([i + 1.0 for i in range(9)], [2.0 * i + 3 for i in range(9)]) | {"r": {20: 30.0, 21: 30.0}}
    _, second, _ = words(results)
    assert "0 to 9 paired repeats, by pair" in second
    assert "p is better than q (p = 0.012)" in second


def test_the_same_values_in_another_order_have_no_leader():
    values = [0.1, 0.3, 0.3, 0.2, 0.7]
    assert np.mean(values) != np.mean(values[::-1])
    first, _, _ = words(numbered(values, values[::-1]))
    assert "share the lowest mean objective" in first


def test_ties_are_counted():
    tied = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]
    first, second, _ = words(numbered(tied, [x + (i < 3) for i, x in enumerate(tied)]))
    assert first.endswith("Too few repeats to tell whether it is better than q.")
    assert "leave too few repeats that differ: p and q in 3 of 8." in second
    assert "No test shows a difference" not in second
    results = numbered(
        tied, [x + (i < 6) * (i + 1) for i, x in enumerate(tied)], [x + 10 + i for i, x in enumerate(tied)]
    )
    first, second, _ = words(results)
    assert first.endswith("It is better than q and r (corrected p ≤ 0.031).")  # six differ: enough at Holm's last step
    assert "repeats that differ" not in second
    _, untied, _ = words(numbered(tied, [x + 1 for x in tied]))
    assert "repeats that differ" not in untied


def test_too_few():
    first, second, tests = words(numbered([1.0, 1.0, 1.0, 1.0], [2.0, 3.0, 4.0, 5.0], [6.0, 7.0, 8.0, 9.0]))
    assert first.endswith("Too few repeats to tell whether it is better than q and r.")
    assert "0.125" in second
    assert "7 repeats can show one, corrected for 3 comparisons, without ties." in second
    assert second == f"{power(tests)} The order of the means alone is not evidence."
    _, one, _ = words(numbered([1.0], [2.0]))
    assert one == "1 repeat: no standard error, no test; the order is an anecdote."


def test_no_shared_repeat():
    _, second, _ = words({"p": {0: 1.0, 1: 2.0}, "q": {2: 1.0, 3: 2.0}})
    assert "0 shared by all" in second
    assert "no test; 6 paired repeats can show a difference" in second


def test_a_budget_of_seconds_is_named():
    first, _, _ = words(numbered([1.0]), seconds=300.0)
    assert first == (
        "p reached this objective: 1.000, within 5.0 min of training and suggestion and 25 epochs in one repeat."
    )


@pytest.mark.parametrize(
    ("names", "text"), [([], ""), (["a"], "a"), (["a", "b"], "a and b"), (list("abc"), "a, b and c")]
)
def test_lists(names, text):
    assert listed(names) == text
