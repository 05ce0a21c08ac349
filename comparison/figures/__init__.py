"""All figures of a report, in the order of the page: what is drawn, where it stands, what its caption says."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from fmnas.comparison.figures.anytime import TITLES, anytime_figure, anytime_panel, currencies
from fmnas.comparison.figures.cell import cell_panel, cells_figure, schedule_panel
from fmnas.comparison.figures.importance import importance_figure, importances
from fmnas.comparison.figures.intervals import differences_figure, final_figure, retrained_figure
from fmnas.comparison.figures.palette import styles
from fmnas.comparison.figures.parallel import parallel_figure, shown_trials
from fmnas.comparison.figures.timeline import timeline, timeline_figure
from fmnas.comparison.numbers.cells import has_cell
from fmnas.comparison.numbers.ledger import is_full_result
from fmnas.comparison.numbers.resampling import shortcoming
from fmnas.comparison.numbers.trials import Budget
from fmnas.comparison.summary import ReportContext, Summary

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Drawing:
    """A figure and its place.

    name: of its files, and of its ids on the page. section: the id of the page's section that shows it; "" for none.
    filed: whether it is also written as PNG, SVG and PDF. wide: on a narrow screen it scrolls and does not shrink.
    """

    name: str
    figure: "Figure"
    section: str = ""
    caption: str = ""
    filed: bool = True
    wide: bool = False


def drawings(trials: pd.DataFrame, curves: pd.DataFrame, summary: Summary, context: ReportContext) -> list[Drawing]:
    """Every figure that the data allow, in the order of the page. A figure without data is left out."""
    return [
        *_curves(curves, context),
        *_given("final", "result", final_figure(summary), FINAL),
        *_given("differences", "statistics", differences_figure(summary), _differences(summary)),
        *_given("retrained", "retrained", retrained_figure(summary), RETRAINED),
        *_cells(summary),
        *_variables(trials, context.budget),
        *_timeline(trials),
    ]


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
CELL = (
    "Every state adds its two inputs, each through the operation on its edge; grey reaches no output. One good cell "
    "does not show that its operations are good: its schedule and luck took part."
)
SCHEDULE = "The learning rate is reduced twice; the axis is the same for all."
IMPORTANCE = (
    "Share of the variance of the objective's ranks that lies between groups of one variable's values (eta squared, "
    "Kruskal and Wallis); numbers are cut into up to five groups of equal size. Blue, right of the tick: more than 19 "
    "of 20 variables without influence would reach, were the trials independent. They are not: optimizers try more "
    "where it was good, so chance reaches further than the tick, and this describes the experiment, not the problem. "
    "It sees each variable alone, no interactions. A configuration tried twice counts once."
)


def _differences(summary: Summary) -> str:
    return f"{DIFFERENCES} {shortcoming(summary['tests']['repeats'])}".rstrip() if summary.get("tests") else ""


def _given(name: str, section: str, figure: "Figure | None", caption: str) -> Iterator[Drawing]:
    if figure is not None:
        yield Drawing(name, figure, section, caption)


def _curves(curves: pd.DataFrame, context: ReportContext) -> Iterator[Drawing]:
    """One file with all panels; on the page each panel by itself."""
    yield Drawing("anytime", anytime_figure(curves, context.budget, f"{context.name}: {context.problem}"))
    for axis in currencies(curves):
        panel = anytime_panel(curves, context.budget, axis)
        yield Drawing(f"anytime_{axis}", panel, "curves", _AXES[axis], filed=False)


_AXES = dict.fromkeys(TITLES, "") | {
    "evaluations": "Dotted: the budget. Short trainings cost their epochs and are never the best so far. "
    "Top right: how many results lie above what is shown.",
    "train_seconds": "Trainings alone, added up: with cheap configurations an optimizer gets further.",
    "seconds": "Trainings and suggestions of a run added up, however many workers shared it.",
    "wall_seconds": "Since the run's first start: depends on how many workers it had, and on its neighbours.",
}


def _cells(summary: Summary) -> Iterator[Drawing]:
    """The best cell of each optimizer, with its schedule; one file with all of them."""
    rows = summary["optimizers"]
    best = {
        name: row for name, row in rows.items() if row["best_configuration"] and has_cell(row["best_configuration"])
    }
    if not best:
        return
    look = styles(rows)
    titles = {name: f"{name}: {_found(row)}" for name, row in best.items()}
    yield Drawing("best_cell", cells_figure({titles[name]: row["best_configuration"] for name, row in best.items()}))
    for place, (name, row) in enumerate(best.items()):
        configuration, id_ = row["best_configuration"], f"cell_{place}_{re.sub('[^a-z0-9]+', '-', name.lower())}"
        yield Drawing(id_, cell_panel(configuration), f"cell:{name}", CELL if place == 0 else "", False, True)
        schedule = schedule_panel(configuration, look[name].colour)
        if schedule is not None:
            yield Drawing(f"{id_}_rate", schedule, f"cell:{name}", SCHEDULE if place == 0 else "", filed=False)


def _found(row: dict[str, Any]) -> str:
    return f"{row['best_run']}, trial {row['best_trial']}, objective {row['best']:#.4g}"


def _variables(trials: pd.DataFrame, budget: Budget) -> Iterator[Drawing]:
    figure, drawn = parallel_figure(trials, budget), len(shown_trials(trials, budget))
    yield from _given("importance", "variables", importance_figure(importances(trials, budget)), IMPORTANCE)
    if figure is not None:
        full = int(is_full_result(trials, budget).sum())
        some = f"{drawn} of {full} full evaluations: the best, and every so many-th of the rest" if drawn < full else ""
        caption = (
            f"{some or f'All {full} full evaluations'}, each a line through its values; the better its rank, the "
            "redder and thicker. Where red lines bundle, good configurations agree; that optimizers search there more "
            "often bundles lines, too. Categories are spread a little so that lines do not hide one another."
        )
        yield Drawing("parallel", figure, "variables_lines", caption, wide=True)


def _timeline(trials: pd.DataFrame) -> Iterator[Drawing]:
    times = timeline(trials)
    if times is not None:
        caption = (
            f"Workers were busy {times.busy_share:.0%} of their time up to the last finish. A row is a worker's "
            "process: one that takes the place of a lost one, or comes with a resume, has a row of its own. Gaps: a "
            "worker waited for a suggestion, for others at the end, or the experiment was interrupted. Last attempts "
            "only: the time of attempts that were repeated is a gap, too. Trials closer than a hair are one bar."
        )
        yield Drawing("timeline", timeline_figure(times), "timeline", caption, wide=True)
