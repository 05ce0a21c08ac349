"""The bootstrap interval of a mean over few repeats.

The expanded percentile interval (Hesterberg, *What teachers should know about the bootstrap*, 2015): the quantiles of
the resampled means at Phi(-sqrt(n / (n - 1)) t) and its mirror image, where t is Student's 97.5% quantile with n - 1
degrees of freedom. The plain percentile interval is too short for few repeats, and BCa is no longer. How often each
covers the mean of normal values, where 95% is meant (1,500 simulated sets each):

| repeats | percentile | BCa | expanded percentile |
|---|---|---|---|
| 2 | .49 | .49 | .49 |
| 3 | .75 | .68 | .75 |
| 4 | .82 | .81 | .89 |
| 6 | .86 | .86 | .93 |
| 8 | .88 | .88 | .95 |
| 10 | .90 | .90 | .95 |

No resampling reaches beyond the lowest and the highest of the values: with two or three repeats no such interval can
hold what it promises. For skewed values all three cover less.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm, t

Floats = NDArray[np.float64]

RESAMPLES = 4000
CONFIDENCE = 0.95
SEED = 2021
"""The same data give the same interval."""


def mean_interval(values: Floats) -> tuple[Floats, Floats]:
    """Low and high end of the 95% interval of the mean over the first axis of values [n, ...].

    NaN with one value, and wherever one of the n is missing.
    """
    repeats = len(values)
    if repeats < 2:
        nothing = np.full(values.shape[1:], np.nan)
        return nothing, nothing
    means = np.tensordot(_weights(repeats), np.where(np.isfinite(values), values, 0.0), axes=1)  # [RESAMPLES, ...]
    tail = norm.cdf(np.sqrt(repeats / (repeats - 1)) * t.ppf((1 - CONFIDENCE) / 2, repeats - 1))
    low, high = np.quantile(means, [tail, 1 - tail], axis=0)
    complete = np.isfinite(values).all(axis=0)
    # Rounding must not put an end beyond all values: n equal values have the interval of that value.
    low, high = (np.clip(end, values.min(axis=0), values.max(axis=0)) for end in (low, high))
    return np.where(complete, low, np.nan), np.where(complete, high, np.nan)


@cache
def _weights(repeats: int) -> Floats:
    """[RESAMPLES, repeats]: how much each value weighs in each resampled mean."""
    rng = np.random.default_rng(SEED)
    return rng.multinomial(repeats, [1 / repeats] * repeats, size=RESAMPLES) / repeats
