"""What rounding makes of equals: the same number computed in two ways is two numbers that differ in their last digit.

An objective that is a share of few rows, as 13 wrong of 270, is a mean of shares, of folds or of seeds: the same count
of mistakes gives floats an ulp apart. So does the mean of the same values in another order. Nothing here may hang on
that: not whether a repeat is a tie, not which of two differences is the larger, not whether a target is reached.

| symbol | meaning |
|---|---|
| ROUNDING_SHARE | what a few hundred additions change at most, as a share of the largest number, with much to spare |
| grain | [n], how far each of n values may be off: ROUNDING_SHARE times the size of what it was computed from |

Every value is off by as much as its own size allows, not by that of the largest of them: the repeats of one problem may
be powers of ten apart.
"""

import numpy as np
from numpy.typing import NDArray

from fmnas.comparison.analysis.resampling import Floats

ROUNDING_SHARE = 1e-12


def reaches(values: Floats, target: float | Floats) -> NDArray[np.bool_]:
    """Which values [...] are at or below a target, or each its own, both as exact as their computation was.

    NaN reaches nothing, and infinity reaches no number.
    """
    return np.asarray(values <= target + ROUNDING_SHARE * np.abs(target))


def equal(value: float, other: float) -> bool:
    """Whether two numbers are one but for rounding; NaN is equal to nothing."""
    return bool(reaches(np.array(value), other) and reaches(np.array(other), value))


def settled(values: Floats) -> Floats:
    """The values [n], each of those that are one but for rounding as the lowest of them."""
    return _as_lowest(values, ROUNDING_SHARE * np.abs(values))


def settled_differences(first: Floats, second: Floats) -> Floats:
    """first - second of values [n]: 0 where they are one but for rounding, and sizes that are one made equal.

    A size that no other is equal to stays what it is, to the last digit.
    """
    found, grain = first - second, ROUNDING_SHARE * np.maximum(np.abs(first), np.abs(second))
    differ = np.abs(found) > grain
    result = np.zeros(len(found))
    result[differ] = np.sign(found[differ]) * _as_lowest(np.abs(found[differ]), grain[differ])
    return result


def _as_lowest(values: Floats, grain: Floats) -> Floats:
    """Values in whose ascending order no gap is wider than either grain at it, as the lowest of them."""
    order = np.argsort(values, kind="stable")
    ordered, off = values[order], grain[order]
    begins = np.diff(ordered, prepend=-np.inf) > np.maximum(off, np.roll(off, 1))
    lowest = np.empty_like(values)
    lowest[order] = ordered[np.flatnonzero(begins)][np.cumsum(begins) - 1]
    return lowest
