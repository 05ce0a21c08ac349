"""The anytime figure: the mean incumbent of each optimizer against what was spent, a panel for each currency.

Intervals are bars at a few shares of the budget, side by side: bands of several optimizers would hide one another. If
the minimum of the objective is known, the regret is drawn. All panels have the same y axis. A curve is drawn from its
steps only, so a run of ten thousand trials takes no more space than one of a hundred.

A mean needs every repeat: a line runs from where each repeat has an incumbent to where the first of them ends. On an
axis of time a slow repeat may get its first result after a fast one has ended: then no line is drawn.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from math import isfinite
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fmnas.comparison.analysis.curves import incumbent_at, mean_curve
from fmnas.comparison.analysis.float_ties import is_equal
from fmnas.comparison.analysis.resampling import Floats
from fmnas.comparison.analysis.trials import Budget
from fmnas.comparison.figures.canvas import (
    PANEL_SIZE,
    SMALL,
    TEXT,
    Drawing,
    Results,
    add_legend,
    limit_ticks,
    line_style,
    new_figure,
    set_labels,
    set_log_scale,
    style_axes,
    time_unit,
)
from fmnas.comparison.figures.palette import SOFT, Style, styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLES = {
    "evaluations": "Evaluations and epochs",
    "train_seconds": "Training time",
    "seconds": "Training + suggestion time",
    "wall_seconds": "Wall-clock time",
}
"""Title of the panel of each currency; epochs are a second scale of evaluations."""
BEST, REGRET = "The best objective so far", "The best objective so far minus the known minimum"
BARS = "Bars: its 95% interval, or else one standard error; bars beyond the axis are left out. "
CAPTIONS = {
    "evaluations": "A marker: the final mean. Dotted: the budget.",
    "train_seconds": "The sum of training times: with cheap configurations an optimizer gets further. What a worker "
    "loads in its first trial counts.",
    "seconds": "The sum of a run's training and suggestion times, whatever the number of workers.",
    "wall_seconds": "Since the run's first start, without the pauses between drivers. It depends on the number of "
    "workers, and on other runs on them.",
}
SHORT = " Short trainings cost their epochs and are never the best so far."
LOG_SCALE_FROM = 5.0
"""The y axis is logarithmic from this ratio of its ends on."""
SHARES = (0.25, 0.5, 0.75, 1.0)
"""Where intervals are drawn, as shares of a line. With more than FEW optimizers only the last one is."""
FEW = 4
VISIBLE_FROM = 0.2
"""The share of a line from which on its mean is within the y axis."""
NEGLIGIBLE_SECONDS = 1.0
"""A panel of training time needs a run that trained for longer."""
Limits = tuple[float, float, bool]
"""Of the y axis: bottom, top, whether it is logarithmic."""


@dataclass(frozen=True)
class Line:
    """An optimizer's mean curve on one axis: x, y [steps], empty if it has none.

    bars: (at, low, high) at SHARES of its length. is_final: whether it ends at the mean of all final incumbents.
    """

    name: str
    style: Style
    x: Floats
    y: Floats
    bars: tuple[tuple[float, float, float], ...]
    is_final: bool


@dataclass(frozen=True)
class Content:
    """What all panels are drawn from. curves: the incumbents, or regrets, by `quantity`. lines: by axis."""

    curves: pd.DataFrame
    quantity: str
    lines: dict[str, list[Line]]
    limits: Limits | None


def drawings(results: Results) -> Iterator[Drawing]:
    """A file with all panels, and one with each; on the page each without a legend, evaluations with the result."""
    summary = results.summary
    content = compute_content(results.curves, summary.minimum)
    quantity = REGRET if _is_above(results.curves, summary.minimum) else BEST
    lead = f"{quantity}, mean over repeats. {explain_bars(content)}"
    has_short = summary.budget.epochs_per_evaluation > 1
    figure = draw_panels(content, summary.budget, f"{summary.name}: {summary.problem}")
    yield Drawing("anytime", figure, is_on_page=False)
    for axis in content.lines:
        alone = draw_panel(content, summary.budget, axis, has_legend=True)
        yield Drawing(f"anytime_{axis}", alone, is_on_page=False)
        is_lead = axis == "evaluations"
        caption = f"{lead}{CAPTIONS[axis]}{SHORT * has_short}" if is_lead else CAPTIONS[axis]
        panel = draw_panel(content, summary.budget, axis)
        yield Drawing(f"anytime_{axis}", panel, caption, is_saved=False, is_lead=is_lead)


def explain_bars(content: Content) -> str:
    """BARS if the lines have any, which needs a second repeat; else nothing."""
    return BARS * any(isfinite(low) for line in content.lines["evaluations"] for _, low, _ in line.bars)


def currencies(curves: pd.DataFrame) -> list[str]:
    """The axes against which the curves can be drawn, in the order of the panels."""
    no_training = not curves["train_seconds"].max() > NEGLIGIBLE_SECONDS  # True for a table without rows
    no_clock = len(curves) > 0 and curves["wall_seconds"].isna().all()  # no trial has a start time
    excluded = {"train_seconds": no_training, "wall_seconds": no_clock}
    return [axis for axis in TITLES if not excluded.get(axis)]


def draw_panels(content: Content, budget: Budget, title: str) -> "Figure":
    """All panels in one figure, for a paper."""
    columns = min(2, len(content.lines))
    rows = -(-len(content.lines) // columns)
    figure = new_figure(PANEL_SIZE[0] * columns, PANEL_SIZE[1] * rows + 0.4)
    figure.suptitle(title, fontsize=13, parse_math=False)
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for panel, axis in zip(panels, content.lines, strict=False):
        _draw_panel(panel, content, axis, budget)
    for panel in panels[len(content.lines) :]:
        panel.set_visible(False)
    if looks := styles(content.curves["optimizer"]):
        add_legend(figure, looks)
    return figure


def draw_panel(content: Content, budget: Budget, axis: str, has_legend: bool = False) -> "Figure":
    """The panel of one currency, with the y axis of the others. A page has a legend of its own."""
    figure = new_figure(*PANEL_SIZE)
    _draw_panel(figure.subplots(), content, axis, budget)
    if has_legend and (looks := styles(content.curves["optimizer"])):
        add_legend(figure, looks)
    return figure


def _y_limits(lines: dict[str, list[Line]]) -> Limits | None:
    """Limits of all panels: their means from VISIBLE_FROM of their length on, and their last bars; None without any."""
    values: list[float] = []
    for line in (line for of_axis in lines.values() for line in of_axis if len(line.x)):
        first = int(np.searchsorted(line.x, VISIBLE_FROM * line.x[-1], side="right")) - 1
        values += [float(y) for y in (*line.y[max(0, first) :], *line.bars[-1][1:]) if abs(y) < 1e100]  # not NaN
    if not values:
        return None
    bottom, top = min(values), max(values)
    if bottom > 1e-100 and top / bottom >= LOG_SCALE_FROM:
        return bottom / (top / bottom) ** 0.06, top * (top / bottom) ** 0.06, True
    pad = (0.05 * abs(top) or 1.0) if is_equal(bottom, top) else 0.06 * (top - bottom)
    return bottom - pad, top + pad, False


def _is_above(curves: pd.DataFrame, minimum: float | None) -> bool:
    """Whether the minimum is known and all incumbents are above it: then the regret is drawn."""
    return minimum is not None and bool((curves["incumbent"].dropna() > minimum).all())


def compute_content(curves: pd.DataFrame, minimum: float | None = None, quantity: str = "objective") -> Content:
    """The lines of all panels. curves: those of `anytime_curves`. minimum: of the objective, where it is known.

    quantity: the name of what is drawn, unless it is a regret.
    """
    if _is_above(curves, minimum):
        quantity, curves = "objective − minimum", curves.assign(incumbent=curves["incumbent"] - (minimum or 0.0))
    lines = {axis: _lines(curves, axis) for axis in currencies(curves)}
    return Content(curves, quantity, lines, _y_limits(lines))


def _draw_panel(axes: "Axes", content: Content, axis: str, budget: Budget) -> None:
    style_axes(axes)
    curves, lines, quantity = content.curves, content.lines[axis], content.quantity
    longest = max((float(line.x[-1]) for line in lines if len(line.x)), default=0.0)
    per_unit, unit = time_unit(longest) if "seconds" in axis else (1.0, "")
    if content.limits:
        bottom, top, is_log = content.limits
        quantity += ", log scale" if is_log else ""
        set_log_scale(axes, bottom, top) if is_log else axes.set_ylim(bottom, top)
    if axis == "evaluations":
        _draw_epochs(axes, budget)
    _draw_lines(axes, lines, content.limits, longest, per_unit)
    axes.set_xlim(left=0)
    limit_ticks(axes, integers=axis == "evaluations")
    title = "Evaluations" if axis == "evaluations" and budget.epochs_per_evaluation == 1 else TITLES[axis]
    set_labels(axes, x=f"{TITLES[axis].lower()} ({unit})" if unit else axis, y=quantity, title=title)
    if axis == "evaluations":
        _draw_budget(axes, curves, budget)
    look: dict[str, Any] = {"transform": axes.transAxes, "color": SOFT, "parse_math": False}
    if curves["objective"].isna().all():
        axes.text(0.5, 0.5, "no full-fidelity result yet", ha="center", **look)
    elif missing := ", ".join(line.name for line in lines if not len(line.x)):
        words = fill(f"not drawn: {missing}", 48, break_on_hyphens=False)
        axes.text(0.99, 0.98, words, fontsize=SMALL, ha="right", va="top", **look)


def _draw_epochs(axes: "Axes", budget: Budget) -> None:
    """Add a second scale below, in epochs."""
    worth = budget.epochs_per_evaluation
    if worth > 1:
        below = axes.secondary_xaxis(-0.24, functions=(partial(np.multiply, worth), partial(np.multiply, 1 / worth)))
        below.tick_params(labelsize=SMALL, color=SOFT, labelcolor=SOFT)
        below.spines["bottom"].set_color(SOFT)
        below.set_xlabel("epochs", fontsize=TEXT, color=SOFT)


def _mean_steps(mine: pd.DataFrame, axis: str) -> tuple[Floats, Floats]:
    """An optimizer's mean curve at its steps, x and y [steps], from where every repeat has an incumbent.

    It ends where the first of its runs ends.
    """
    end = float(mine.groupby("run")[axis].max().min())
    better = mine["incumbent"].notna() & (mine["incumbent"] != mine.groupby("run")["incumbent"].shift())
    x = np.array(sorted({end, *(float(at) for at in mine.loc[better, axis] if at < end)}))
    y = np.mean([incumbent_at(run, axis, x) for _, run in mine.groupby("run", sort=False)], axis=0)
    return x[~np.isnan(x + y)], y[~np.isnan(x + y)]  # x is NaN without a start time


def _lines(curves: pd.DataFrame, axis: str) -> list[Line]:
    """The mean curve of every optimizer on an axis, with its bars; in the order of the legend."""
    looks, lines = styles(curves["optimizer"]), []
    shares = SHARES if len(looks) <= FEW else SHARES[-1:]
    for name, style in looks.items():
        mine = curves[curves["optimizer"] == name]
        x, y = _mean_steps(mine, axis)
        at = [share * x[-1] for share in shares if share * x[-1] >= x[0]] if len(x) else []
        bars = tuple((here, *ends) for here, ends in zip(at, _bar_ends(mine, axis, at), strict=True)) if at else ()
        is_final = len(y) > 0 and is_equal(float(y[-1]), float(mine.groupby("run")["incumbent"].last().mean()))
        lines.append(Line(name, style, x, y, bars, is_final))
    return lines


def _draw_lines(axes: "Axes", lines: list[Line], limits: Limits | None, longest: float, per_unit: float) -> None:
    """Draw the lines, and their bars within the limits, side by side for lines of the same length.

    longest: the length of the longest line. per_unit: what to divide x by.
    """
    bottom, top, _ = limits or (0.0, 0.0, False)
    for place, line in enumerate(lines):
        marker: dict[str, Any] = {"markersize": 5.5, "markevery": [len(line.x) - 1] if line.is_final else []}
        look = marker | line_style(line.style)
        axes.plot(line.x / per_unit, line.y, linewidth=1.8, drawstyle="steps-post", zorder=3, **look)
        aside = 0.011 * longest * (len(lines) - 1 - place)
        for at, low, high in line.bars:
            if bottom <= low and high <= top:
                x = max(float(line.x[0]), at - aside) / per_unit  # within its own line
                axes.plot([x, x], [low, high], color=line.style.colour, linewidth=2.4, alpha=0.55, zorder=2)


def _bar_ends(mine: pd.DataFrame, axis: str, at: list[float]) -> list[tuple[float, float]]:
    """An optimizer's intervals at these points of an axis; or else mean plus and minus standard error."""
    mean = mean_curve(mine, axis, at)
    low = mean["low"].fillna(mean["mean"] - mean["standard_error"])
    high = mean["high"].fillna(mean["mean"] + mean["standard_error"])
    return list(zip(low.astype(float), high.astype(float), strict=True))


def _draw_budget(axes: "Axes", curves: pd.DataFrame, budget: Budget) -> None:
    """Draw the budget as a dotted line, unless the runs are far from it."""
    spent = float(curves["evaluations"].max()) if len(curves) else 0.0
    if spent > budget.evaluations / 3:
        axes.axvline(budget.evaluations, color=SOFT, linestyle=":", linewidth=1.2)
        axes.set_xlim(right=1.04 * max(budget.evaluations, spent))
