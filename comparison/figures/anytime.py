"""The anytime figure: the incumbent of each optimizer against what was spent, a panel for each currency.

A curve is drawn from its steps alone, so that a run of ten thousand trials weighs no more than one of a hundred.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fmnas.comparison.figures.canvas import (
    PANEL,
    SMALL,
    TEXT,
    Drawing,
    Results,
    few_ticks,
    label,
    legend,
    logarithmic,
    plain,
    sheet,
    time_unit,
)
from fmnas.comparison.figures.palette import SOFT, Style, styles
from fmnas.comparison.numbers.curves import AXES, mean_curve
from fmnas.comparison.numbers.trials import Budget

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLES = {
    "evaluations": "Evaluations and epochs",
    "train_seconds": "Training time",
    "seconds": "Training + suggestion time",
    "wall_seconds": "Wall-clock time",
}
"""The currencies, a panel each, those that the curves have; evaluations are epochs in another unit."""
CAPTIONS = {
    "evaluations": "Dotted: the budget. Short trainings cost their epochs and are never the best so far. "
    "Top right: how many results lie above what is shown.",
    "train_seconds": "Trainings alone, added up: with cheap configurations an optimizer gets further.",
    "seconds": "Trainings and suggestions of a run added up, however many workers shared it.",
    "wall_seconds": "Since the run's first start: depends on how many workers it had, and on its neighbours.",
}
LOG_OBJECTIVE_FROM = 5.0
"""The ratio of the axis' ends from which on it is logarithmic."""
MANY_DOTS = 400
"""From so many dots on they are embedded as an image, or the page would weigh megabytes."""
FEW = 4
"""Up to so many optimizers, their single repeats are drawn too."""


def drawings(results: Results) -> Iterator[Drawing]:
    """One file with all panels; on the page each panel by itself."""
    curves, summary = results.curves, results.summary
    together = anytime_figure(curves, summary.budget, f"{summary.name}: {summary.problem}")
    yield Drawing("anytime", together, shown=False)
    for axis in currencies(curves):
        yield Drawing(f"anytime_{axis}", anytime_panel(curves, summary.budget, axis), CAPTIONS[axis], filed=False)


def currencies(curves: pd.DataFrame) -> list[str]:
    """The axes that the curves can be drawn against, in the order of the panels."""
    return [axis for axis in TITLES if axis in AXES and axis in curves]


def anytime_figure(curves: pd.DataFrame, budget: Budget, title: str) -> "Figure":
    """All panels in one figure, for a paper.

    curves: as `anytime_curves` gives them.
    Thick lines: mean over repeats with a band (the 95% interval where the mean curve has one, else one standard error),
    from where every repeat has an incumbent to where the first of them ends. Thin lines: single repeats. Dots, in the
    panel of evaluations: full-fidelity results.
    """
    from matplotlib.lines import Line2D

    axes = currencies(curves)
    columns = min(2, len(axes))
    rows = -(-len(axes) // columns)
    figure = sheet(PANEL[0] * columns, PANEL[1] * rows + 0.6)
    figure.suptitle(title, fontsize=13, parse_math=False)
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for panel, axis in zip(panels, axes, strict=False):
        _draw_panel(panel, curves, axis, budget)
    for panel in panels[len(axes) :]:
        panel.set_visible(False)
    look = styles(curves["optimizer"])
    if look:
        single: dict[str, Artist] = {"one repeat": Line2D([], [], color=SOFT, linewidth=0.7)}
        legend(figure, look, single if _shows_repeats(curves) else {})
    return figure


def anytime_panel(curves: pd.DataFrame, budget: Budget, axis: str) -> "Figure":
    """The panel of one currency as a figure of its own, for a page; without a legend."""
    figure = sheet(*PANEL)
    _draw_panel(figure.subplots(), curves, axis, budget)
    return figure


def _draw_panel(axes: "Axes", curves: pd.DataFrame, axis: str, budget: Budget) -> None:
    plain(axes)
    per_unit, unit = _unit(curves, axis)
    in_unit = curves.assign(**{axis: curves[axis] / per_unit})
    look = styles(curves["optimizer"])
    if axis == "evaluations":
        _draw_results(axes, in_unit, look)
        _draw_epochs(axes, budget)
    for name, style in look.items():
        mine = in_unit[in_unit["optimizer"] == name]
        if len(look) <= FEW:
            _draw_repeats(axes, mine, axis, style)
        _draw_mean(axes, mine, axis, style)
    axes.set_xlim(left=0)
    few_ticks(axes)
    label(axes, x=f"{TITLES[axis].lower()} ({unit})" if unit else axis, y="objective", title=TITLES[axis])
    _limit_objective(axes, curves, told=axis == "evaluations")
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


def _draw_results(axes: "Axes", curves: pd.DataFrame, look: Mapping[str, Style]) -> None:
    many = curves["objective"].notna().sum() > MANY_DOTS
    for name, style in look.items():
        mine = curves[(curves["optimizer"] == name) & curves["objective"].notna()]
        alpha = 0.12 if many else 0.35
        axes.scatter(
            mine["evaluations"], mine["objective"], s=9, color=style.colour, alpha=alpha, linewidths=0, rasterized=many
        )


def _draw_repeats(axes: "Axes", mine: pd.DataFrame, axis: str, style: Style) -> None:
    if mine["run"].nunique() < 2:
        return
    for _, run in mine.groupby("run", sort=False):
        steps = run[_is_step(run)]
        axes.plot(steps[axis], steps["incumbent"], color=style.colour, linewidth=0.7, alpha=0.5, drawstyle="steps-post")


def _draw_mean(axes: "Axes", mine: pd.DataFrame, axis: str, style: Style) -> None:
    mean = mean_curve(mine, axis, _changes(mine, axis)).dropna(subset="mean")
    x, y = mean[axis].to_numpy(dtype=float), mean["mean"].to_numpy(dtype=float)
    last = [len(x) - 1] if len(x) else None
    axes.plot(
        x,
        y,
        color=style.colour,
        linestyle=style.line,
        linewidth=2.0,
        marker=style.marker,
        markersize=5.5,
        markevery=last,
        drawstyle="steps-post",
        zorder=3,
    )
    low, high = _band(mean)
    if len(x) and not np.isnan(low).any():
        axes.fill_between(x, low, high, step="post", color=style.colour, alpha=0.16, linewidth=0)


def _band(mean: pd.DataFrame) -> tuple[NDArray[np.float64], ...]:
    if {"low", "high"} <= set(mean.columns):
        return mean["low"].to_numpy(dtype=np.float64), mean["high"].to_numpy(dtype=np.float64)
    value, error = mean["mean"].to_numpy(dtype=np.float64), mean["standard_error"].to_numpy(dtype=np.float64)
    return value - error, value + error


def _changes(mine: pd.DataFrame, axis: str) -> list[float]:
    """Where an optimizer's mean curve changes, up to where the first of its runs ends."""
    end = float(mine.groupby("run")[axis].max().min())
    better = mine["incumbent"].notna() & (mine["incumbent"] != mine.groupby("run")["incumbent"].shift())
    return sorted({end, *(float(x) for x in mine.loc[better, axis] if x < end)})


def _is_step(run: pd.DataFrame) -> "pd.Series[bool]":
    """The rows of one run that its curve needs: where the incumbent changes, and the last."""
    better = run["incumbent"].notna() & (run["incumbent"] != run["incumbent"].shift())
    better.iloc[-1] = True
    return better


def _shows_repeats(curves: pd.DataFrame) -> bool:
    runs = curves.groupby("optimizer")["run"].nunique()
    return len(runs) <= FEW and int(runs.max()) > 1


def _draw_budget(axes: "Axes", curves: pd.DataFrame, budget: Budget) -> None:
    """The budget as a dotted line, unless the runs are so far from it that it would squeeze them into a corner."""
    spent = float(curves["evaluations"].max()) if len(curves) else 0.0
    if spent > budget.evaluations / 3:
        axes.axvline(budget.evaluations, color=SOFT, linestyle=":", linewidth=1.2)
        axes.set_xlim(right=1.04 * max(budget.evaluations, spent))
        return
    words = f"budget {budget.evaluations} →"
    axes.text(0.99, 0.02, words, transform=axes.transAxes, fontsize=SMALL, color=SOFT, ha="right", va="bottom")


def _limit_objective(axes: "Axes", curves: pd.DataFrame, told: bool) -> None:
    """Limits that let differences be seen: from the best result to the worst incumbent after the first steps.

    Early and diverged results above that are left out; where `told`, the panel says how many.
    """
    results = curves["objective"].dropna()
    if results.empty:
        return
    bottom, top = float(results.min()), _worst_incumbent(curves)
    if bottom > 0 and top / bottom >= LOG_OBJECTIVE_FROM:
        pad = (top / bottom) ** 0.06
        bottom, top = bottom / pad, top * pad
        logarithmic(axes, bottom, top)
    else:
        pad = 0.06 * (top - bottom) or 0.05 * abs(top) or 1.0
        bottom, top = bottom - pad, top + pad
        axes.set_ylim(bottom, top)
    above = int((results > top).sum())
    if above and told:
        note = f"↑ {above} of {len(results)} results"
        axes.set_title(note, fontsize=SMALL, color=SOFT, loc="right")


def _worst_incumbent(curves: pd.DataFrame) -> float:
    """The highest incumbent worth showing.

    That of any run an eighth of the way through its results, but not above three quarters of all results (a run may
    start with a diverged training), and never below the final incumbent of any run.
    """
    results = curves[curves["objective"].notna()]
    incumbents = [run["incumbent"].to_numpy(dtype=float) for _, run in results.groupby("run")]
    early = max(run[len(run) // 8] for run in incumbents)
    final = max(run[-1] for run in incumbents)
    return float(max(final, min(early, results["objective"].quantile(0.75))))


def _unit(curves: pd.DataFrame, axis: str) -> tuple[float, str]:
    """What to divide the axis by, and the name of the unit; "" where the axis names it itself."""
    return time_unit(float(curves[axis].max()) if len(curves) else 0.0) if "seconds" in axis else (1.0, "")
