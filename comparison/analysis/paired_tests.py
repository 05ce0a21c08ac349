"""Paired tests between optimizers, and what so many repeats can show at all.

The trials of a repeat train with the same seeds, and most of its optimizers start from the same initial design, so
their results are compared repeat by repeat: by Wilcoxon's signed-rank test on the differences, two-sided, corrected
by Holm's method over the pairs that are tested. Those are all pairs of optimizers, or one optimizer against each of
the rest: fewer hypotheses, chosen before the results are known, take fewer repeats.

BOHB draws a start of its own. Its p stays valid: where the results of two optimizers have the same distribution and
a repeat lends them nothing in common, their difference is as often above 0 as below, and as far, which is all that the
test assumes. Pairing then gains nothing; it costs nothing either.

- Repeats with no difference say nothing of its sign; they are left out (Wilcoxon's own way), and count as no repeats
  when it is asked what the test can show. What rounding adds to equal values is no difference, and to differences of
  equal size no order.
- The p-value is exact, with ties, too: where differences are tied in size their ranks are shared.
- Effect: the matched-pairs rank-biserial correlation, (W+ - W-) / (W+ + W-), from -1 (the first optimizer is lower in
  every repeat) to 1.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, count
from math import nan

import numpy as np
import pandas as pd

from fmnas.comparison.analysis.float_ties import settled_differences
from fmnas.comparison.analysis.resampling import Floats, mean_interval

LEVEL = 0.05
"""The usual level of significance."""
ALL = "all"
"""The hypotheses on every pair; else they are named after the one optimizer that is tested against the rest."""
FIRST, SECOND, NONE, TOO_FEW = "first better", "second better", "no difference shown", "too few repeats to tell"


@dataclass(frozen=True)
class PairedTest:
    """Two optimizers on the repeats that both have.

    repeats: how many; differing: in how many of them they differ, which is what the test can use.
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
    """The tests of the pairs that the hypotheses are about, and their power.

    repeats: the fewest that any pair has. repeats_needed: from how many on, without ties, a test can show anything at
    LEVEL. hypotheses: ALL, or the optimizer that was tested against the rest.
    """

    pairs: tuple[PairedTest, ...]
    repeats: int
    repeats_needed: int
    hypotheses: str = ALL

    @property
    def most_repeats(self) -> int:
        """The most that any pair has: with fewer than two there is no test at all."""
        return max((test.repeats for test in self.pairs), default=0)


def compare(values: Mapping[str, Mapping[int, float]], hypotheses: str = ALL) -> Comparisons:
    """Test every pair of optimizers, or one against each of the rest.

    values: optimizer -> repeat -> what it reached, NaN for a repeat without. Pairs are in the order given; an optimizer
    that is tested against the rest is the first of each. Equal repeat numbers mean the same seeds.
    hypotheses: ALL, or an optimizer; one that is not in values has no pairs.
    """
    names = _pairs(list(values), hypotheses)
    shared = [_differences(values[first], values[second]) for first, second in names]
    ps = [signed_rank_p(differences) for differences in shared]
    tests = [
        _tested(pair, differences, (p, corrected), len(names))
        for pair, differences, p, corrected in zip(names, shared, ps, holm(ps), strict=True)
    ]
    fewest = min((test.repeats for test in tests), default=0)
    return Comparisons(tuple(tests), fewest, repeats_needed(len(names)), hypotheses)


def _pairs(optimizers: list[str], hypotheses: str) -> list[tuple[str, str]]:
    if hypotheses == ALL:
        return list(combinations(optimizers, 2))
    return [(hypotheses, other) for other in optimizers if other != hypotheses] if hypotheses in optimizers else []


def signed_rank_p(differences: Floats) -> float:
    """The exact two-sided p of Wilcoxon's signed-rank test; 1 when no difference, or only one, is other than 0.

    `at[s]` is the probability that the ranks of one sign sum to s, when each sign is a coin's: one rank after the other
    is thrown. Ranks that are shared are halves, so all are counted twice. No sum above the smaller one matters.
    """
    given = differences[differences != 0]
    ranks = (2 * pd.Series(np.abs(given)).rank()).to_numpy(dtype=np.int64)
    at = np.zeros(min(ranks[given > 0].sum(), ranks[given < 0].sum()) + 1)
    at[0] = 1.0
    for rank in ranks:
        at[rank:] += at[: max(0, len(at) - rank)]
        at *= 0.5
    return min(1.0, 2.0 * float(at.sum()))


def rank_biserial(differences: Floats) -> float:
    """(W+ - W-) / (W+ + W-), the sums of the ranks of positive and negative differences; 0 when all are 0."""
    given = differences[differences != 0]
    if not len(given):
        return 0.0
    ranks = pd.Series(np.abs(given)).rank()
    return float((ranks * np.sign(given)).sum() / ranks.sum())


def holm(ps: Sequence[float]) -> list[float]:
    """The p-values corrected for their number by Holm's step-down method (1979), in the order given."""
    order = np.argsort(ps, kind="stable")
    stepped = np.array(ps, dtype=float)[order] * np.arange(len(ps), 0, -1)
    corrected = np.empty(len(ps))
    corrected[order] = np.minimum(1.0, np.maximum.accumulate(stepped))
    return [float(p) for p in corrected]


def smallest_p(repeats: int) -> float:
    """The smallest p that the test over so many repeats can give: 2 / 2^repeats, and 1 for one or none.

    It is reached when one optimizer wins every repeat.
    """
    return min(1.0, 2.0 / 2**repeats)


def can_show(repeats: int, pairs: int) -> bool:
    """Whether so many repeats can show a difference at LEVEL between one of so many pairs.

    Holm compares the smallest of all p-values with LEVEL / pairs: where that is out of reach, and no pair has more
    repeats, nothing is shown. Beside pairs that have more, and are shown, fewer may do.
    """
    return smallest_p(repeats) * pairs < LEVEL


def repeats_needed(pairs: int) -> int:
    """From how many repeats on a difference can be shown, where no repeat is a tie."""
    return next(repeats for repeats in count(2) if can_show(repeats, pairs))


def _tested(pair: tuple[str, str], differences: Floats, ps: tuple[float, float], pairs: int) -> PairedTest:
    mean, (low, high) = (float(differences.mean()) if len(differences) else nan), mean_interval(differences)
    effect = rank_biserial(differences)
    differing = int(np.count_nonzero(differences))
    verdict = NONE
    if ps[1] < LEVEL:
        if effect * mean > 0:  # where ranks and mean point to different sides, neither is better
            verdict = FIRST if effect < 0 else SECOND
    elif not can_show(differing, pairs):
        verdict = TOO_FEW
    return PairedTest(*pair, len(differences), differing, mean, float(low), float(high), *ps, effect, verdict)


def _differences(first: Mapping[int, float], second: Mapping[int, float]) -> Floats:
    """first - second in the repeats in which both have a value, without what rounding alone makes of equals."""
    shared = [(first[repeat], second[repeat]) for repeat in first if repeat in second]
    pairs = np.array(shared, dtype=np.float64).reshape(-1, 2)
    pairs = pairs[np.isfinite(pairs).all(axis=1)]
    return settled_differences(pairs[:, 0], pairs[:, 1])
