"""From a table of trials to curves, tables, figures and a page. Independent of drivers, Ray and MLflow."""

from fmnas.comparison.analysis.checkpoints import final_table
from fmnas.comparison.analysis.costs import ledger_table
from fmnas.comparison.analysis.curves import anytime_curves, incumbent_at, mean_curve
from fmnas.comparison.analysis.duplicates import Duplicates, duplicates, has_cell
from fmnas.comparison.analysis.trials import Budget, ReportError, ReportNotWritten, read_trials
from fmnas.comparison.analysis.verdict import caution, headline
from fmnas.comparison.figures.anytime import anytime_figure
from fmnas.comparison.figures.cell import cell_figure
from fmnas.comparison.figures.files import save_figure
from fmnas.comparison.figures.palette import styles
from fmnas.comparison.report import write_report
from fmnas.comparison.summary import FINAL_HEADER, ReportContext, Summary, final_rows

__all__ = [
    "FINAL_HEADER",
    "Budget",
    "Duplicates",
    "ReportContext",
    "ReportError",
    "ReportNotWritten",
    "Summary",
    "anytime_curves",
    "anytime_figure",
    "caution",
    "cell_figure",
    "duplicates",
    "final_rows",
    "final_table",
    "has_cell",
    "headline",
    "incumbent_at",
    "ledger_table",
    "mean_curve",
    "read_trials",
    "save_figure",
    "styles",
    "write_report",
]
