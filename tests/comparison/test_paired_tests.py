"""Wilcoxon's test against all assignments of signs, Holm by hand and by its procedure, and the verdicts."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import rankdata, wilcoxon

from fmnas.comparison.analysis.paired_tests import (
    FIRST,
    NONE,
    SECOND,
    TOO_FEW,
    can_show,
    compare,
    holm,
    rank_biserial,
    repeats_needed,
    signed_rank_p,
    smallest_p,
)

NAN = float("nan")


def p_of_all_signs(differences):
    """By the definition: every assignment of signs to the ranks is equally likely."""
    nonzero = np.array([d for d in differences if d != 0])
    ranks = rankdata(np.abs(nonzero))
    sums = np.array([ranks @ np.array(signs) for signs in product((0, 1), repeat=len(nonzero))])
    observed = ranks @ (nonzero > 0)
    return min(1.0, 2 * min((sums <= observed + 1e-9).mean(), (sums >= observed - 1e-9).mean()))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(-4, 4), min_size=1, max_size=9))
def test_p_with_ties_and_zeros_is_exact(differences):
    assert signed_rank_p(np.array(differences, dtype=float)) == pytest.approx(p_of_all_signs(differences))


@pytest.mark.parametrize("repeats", [4, 10, 60])
def test_p_without_ties_is_scipys(repeats):
    differences = np.random.default_rng(repeats).normal(0.3, 1, size=repeats)
    assert signed_rank_p(differences) == pytest.approx(wilcoxon(differences, method="exact").pvalue)


def test_effect_by_hand():
    assert rank_biserial(np.array([-1.0, 2.0, -3.0, -4.0])) == (2 - 8) / 10
    assert rank_biserial(np.array([-1.0, 1.0, 0.0, -2.0])) == pytest.approx((1.5 - 4.5) / 6)
    assert rank_biserial(np.array([-1.0, -5.0])) == -1.0
    assert rank_biserial(np.zeros(3)) == 0.0


def test_holm_by_hand():
    # Ascending: .01 x 3, .03 x 2, and .04 x 1 which may not fall below the one before it.
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == pytest.approx([1.0, 1.0])
    assert holm([0.02]) == [0.02]
    assert holm([]) == []


@given(ps=st.lists(st.floats(0, 1), min_size=1, max_size=8), level=st.floats(0.01, 0.5))
def test_holm_rejects_what_the_step_down_procedure_rejects(ps, level):
    rejected = []
    for step, i in enumerate(sorted(range(len(ps)), key=lambda i: ps[i])):
        if ps[i] * (len(ps) - step) > level:
            break
        rejected.append(i)
    corrected = holm(ps)
    assert sorted(rejected) == [i for i, p in enumerate(corrected) if p <= level]
    assert all(before <= after <= 1 for before, after in zip(ps, corrected, strict=True))


def test_the_power_follows_from_the_test():
    assert [smallest_p(n) for n in (0, 1, 4, 6)] == [1.0, 1.0, 0.125, 0.03125]
    assert [repeats_needed(pairs) for pairs in (1, 3, 6, 10)] == [6, 7, 8, 9]
    for pairs in (1, 3, 6):
        enough = repeats_needed(pairs)
        for repeats in (enough - 1, enough):
            # The best case: one optimizer wins every repeat against all, and all other pairs tie.
            best = holm([signed_rank_p(np.arange(1.0, repeats + 1))] + [1.0] * (pairs - 1))
            assert (best[0] < 0.05) == can_show(repeats, pairs) == (repeats == enough)


def values(*rows):
    return {name: dict(enumerate(row)) for name, row in zip("abcd", rows, strict=False)}


def test_a_clear_pair_by_hand():
    a, b = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [1.1, 2.2, 3.3, 4.4, 5.5, 6.6]
    (test,) = compare(values(a, b)).pairs
    assert (test.first, test.second, test.repeats, test.effect, test.verdict) == ("a", "b", 6, -1.0, FIRST)
    assert test.difference == pytest.approx(-0.35)
    assert test.p == test.p_corrected == 2 / 2**6
    assert -0.6 - 1e-9 <= test.low < -0.35 < test.high <= -0.1 + 1e-9
    (other,) = compare(values(b, a)).pairs
    assert (other.verdict, other.effect, other.p) == (SECOND, 1.0, test.p)


def test_one_against_the_rest_needs_fewer_repeats_than_all_pairs():
    a = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    rows = [[x + 0.1 * j * i for i, x in enumerate(a, 1)] for j in range(4)]
    every = compare(values(*rows))
    assert (len(every.pairs), every.repeats_needed, {test.verdict for test in every.pairs}) == (6, 8, {TOO_FEW})
    one = compare(values(*rows), "b")
    assert [(test.first, test.second) for test in one.pairs] == [("b", "a"), ("b", "c"), ("b", "d")]
    assert (one.hypotheses, one.repeats, one.repeats_needed) == ("b", 7, 7)
    assert [test.verdict for test in one.pairs] == [SECOND, FIRST, FIRST]
    assert [test.p for test in one.pairs] == [2 / 2**7] * 3
    assert [test.p_corrected for test in one.pairs] == pytest.approx([3 * 2 / 2**7] * 3)


def test_repeats_that_are_tied_show_nothing():
    """Nine repeats, of which six differ: enough for one pair, and not for three."""
    a = [float(i) for i in range(9)]
    b = [x + (i + 1.0 if i < 6 else 0.0) for i, x in enumerate(a)]
    (test,) = compare(values(a, b)).pairs
    assert (test.repeats, test.differing, test.p, test.verdict) == (9, 6, 2 / 2**6, FIRST)
    among_three = compare(values(a, b, [2 * y - x for x, y in zip(a, b, strict=True)]))
    assert [(test.repeats, test.differing, test.verdict) for test in among_three.pairs] == [(9, 6, TOO_FEW)] * 3
    assert (among_three.repeats, among_three.repeats_needed) == (9, 7)


@given(st.lists(st.lists(st.integers(-3, 3), min_size=3, max_size=3), min_size=5, max_size=9))
@settings(max_examples=40, deadline=None)
def test_a_verdict_follows_from_the_corrected_p(rows):
    for test in compare(values(*map(list, zip(*rows, strict=True)))).pairs:
        if test.verdict in (FIRST, SECOND):
            assert test.p_corrected < 0.05
            assert test.difference < 0 if test.verdict == FIRST else test.difference > 0
        elif test.verdict == TOO_FEW:
            assert test.p_corrected >= 0.05
            assert not can_show(test.differing, 3)


def test_the_verdict_is_that_of_the_corrected_p():
    """Nine repeats, p = .02 for one of three pairs, which Holm makes .04 or .06."""
    a = np.zeros(9)
    b = np.array([9.0, 8, 7, 6, 5, 4, 3, -2, -1]) / 10  # W = 3, so p = 10 / 512
    (alone,) = compare(values(a, b)).pairs
    assert (alone.p, alone.verdict) == (pytest.approx(10 / 512), FIRST)
    among_three = compare(values(a, b, [0.11, -0.12, 0.13, -0.14, 0.15, -0.16, 0.17, -0.18, 0.19])).pairs
    assert among_three[0].p == pytest.approx(10 / 512)
    assert among_three[0].p_corrected > 0.05
    assert among_three[0].verdict == NONE


def test_no_difference_and_too_few():
    assert compare(values([0.0] * 6, [3.0, -2.0, 1.0, -4.0, 6.0, -5.0])).pairs[0].verdict == NONE
    assert compare(values([1.0] * 8, [1.0] * 8)).pairs[0].verdict == TOO_FEW
    assert compare(values([1.0, 2.0, 3.0, 4.0], [2.0, 3.5, 5.0, 7.0])).pairs[0].verdict == TOO_FEW
    assert compare(values([1.0])).pairs == ()


def test_only_repeats_of_both_are_compared():
    (test,) = compare({"a": {0: 1.0, 1: 2.0, 5: 9.0}, "b": {1: 4.0, 0: NAN, 7: 0.0}}).pairs
    assert (test.repeats, test.difference, test.p, test.verdict) == (1, -2.0, 1.0, TOO_FEW)
    assert np.isnan(test.low)
    comparisons = compare({"a": {0: 1.0}, "b": {1: 4.0}})
    assert (comparisons.repeats, comparisons.pairs[0].repeats) == (0, 0)
    assert np.isnan(comparisons.pairs[0].difference)


def test_where_ranks_and_mean_disagree_nothing_is_better():
    """Lower in eleven of twelve repeats, and far higher in one: significant by ranks, and the higher mean."""
    a = [0.0] * 12
    b = [1.0 + i / 100 for i in range(11)] + [-1000.0]
    (test,) = compare(values(a, b)).pairs
    assert test.p < 0.05
    assert test.effect < 0 < test.difference
    assert test.verdict == NONE
