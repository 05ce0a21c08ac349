"""One objective against the other, with Pareto fronts; and the learning curves of the best configurations."""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from fmnas.comparison.analysis.costs import is_full_result
from fmnas.comparison.analysis.hypervolume import NETWORK, objective_columns, pareto_front
from fmnas.comparison.figures.canvas import Drawing, Results, add_legend, limit_ticks, line_style, new_panel, set_labels
from fmnas.comparison.figures.palette import styles

FRONTS = (
    "Dots: full results of all repeats. Lines: their Pareto fronts, where no result is lower in both. More repeats "
    "make a better front. An optimizer of one objective does not search for one."
)
FLOPS = "FLOPs are those of one image, as a share of the largest cell's."
LEARNING = (
    "What the training with each optimizer's lowest objective reported after each epoch: of networks the validation "
    "error, averaged over the seeds. It is the best of many: its end is lower than it would be in another training. "
    "With data.early_validation all epochs but the last are measured on fewer images."
)
MAX_ERROR_RATIO = 2.0
"""Errors above this multiple of the lowest are cut off."""
AXES = ("validation error", "FLOPs / FLOPs of the largest cell")
"""Of a network whose problem does not name its objectives."""


def fronts(results: Results) -> Iterator[Drawing]:
    """The second objective against the first, or error against FLOPs, at equal cost. None without either."""
    columns, volumes = objective_columns(results.trials), results.summary.hypervolumes
    names, is_network = list(volumes.reference if volumes else AXES), columns == [*NETWORK]
    if is_network:
        columns, names = columns[::-1], names[::-1]
    trials = _results_with(columns, results)
    if trials.empty:
        return
    figure, axes = new_panel()
    looks, ends = styles(trials["optimizer"]), []
    for name, style in looks.items():
        points = trials.loc[trials["optimizer"] == name, columns].to_numpy(dtype=np.float64)
        axes.scatter(points[:, 0], points[:, 1], s=7, color=style.colour, alpha=0.3, linewidths=0)
        front = pareto_front(points)
        axes.plot(*front.T, linewidth=1.6, drawstyle="steps-post", markersize=3.5, **line_style(style))
        ends.append(front[[0, -1], 1])
    lowest = min(last for _, last in ends)
    highest = max(first for first, _ in ends)
    if is_network:
        highest = min(highest, MAX_ERROR_RATIO * lowest + 1e-3)
    axes.set_ylim(lowest - 0.08 * (highest - lowest) - 1e-4, highest + 0.08 * (highest - lowest) + 1e-4)
    limit_ticks(axes)
    set_labels(axes, x=names[0], y=names[1], title="Pareto fronts")
    add_legend(figure, looks)
    yield Drawing("tradeoff", figure, f"{FRONTS} {FLOPS if is_network else ''}".rstrip())


def _results_with(columns: Sequence[str], results: Results) -> pd.DataFrame:
    """The full results with values in these columns that each run had at the epochs of the comparison."""
    trials, curves, summary = results.trials, results.curves, results.summary
    known = pd.MultiIndex.from_frame(curves.loc[curves["epochs"] <= summary.compared_at, ["run", "trial"]])
    within = pd.MultiIndex.from_frame(trials[["run", "trial"]].astype({"trial": "int64"})).isin(known)
    return trials[within & is_full_result(trials, summary.budget) & trials[list(columns)].notna().all(axis=1)]


def learning(results: Results) -> Iterator[Drawing]:
    """The learning curves of the best configurations. None where no training reported more than one epoch."""
    best = {name: row.best_curve for name, row in results.summary.optimizers.items() if len(row.best_curve) > 1}
    if not best:
        return
    figure, axes = new_panel()
    looks = styles(best)
    for name, style in looks.items():
        epochs, last = range(1, len(best[name]) + 1), [len(best[name]) - 1]
        axes.plot(epochs, best[name], linewidth=1.8, markersize=4, markevery=last, **line_style(style))
    axes.locator_params(axis="x", integer=True)
    set_labels(axes, x="epoch", y="reported value", title="Learning curves of the best configurations")
    add_legend(figure, looks)
    yield Drawing("learning", figure, LEARNING)
