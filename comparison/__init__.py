"""From a table of trials to curves, tables, figures and a page. Independent of drivers, Ray and MLflow."""

from fmnas.comparison.analysis.costs import ledger_table
from fmnas.comparison.analysis.curves import anytime_curves
from fmnas.comparison.analysis.trials import Budget, ReportError, ReportNotWritten, read_trials
from fmnas.comparison.figures.palette import styles
from fmnas.comparison.report import write_report
from fmnas.comparison.summary import ReportContext, Summary

__all__ = [
    "Budget",
    "ReportContext",
    "ReportError",
    "ReportNotWritten",
    "Summary",
    "anytime_curves",
    "ledger_table",
    "read_trials",
    "styles",
    "write_report",
]
