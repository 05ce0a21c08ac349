"""The paired differences between optimizers with their 95% intervals: which side of zero they lie on."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fmnas.comparison.canvas import PANEL, few_ticks, label, names_above, plain, sheet
from fmnas.comparison.palette import BLUE, GROUND, INK, SOFT

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
