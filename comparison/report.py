"""From a table of trials to a report on disk."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from fmnas.comparison.curves import anytime_curves
from fmnas.comparison.exports import write_tables
from fmnas.comparison.figures import Drawing, drawings
from fmnas.comparison.files import inline_svg, save_figure, write_aside
from fmnas.comparison.html_parts import Picture, Pictures
from fmnas.comparison.ledger import ledger_table
from fmnas.comparison.page import page
from fmnas.comparison.summary import ReportContext, Summary, summarise
from fmnas.comparison.trials import typed_trials


def write_report(trials: pd.DataFrame, context: ReportContext, folder: Path) -> Summary:
    """Write index.html, its figures, and the numbers behind them as CSV files; returns the summary.

    The figures are those of `figures.drawings`, as PNG, SVG and PDF; the tables those of `write_tables`.

    trials: as `read_trials` or the platform's `trials_table` gives them; it may be empty, or hold no full result.
    Raises ReportError for a table that cannot be compared, ReportNotWritten for a folder that cannot be written.
    """
    trials = typed_trials(trials, f"the trials of {context.name}")
    curves = anytime_curves(trials, context.budget, runs=context.runs)
    ledger = ledger_table(trials, context.budget, context.pending)
    summary = summarise(trials, curves, ledger, context)
    write_tables(summary, curves, folder)
    drawn = drawings(trials, curves, summary, context)
    for each in drawn:
        if each.filed:
            save_figure(each.figure, folder, each.name)
    write_aside(folder / "index.html", page(summary, context, inlined(drawn)).encode())
    return summary


def inlined(drawn: Sequence[Drawing]) -> Pictures:
    """The figures as the page holds them, by section."""
    pictures: dict[str, list[Picture]] = {}
    for each in drawn:
        if each.section:
            svg = inline_svg(each.figure, each.name, each.name.replace("_", " "), least=1.0 if each.wide else 0.0)
            pictures.setdefault(each.section, []).append(Picture(svg, each.caption, each.wide))
    return pictures
