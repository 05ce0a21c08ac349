"""The final table in words: who leads, and what the data can and cannot support. And how numbers are written."""

from math import floor, isfinite, log10

import pandas as pd

from fmnas.comparison.statistics import smallest_p

LEVEL = 0.05
"""The usual level of significance."""
MISSING = "–"


def headline(table: pd.DataFrame) -> str:
    """One sentence on a `final_table`: who has the lowest mean objective, at what cost."""
    ranked = table[table["mean"].notna()]
    if ranked.empty:
        return "No comparison yet: no optimizer has a full-fidelity result in every repeat."
    first = ranked.iloc[0]
    leaders = list(ranked["optimizer"][ranked["mean"] == first["mean"]])
    value = f"{with_error(first['mean'], first['standard_error'])}, after {first['common_epochs']} epochs in "
    value += "each repeat" if first["repeats"] > 1 else "one repeat"
    mean = "mean objective" if first["repeats"] > 1 else "objective"
    if len(table) == 1:
        return f"{leaders[0]} reached this {mean}: {value}."
    if len(leaders) > 1:
        return f"{', '.join(leaders[:-1])} and {leaders[-1]} share the lowest {mean}: {value}."
    return f"{leaders[0]} has the lowest {mean}: {value}."


def caution(table: pd.DataFrame) -> str:
    """What the data of a `final_table` can support, in plain words."""
    partial = _partial(table)
    if table.empty or table["best"].isna().all():
        return partial + "There is no full-fidelity result to compare."
    if len(table) == 1:
        return partial + "There is one optimizer: nothing to compare it with."
    repeats = [{repeat for repeat, value in values.items() if isfinite(value)} for values in table["values"]]
    if any(other != repeats[0] for other in repeats):
        return partial + _uneven(list(table["optimizer"]), repeats)
    return partial + _power(len(repeats[0]), len(table))


def number(value: float | None, digits: int = 4) -> str:
    """An objective or an error, with so many significant digits."""
    return f"{value:#.{digits}g}".rstrip(".") if value is not None and isfinite(value) else MISSING


def with_error(value: float, error: float) -> str:
    """A mean and its standard error, both to the second significant digit of the error: "0.0685 ± 0.0011"."""
    if not isfinite(error) or error <= 0:
        return number(value)
    decimals = max(0, 1 - floor(log10(error)))
    if decimals > 9:
        return f"{value:.4e} ± {error:.1e}"
    return f"{value:.{decimals}f} ± {error:.{decimals}f}"


def duration(seconds: float) -> str:
    """Seconds in the unit that suits them."""
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _partial(table: pd.DataFrame) -> str:
    if table.empty or table["common_epochs"].iloc[0] == table["budget_epochs"].iloc[0]:
        return ""
    at, budget = table["common_epochs"].iloc[0], table["budget_epochs"].iloc[0]
    return f"Compared at {at} of {budget} epochs, the least that any run has spent so far. "


def _uneven(optimizers: list[str], repeats: list[set[int]]) -> str:
    counts = ", ".join(f"{name} {len(mine)}" for name, mine in zip(optimizers, repeats, strict=True))
    shared = len(set.intersection(*repeats))
    return (
        f"The repeats with a full-fidelity result differ ({counts}; {shared} shared by all): "
        "the means are not over the same repeats, so they are not a fair comparison."
    )


def _power(repeats: int, optimizers: int) -> str:
    if repeats == 1:
        return "1 repeat: no standard error, no test; the order is an anecdote."
    least, pairs = smallest_p(repeats), optimizers * (optimizers - 1) // 2
    start = f"{repeats} paired repeats: the smallest p that a two-sided paired Wilcoxon test can give is {least:.3g}"
    if least > LEVEL:
        return f"{start}, so no difference between two optimizers can be significant at {LEVEL:.0%} by it."
    if least * pairs > LEVEL:
        return f"{start}, which is above {LEVEL:.0%} once corrected for {pairs} comparisons. No test was made here."
    return f"{start}. No test was made here: the order of the means alone is not evidence."
