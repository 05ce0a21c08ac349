"""Values in rows with their intervals: final results, paired differences, test errors of retrained configurations."""

from collections.abc import Iterator
from math import isfinite
from typing import Any

from fmnas.comparison.analysis.paired_tests import FIRST, SECOND
from fmnas.comparison.analysis.resampling import coverage_warning
from fmnas.comparison.figures.canvas import (
    PANEL_SIZE,
    Drawing,
    Results,
    limit_ticks,
    new_panel,
    set_labels,
    set_names_above,
)
from fmnas.comparison.figures.palette import BLUE, GROUND, INK, SOFT, styles
from fmnas.comparison.summary import Summary

FINAL = (
    "Points: the final best objective of each repeat. Bar below: 95% bootstrap interval of the mean, or one standard "
    "error without an interval; tick: the mean. Overlapping bars do not prove equality: the repeats are paired."
)
DIFFERENCES = (
    "Left of 0 the first is lower. Mean difference of each pair over the repeats that both have, with its 95% "
    "bootstrap interval. Filled: significant after correction. An interval alone proves nothing."
)
RETRAINED = (
    "The lowest of many noisy values is lower than its true value. Hollow: the validation error for which a "
    "configuration was selected. Filled: the mean test error of the retraining, with one standard error. The two also "
    "differ in images and length of training, so the gap is not only selection bias."
)
ROW_HEIGHT = 0.46
"""Inches of a row with its name above."""
BAR_OFFSET = 0.16
"""Distance of a bar below its points, in rows: nearer to them than to the next name."""
MAX_ROWS = 40
"""With more retrained configurations the means of the optimizers are drawn instead."""


def final(results: Results) -> Iterator[Drawing]:
    """The result of each repeat: a row per optimizer, the lowest mean first. None with fewer than two repeats."""
    rows = results.summary.optimizers
    if max((row.repeats for row in rows.values()), default=0) < 2:
        return
    figure, axes = new_panel(PANEL_SIZE[0], 1.0 + ROW_HEIGHT * len(rows), grid="x")
    looks, bars = styles(rows), intervals(results.summary)
    for place, (name, row) in enumerate(rows.items()):
        style, values = looks[name], [value for value in row.values.values() if isfinite(value)]
        axes.scatter(
            values, [place] * len(values), s=26, marker=style.marker, color=style.colour, alpha=0.55, linewidths=0
        )
        low, high = bars[name]
        if isfinite(row.mean) and isfinite(low):
            axes.plot([low, high], [place + BAR_OFFSET] * 2, color=style.colour, linewidth=3.0, solid_capstyle="butt")
        if isfinite(row.mean):
            axes.plot([row.mean], [place + BAR_OFFSET], marker="|", markersize=10, color=INK, linestyle="")
    set_names_above(axes, list(rows))
    limit_ticks(axes)
    set_labels(axes, x="objective, lower is better", title="Result of each repeat")
    yield Drawing("final", figure, FINAL, is_lead=True)


def intervals(summary: Summary) -> dict[str, tuple[float, float]]:
    """The bar of each optimizer's mean: the bootstrap interval at the end, or else mean plus and minus standard error.

    NaN without either.
    """
    bars = {
        name: (row.mean - row.standard_error, row.mean + row.standard_error) for name, row in summary.optimizers.items()
    }
    for row in summary.checkpoints[-1].rows if summary.checkpoints else ():
        if isfinite(row.low):
            bars[row.optimizer] = (row.low, row.high)
    return bars


def differences(results: Results) -> Iterator[Drawing]:
    """The mean of first - second, a row per pair. None where no pair has an interval."""
    tested = results.summary.tests.pairs
    pairs = [pair for pair in tested if isfinite(pair.low)]
    if not pairs:
        return
    figure, axes = new_panel(PANEL_SIZE[0], 1.0 + ROW_HEIGHT * len(pairs), grid="x")
    axes.axvline(0.0, color=INK, linewidth=1.0)
    for place, pair in enumerate(pairs):
        significant = pair.verdict in (FIRST, SECOND)
        colour = BLUE if significant else SOFT
        axes.plot([pair.low, pair.high], [place] * 2, color=colour, linewidth=2.0)
        face = colour if significant else GROUND
        axes.plot([pair.difference], [place], marker="o", markersize=6, color=colour, markerfacecolor=face)
    set_names_above(axes, [f"{pair.first} − {pair.second}" for pair in pairs])
    limit_ticks(axes)
    set_labels(axes, x="objective, first − second", title="Differences within a repeat")
    warning = coverage_warning(*(pair.repeats for pair in tested))
    yield Drawing("differences", figure, f"{DIFFERENCES} {warning}".rstrip())


def selection_bias(results: Results) -> Iterator[Drawing]:
    """The selection bias of the best configurations' validation errors. None without a retraining.

    A line per retrained configuration, from the error that it was selected for (hollow) to its mean test error
    (filled). The bar is one standard error over the new seeds.
    """
    summary = results.summary.retrained
    if summary is None:
        return
    many = len(summary.rows) > MAX_ROWS
    named = [(mean.optimizer, mean) for mean in summary.means] if many else [(row.run, row) for row in summary.rows]
    rows = [(name, row) for name, row in named if isfinite(row.error)]
    if not rows:
        return
    looks = styles(row.optimizer for _, row in rows)
    figure, axes = new_panel(PANEL_SIZE[0], 0.9 + ROW_HEIGHT * len(rows), grid="x")
    for place, (_, row) in enumerate(rows):
        style, before, after = looks[row.optimizer], row.selected_error, row.error
        dot: dict[str, Any] = {"color": style.colour, "marker": style.marker, "markersize": 6.5, "linestyle": ""}
        if isfinite(before):
            axes.plot([before, after], [place] * 2, color=style.colour, linewidth=1.4, alpha=0.7)
            axes.plot([before], [place], markerfacecolor=GROUND, **dot)
        if isfinite(row.standard_error):
            axes.errorbar([after], [place], xerr=[row.standard_error], color=style.colour, linewidth=1.0, capsize=2.5)
        axes.plot([after], [place], **dot)
    set_names_above(axes, [name for name, _ in rows])
    limit_ticks(axes)
    set_labels(axes, x="error; hollow: selected, filled: retrained")
    yield Drawing("retrained", figure, RETRAINED)
