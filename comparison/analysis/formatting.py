"""How values are written, on the page as on the terminal: objectives, errors, times, shares and counts.

Every value may be missing: None or NaN.
"""

import json
from collections.abc import Mapping, Sequence
from math import floor, isfinite, log10
from typing import Any

import pandas as pd

MISSING = "–"
LARGE = 1e6
"""From here on, a mean with its error is written with an exponent."""


def number(value: float | None, digits: int = 4) -> str:
    """An objective or an error, with so many significant digits."""
    return f"{value:#.{digits}g}".rstrip(".") if value is not None and isfinite(value) else MISSING


def with_error(value: float, error: float) -> str:
    """A mean and its standard error, both to the second significant digit of the error: "0.0685 ± 0.0011"."""
    if not isfinite(error) or error <= 0:
        return number(value)
    decimals = max(0, 1 - floor(log10(error)))
    if decimals > 9 or abs(value) >= LARGE:
        return f"{value:.3e} ± {error:.1e}"
    return f"{value:.{decimals}f} ± {error:.{decimals}f}"


def interval(low: float | None, high: float | None) -> str:
    """ "0.061 to 0.074"."""
    return MISSING if is_missing(low) or is_missing(high) else f"{number(low)} to {number(high)}"


def share(value: float | None) -> str:
    """A share as whole per cent; a small one that is not zero is said to be below one."""
    if value is None or is_missing(value):
        return MISSING
    return "< 1%" if 0 < value < 0.005 else f"{value:.0%}"


def duration(seconds: float | None) -> str:
    """Seconds in the unit that suits them."""
    if seconds is None or is_missing(seconds):
        return MISSING
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def count(value: float | None) -> str:
    """A number of things; means of such numbers with one digit."""
    return MISSING if value is None or is_missing(value) else f"{value:.1f}".removesuffix(".0")


def counts(numbers: Mapping[str, int]) -> str:
    """ "2 exact, 1 isomorphic": those that are not zero."""
    return ", ".join(f"{number} {name}" for name, number in numbers.items() if number) or MISSING


def listed(names: Sequence[str], last: str = "and") -> str:
    """Names as in a sentence: "a, b and c"."""
    return f"{', '.join(names[:-1])} {last} {names[-1]}" if len(names) > 1 else "".join(names)


def shown(value: Any) -> str:
    """Any value as short text."""
    if is_missing(value):
        return MISSING
    if isinstance(value, float):
        return f"{value:.4g}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def is_missing(value: Any) -> bool:
    """Whether there is no value."""
    return value is None or value is pd.NA or (isinstance(value, float) and value != value)
