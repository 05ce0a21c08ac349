"""The timeline: a row per worker, a bar wherever it worked, in the colour of the optimizer it worked for."""

from typing import TYPE_CHECKING, Any

import pandas as pd

from fmnas.comparison.canvas import TEXT, label, legend, names_down, plain, sheet, time_unit
from fmnas.comparison.palette import GROUND, INK, SOFT, styles
from fmnas.comparison.timeline import Timeline

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MANY = 600
"""From so many bars on they are embedded as an image."""
ENDS = {"failed or timed out": ("x", ("failed", "timed_out")), "lost or cancelled": ("o", ("lost", "cancelled"))}
"""What a trial without a result is marked with, by status."""
NAMED = 40
"""Up to so many workers have their names beside their rows."""


def timeline_figure(timeline: Timeline) -> "Figure":
    """Bars of work; a cross where a trial failed or timed out, a circle where it was lost or cancelled."""
    figure = sheet(9.6, 1.3 + min(7.0, 0.26 * len(timeline.workers)))
    axes = figure.subplots()
    plain(axes, grid="x")
    per_unit, unit = time_unit(timeline.seconds)
    look = styles(timeline.busy["optimizer"])
    busy, many = timeline.busy, len(timeline.busy) > MANY
    least = timeline.seconds / 1200 / per_unit
    for name, style in look.items():
        mine = busy[busy["optimizer"] == name]
        width = ((mine["end"] - mine["start"]) / per_unit).clip(lower=least)
        axes.barh(
            mine["worker"], width, left=mine["start"] / per_unit, height=0.72, color=style.colour, rasterized=many
        )
    extra = _draw_ends(axes, timeline.ended.assign(at=timeline.ended["at"] / per_unit))
    named = len(timeline.workers) <= NAMED
    names_down(axes, timeline.workers if named else [""] * len(timeline.workers))
    axes.set_xlim(0, 1.005 * timeline.seconds / per_unit)
    label(axes, x=f"{unit} since the first start")
    if not named:
        axes.set_ylabel(f"{len(timeline.workers)} workers", fontsize=TEXT, color=SOFT)
    legend(figure, look, extra, lines=False)
    return figure


def _draw_ends(axes: "Axes", ended: pd.DataFrame) -> "dict[str, Artist]":
    """The marks of trials without a result; returns what the legend says of them."""
    from matplotlib.lines import Line2D

    told: dict[str, Artist] = {}
    for words, (marker, statuses) in ENDS.items():
        here = ended[ended["status"].isin(statuses)]
        if len(here):
            look: dict[str, Any] = {"color": INK, "marker": marker, "markersize": 5.5, "markerfacecolor": GROUND}
            axes.plot(here["at"], here["worker"], linestyle="", zorder=4, rasterized=len(here) > MANY, **look)
            told[words] = Line2D([], [], linestyle="", **look)
    return told
