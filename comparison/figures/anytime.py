"""The anytime figure: the mean incumbent of each optimizer against what was spent, a panel for each currency.

Intervals are bars at a few shares of the budget, side by side: bands of several optimizers cover one another. Where the
minimum of the objective is known, what is drawn is the regret. All panels have the same axis of it. A curve is drawn
from its steps alone, so that a run of ten thousand trials weighs no more than one of a hundred.

A mean needs every repeat: a line runs from where each of them has an incumbent to where the first of them ends. On an
axis of time a slow repeat may get its first result when a quick one has ended: then there is no line, and it is said.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from math import exp, isfinite, log
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fmnas.comparison.analysis.curves import incumbent_at, mean_curve
from fmnas.comparison.analysis.float_ties import equal
from fmnas.comparison.analysis.formatting import listed
from fmnas.comparison.analysis.resampling import Floats
from fmnas.comparison.analysis.trials import Budget
from fmnas.comparison.figures.canvas import (
    PANEL,
    SMALL,
    TEXT,
    Drawing,
    Results,
    few_ticks,
    label,
    legend,
    line,
    logarithmic,
    plain,
    sheet,
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
"""The currencies, a panel each, those that the curves have; evaluations are epochs in another unit."""
BEST, REGRET = "The best objective so far", "How far the best objective so far is above the known minimum"
BARS = (
    "Bars: its 95% interval, or one standard error where there is none; one that reaches beyond the axis is left out. "
)
CAPTIONS = {
    "evaluations": "A marker: the final mean. Dotted: the budget. Short trainings cost their epochs and are never the "
    "best so far.",
    "train_seconds": "Trainings alone, added up: with cheap configurations an optimizer gets further.",
    "seconds": "Trainings and suggestions of a run added up, however many workers shared it.",
    "wall_seconds": "Since the run's first start, without the time in which no driver worked: depends on how many "
    "workers it had, and on its neighbours.",
}
LOG_OBJECTIVE_FROM = 5.0
"""The ratio of the axis' ends from which on it is logarithmic."""
SHARES = (0.25, 0.5, 0.75, 1.0)
"""Of what is drawn: where intervals stand. Beyond FEW optimizers the last alone."""
FEW = 4
SHOWN_FROM = 0.2
"""The share of a line from which on its mean is on the axis, unless that would hide how the final results differ."""
FINAL_SHARE, MOST_ZOOM = 0.25, 10.0
"""The final results, with their bars, take at least so much of the axis, unless it would have to be cut by so much."""
INSTANT = 1.0
"""A run whose trainings take no longer than so many seconds in all has no training time to speak of."""
Limits = tuple[float, float, bool]
"""Of an objective: bottom, top, whether the axis is logarithmic."""


@dataclass(frozen=True)
class _Line:
    """An optimizer's mean curve on one axis: x, y [steps], empty where it has none.

    bars: (at, low, high) at SHARES of its length. final: whether it ends at the mean of all final incumbents.
    """

    name: str
    style: Style
    x: Floats
    y: Floats
    bars: tuple[tuple[float, float, float], ...]
    final: bool


@dataclass(frozen=True)
class _Shown:
    """What all panels are drawn from. curves: with the regret in place of the incumbent, if `what` says so.

    lines: by axis, one per optimizer.
    """

    curves: pd.DataFrame
    what: str
    lines: dict[str, list[_Line]]
    limits: Limits | None


def drawings(results: Results) -> Iterator[Drawing]:
    """One file with all panels; on the page each panel by itself, that of evaluations with the result."""
    summary = results.summary
    shown = _shown(results.curves, summary.minimum)
    what = REGRET if _is_above(results.curves, summary.minimum) else BEST
    bars = any(isfinite(low) for each in shown.lines["evaluations"] for _, low, _ in each.bars)
    lead = f"{what}, mean over repeats. {BARS if bars else ''}"
    yield Drawing("anytime", _sheet(shown, summary.budget, f"{summary.name}: {summary.problem}"), shown=False)
    for axis in shown.lines:
        leads = axis == "evaluations"
        caption = f"{lead if leads else ''}{CAPTIONS[axis]} {_left_out(shown, axis)}".rstrip()
        yield Drawing(f"anytime_{axis}", _panel(shown, summary.budget, axis), caption, filed=False, leads=leads)


def currencies(curves: pd.DataFrame) -> list[str]:
    """The axes that the curves can be drawn against, in the order of the panels."""
    instant = not curves["train_seconds"].max() > INSTANT  # nor has a table without rows any
    unknown = len(curves) > 0 and curves["wall_seconds"].isna().all()  # no trial says when it was started
    left_out = {"train_seconds": instant, "wall_seconds": unknown}
    return [axis for axis in TITLES if axis in curves and not left_out.get(axis)]


def anytime_figure(curves: pd.DataFrame, budget: Budget, title: str, minimum: float | None = None) -> "Figure":
    """All panels in one figure, for a paper.

    curves: as `anytime_curves` gives them. minimum: of the objective, where it is known.
    Lines: mean over repeats, from where every repeat has an incumbent to where the first of them ends; there a marker,
    if that is the mean at the end of all. Bars: the 95% interval where the mean curve has one, else one standard error.
    """
    return _sheet(_shown(curves, minimum), budget, title)


def anytime_panel(curves: pd.DataFrame, budget: Budget, axis: str, minimum: float | None = None) -> "Figure":
    """The panel of one currency as a figure of its own, for a page; without a legend, and scaled as the others."""
    return _panel(_shown(curves, minimum), budget, axis)


def _sheet(shown: _Shown, budget: Budget, title: str) -> "Figure":
    columns = min(2, len(shown.lines))
    rows = -(-len(shown.lines) // columns)
    figure = sheet(PANEL[0] * columns, PANEL[1] * rows + 0.4)
    figure.suptitle(title, fontsize=13, parse_math=False)
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for panel, axis in zip(panels, shown.lines, strict=False):
        _draw_panel(panel, shown, axis, budget)
    for panel in panels[len(shown.lines) :]:
        panel.set_visible(False)
    look = styles(shown.curves["optimizer"])
    if look:
        legend(figure, look, {})
    return figure


def _panel(shown: _Shown, budget: Budget, axis: str) -> "Figure":
    figure = sheet(*PANEL)
    _draw_panel(figure.subplots(), shown, axis, budget)
    return figure


def _limits(lines: dict[str, list[_Line]]) -> Limits | None:
    """Limits that let differences be seen, the same for all panels; None without any mean.

    Between them lie the means of every panel from SHOWN_FROM of their length on, and their last bars. What is far above
    the final results is cut off where these, of several optimizers, would take less than FINAL_SHARE of the axis.
    """
    drawn = [each for of_axis in lines.values() for each in of_axis if len(each.x)]
    seen = [value for each in drawn for value in (*_late(each), *_last(each))]
    if not seen:
        return None
    bottom, top = min(seen), max(seen)
    ends = [each for each in lines.get("evaluations", ()) if len(each.x)]
    near = max((value for each in ends for value in _last(each)), default=bottom)
    near = bottom if len(ends) < 2 or equal(near, bottom) else near
    if bottom > 0:
        ratio = exp(_reach(log(near / bottom), log(top / bottom)))
        if ratio >= LOG_OBJECTIVE_FROM:
            return bottom / ratio**0.06, bottom * ratio**1.06, True
    if equal(bottom, top):
        pad = 0.05 * abs(top) or 1.0
        return bottom - pad, top + pad, False
    reach = _reach(near - bottom, top - bottom)
    return bottom - 0.06 * reach, bottom + 1.06 * reach, False


def _late(drawn: _Line) -> list[float]:
    """The means from SHOWN_FROM of a line's length on."""
    first = int(np.searchsorted(drawn.x, SHOWN_FROM * drawn.x[-1], side="right")) - 1
    return [float(mean) for mean in drawn.y[max(0, first) :]]


def _last(drawn: _Line) -> list[float]:
    """The mean at the end of a line, and the ends of its bar there."""
    _, *ends = drawn.bars[-1]
    return [float(drawn.y[-1]), *filter(isfinite, ends)]


def _reach(near: float, top: float) -> float:
    """How far the axis reaches from its bottom, where final results lie up to `near` and all others up to `top`."""
    return min(top, max(near / FINAL_SHARE, top / MOST_ZOOM)) if near > 0 else top


def _is_above(curves: pd.DataFrame, minimum: float | None) -> bool:
    """Whether the minimum is known and all that was found is above it: then the regret is drawn."""
    return minimum is not None and bool((curves["incumbent"].dropna() > minimum).all())


def _shown(curves: pd.DataFrame, minimum: float | None) -> _Shown:
    """What all panels are drawn from."""
    what = "objective"
    if _is_above(curves, minimum):
        what, curves = "objective − minimum", curves.assign(incumbent=curves["incumbent"] - (minimum or 0.0))
    lines = {axis: _lines(curves, axis) for axis in currencies(curves)}
    return _Shown(curves, what, lines, _limits(lines))


def _left_out(shown: _Shown, axis: str) -> str:
    """Which optimizers have no line on an axis, and why; "" where all have one."""
    reasons: dict[str, list[str]] = {}
    for name in (each.name for each in shown.lines[axis] if not len(each.x)):
        runs = shown.curves[shown.curves["optimizer"] == name].groupby("run")["incumbent"]
        known = bool((runs.count() > 0).all())
        why = "one of its repeats ends before another has its first" if known else "not every repeat has a"
        reasons.setdefault(f"{why} full-fidelity result", []).append(name)
    return " ".join(f"Not drawn: {listed(names)}, because {why}." for why, names in reasons.items())


def _draw_panel(axes: "Axes", shown: _Shown, axis: str, budget: Budget) -> None:
    plain(axes)
    curves, lines, what, limits = shown.curves, shown.lines[axis], shown.what, shown.limits
    longest = max((float(each.x[-1]) for each in lines if len(each.x)), default=0.0)
    per_unit, unit = time_unit(longest) if "seconds" in axis else (1.0, "")  # evaluations name their axis themselves
    if limits:
        bottom, top, is_log = limits
        what += ", log scale" if is_log else ""
        logarithmic(axes, bottom, top) if is_log else axes.set_ylim(bottom, top)
    if axis == "evaluations":
        _draw_epochs(axes, budget)
    _draw_lines(axes, lines, limits, longest, per_unit)
    axes.set_xlim(left=0)
    few_ticks(axes, whole=axis == "evaluations")
    # Epochs are named where `_draw_epochs` draws them.
    title = "Evaluations" if axis == "evaluations" and budget.epochs_per_evaluation == 1 else TITLES[axis]
    x = f"{TITLES[axis].lower()} ({unit})" if unit else axis
    label(axes, x=x, y=what, title=title)
    if axis == "evaluations":
        _draw_budget(axes, curves, budget)
    look: dict[str, Any] = {"transform": axes.transAxes, "color": SOFT, "parse_math": False}
    if curves["objective"].isna().all():
        axes.text(0.5, 0.5, "no full-fidelity result yet", ha="center", **look)
    elif missing := sum(not len(each.x) for each in lines):
        words = f"{missing} of {len(lines)} optimizers not drawn"
        axes.text(0.99, 0.98, words, fontsize=SMALL, ha="right", va="top", **look)


def _draw_epochs(axes: "Axes", budget: Budget) -> None:
    """A second scale below, in epochs: an evaluation is worth so many by definition, so the curves are the same."""
    worth = budget.epochs_per_evaluation
    if worth > 1:
        below = axes.secondary_xaxis(-0.24, functions=(partial(np.multiply, worth), partial(np.multiply, 1 / worth)))
        below.tick_params(labelsize=SMALL, color=SOFT, labelcolor=SOFT)
        below.spines["bottom"].set_color(SOFT)
        below.set_xlabel("epochs", fontsize=TEXT, color=SOFT)


def _mean(mine: pd.DataFrame, axis: str) -> tuple[Floats, Floats]:
    """An optimizer's mean curve at its steps, x and y [steps], from where every repeat has an incumbent."""
    x = np.array(_changes(mine, axis))
    y = np.mean([incumbent_at(run, axis, x) for _, run in mine.groupby("run", sort=False)], axis=0)
    return x[~np.isnan(y)], y[~np.isnan(y)]


def _changes(mine: pd.DataFrame, axis: str) -> list[float]:
    """Where an optimizer's mean curve changes, up to where the first of its runs ends."""
    end = float(mine.groupby("run")[axis].max().min())
    better = mine["incumbent"].notna() & (mine["incumbent"] != mine.groupby("run")["incumbent"].shift())
    return sorted({end, *(float(x) for x in mine.loc[better, axis] if x < end)})


def _lines(curves: pd.DataFrame, axis: str) -> list[_Line]:
    """The mean curve of every optimizer on an axis, each with its bars; in the order of the legend."""
    look, lines = styles(curves["optimizer"]), []
    shares = SHARES if len(look) <= FEW else SHARES[-1:]
    for name, style in look.items():
        mine = curves[curves["optimizer"] == name]
        x, y = _mean(mine, axis)
        at = [share * x[-1] for share in shares if share * x[-1] >= x[0]] if len(x) else []
        bars = tuple((here, *ends) for here, ends in zip(at, _bars(mine, axis, at), strict=True)) if at else ()
        final = len(y) > 0 and equal(float(y[-1]), float(mine.groupby("run")["incumbent"].min().mean()))
        lines.append(_Line(name, style, x, y, bars, final))
    return lines


def _draw_lines(axes: "Axes", lines: list[_Line], limits: Limits | None, longest: float, per_unit: float) -> None:
    """The lines, and those of their bars that the axis holds, side by side where lines of the same length have them.

    longest: the length of the longest line. per_unit: what to divide its axis by.
    """
    bottom, top, _ = limits or (0.0, 0.0, False)
    for place, each in enumerate(lines):
        ends: dict[str, Any] = {"markersize": 5.5, "markevery": [len(each.x) - 1] if each.final else []}
        axes.plot(
            each.x / per_unit, each.y, linewidth=1.8, drawstyle="steps-post", zorder=3, **ends, **line(each.style)
        )
        aside = 0.011 * longest * (len(lines) - 1 - place)
        for here, low, high in each.bars:
            if bottom <= low and high <= top:
                x = max(float(each.x[0]), here - aside) / per_unit  # a bar stands within its own line
                axes.plot([x, x], [low, high], color=each.style.colour, linewidth=2.4, alpha=0.55, zorder=2)


def _bars(mine: pd.DataFrame, axis: str, at: list[float]) -> list[tuple[float, float]]:
    """An optimizer's intervals at so much of an axis; one standard error to either side where there is none."""
    mean = mean_curve(mine, axis, at)
    low = mean["low"].fillna(mean["mean"] - mean["standard_error"])
    high = mean["high"].fillna(mean["mean"] + mean["standard_error"])
    return list(zip(low.astype(float), high.astype(float), strict=True))


def _draw_budget(axes: "Axes", curves: pd.DataFrame, budget: Budget) -> None:
    """The budget as a dotted line, unless the runs are so far from it that it would squeeze them into a corner."""
    spent = float(curves["evaluations"].max()) if len(curves) else 0.0
    if spent > budget.evaluations / 3:
        axes.axvline(budget.evaluations, color=SOFT, linestyle=":", linewidth=1.2)
        axes.set_xlim(right=1.04 * max(budget.evaluations, spent))
        return
    words = f"budget {budget.evaluations} →"
    axes.text(0.99, 0.02, words, transform=axes.transAxes, fontsize=SMALL, color=SOFT, ha="right", va="bottom")
