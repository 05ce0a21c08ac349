"""The bootstrap interval of a mean over few repeats.

The expanded percentile interval (Hesterberg, *What teachers should know about the bootstrap*, 2015): the quantiles of
the resampled means at Phi(-sqrt(n / (n - 1)) t) and its mirror image, where t is Student's 97.5% quantile with n - 1
degrees of freedom. The plain percentile interval and BCa are too short for few repeats. Coverage of the mean of normal
values by nominal 95% intervals (20,000 simulated sets each, so +-.004 at most; printed by
`python benchmarks/coverage_of_intervals.py`):

| repeats | percentile | BCa | expanded percentile |
|---|---|---|---|
| 2 | .498 | .498 | .498 |
| 3 | .747 | .682 | .747 |
| 4 | .801 | .800 | .879 |
| 5 | .834 | .839 | .919 |
| 6 | .856 | .855 | .929 |
| 7 | .876 | .875 | .940 |
| 8 | .883 | .881 | .940 |
| 10 | .902 | .900 | .946 |

A resampled mean never lies beyond the lowest or the highest value. So with two or three repeats no such interval can
reach its nominal coverage, with four and five it is too short, from six on by two points at most. For skewed values all
three cover less.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, stdtrit

Floats = NDArray[np.float64]

RESAMPLES = 4000
CONFIDENCE = 0.95
RESAMPLING_SEED = 2021
"""Fixed, so that the same data give the same interval."""
COVERAGE = {2: 0.498, 3: 0.747, 4: 0.879, 5: 0.919, 6: 0.929, 7: 0.940, 8: 0.940, 10: 0.946}
"""The last column of the table above, by the number of repeats."""
MIN_COVERAGE = 0.925
"""Intervals with a lower coverage get a warning."""


def mean_interval(values: Floats) -> tuple[Floats, Floats]:
    """Low and high end of the 95% interval of the mean over the first axis of values [n, ...].

    NaN with one value, and wherever one of the n is missing.
    """
    repeats = len(values)
    if repeats < 2:
        nothing = np.full(values.shape[1:], np.nan)
        return nothing, nothing
    means = np.tensordot(resampling_weights(repeats), np.where(np.isfinite(values), values, 0.0), axes=1)
    below = tail_probability(repeats)
    low, high = np.quantile(means, [below, 1 - below], axis=0)
    complete = np.isfinite(values).all(axis=0)
    # Rounding must not put an end beyond all values: n equal values have the interval of that value.
    low, high = (np.clip(end, values.min(axis=0), values.max(axis=0)) for end in (low, high))
    return np.where(complete, low, np.nan), np.where(complete, high, np.nan)


def coverage_warning(*repeats: int) -> str:
    """A sentence on how often intervals over these numbers of repeats cover the mean; "" where all have enough repeats.

    A single repeat has no interval, and is ignored.
    """
    fewest = min((count for count in repeats if count > 1), default=0)
    coverage = COVERAGE.get(fewest, CONFIDENCE)
    if coverage >= MIN_COVERAGE:
        return ""
    return f"With {fewest} repeats such an interval is too short: it covers the mean in about {coverage:.0%} of cases."


def tail_probability(repeats: int) -> float:
    """The share of the resampled means below the interval, and above it: Phi(sqrt(n / (n - 1)) t_.025)."""
    return float(ndtr(np.sqrt(repeats / (repeats - 1)) * stdtrit(repeats - 1, (1 - CONFIDENCE) / 2)))


@cache
def resampling_weights(repeats: int) -> Floats:
    """The weight of each value in each resampled mean: [RESAMPLES, repeats]."""
    rng = np.random.default_rng(RESAMPLING_SEED)
    return rng.multinomial(repeats, [1 / repeats] * repeats, size=RESAMPLES) / repeats
