"""From a table of trials to a report on disk."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from fmnas.comparison.curves import anytime_curves
from fmnas.comparison.figures import Drawing, drawings
from fmnas.comparison.files import inline_svg, save_figure, write_aside
from fmnas.comparison.html_parts import Picture, Pictures
from fmnas.comparison.ledger import ledger_table
from fmnas.comparison.page import page
from fmnas.comparison.summary import ReportContext, Summary, summarise
from fmnas.comparison.trials import typed_trials


def write_report(trials: pd.DataFrame, context: ReportContext, folder: Path) -> Summary:
    """Write index.html, and every figure as PNG, SVG and PDF (`figures.drawings` says which); returns the summary.

    trials: as `read_trials` or the platform's `trials_table` gives them; it may be empty, or hold no full result.
    Raises ReportError for a table that cannot be compared or a folder that cannot be written.
    """
    trials = typed_trials(trials, f"the trials of {context.name}")
    curves, ledger = anytime_curves(trials, context.budget), ledger_table(trials, context.budget)
    summary = summarise(trials, curves, ledger, context)
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
