"""The final values: every repeat of every optimizer as a point, and the mean with its uncertainty."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fmnas.comparison.canvas import PANEL, few_ticks, label, names_above, plain, sheet
from fmnas.comparison.palette import INK, styles

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def final_figure(summary: Mapping[str, Any]) -> "Figure | None":
    """A row per optimizer, the lowest mean first. None with fewer than two repeats: the table says it all.

    The bar is the 95% interval of the mean of summary["checkpoints"] where there is one, else one standard error.
    """
    rows = summary["optimizers"]
    if max((row["repeats"] for row in rows.values()), default=0) < 2:
        return None
    figure = sheet(PANEL[0], 1.0 + 0.46 * len(rows))
    axes = figure.subplots()
    plain(axes, grid="x")
    bars = intervals(summary)
    for place, (name, style) in enumerate((name, styles(rows)[name]) for name in rows):
        values = [value for value in rows[name]["values"].values() if value is not None]
        axes.scatter(
            values, [place] * len(values), s=26, marker=style.marker, color=style.colour, alpha=0.55, linewidths=0
        )
        if rows[name]["mean"] is None:
            continue
        low, high = bars.get(name, (None, None))
        if low is not None and high is not None:
            axes.plot([low, high], [place + 0.24] * 2, color=style.colour, linewidth=3.0, solid_capstyle="butt")
        axes.plot([rows[name]["mean"]], [place + 0.24], marker="|", markersize=10, color=INK, linestyle="")
    names_above(axes, list(rows))
    few_ticks(axes)
    label(axes, x="objective, lower is better", title="Where each repeat ended")
    return figure


def intervals(summary: Mapping[str, Any]) -> dict[str, tuple[float | None, float | None]]:
    """The bar of each optimizer's mean: the bootstrap interval at the end, else mean plus and minus standard error."""
    bars: dict[str, tuple[float | None, float | None]] = {}
    for name, row in summary["optimizers"].items():
        mean, error = row["mean"], row["standard_error"]
        bars[name] = (None, None) if mean is None or error is None else (mean - error, mean + error)
    for row in summary["checkpoints"][-1]["rows"] if summary.get("checkpoints") else ():
        if row["low"] is not None:
            bars[row["optimizer"]] = (row["low"], row["high"])
    return bars
