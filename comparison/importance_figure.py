"""The importance of each variable as a bar, beside what chance alone would give."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fmnas.comparison.canvas import PANEL, label, names_down, plain, sheet
from fmnas.comparison.importance import Importance
from fmnas.comparison.palette import BLUE, LINE, VERMILION

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST = 24
"""Of more variables than that, the first ones are drawn."""


def importance_figure(importances: Sequence[Importance]) -> "Figure | None":
    """A bar per variable, the largest share first; blue beyond chance, grey within. None without any."""
    shown = importances[:MOST]
    if not shown:
        return None
    figure = sheet(PANEL[0], 1.0 + 0.22 * len(shown))
    axes = figure.subplots()
    plain(axes, grid="x")
    places = range(len(shown))
    colours = [BLUE if each.share > each.chance else LINE for each in shown]
    axes.barh(places, [each.share for each in shown], height=0.62, color=colours)
    axes.scatter([each.chance for each in shown], places, marker="|", s=120, color=VERMILION, linewidths=1.8, zorder=3)
    names_down(axes, [each.variable for each in shown])
    axes.set_xlim(0, 1.08 * max(max(each.share, each.chance) for each in shown))
    label(axes, x="share of the rank variance; | chance, 19 in 20", title="Each variable alone")
    return figure
