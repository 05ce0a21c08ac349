"""Error against FLOPs: every optimizer's Pareto front; and the learning curves of the best configurations."""

from collections.abc import Iterator

import numpy as np

from fmnas.comparison.analysis.formatting import is_missing
from fmnas.comparison.analysis.tradeoff import results_by
from fmnas.comparison.figures.canvas import Drawing, Results, few_ticks, label, legend, line, panel
from fmnas.comparison.figures.palette import styles

FRONTS = (
    "Dots: full results of all repeats. Lines: their Pareto fronts, where nothing is lower in both. FLOPs are those of "
    "one image, as a share of the largest cell's. No optimizer searched for a front; more repeats make a better one."
)
LEARNED = " after each epoch of the training with each optimizer's lowest objective"
LEARNING = (
    f"Validation error{LEARNED}, averaged over its seeds. The best of many: its end is lower than it would be again. "
    "With data.early_validation all epochs but the last are measured on fewer images."
)
REPORTED = f"What was reported{LEARNED}. The best of many: its end is better than it would be again."
"""Of a problem whose results have no error: what its function reports, no one else knows."""

HIGHEST = 2.0
"""Errors above so many times the lowest are left out."""


def fronts(results: Results) -> Iterator[Drawing]:
    """Nothing where no result has FLOPs."""
    rows = {row.optimizer: row for row in results.summary.tradeoff}
    if not rows:
        return
    summary = results.summary
    trials = results_by(results.trials, results.curves, summary.compared_at, summary.budget)
    figure, axes = panel()
    look = styles(rows)
    for name, style in look.items():
        mine = trials[trials["optimizer"] == name]
        x, y = mine["flops_ratio"].astype(float), mine["error"].astype(float)
        axes.scatter(x, y, s=7, color=style.colour, alpha=0.3, linewidths=0)
        ends = np.array(rows[name].front)
        axes.plot(*ends.T, linewidth=1.6, drawstyle="steps-post", markersize=3.5, **line(style))
    lowest = min(row.front[-1][1] for row in rows.values())
    highest = min(max(row.front[0][1] for row in rows.values()), HIGHEST * lowest + 1e-3)
    axes.set_ylim(lowest - 0.08 * (highest - lowest) - 1e-4, highest + 0.08 * (highest - lowest) + 1e-4)
    few_ticks(axes)
    label(axes, x="FLOPs, share of the largest cell's", y="validation error", title="Pareto fronts")
    legend(figure, look, {})
    yield Drawing("tradeoff", figure, FRONTS)


def learning(results: Results) -> Iterator[Drawing]:
    """Nothing where no training told more than one epoch."""
    best = {name: row.best_curve for name, row in results.summary.optimizers.items() if len(row.best_curve) > 1}
    if not best:
        return
    figure, axes = panel()
    look = styles(best)
    for name, style in look.items():
        epochs = range(1, len(best[name]) + 1)
        axes.plot(epochs, best[name], linewidth=1.8, markersize=4, markevery=[len(best[name]) - 1], **line(style))
    axes.locator_params(axis="x", integer=True)
    errors = any(not is_missing(results.summary.optimizers[name].best_error) for name in best)
    what = "validation error" if errors else "what was reported"
    label(axes, x="epoch", y=what, title="The best configurations as they learned")
    legend(figure, look, {})
    yield Drawing("learning", figure, LEARNING if errors else REPORTED)
