"""From a table of trials to a report on disk: the page, its figures, and their numbers as CSV files.

| file | one row per |
|---|---|
| results.csv | optimizer: the final table; repeat_0.. are the values of its repeats |
| curves.csv | trial: what its run had spent by then on every axis, its objective, the incumbent, the hypervolume |
| mean_curves.csv | optimizer and point of an axis: mean, standard error and 95% bootstrap interval |
| mean_ranks.csv | optimizer and number of evaluations: mean rank over repeats, with its 95% interval |
| checkpoints.csv | optimizer and share of the budget; repeat_0.. are the values of its repeats |
| tests.csv | pair of optimizers |
| targets.csv | optimizer and objective to reach; repeat_0.. are the evaluations that it took |
| ledger.csv | run: its costs |

Missing values are empty. The same results give the same bytes. Sanity checks and retrainings are in summary.json.
"""

from collections.abc import Iterable, Set
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fmnas.comparison.analysis.across_problems import ranks_over_repeats
from fmnas.comparison.analysis.checkpoints import CheckpointRow, Reached
from fmnas.comparison.analysis.costs import in_working_time, ledger_table
from fmnas.comparison.analysis.curves import AXES, NO_TRIAL, anytime_curves, mean_curve
from fmnas.comparison.analysis.hypervolume import HYPERVOLUME, add_hypervolume
from fmnas.comparison.analysis.trials import typed_trials
from fmnas.comparison.figures import draw_figures
from fmnas.comparison.figures.canvas import Results
from fmnas.comparison.figures.files import save_figure, write_bytes
from fmnas.comparison.page.page import render_page
from fmnas.comparison.summary import FinalRow, ReportContext, Summary, summarise

GRID = 101
"""Rows per optimizer and axis in mean_curves.csv, from 0 to the most that a run spent."""
MEAN_CURVE_COLUMNS = ("axis", "at", "optimizer", "mean", "standard_error", "low", "high", "repeats")
CURVES = ("run", "optimizer", "repeat", "trial", *AXES, "objective", "incumbent")
"""Of curves.csv; with two objectives HYPERVOLUME, too."""


def write_report(trials: pd.DataFrame, context: ReportContext, folder: Path) -> Summary:
    """Write index.html, its figures, and most numbers behind them as CSV files; returns the summary.

    The figures are those of `figures.FIGURES`, as PNG, SVG and PDF; the tables are those of `report_tables`.

    trials: as `read_trials` gives them; the table may be empty, or without a full result.
    Raises ReportError for a table that cannot be compared, ReportNotWritten for a folder that cannot be written.
    """
    results = compute_results(trials, context)
    write_tables(results.summary, results.curves, folder)
    drawings = list(draw_figures(results))
    for drawing in drawings:
        if drawing.is_saved:
            save_figure(drawing.figure, folder, drawing.name)
    page = render_page(results.summary, context, drawings)
    write_bytes(folder / "index.html", page.encode(errors="backslashreplace"))
    return results.summary


def compute_results(trials: pd.DataFrame, context: ReportContext) -> Results:
    """Everything that a report shows, without writing or drawing anything. trials: as for `write_report`.

    Raises ReportError for a table that cannot be compared.
    """
    trials = in_working_time(typed_trials(trials, f"the trials of {context.name}"), context.pauses)
    curves = anytime_curves(trials, context.budget, runs=context.runs)
    curves = add_hypervolume(curves, trials, context.objectives)
    ledger = ledger_table(trials, context.budget, context.pending)
    return Results(trials, curves, summarise(trials, curves, ledger, context))


def write_tables(summary: Summary, curves: pd.DataFrame, folder: Path) -> list[Path]:
    """Write `report_tables` as CSV files; returns their paths. Raises ReportNotWritten where that fails."""
    return [
        write_bytes(folder / f"{name}.csv", table.to_csv(index=False, lineterminator="\n").encode())
        for name, table in report_tables(summary, curves).items()
    ]


def report_tables(summary: Summary, curves: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The tables above, by name."""
    points = [
        {"share": point.share, "epochs": point.epochs, "evaluations": point.evaluations, **_with_repeats(row)}
        for point in summary.checkpoints
        for row in point.rows
    ]
    reached = [
        {"target": target.target, "from": target.source, **_with_repeats(row)}
        for target in summary.targets
        for row in target.rows
    ]
    final = [
        {"optimizer": name, **_with_repeats(row, {"best_configuration", "best_curve"})}
        for name, row in summary.optimizers.items()
    ]
    return {
        "results": _table(final, ("optimizer", "repeats", "mean", "standard_error")),
        "curves": curves.loc[curves["trial"] != NO_TRIAL, [*CURVES, *curves.columns.intersection([HYPERVOLUME])]],
        "mean_curves": mean_curves(curves),
        "mean_ranks": ranks_over_repeats(curves, list(summary.optimizers), summary.evaluations),
        "checkpoints": _table(points, ("share", "epochs", "evaluations", "optimizer", "mean")),
        "tests": _table(map(vars, summary.tests.pairs), ("first", "second", "repeats", "p", "p_corrected", "verdict")),
        "targets": _table(reached, ("target", "from", "optimizer", "reached", "repeats", "evaluations")),
        "ledger": _table(map(vars, summary.ledger), ("run", "optimizer", "repeat")),
    }


def mean_curves(curves: pd.DataFrame) -> pd.DataFrame:
    """The mean curve of every optimizer on every axis with values, at GRID points; columns MEAN_CURVE_COLUMNS."""
    tables = []
    for axis in AXES:
        end = float(curves[axis].max())
        mean = mean_curve(curves, axis, np.linspace(0.0, end, GRID))
        tables.append(mean.rename(columns={axis: "at"}).assign(axis=axis)[list(MEAN_CURVE_COLUMNS)])
    return pd.concat(tables, ignore_index=True).dropna(subset="at", ignore_index=True)


def _with_repeats(row: CheckpointRow | Reached | FinalRow, without: Set[str] = frozenset()) -> dict[str, Any]:
    """A row with its repeats' values as columns. without: fields to leave out."""
    columns = {name: value for name, value in vars(row).items() if name not in {"values", *without}}
    return columns | {f"repeat_{repeat}": value for repeat, value in row.values.items()}


def _table(rows: Iterable[dict[str, Any]], header: tuple[str, ...]) -> pd.DataFrame:
    """The rows as a table; without rows, an empty table with the columns of the header."""
    records = list(rows)
    return pd.DataFrame(records) if records else pd.DataFrame(columns=list(header))
