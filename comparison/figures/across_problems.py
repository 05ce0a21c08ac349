"""Figures over several problems: mean ranks, the critical-difference diagram, and the distribution of regret."""

from collections.abc import Iterator, Sequence
from math import isfinite
from typing import Any

import numpy as np
import pandas as pd

from fmnas.comparison.analysis.across_problems import ProblemResults, critical_difference, normalised_regret
from fmnas.comparison.figures.canvas import (
    PANEL_SIZE,
    SMALL,
    Drawing,
    add_legend,
    limit_ticks,
    line_style,
    new_figure,
    new_panel,
    set_labels,
)
from fmnas.comparison.figures.palette import INK, SOFT, styles

RANKS = (
    "Rank among the {optimizers} optimizers, 1 is best, by the best objective so far: mean over the repeats of a "
    "problem, then over the {problems} problems. Bars at the end: 95% bootstrap interval over problems."
)
DIFFERENCE = (
    "Mean ranks over {problems} problems at {evaluations} evaluations. Optimizers that a bar joins are closer than the "
    "critical difference of the Nemenyi test at 5%, {difference:.2f}: no difference between them is shown."
)
REGRET = (
    "The share of all runs, each problem weighing the same, whose normalised regret at {evaluations} evaluations is at "
    "most x: 1 is the mean first objective of all runs, 0 the known minimum, or else the lowest objective here."
)
LOWEST_REGRET = 1e-6
"""Lower regrets are drawn here."""
HIGHEST_REGRET = 2.0
"""Higher regrets are not drawn."""


def rank_curves(ranks: pd.DataFrame, problems: int) -> Drawing:
    """The mean rank of each optimizer by evaluations. ranks: of `mean_ranks`."""
    caption = RANKS.format(optimizers=ranks["optimizer"].nunique(), problems=problems)
    return draw_ranks(ranks, caption, is_lead=True)


def draw_ranks(ranks: pd.DataFrame, caption: str, is_lead: bool = False, is_panel: bool = False) -> Drawing:
    """The lines of mean ranks, with their intervals at the end. is_panel: for a page with a legend, without its own."""
    names = list(dict.fromkeys(ranks["optimizer"]))
    figure, axes = new_panel() if is_panel else new_panel(1.5 * PANEL_SIZE[0], 1.2 * PANEL_SIZE[1])
    looks, last = styles(names), int(ranks["evaluations"].max())
    for place, (name, style) in enumerate(looks.items()):
        mine = ranks[ranks["optimizer"] == name]
        look: dict[str, Any] = {"drawstyle": "steps-post", "markersize": 5.5, "markevery": [len(mine) - 1]}
        axes.plot(mine["evaluations"], mine["mean"], linewidth=1.8, **look, **line_style(style))
        end, aside = mine.iloc[-1], 0.012 * last * (1 + place)
        axes.plot(
            [last + aside] * 2,
            [end["low"], end["high"]],
            color=style.colour,
            linewidth=2.4,
            alpha=0.55,
            solid_capstyle="butt",
        )
    axes.invert_yaxis()
    limit_ticks(axes, integers=True)
    set_labels(axes, x="evaluations", y="mean rank, 1 is best", title="Mean rank" if is_panel else "")
    if not is_panel:
        add_legend(figure, looks)
    return Drawing("mean_ranks", figure, caption, is_saved=not is_panel, is_lead=is_lead)


def difference_diagram(ranks: pd.DataFrame, problems: int) -> Iterator[Drawing]:
    """The critical-difference diagram at the last evaluation; none with too few problems for the test."""
    evaluations = int(ranks["evaluations"].max())
    at_end = ranks[ranks["evaluations"] == evaluations].sort_values("mean", kind="stable")
    means, names = at_end["mean"].to_numpy(dtype=float), list(at_end["optimizer"])
    difference = critical_difference(len(names), problems)
    if not isfinite(difference):
        return
    groups = join_close(means, difference)
    figure = new_figure(1.5 * PANEL_SIZE[0], 0.7 + 0.26 * len(names) + 0.14 * len(groups))
    axes = figure.subplots()
    axes.spines[["top", "right", "left", "bottom"]].set_visible(False)
    axes.set_yticks([])
    axes.tick_params(labelsize=SMALL, color=SOFT, labelcolor=SOFT)
    looks = styles(names)
    for place, (name, mean) in enumerate(zip(names, means, strict=True)):
        axes.plot([mean], [place], marker=looks[name].marker, color=looks[name].colour, markersize=6.5)
        axes.annotate(
            f"{name}  {mean:.2f}", (mean, place), (8, 0), textcoords="offset points", va="center", fontsize=SMALL,
            color=INK, parse_math=False,
        )  # fmt: skip
    for row, (first, last) in enumerate(groups):
        axes.plot([means[first], means[last]], [len(names) + 0.5 * row] * 2, color=INK, linewidth=3.0)
    axes.set_ylim(len(names) + 0.5 * len(groups), -0.7)
    axes.set_xlim(1, len(names) + 0.6)
    set_labels(axes, x="mean rank, 1 is best")
    text = DIFFERENCE.format(problems=problems, evaluations=evaluations, difference=difference)
    yield Drawing("critical_difference", figure, text)


def join_close(means: np.ndarray, difference: float) -> list[tuple[int, int]]:
    """The largest groups of neighbours in ascending means [K] that lie within a difference: (first, last)."""
    ends = np.searchsorted(means, means + difference, side="right") - 1
    return [
        (first, int(last)) for first, last in enumerate(ends) if last > first and (first == 0 or ends[first - 1] < last)
    ]


def regret_distribution(problems: Sequence[ProblemResults]) -> Drawing:
    """The empirical distribution of the normalised regret of each optimizer's runs after the last evaluation."""
    names = problems[0].optimizers
    finals = [normalised_regret(problem)[:, :, -1] for problem in problems]  # P of [K, R]
    weights = np.concatenate([np.full(final.shape[1], 1 / final.shape[1] / len(finals)) for final in finals])
    figure, axes = new_panel(1.5 * PANEL_SIZE[0], 1.2 * PANEL_SIZE[1])
    looks = styles(names)
    for name, style in looks.items():
        mine = np.concatenate([final[names.index(name)] for final in finals])
        values = np.maximum(np.nan_to_num(mine, nan=np.inf), LOWEST_REGRET)
        order = np.argsort(values, kind="stable")
        x, y = values[order], weights[order].cumsum()
        shown = x <= HIGHEST_REGRET
        x, y = np.append(x[shown], HIGHEST_REGRET), np.append(y[shown], y[shown][-1] if shown.any() else 0.0)
        axes.plot(x, y, drawstyle="steps-post", linewidth=1.8, markersize=5.5, markevery=[0], **line_style(style))
    axes.set_xscale("log")
    axes.set_xlim(LOWEST_REGRET, HIGHEST_REGRET)
    axes.set_ylim(0, 1.02)
    set_labels(axes, x="normalised regret, at most", y="share of runs")
    add_legend(figure, looks)
    evaluations = problems[0].incumbents.shape[2]
    return Drawing("regret", figure, REGRET.format(evaluations=evaluations))
