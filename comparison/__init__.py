"""From a table of trials to curves, tables, figures and a page. Knows nothing of drivers, Ray or MLflow."""

from fmnas.comparison.anytime import anytime_figure
from fmnas.comparison.cell_drawing import cell_figure
from fmnas.comparison.curves import anytime_curves, incumbent_at, mean_curve
from fmnas.comparison.duplicates import Duplicates, duplicates, has_cell
from fmnas.comparison.errors import ReportError, ReportNotWritten
from fmnas.comparison.files import save_figure
from fmnas.comparison.ledger import ledger_table
from fmnas.comparison.report import write_report
from fmnas.comparison.statistics import final_table
from fmnas.comparison.summary import FINAL_HEADER, ReportContext, Summary, final_rows
from fmnas.comparison.trials import Budget, read_trials
from fmnas.comparison.wording import caution, headline

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
    "write_report",
]
