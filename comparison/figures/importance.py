"""The importance of each variable alone for the objective, measured on ranks.

The trials are grouped by the value of one variable (a numeric one: by quantiles of equal size). Eta squared, from 0 to
1, is the share of the variance of the objective's ranks that lies between the groups. Times (n - 1) it is the statistic
H of Kruskal and Wallis (1952), which without any influence approximately follows chi squared with (groups - 1) degrees
of freedom. A variable without influence stays below its 95% quantile in 19 of 20 cases, if trials are independent.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import chdtri

from fmnas.comparison.analysis.costs import is_full_result
from fmnas.comparison.analysis.trials import Budget, variable_columns
from fmnas.comparison.figures.canvas import PANEL_SIZE, Drawing, Results, new_panel, set_labels, set_name_ticks
from fmnas.comparison.figures.palette import BLUE, LINE, VERMILION

CAPTION = (
    "Share of the variance of the objective's ranks between groups of one variable's values (eta squared, Kruskal and "
    "Wallis). Numbers are cut into up to five groups of equal size. Blue, right of the tick: more than 19 of 20 "
    "variables without influence would reach if trials were independent. They are not: optimizers try more where "
    "results were good. So chance can exceed the tick, and the figure describes this experiment, not the problem. It "
    "shows each variable alone, without interactions. Repeated configurations count once; failed and shorter trials "
    "are excluded."
)
GROUPS = 5
"""The most quantiles of a numeric variable."""
PER_GROUP = 5
"""The least mean number of trials per group; with fewer than two groups of that size nothing is drawn."""
CHANCE_QUANTILE = 0.95
MAX_CONFIGURATIONS = 5000
"""Of more configurations every k-th is used: the shares hardly change, and the page is written in time."""
MAX_BARS = 24


@dataclass(frozen=True)
class Importance:
    """share: eta squared, 0..1. chance: what a variable without influence stays below in 19 of 20 cases."""

    variable: str
    share: float
    chance: float


def drawings(results: Results) -> Iterator[Drawing]:
    """A bar per variable, the largest share first; blue above chance, grey below. None with too few full results."""
    bars = importances(results.trials, results.summary.budget)[:MAX_BARS]
    if not bars:
        return
    figure, axes = new_panel(PANEL_SIZE[0], 1.0 + 0.22 * len(bars), grid="x")
    rows = range(len(bars))
    colours = [BLUE if bar.share > bar.chance else LINE for bar in bars]
    axes.barh(rows, [bar.share for bar in bars], height=0.62, color=colours)
    axes.scatter([bar.chance for bar in bars], rows, marker="|", s=120, color=VERMILION, linewidths=1.8, zorder=3)
    set_name_ticks(axes, [bar.variable for bar in bars])
    axes.set_xlim(0, 1.08 * max(max(bar.share, bar.chance) for bar in bars))
    set_labels(axes, x="share of the rank variance; | chance, 19 in 20", title="Each variable alone")
    yield Drawing("importance", figure, CAPTION)


def importances(trials: pd.DataFrame, budget: Budget) -> list[Importance]:
    """The importance of every variable with more than one value, the largest share first.

    Repeated configurations count once. Empty with too few full results.
    """
    names = variable_columns(trials)
    if not names:
        return []
    full = trials[is_full_result(trials, budget)].drop_duplicates(names)
    full = full.iloc[:: max(1, -(-len(full) // MAX_CONFIGURATIONS))]
    if len(full) < 2 * PER_GROUP or full["objective"].nunique() < 2:
        return []
    ranks = np.asarray(full["objective"].rank(), dtype=np.float64)
    rows = []
    for name in names:
        groups = _group_codes(full[name])
        if groups.max() > 0:
            chance = float(chdtri(groups.max(), 1.0 - CHANCE_QUANTILE)) / (len(full) - 1)
            rows.append(Importance(name, _eta_squared(ranks, groups), min(1.0, chance)))
    return sorted(rows, key=lambda row: (-row.share, row.variable))


def _group_codes(values: "pd.Series[Any]") -> NDArray[np.intp]:
    """The group of each trial, 0, 1, ..: its value, or the quantile of a number with many values."""
    codes, distinct = pd.factorize(values)
    numeric = all(isinstance(value, int | float | np.number) and not isinstance(value, bool) for value in values)
    if numeric and len(distinct) > GROUPS:
        ranks = values.astype(float).rank().to_numpy(dtype=float)
        wanted = max(1, min(GROUPS, len(values) // PER_GROUP))
        codes, _ = pd.factorize(np.minimum(wanted - 1, (wanted * (ranks - 0.5) / len(values)).astype(int)))
    return np.asarray(codes, dtype=np.intp)


def _eta_squared(ranks: NDArray[np.float64], groups: NDArray[np.intp]) -> float:
    sizes = np.bincount(groups)
    means = np.bincount(groups, weights=ranks) / sizes
    centred = ranks - ranks.mean()
    return float((sizes * (means - ranks.mean()) ** 2).sum() / (centred**2).sum())
