"""How much each variable alone has to do with the objective, measured on ranks.

The trials are grouped by the value of one variable (a numeric one: by quantiles of equal size), and the share of the
variance of the objective's ranks that lies between the groups is eta squared: 0 none, 1 all of it. Times (n - 1) it is
the statistic H of Kruskal and Wallis (1952), which under pure chance follows chi squared with (groups - 1) degrees of
freedom, about; its 95% point is what a variable without any influence stays below in 19 of 20 cases, where trials are
independent of one another.
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
from fmnas.comparison.figures.canvas import PANEL, Drawing, Results, label, names_down, panel
from fmnas.comparison.figures.palette import BLUE, LINE, VERMILION

CAPTION = (
    "Share of the variance of the objective's ranks that lies between groups of one variable's values (eta squared, "
    "Kruskal and Wallis); numbers are cut into up to five groups of equal size. Blue, right of the tick: more than 19 "
    "of 20 variables without influence would reach, were the trials independent. They are not: optimizers try more "
    "where it was good, so chance reaches further than the tick, and this describes the experiment, not the problem. "
    "It sees each variable alone, no interactions. A configuration tried twice counts once; trials that failed or were "
    "shorter are left out."
)
GROUPS = 5
"""At most so many quantiles of a numeric variable."""
PER_GROUP = 5
"""At least so many trials in each, on average; with fewer than two groups of that size there is nothing to tell."""
CHANCE_QUANTILE = 0.95
MOST_CONFIGURATIONS = 5000
"""Of more configurations than that, every k-th is taken: the shares hardly change, and the page is written in time."""
MOST_BARS = 24
"""Of more variables than that, the first ones are drawn."""


@dataclass(frozen=True)
class Importance:
    """share: eta squared, 0..1. chance: what a variable without influence stays below in 19 of 20 cases."""

    variable: str
    share: float
    chance: float


def drawings(results: Results) -> Iterator[Drawing]:
    """A bar per variable, the largest share first; blue beyond chance, grey within.

    Nothing with too few full evaluations to tell.
    """
    shown = importances(results.trials, results.summary.budget)[:MOST_BARS]
    if not shown:
        return
    figure, axes = panel(PANEL[0], 1.0 + 0.22 * len(shown), grid="x")
    places = range(len(shown))
    colours = [BLUE if each.share > each.chance else LINE for each in shown]
    axes.barh(places, [each.share for each in shown], height=0.62, color=colours)
    axes.scatter([each.chance for each in shown], places, marker="|", s=120, color=VERMILION, linewidths=1.8, zorder=3)
    names_down(axes, [each.variable for each in shown])
    axes.set_xlim(0, 1.08 * max(max(each.share, each.chance) for each in shown))
    label(axes, x="share of the rank variance; | chance, 19 in 20", title="Each variable alone")
    yield Drawing("importance", figure, CAPTION)


def importances(trials: pd.DataFrame, budget: Budget) -> list[Importance]:
    """One per variable that took more than one value, the largest share first; empty with too few full results.

    A configuration that was tried again, by the same optimizer or another, counts once.
    """
    names = variable_columns(trials)
    if not names:
        return []
    full = thinned(trials[is_full_result(trials, budget)].drop_duplicates(names), MOST_CONFIGURATIONS)
    if len(full) < 2 * PER_GROUP or full["objective"].nunique() < 2:
        return []
    ranks = np.asarray(full["objective"].rank(), dtype=np.float64)
    found = []
    for name in names:
        groups = _groups(full[name])
        if groups.max() > 0:
            chance = float(chdtri(groups.max(), 1.0 - CHANCE_QUANTILE)) / (len(full) - 1)
            found.append(Importance(name, _eta_squared(ranks, groups), min(1.0, chance)))
    return sorted(found, key=lambda each: (-each.share, each.variable))


def thinned(trials: pd.DataFrame, most: int) -> pd.DataFrame:
    """Every k-th row, so that at most so many are left."""
    return trials.iloc[:: max(1, -(-len(trials) // most))]


def is_numeric(values: "pd.Series[Any]") -> bool:
    """Whether all of a variable's values are numbers (booleans are not)."""
    return all(isinstance(value, int | float | np.number) and not isinstance(value, bool) for value in values)


def _groups(values: "pd.Series[Any]") -> NDArray[np.intp]:
    """The group of each trial, 0, 1, ..: its value, or the quantile of a number with many values."""
    codes, distinct = pd.factorize(values)
    if is_numeric(values) and len(distinct) > GROUPS:
        ranks = values.astype(float).rank().to_numpy(dtype=float)
        wanted = max(1, min(GROUPS, len(values) // PER_GROUP))
        codes, _ = pd.factorize(np.minimum(wanted - 1, (wanted * (ranks - 0.5) / len(values)).astype(int)))
    return np.asarray(codes, dtype=np.intp)


def _eta_squared(ranks: NDArray[np.float64], groups: NDArray[np.intp]) -> float:
    sizes = np.bincount(groups)
    means = np.bincount(groups, weights=ranks) / sizes
    centred = ranks - ranks.mean()
    return float((sizes * (means - ranks.mean()) ** 2).sum() / (centred**2).sum())
