"""Paired tests between optimizers, and their power.

The trials of a repeat train with the same seeds, and most optimizers start from the same initial design, so results
are compared repeat by repeat: by Wilcoxon's signed-rank test on the differences, two-sided, corrected by Holm's method
over the pairs that are tested. Those are all pairs of optimizers, or one optimizer against each of the others: fewer
hypotheses, chosen before the results are known, need fewer repeats.

BOHB draws its own initial design. Its p stays valid: if two optimizers have the same distribution of results and a
repeat has no common effect on them, their difference is symmetric about 0, which is all that the test assumes. Pairing
then has neither a gain nor a cost.

- Repeats without a difference are left out (Wilcoxon's own way), and do not count towards the power. Differences
  within rounding are ties, and so are absolute differences that are equal up to rounding.
- The p-value is exact, also with ties: tied absolute differences share their ranks.
- Effect: the matched-pairs rank-biserial correlation, (W+ - W-) / (W+ + W-), from -1 (the first optimizer is lower in
  every repeat) to 1.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, count
from math import nan

import numpy as np
import pandas as pd

from fmnas.comparison.analysis.float_ties import differences_with_ties
from fmnas.comparison.analysis.resampling import Floats, mean_interval

LEVEL = 0.05
"""The level of significance."""
ALL = "all"
"""The hypotheses on every pair; otherwise the name of the one optimizer that is tested against each of the others."""
FIRST, SECOND, NONE, TOO_FEW = "first better", "second better", "no difference shown", "too few repeats to tell"


@dataclass(frozen=True)
class PairedTest:
    """Two optimizers on the repeats that both have.

    repeats: the number of shared repeats. differing: the number of those that are not ties, which the test can use.
    difference: mean of first - second; low, high: its 95% bootstrap interval; NaN without repeats.
    p, p_corrected: before and after Holm. effect: rank-biserial. verdict: FIRST, SECOND, NONE or TOO_FEW.
    """

    first: str
    second: str
    repeats: int
    differing: int
    difference: float
    low: float
    high: float
    p: float
    p_corrected: float
    effect: float
    verdict: str


@dataclass(frozen=True)
class Comparisons:
    """The tests of all tested pairs, and their power.

    repeats: the fewest of any pair. repeats_needed: the fewest with which a test without ties can be significant at
    LEVEL. hypotheses: ALL, or the optimizer that was tested against the others.
    """

    pairs: tuple[PairedTest, ...]
    repeats: int
    repeats_needed: int
    hypotheses: str = ALL

    @property
    def most_repeats(self) -> int:
        """The most repeats of any pair: a test needs two."""
        return max((test.repeats for test in self.pairs), default=0)


def compare(values: Mapping[str, Mapping[int, float]], hypotheses: str = ALL) -> Comparisons:
    """Test every pair of optimizers, or one against each of the others.

    values: optimizer -> repeat -> objective, NaN for a repeat without one. Pairs are in the given order; an optimizer
    that is tested against the others is the first of each. Equal repeat numbers mean the same seeds.
    hypotheses: ALL, or an optimizer; one that is not in values has no pairs.
    """
    names = _pairs(list(values), hypotheses)
    shared = [_differences(values[first], values[second]) for first, second in names]
    ps = [signed_rank_p(differences) for differences in shared]
    tests = [
        _paired_test(pair, differences, (p, corrected), len(names))
        for pair, differences, p, corrected in zip(names, shared, ps, holm(ps), strict=True)
    ]
    fewest = min((test.repeats for test in tests), default=0)
    return Comparisons(tuple(tests), fewest, repeats_needed(len(names)), hypotheses)


def _pairs(optimizers: list[str], hypotheses: str) -> list[tuple[str, str]]:
    if hypotheses == ALL:
        return list(combinations(optimizers, 2))
    return [(hypotheses, other) for other in optimizers if other != hypotheses] if hypotheses in optimizers else []


def signed_rank_p(differences: Floats) -> float:
    """The exact two-sided p of Wilcoxon's signed-rank test; 1 for fewer than two differences other than 0.

    `at[s]` is the probability that the ranks with one sign sum to s, when each sign is random: it is updated rank by
    rank. Shared ranks are halves, so all ranks are doubled. Sums above the smaller one are not needed.
    """
    nonzero = differences[differences != 0]
    ranks = (2 * pd.Series(np.abs(nonzero)).rank()).to_numpy(dtype=np.int64)
    at = np.zeros(min(ranks[nonzero > 0].sum(), ranks[nonzero < 0].sum()) + 1)
    at[0] = 1.0
    for rank in ranks:
        at[rank:] += at[: max(0, len(at) - rank)]
        at *= 0.5
    return min(1.0, 2.0 * float(at.sum()))


def rank_biserial(differences: Floats) -> float:
    """(W+ - W-) / (W+ + W-), the rank sums of positive and negative differences; 0 when all differences are 0."""
    nonzero = differences[differences != 0]
    if not len(nonzero):
        return 0.0
    ranks = pd.Series(np.abs(nonzero)).rank()
    return float((ranks * np.sign(nonzero)).sum() / ranks.sum())


def holm(ps: Sequence[float]) -> list[float]:
    """The p-values corrected by Holm's step-down method (1979), in the given order."""
    order = np.argsort(ps, kind="stable")
    stepped = np.array(ps, dtype=float)[order] * np.arange(len(ps), 0, -1)
    corrected = np.empty(len(ps))
    corrected[order] = np.minimum(1.0, np.maximum.accumulate(stepped))
    return [float(p) for p in corrected]


def smallest_p(repeats: int) -> float:
    """The smallest p that the test can give, when one optimizer wins every repeat: 2 / 2^repeats; 1 for one or none."""
    return min(1.0, 2.0 / 2**repeats)


def can_show(repeats: int, pairs: int) -> bool:
    """Whether a difference can be significant at LEVEL with this number of repeats for each pair.

    Holm compares the smallest p-value with LEVEL / pairs. If that is out of reach for every pair, nothing is
    significant. A pair with fewer repeats may still be, next to significant pairs with more repeats.
    """
    return smallest_p(repeats) * pairs < LEVEL


def repeats_needed(pairs: int) -> int:
    """The fewest repeats, all without ties, with which a difference can be significant."""
    return next(repeats for repeats in count(2) if can_show(repeats, pairs))


def _paired_test(pair: tuple[str, str], differences: Floats, ps: tuple[float, float], pairs: int) -> PairedTest:
    """ps: before and after Holm."""
    mean, (low, high) = (float(differences.mean()) if len(differences) else nan), mean_interval(differences)
    effect = rank_biserial(differences)
    differing = int(np.count_nonzero(differences))
    verdict = NONE
    if ps[1] < LEVEL:
        if effect * mean > 0:  # where ranks and mean disagree, neither is better
            verdict = FIRST if effect < 0 else SECOND
    elif not can_show(differing, pairs):
        verdict = TOO_FEW
    return PairedTest(*pair, len(differences), differing, mean, float(low), float(high), *ps, effect, verdict)


def _differences(first: Mapping[int, float], second: Mapping[int, float]) -> Floats:
    """first - second in the repeats in which both have a value; 0 where they are equal up to rounding."""
    shared = [(first[repeat], second[repeat]) for repeat in first if repeat in second]
    pairs = np.array(shared, dtype=np.float64).reshape(-1, 2)
    pairs = pairs[np.isfinite(pairs).all(axis=1)]
    return differences_with_ties(pairs[:, 0], pairs[:, 1])
