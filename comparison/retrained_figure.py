"""Selected and retrained: how much of a best configuration's validation error was luck (the winner's curse)."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fmnas.comparison.canvas import PANEL, few_ticks, label, names_above, plain, sheet
from fmnas.comparison.palette import GROUND, styles

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MANY = 40
"""More rows than that cannot be told apart: the means of the optimizers are drawn in their place."""


def retrained_figure(summary: Mapping[str, Any]) -> "Figure | None":
    """A line per retrained configuration, from the error it was selected for (hollow) to its mean test error (filled).

    The bar is one standard error over fresh seeds. None where summary["retrained"] is missing or holds no row.
    """
    retrained = summary.get("retrained") or {}
    rows = list(retrained.get("rows", ()))
    if len(rows) > MANY:
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
