"""Values in rows with their intervals: final results, paired differences, errors of fresh trainings."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fmnas.comparison.figures.canvas import PANEL, few_ticks, label, names_above, plain, sheet
from fmnas.comparison.figures.palette import BLUE, GROUND, INK, SOFT, styles

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


CERTAIN = ("first better", "second better")
"""The verdicts that a corrected test supports: their points are filled."""


def differences_figure(summary: Mapping[str, Any]) -> "Figure | None":
    """A row per pair of summary["tests"]: mean of first - second over repeats. None where no pair has an interval."""
    pairs = [pair for pair in (summary.get("tests") or {}).get("pairs", ()) if pair["low"] is not None]
    if not pairs:
        return None
    figure = sheet(PANEL[0], 1.0 + 0.46 * len(pairs))
    axes = figure.subplots()
    plain(axes, grid="x")
    axes.axvline(0.0, color=INK, linewidth=1.0)
    for place, pair in enumerate(pairs):
        colour = BLUE if pair["verdict"] in CERTAIN else SOFT
        axes.plot([pair["low"], pair["high"]], [place] * 2, color=colour, linewidth=2.0)
        face = colour if pair["verdict"] in CERTAIN else GROUND
        axes.plot([pair["difference"]], [place], marker="o", markersize=6, color=colour, markerfacecolor=face)
    names_above(axes, [f"{pair['first']} − {pair['second']}" for pair in pairs])
    few_ticks(axes)
    label(axes, x="objective, first − second", title="Differences within a repeat")
    return figure


MOST_ROWS = 40
"""More rows than that cannot be told apart: the means of the optimizers are drawn in their place."""


def retrained_figure(summary: Mapping[str, Any]) -> "Figure | None":
    """A line per retrained configuration, from the error it was selected for (hollow) to its mean test error (filled).

    The bar is one standard error over fresh seeds. None where summary["retrained"] is missing or holds no row.
    """
    retrained = summary.get("retrained") or {}
    rows = list(retrained.get("rows", ()))
    if len(rows) > MOST_ROWS:
        rows = [{**row, "run": row["optimizer"]} for row in retrained["means"]]
    rows = [row for row in rows if row["error"] is not None]
    if not rows:
        return None
    look = styles(row["optimizer"] for row in rows)
    figure = sheet(PANEL[0], 0.9 + 0.46 * len(rows))
    axes = figure.subplots()
    plain(axes, grid="x")
    for place, row in enumerate(rows):
        style, before, after = look[row["optimizer"]], row["selected_error"], row["error"]
        dot: dict[str, Any] = {"color": style.colour, "marker": style.marker, "markersize": 6.5, "linestyle": ""}
        if before is not None:
            axes.plot([before, after], [place] * 2, color=style.colour, linewidth=1.4, alpha=0.7)
            axes.plot([before], [place], markerfacecolor=GROUND, **dot)
        if row["standard_error"] is not None:
            axes.errorbar(
                [after], [place], xerr=[row["standard_error"]], color=style.colour, linewidth=1.0, capsize=2.5
            )
        axes.plot([after], [place], **dot)
    names_above(axes, [row["run"] for row in rows])
    few_ticks(axes)
    label(axes, x="error; hollow: selected, filled: retrained")
    return figure
