"""Parallel coordinates: every full evaluation as a line through the values of its variables, coloured by its rank.

The variables stand below one another, not side by side: names and categories can be read without turning the head.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fmnas.comparison.analysis.costs import is_full_result
from fmnas.comparison.analysis.formatting import shown
from fmnas.comparison.analysis.trials import Budget, variable_columns
from fmnas.comparison.figures.canvas import SMALL, Drawing, Results, sheet
from fmnas.comparison.figures.importance import is_numeric, thinned
from fmnas.comparison.figures.palette import GROUND, INK, LINE, SOFT, VERMILION

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FEWEST_LINES, MOST_LINES, BEST_LINES = 5, 200, 60
"""The fewest full evaluations that are drawn; the most lines: the best of them, and every k-th of the rest."""
MOST_VARIABLES = 30
"""At most so many variables are shown: the first ones of the space."""
LOG_VARIABLE_FROM = 30.0
"""From this ratio of a positive variable's largest to its smallest value on its line is logarithmic."""
CATEGORIES = 8
"""Up to so many different integers are shown as categories, each with its number."""
_POOR = "#8a98a6"


@dataclass(frozen=True)
class Coordinate:
    """One variable: where each trial lies on its line (0..1), and what stands at which place of it."""

    name: str
    places: NDArray[np.float64]
    ticks: tuple[tuple[float, str], ...]


def drawings(results: Results) -> Iterator[Drawing]:
    """Where good configurations agree; none with too few full evaluations."""
    budget = results.summary.budget
    shown = shown_trials(results.trials, budget)
    figure, drawn = parallel_figure(shown), len(shown)
    if figure is None:
        return
    full = int(is_full_result(results.trials, budget).sum())
    some = f"{drawn} of {full} full evaluations: the best, and every so many-th of the rest" if drawn < full else ""
    caption = (
        f"{some or f'All {full} full evaluations'}, each a line through its values; the better its rank, the "
        "more orange and the thicker. Where orange lines bundle, good configurations agree; that optimizers search "
        "there more often bundles lines, too. Categories are spread a little so that lines do not hide one another."
    )
    yield Drawing("parallel", figure, caption, wide=True)


def parallel_figure(full: pd.DataFrame) -> "Figure | None":
    """A line per full evaluation, the best last: None with fewer than FEWEST_LINES or than two variables that vary."""
    varying = [name for name in variable_columns(full) if full[name].nunique() > 1]
    drawn = [full[name] for name in varying[:MOST_VARIABLES]]
    coordinates = [coordinate(values, _relatives(values, drawn)) for values in drawn]
    if len(full) < FEWEST_LINES or len(coordinates) < 2:
        return None
    figure = sheet(8.8, 0.9 + 0.46 * len(coordinates))
    axes = figure.subplots()
    _draw_lines(axes, np.stack([each.places for each in coordinates], axis=1), len(full))
    for row, each in enumerate(coordinates):
        axes.axhline(row, color=LINE, linewidth=0.8, zorder=0)
        for place, text in each.ticks:
            look: dict[str, Any] = {"fontsize": SMALL, "color": SOFT, "ha": "center", "va": "top", "parse_math": False}
            box = {"facecolor": GROUND, "edgecolor": "none", "pad": 0.6, "alpha": 0.75}
            axes.text(place, row + 0.14, text, bbox=box, **look)
    names = [each.name for each in coordinates]
    axes.set_yticks(range(len(names)), names, fontsize=SMALL, color=INK, parse_math=False)
    axes.set_ylim(len(coordinates) - 0.4, -0.3)
    axes.set_xlim(-0.04, 1.04)
    axes.set_xticks([])
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    _explain(figure)
    return figure


def shown_trials(trials: pd.DataFrame, budget: Budget) -> pd.DataFrame:
    """The full evaluations that are drawn, the best last: the BEST_LINES best, and every k-th of the others."""
    full = trials[is_full_result(trials, budget)].sort_values("objective", ascending=False, kind="stable")
    if len(full) <= MOST_LINES:
        return full
    return pd.concat([thinned(full.iloc[:-BEST_LINES], MOST_LINES - BEST_LINES), full.iloc[-BEST_LINES:]])


def _relatives(values: "pd.Series[Any]", others: "Sequence[pd.Series[Any]]") -> set[Any]:
    """The categories of all variables that have one in common with this one, as the operations of a cell's edges."""
    mine = set(values)
    shared = [set(other) for other in others if not is_numeric(other) and not mine.isdisjoint(other)]
    return set().union(*shared) if not is_numeric(values) else mine


def coordinate(values: "pd.Series[Any]", categories: Iterable[Any] = ()) -> Coordinate:
    """One variable's places: numbers from the smallest to the largest, other values evenly spaced.

    categories: more that have a place among them, though this variable never took them.
    Trials of the same category are spread around its place by a fixed pattern, so that lines do not hide one another.
    """
    name, taken = str(values.name), set(values)
    distinct = sorted(taken.union(categories), key=lambda value: (str(type(value)), value))
    if is_numeric(values) and (len(distinct) > CATEGORIES or any(value != int(value) for value in distinct)):
        numbers = values.to_numpy(dtype=np.float64)
        log = numbers.min() > 0 and numbers.max() / numbers.min() >= LOG_VARIABLE_FROM
        scaled = np.log(numbers) if log else numbers
        places = (scaled - scaled.min()) / np.ptp(scaled)
        return Coordinate(name, places, ((0.0, shown(float(numbers.min()))), (1.0, shown(float(numbers.max())))))
    codes = np.array([distinct.index(value) for value in values], dtype=np.float64)
    spread = 0.5 / len(distinct)
    jitter = spread * ((np.arange(len(codes)) * 0.618034) % 1.0 - 0.5)
    centres = (np.arange(len(distinct)) + 0.5) / len(distinct)
    ticks = tuple(
        (place, str(value)) for place, value in zip(centres.tolist(), distinct, strict=True) if value in taken
    )
    return Coordinate(name, centres[codes.astype(int)] + jitter, ticks)


def _draw_lines(axes: "Axes", places: NDArray[np.float64], trials: int) -> None:
    """places: [trials, variables], the best last."""
    from matplotlib.collections import LineCollection
    from matplotlib.colors import to_rgb

    poor, good = np.array(to_rgb(_POOR)), np.array(to_rgb(VERMILION))
    goodness = np.linspace(0.0, 1.0, trials) ** 3
    rows = np.arange(places.shape[1])
    axes.add_collection(
        LineCollection(
            [np.column_stack([line, rows]) for line in places],
            colors=[(*(poor + g * (good - poor)), 0.35 + 0.6 * g) for g in goodness],
            linewidths=0.6 + 1.0 * goodness,
        )
    )


def _explain(figure: "Figure") -> None:
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], color=_POOR, linewidth=1.0), Line2D([], [], color=VERMILION, linewidth=1.8)]
    look: dict[str, Any] = {"loc": "outside upper center", "frameon": False, "fontsize": SMALL, "labelcolor": SOFT}
    figure.legend(handles, ["worst rank", "best rank"], ncols=2, **look)
