"""The anytime figure: the incumbent of each optimizer against what was spent, in evaluations' worth and in time.

Drawn with the object interface of matplotlib alone: no global state, no display.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from fmnas.comparison.curves import mean_curve
from fmnas.comparison.trials import Budget

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FIRST = "bo-fm"
# Okabe and Ito's palette, told apart with every kind of colour blindness; its yellow is too faint on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
LINES = (
    (0.0, ()),
    (0.0, (4.0, 1.5)),
    (0.0, (6.0, 1.5, 1.2, 1.5)),
    (0.0, (1.2, 1.2)),
    (0.0, (6.0, 1.2, 1.2, 1.2, 1.2, 1.2)),
)
"""Solid, then dashes: (offset, (on, off, ...)) in line widths."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
TIME_UNITS = ((2 * 3600.0, 3600.0, "hours"), (2 * 60.0, 60.0, "minutes"), (0.0, 1.0, "seconds"))
"""(from so many seconds on, seconds per unit, its name)"""
WIDE = 5.0
"""The ratio of the axis' ends from which on it is logarithmic."""
MANY_DOTS = 1500
"""From so many dots on they are embedded as an image, or the page would weigh megabytes."""


FEW = 4
"""Up to so many optimizers, their single repeats are drawn too."""


@dataclass(frozen=True)
class Style:
    """How one optimizer is drawn, everywhere."""

    colour: str
    line: tuple[float, tuple[float, ...]]
    marker: str


def styles(optimizers: Iterable[str]) -> dict[str, Style]:
    """A style per optimizer, in the order of the legend: bo-fm first, then by name."""
    names = sorted(set(optimizers), key=lambda name: (name != FIRST, name))
    return {
        name: Style(COLOURS[i % len(COLOURS)], LINES[i % len(LINES)], MARKERS[i % len(MARKERS)])
        for i, name in enumerate(names)
    }


def anytime_figure(curves: pd.DataFrame, budget: Budget, title: str) -> "Figure":
    """Two panels: against evaluations' worth of epochs, and against seconds of training and suggestion.

    curves: as `anytime_curves` gives them.
    Thick lines: mean over repeats, with a band of one standard error, from where every repeat has an incumbent to where
    the first of them ends. Thin lines: single repeats. Dots: full-fidelity results.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.0, 4.3), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    figure.suptitle(title, fontsize=13, parse_math=False)
    look = styles(curves["optimizer"])
    per_unit, unit = _time_unit(curves)
    in_unit = curves.assign(seconds=curves["seconds"] / per_unit)
    for axes, axis in ((left, "evaluations"), (right, "seconds")):
        _draw_panel(axes, in_unit, axis, look)
    _draw_budget(left, curves, budget)
    left.set_xlabel(f"evaluations' worth of epochs (1 = {budget.epochs_per_evaluation} epochs)", fontsize=10)
    right.set_xlabel(f"training + suggestion ({unit})", fontsize=10)
    left.set_ylabel("objective (lower is better)", fontsize=10)
    _limit_objective(left, curves)
    if look:
        _draw_legend(figure, look, repeats=int(curves.groupby("optimizer")["run"].nunique().max()))
    return figure


def _draw_panel(axes: "Axes", curves: pd.DataFrame, axis: str, look: dict[str, Style]) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25, linewidth=0.6)
    axes.tick_params(labelsize=9)
    many = curves["objective"].notna().sum() > MANY_DOTS
    for name, style in look.items():
        mine = curves[curves["optimizer"] == name]
        x, y = mine[axis], mine["objective"]
        axes.scatter(x, y, s=9, color=style.colour, alpha=0.12 if many else 0.3, linewidths=0, rasterized=many)
        if len(look) <= FEW:
            _draw_repeats(axes, mine, axis, style)
        _draw_mean(axes, mine, axis, style)
    axes.set_xlim(left=0)
    if curves["objective"].isna().all():
        axes.text(0.5, 0.5, "no full-fidelity result yet", transform=axes.transAxes, ha="center", color="#777777")


def _draw_repeats(axes: "Axes", mine: pd.DataFrame, axis: str, style: Style) -> None:
    for _, run in mine.groupby("run", sort=False):
        axes.plot(run[axis], run["incumbent"], color=style.colour, linewidth=0.7, alpha=0.45, drawstyle="steps-post")


def _draw_mean(axes: "Axes", mine: pd.DataFrame, axis: str, style: Style) -> None:
    mean = mean_curve(mine, axis, _changes(mine, axis)).dropna(subset="mean")
    x, y = mean[axis].to_numpy(dtype=float), mean["mean"].to_numpy(dtype=float)
    axes.plot(
        x,
        y,
        color=style.colour,
        linestyle=style.line,
        linewidth=2.0,
        marker=style.marker,
        markersize=5.5,
        markevery=[len(x) - 1] if len(x) else None,
        drawstyle="steps-post",
        zorder=3,
    )
    error = mean["standard_error"].to_numpy(dtype=float)
    if len(x) and not np.isnan(error).any():
        axes.fill_between(x, y - error, y + error, step="post", color=style.colour, alpha=0.16, linewidth=0)


def _changes(mine: pd.DataFrame, axis: str) -> list[float]:
    """Where an optimizer's mean curve changes, up to where the first of its runs ends."""
    before = mine.groupby("run")["incumbent"].shift()
    changed = mine["incumbent"].notna() & (mine["incumbent"] != before)
    end = float(mine.groupby("run")[axis].max().min())
    return sorted({end, *(float(x) for x in mine.loc[changed, axis] if x < end)})


def _draw_budget(axes: "Axes", curves: pd.DataFrame, budget: Budget) -> None:
    """The budget as a dotted line, unless the runs are so far from it that it would squeeze them into a corner."""
    spent = float(curves["evaluations"].max()) if len(curves) else 0.0
    label = f"budget {budget.evaluations}"
    if spent > budget.evaluations / 3:
        axes.axvline(budget.evaluations, color="#555555", linestyle=":", linewidth=1.2)
        axes.set_xlim(right=1.04 * max(budget.evaluations, spent))
        right = budget.evaluations / axes.get_xlim()[1]
    else:
        label, right = f"{label} →", 1.0
    axes.text(right, 1.01, label, transform=axes.transAxes, fontsize=8, color="#555555", ha="right", va="bottom")


def _limit_objective(axes: "Axes", curves: pd.DataFrame) -> None:
    """Limits that let differences be seen: from the best result to the worst incumbent after the first steps.

    Early and diverged results above that are left out, and the figure says how many.
    """
    results = curves["objective"].dropna()
    if results.empty:
        return
    bottom, top = float(results.min()), _worst_incumbent(curves)
    logarithmic = bottom > 0 and top / bottom >= WIDE
    if logarithmic:
        axes.set_yscale("log")
        pad = (top / bottom) ** 0.06
        bottom, top = bottom / pad, top * pad
    else:
        pad = 0.06 * (top - bottom) or 0.05 * abs(top) or 1.0
        bottom, top = bottom - pad, top + pad
    axes.set_ylim(bottom, top)
    above = int((results > top).sum())
    if above:
        note = f"↑ {above} of {len(results)} results lie above"
        axes.text(0.0, 1.01, note, transform=axes.transAxes, fontsize=8, color="#555555", va="bottom")


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


def _time_unit(curves: pd.DataFrame) -> tuple[float, str]:
    longest = float(curves["seconds"].max()) if len(curves) else 0.0
    return next((per, name) for least, per, name in TIME_UNITS if longest >= least)


def _draw_legend(figure: "Figure", look: dict[str, Style], repeats: int) -> None:
    from matplotlib.lines import Line2D

    handles: list[Line2D] = [
        Line2D([], [], color=s.colour, linestyle=s.line, marker=s.marker, linewidth=2.0, markersize=5.5)
        for s in look.values()
    ]
    names = list(look)
    if repeats > 1 and len(look) <= FEW:
        handles.append(Line2D([], [], color="#888888", linewidth=0.7))
        names.append("one repeat")
    legend = figure.legend(
        handles,
        ["-"] * len(names),
        loc="outside lower center",
        ncols=min(len(names), 5),
        frameon=False,
        handlelength=3.0,
    )
    for text, name in zip(legend.get_texts(), names, strict=True):
        # Set afterwards: a label that starts with "_" would be dropped, and one with "$" read as a formula.
        text.set_parse_math(False)
        text.set_text(name)
        text.set_fontsize(10)
