"""Values in rows with their intervals: final results, paired differences, errors of fresh trainings."""

from collections.abc import Iterator
from math import isfinite
from typing import Any

from fmnas.comparison.analysis.paired_tests import FIRST, SECOND
from fmnas.comparison.analysis.resampling import shortcoming
from fmnas.comparison.figures.canvas import PANEL, Drawing, Results, few_ticks, label, names_above, panel
from fmnas.comparison.figures.palette import BLUE, GROUND, INK, SOFT, styles
from fmnas.comparison.summary import Summary

FINAL = (
    "Points: the final best objective of each repeat. Bar below: 95% bootstrap interval of the mean, or one standard "
    "error where there is no interval; tick: the mean. Overlapping bars do not prove that there is no difference: the "
    "repeats are paired."
)
DIFFERENCES = (
    "Left of 0 the first is lower. Mean difference of each pair over the repeats that both have, with its 95% "
    "bootstrap interval. Filled: significant after correction. An interval alone proves nothing."
)
RETRAINED = (
    "What was chosen as the lowest of many noisy values is lower than its true value: hollow, the validation error for "
    "which a configuration was selected; filled, the mean test error of fresh trainings, with one standard error. The "
    "two differ in images and length of training, too, so the whole gap is not luck alone."
)
ROW = 0.46
"""Inches of a row with its name above."""
BAR_OFFSET = 0.16
"""How far below its points a bar lies, in rows: nearer to them than to the next name."""
MOST_ROWS = 40
"""More retrained configurations cannot be told apart: the means of the optimizers are drawn in their place."""


def final(results: Results) -> Iterator[Drawing]:
    """Where each repeat ended: a row per optimizer, the lowest mean first.

    Nothing with fewer than two repeats: the table says it all.
    """
    rows = results.summary.optimizers
    if max((row.repeats for row in rows.values()), default=0) < 2:
        return
    figure, axes = panel(PANEL[0], 1.0 + ROW * len(rows), grid="x")
    look, bars = styles(rows), intervals(results.summary)
    for place, (name, row) in enumerate(rows.items()):
        style, values = look[name], [value for value in row.values.values() if isfinite(value)]
        axes.scatter(
            values, [place] * len(values), s=26, marker=style.marker, color=style.colour, alpha=0.55, linewidths=0
        )
        low, high = bars[name]
        if isfinite(row.mean) and isfinite(low):
            axes.plot([low, high], [place + BAR_OFFSET] * 2, color=style.colour, linewidth=3.0, solid_capstyle="butt")
        if isfinite(row.mean):
            axes.plot([row.mean], [place + BAR_OFFSET], marker="|", markersize=10, color=INK, linestyle="")
    names_above(axes, list(rows))
    few_ticks(axes)
    label(axes, x="objective, lower is better", title="Where each repeat ended")
    yield Drawing("final", figure, FINAL, leads=True)


def intervals(summary: Summary) -> dict[str, tuple[float, float]]:
    """The bar of each optimizer's mean: the bootstrap interval at the end, else mean plus and minus standard error.

    NaN where there is neither.
    """
    bars = {
        name: (row.mean - row.standard_error, row.mean + row.standard_error) for name, row in summary.optimizers.items()
    }
    for row in summary.checkpoints[-1].rows if summary.checkpoints else ():
        if isfinite(row.low):
            bars[row.optimizer] = (row.low, row.high)
    return bars


def differences(results: Results) -> Iterator[Drawing]:
    """Which side of zero the mean of first - second lies on, a row per pair; nothing where no pair has an interval."""
    tested = results.summary.tests.pairs
    pairs = [pair for pair in tested if isfinite(pair.low)]
    if not pairs:
        return
    figure, axes = panel(PANEL[0], 1.0 + ROW * len(pairs), grid="x")
    axes.axvline(0.0, color=INK, linewidth=1.0)
    for place, pair in enumerate(pairs):
        certain = pair.verdict in (FIRST, SECOND)
        colour = BLUE if certain else SOFT
        axes.plot([pair.low, pair.high], [place] * 2, color=colour, linewidth=2.0)
        face = colour if certain else GROUND
        axes.plot([pair.difference], [place], marker="o", markersize=6, color=colour, markerfacecolor=face)
    names_above(axes, [f"{pair.first} − {pair.second}" for pair in pairs])
    few_ticks(axes)
    label(axes, x="objective, first − second", title="Differences within a repeat")
    short = shortcoming(*(pair.repeats for pair in tested))
    yield Drawing("differences", figure, f"{DIFFERENCES} {short}".rstrip())


def retrained(results: Results) -> Iterator[Drawing]:
    """How much of a best configuration's validation error was luck: the winner's curse.

    A line per retrained configuration, from the error it was selected for (hollow) to its mean test error (filled). The
    bar is one standard error over fresh seeds. Nothing where nothing was trained again.
    """
    found = results.summary.retrained
    if found is None:
        return
    many = len(found.rows) > MOST_ROWS
    named = [(mean.optimizer, mean) for mean in found.means] if many else [(row.run, row) for row in found.rows]
    rows = [(name, row) for name, row in named if isfinite(row.error)]
    if not rows:
        return
    look = styles(row.optimizer for _, row in rows)
    figure, axes = panel(PANEL[0], 0.9 + ROW * len(rows), grid="x")
    for place, (_, row) in enumerate(rows):
        style, before, after = look[row.optimizer], row.selected_error, row.error
        dot: dict[str, Any] = {"color": style.colour, "marker": style.marker, "markersize": 6.5, "linestyle": ""}
        if isfinite(before):
            axes.plot([before, after], [place] * 2, color=style.colour, linewidth=1.4, alpha=0.7)
            axes.plot([before], [place], markerfacecolor=GROUND, **dot)
        if isfinite(row.standard_error):
            axes.errorbar([after], [place], xerr=[row.standard_error], color=style.colour, linewidth=1.0, capsize=2.5)
        axes.plot([after], [place], **dot)
    names_above(axes, [name for name, _ in rows])
    few_ticks(axes)
    label(axes, x="error; hollow: selected, filled: retrained")
    yield Drawing("retrained", figure, RETRAINED)
