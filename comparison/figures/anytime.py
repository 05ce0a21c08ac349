"""The anytime figure: the mean incumbent of each optimizer against what was spent, a panel for each currency.

Intervals are bars at a few shares of the budget, side by side: bands of several optimizers cover one another. Where the
minimum of the objective is known, what is drawn is the regret. All panels have the same axis of it. A curve is drawn
from its steps alone, so that a run of ten thousand trials weighs no more than one of a hundred.
"""

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

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
from fmnas.comparison.figures.palette import SOFT, styles
from fmnas.comparison.numbers.curves import incumbent_at, mean_curve
from fmnas.comparison.numbers.resampling import Floats
from fmnas.comparison.numbers.rounding import equal
from fmnas.comparison.numbers.trials import Budget

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
CAPTIONS = {
    "evaluations": ", mean over repeats. Bars: its 95% interval, or one standard error where there is none. A marker: "
    "the final mean. Dotted: the budget. Short trainings cost their epochs and are never the best so far.",
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
"""The share of what is drawn from which on every mean is seen whole; what is higher before may be cut off."""
INSTANT = 1.0
"""A run whose trainings take no longer than so many seconds in all has no training time to speak of."""
Limits = tuple[float, float, bool]
"""Of an objective: bottom, top, whether the axis is logarithmic."""


def drawings(results: Results) -> Iterator[Drawing]:
    """One file with all panels; on the page each panel by itself, that of evaluations with the result."""
    curves, summary = results.curves, results.summary
    together = anytime_figure(curves, summary.budget, f"{summary.name}: {summary.problem}", summary.minimum)
    yield Drawing("anytime", together, shown=False)
    for axis in currencies(curves):
        panel, leads = anytime_panel(curves, summary.budget, axis, summary.minimum), axis == "evaluations"
        what = REGRET if _is_above(curves, summary.minimum) else BEST
        caption = (what if leads else "") + CAPTIONS[axis]
        yield Drawing(f"anytime_{axis}", panel, caption, filed=False, leads=leads)


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
    axes = currencies(curves)
    columns = min(2, len(axes))
    rows = -(-len(axes) // columns)
    figure = sheet(PANEL[0] * columns, PANEL[1] * rows + 0.4)
    figure.suptitle(title, fontsize=13, parse_math=False)
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    shown = _shown(curves, minimum)
    for panel, axis in zip(panels, axes, strict=False):
        _draw_panel(panel, shown, axis, budget)
    for panel in panels[len(axes) :]:
        panel.set_visible(False)
    look = styles(curves["optimizer"])
    if look:
        legend(figure, look, {})
    return figure


def anytime_panel(curves: pd.DataFrame, budget: Budget, axis: str, minimum: float | None = None) -> "Figure":
    """The panel of one currency as a figure of its own, for a page; without a legend, and scaled as the others."""
    figure = sheet(*PANEL)
    _draw_panel(figure.subplots(), _shown(curves, minimum), axis, budget)
    return figure


def _limits(curves: pd.DataFrame) -> Limits | None:
    """Limits that let differences be seen, the same for all panels; None without any mean.

    Between them lie the means of every panel from SHOWN_FROM of their length on, and their last bars.
    """
    found: list[Floats] = [np.array([])]
    for axis in currencies(curves):
        for _, mine in curves.groupby("optimizer", sort=False):
            x, y = _mean(mine, axis)
            if len(x):
                late = max(0, int(np.searchsorted(x, SHOWN_FROM * x[-1], side="right")) - 1)
                found += [y[late:], np.array(_bars(mine, axis, [x[-1]]), dtype=float).ravel()]
    given = np.concatenate(found)
    seen = given[np.isfinite(given)]
    if not len(seen):
        return None
    bottom, top = float(seen.min()), float(seen.max())
    if bottom > 0 and top / bottom >= LOG_OBJECTIVE_FROM:
        pad = (top / bottom) ** 0.06
        return bottom / pad, top * pad, True
    pad = 0.05 * abs(top) or 1.0 if equal(bottom, top) else 0.06 * (top - bottom)
    return bottom - pad, top + pad, False


def _is_above(curves: pd.DataFrame, minimum: float | None) -> bool:
    """Whether the minimum is known and all that was found is above it: then the regret is drawn."""
    return minimum is not None and bool((curves["incumbent"].dropna() > minimum).all())


def _shown(curves: pd.DataFrame, minimum: float | None) -> tuple[pd.DataFrame, str, Limits | None]:
    """The curves as all panels have them, what they are of, and their limits."""
    what = "objective"
    if _is_above(curves, minimum):
        what, curves = "objective − minimum", curves.assign(incumbent=curves["incumbent"] - (minimum or 0.0))
    return curves, what, _limits(curves)


def _draw_panel(axes: "Axes", shown: tuple[pd.DataFrame, str, Limits | None], axis: str, budget: Budget) -> None:
    plain(axes)
    curves, what, limits = shown
    longest = float(curves[axis].max()) if len(curves) else 0.0
    per_unit, unit = time_unit(longest) if "seconds" in axis else (1.0, "")  # evaluations name their axis themselves
    if axis == "evaluations":
        _draw_epochs(axes, budget)
    _draw_means(axes, curves.assign(**{axis: curves[axis] / per_unit}), axis)
    axes.set_xlim(left=0)
    few_ticks(axes)
    # Epochs are named where `_draw_epochs` draws them.
    title = "Evaluations" if axis == "evaluations" and budget.epochs_per_evaluation == 1 else TITLES[axis]
    x = f"{TITLES[axis].lower()} ({unit})" if unit else axis
    if limits:
        bottom, top, log = limits
        what += ", log scale" if log else ""
        logarithmic(axes, bottom, top) if log else axes.set_ylim(bottom, top)
    label(axes, x=x, y=what, title=title)
    if axis == "evaluations":
        _draw_budget(axes, curves, budget)
    if curves["objective"].isna().all():
        axes.text(0.5, 0.5, "no full-fidelity result yet", transform=axes.transAxes, ha="center", color=SOFT)


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


def _draw_means(axes: "Axes", curves: pd.DataFrame, axis: str) -> None:
    """The lines, each with bars at SHARES of its length."""
    look = styles(curves["optimizer"])
    width = float(curves[axis].max()) if len(curves) else 1.0
    for place, (name, style) in enumerate(look.items()):
        mine = curves[curves["optimizer"] == name]
        x, y = _mean(mine, axis)
        final = len(y) > 0 and equal(float(y[-1]), float(mine.groupby("run")["incumbent"].min().mean()))
        ends: dict[str, Any] = {"markersize": 5.5, "markevery": [len(x) - 1] if final else []}
        axes.plot(x, y, linewidth=1.8, drawstyle="steps-post", zorder=3, **ends, **line(style))
        if not len(x):
            continue
        at = [share * x[-1] for share in (SHARES if len(look) <= FEW else SHARES[-1:]) if share * x[-1] >= x[0]]
        aside = 0.011 * width * (place - (len(look) - 1) / 2)
        for here, (low, high) in zip(at, _bars(mine, axis, at), strict=True):
            axes.plot([here + aside] * 2, [low, high], color=style.colour, linewidth=2.4, alpha=0.55, zorder=2)


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
