"""The timeline: a row per worker, a bar wherever it worked, in the colour of the optimizer it worked for."""

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fmnas.comparison.canvas import TEXT, label, legend, names_down, plain, sheet, time_unit
from fmnas.comparison.palette import GROUND, INK, SOFT, styles
from fmnas.comparison.timeline import RESOLUTION, Timeline

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HEIGHT = 0.72
"""Of a bar, where rows are 1 apart."""
MANY = 600
"""From so many bars on they are embedded as an image."""
ENDS = {"failed or timed out": ("x", ("failed", "timed_out")), "lost or cancelled": ("o", ("lost", "cancelled"))}
"""What a trial without a result is marked with, by status."""
NAMED = 40
"""Up to so many workers have their names beside their rows."""


def timeline_figure(timeline: Timeline) -> "Figure":
    """Bars of work; a cross where a trial failed or timed out, a circle where it was lost or cancelled."""
    from matplotlib.collections import PolyCollection

    figure = sheet(9.6, 1.3 + min(7.0, 0.26 * len(timeline.workers)))
    axes = figure.subplots()
    plain(axes, grid="x")
    per_unit, unit = time_unit(timeline.seconds)
    look = styles(timeline.busy["optimizer"])
    busy, many = timeline.busy, len(timeline.busy) > MANY
    for name, style in look.items():
        mine = busy[busy["optimizer"] == name]
        bars = _bars(mine, per_unit, timeline.seconds / RESOLUTION)
        axes.add_collection(PolyCollection(bars, facecolors=style.colour, edgecolors="none", rasterized=many))
    extra = _draw_ends(axes, timeline.ended.assign(at=timeline.ended["at"] / per_unit))
    named = len(timeline.workers) <= NAMED
    names_down(axes, timeline.workers if named else [""] * len(timeline.workers))
    axes.set_xlim(0, 1.005 * timeline.seconds / per_unit)
    label(axes, x=f"{unit} since the first start")
    if not named:
        axes.set_ylabel(f"{len(timeline.workers)} workers", fontsize=TEXT, color=SOFT)
    legend(figure, look, extra, lines=False)
    return figure


def _bars(busy: pd.DataFrame, per_unit: float, least: float) -> list[NDArray[np.float64]]:
    """The corners of rectangles, [4, 2] each, none narrower than `least` seconds."""
    middle, left = busy["worker"].to_numpy(dtype=np.float64), busy["start"].to_numpy(dtype=np.float64)
    right = np.maximum(busy["end"].to_numpy(dtype=np.float64), left + least) / per_unit
    left = left / per_unit
    low, high = middle - HEIGHT / 2, middle + HEIGHT / 2
    corners = [(left, low), (right, low), (right, high), (left, high)]
    return list(np.stack([np.stack(corner, axis=-1) for corner in corners], axis=1))


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
