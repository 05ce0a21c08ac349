"""Comparison of floats that are equal but for rounding.

The same result, computed in two ways, may differ in the last digit: a validation error of 13 mistakes in 270 is a mean
over folds or seeds, and the mean of the same values in another order is another float. Ties between repeats, the order
of two differences and the test whether a target is reached must not depend on that digit.

| symbol | meaning |
|---|---|
| values | [n] or [...], results such as objectives, or means of them |
| first, second | [n], the results of two optimizers by repeat |
| target | a result, or one for each value |
| ROUNDING_SHARE | relative tolerance: far above what a few hundred additions change, far below any real difference |
| tolerance | [n], how far each of n values may be off: ROUNDING_SHARE times the size of what it was computed from |

Each value has its own tolerance: the repeats of one problem may be powers of ten apart.
"""

import numpy as np
from numpy.typing import NDArray

from fmnas.comparison.analysis.resampling import Floats

ROUNDING_SHARE = 1e-12


def is_at_most(values: Floats, target: float | Floats) -> NDArray[np.bool_]:
    """Whether each of values [...] is at or below the target(s), up to rounding. False for NaN."""
    return np.asarray(values <= target + ROUNDING_SHARE * np.abs(target))


def is_equal(value: float, other: float) -> bool:
    """Whether two numbers are equal up to rounding. NaN equals nothing."""
    return bool(is_at_most(np.array(value), other) and is_at_most(np.array(other), value))


def merge_near_ties(values: Floats) -> Floats:
    """Replace values [n] that are equal up to rounding by the lowest of them."""
    return _merge_close(values, ROUNDING_SHARE * np.abs(values))


def differences_with_ties(first: Floats, second: Floats) -> Floats:
    """first - second of values [n], 0 where equal up to rounding; absolute values that are nearly equal are made equal.

    All other differences are exact to the last digit.
    """
    differences, tolerance = first - second, ROUNDING_SHARE * np.maximum(np.abs(first), np.abs(second))
    differ = np.abs(differences) > tolerance
    result = np.zeros(len(differences))
    result[differ] = np.sign(differences[differ]) * _merge_close(np.abs(differences[differ]), tolerance[differ])
    return result


def _merge_close(values: Floats, tolerance: Floats) -> Floats:
    """Replace each group of values by its lowest: sorted neighbours no further apart than the larger tolerance."""
    order = np.argsort(values, kind="stable")
    ordered, off = values[order], tolerance[order]
    begins = np.diff(ordered, prepend=-np.inf) > np.maximum(off, np.roll(off, 1))
    lowest = np.empty_like(values)
    lowest[order] = ordered[np.flatnonzero(begins)][np.cumsum(begins) - 1]
    return lowest
