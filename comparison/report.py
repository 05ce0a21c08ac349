"""From a table of trials to a report on disk."""

from pathlib import Path

import pandas as pd

from fmnas.comparison.cell_drawing import cell_figure
from fmnas.comparison.curves import anytime_curves
from fmnas.comparison.duplicates import has_cell
from fmnas.comparison.exports import write_tables
from fmnas.comparison.figures import anytime_figure
from fmnas.comparison.files import inline_svg, save_figure, write_aside
from fmnas.comparison.ledger import ledger_table
from fmnas.comparison.page import page
from fmnas.comparison.summary import ReportContext, Summary, best_of, summarise
from fmnas.comparison.trials import typed_trials


def write_report(trials: pd.DataFrame, context: ReportContext, folder: Path) -> Summary:
    """Write index.html, its figures, and the numbers behind them as CSV files; returns the summary.

    The figures are anytime.png and .svg and, for a space with a cell, best_cell.png and .svg; the tables are those of
    `write_tables`.

    trials: as `read_trials` or the platform's `trials_table` gives them; it may be empty, or hold no full result.
    Raises ReportError for a table that cannot be compared or a folder that cannot be written.
    """
    trials = typed_trials(trials, f"the trials of {context.name}")
    curves = anytime_curves(trials, context.budget)
    ledger = ledger_table(trials, context.budget, context.pending)
    summary = summarise(trials, curves, ledger, context)
    write_tables(summary, curves, folder)
    figures = {"anytime": anytime_figure(curves, context.budget, f"{context.name}: {context.problem}")}
    best = best_of(summary)
    if best and has_cell(best[1]["best_configuration"]):
        row = best[1]
        title = f"{row['best_run']}, trial {row['best_trial']}: objective {row['best']:#.4g}"
        figures["best_cell"] = cell_figure(row["best_configuration"], title)
    for name, figure in figures.items():
        save_figure(figure, folder, name)
    inline = {name: inline_svg(figure, name, name.replace("_", " ")) for name, figure in figures.items()}
    write_aside(folder / "index.html", page(summary, context, inline).encode())
    return summary
