"""Numbers and names as text, for the page and the terminal. Every value may be missing: None or NaN."""

import json
from collections.abc import Mapping, Sequence
from math import floor, isfinite, log10
from typing import Any

import pandas as pd

MISSING = "–"
EXPONENT_FROM = 1e6
"""A mean of at least this size is written with an exponent when its error is known."""
MOST_DECIMALS = 12
"""A mean whose error needs more decimals than these is written with an exponent, too."""


def format_number(value: float | None, digits: int = 4) -> str:
    """Format a number with `digits` significant digits."""
    return f"{value:#.{digits}g}".rstrip(".") if value is not None and isfinite(value) else MISSING


def format_with_error(value: float, error: float) -> str:
    """Format a mean and its standard error to the second significant digit of the error: "0.0685 ± 0.0011"."""
    if not isfinite(error) or error <= 0:
        return format_number(value)
    decimals = max(0, 1 - floor(log10(error)))
    if decimals > MOST_DECIMALS or abs(value) >= EXPONENT_FROM:
        return f"{value:.3e} ± {error:.1e}"
    return f"{value:.{decimals}f} ± {error:.{decimals}f}"


def format_interval(low: float | None, high: float | None) -> str:
    """Format an interval: "0.061 to 0.074"."""
    return MISSING if is_missing(low) or is_missing(high) else f"{format_number(low)} to {format_number(high)}"


def format_share(value: float | None) -> str:
    """Format a share as whole percent; "< 1%" for a small one that is not zero."""
    if value is None or is_missing(value):
        return MISSING
    return "< 1%" if 0 < value < 0.005 else f"{value:.0%}"


def format_duration(seconds: float | None) -> str:
    """Format seconds as seconds, minutes or hours."""
    if seconds is None or is_missing(seconds):
        return MISSING
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def format_count(value: float | None) -> str:
    """Format a count; a mean of counts gets one decimal."""
    return MISSING if value is None or is_missing(value) else f"{value:.1f}".removesuffix(".0")


def join_counts(numbers: Mapping[str, int]) -> str:
    """Join the counts that are not zero: "2 exact, 1 isomorphic"."""
    return ", ".join(f"{number} {name}" for name, number in numbers.items() if number) or MISSING


def join_names(names: Sequence[str], last: str = "and") -> str:
    """Join names as in a sentence: "a, b and c"."""
    return f"{', '.join(names[:-1])} {last} {names[-1]}" if len(names) > 1 else "".join(names)


def format_value(value: Any) -> str:
    """Format any value as short text."""
    if is_missing(value):
        return MISSING
    if isinstance(value, float):
        return f"{value:.4g}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def is_missing(value: Any) -> bool:
    """Whether a value is None, NA or NaN."""
    return value is None or value is pd.NA or (isinstance(value, float) and value != value)
