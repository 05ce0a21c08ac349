"""Results of run directories for notebooks: tables as DataFrames, matplotlib figures, and the summary.

Everything is computed from the journals. Nothing is written and no lock is taken; while a driver works, the results are
those so far.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from html import escape
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fmnas.search_spaces import FmnasError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from fmnas.comparison import Summary
    from fmnas.comparison.figures.canvas import Results
    from fmnas.platform.report.write import ReportInput


class NoSuchResultError(FmnasError, LookupError):
    """Raised for a figure, a table or an optimizer that these results do not have."""


class _Tables(dict[str, "pd.DataFrame"]):
    """Tables by name."""

    def __missing__(self, name: str) -> "pd.DataFrame":
        raise NoSuchResultError(f"table {name!r}: it must be one of {', '.join(self)}")


@dataclass(frozen=True)
class Best:
    """The best full evaluation of an optimizer: its configuration, objective, run and trial."""

    optimizer: str
    configuration: Mapping[str, Any]
    objective: float
    run: str
    trial: int


def load_run(directory: str | Path, *more: str | Path) -> "RunResults":
    """Return the results of a run directory, or of several in one comparison, as `fmnas report` shows them.

    Raises RunDirectoryError if one is not a run directory, or if they cannot be compared.
    """
    from fmnas.platform.errors import RunDirectoryError
    from fmnas.platform.experiment.run_directory import run_directory
    from fmnas.platform.report.merge import load_report_input

    for entry in (directory, *more):
        if not isinstance(entry, str | PathLike):
            raise RunDirectoryError(
                f"{entry!r} is not a path: pass each run directory as an argument, load_run('a', 'b')"
            )
    roots = [Path(entry) for entry in (directory, *more)]
    for root in roots:
        run_directory(root)
    return RunResults(load_report_input(roots))


@dataclass(frozen=True, repr=False, eq=False)
class RunResults:
    """The results of one or several run directories, at the time when they were read.

    The columns of the tables are those of trials.csv and of the files that comparison/report.py describes.
    """

    report_input: "ReportInput"

    @cached_property
    def results(self) -> "Results":
        """What the figures are drawn from. Raises ReportError for results that cannot be compared."""
        from fmnas.comparison.report import compute_results

        return compute_results(self.report_input.trials, self.report_input.context)

    @property
    def summary(self) -> "Summary":
        """The record that summary.json holds."""
        return self.results.summary

    @cached_property
    def tables(self) -> "Mapping[str, pd.DataFrame]":
        """The CSV files of a report by name: results, curves, mean_curves, mean_ranks, tests, ledger and others.

        Raises NoSuchResultError, which lists all names, for an unknown one.
        """
        from fmnas.comparison.report import report_tables

        return _Tables(report_tables(self.summary, self.results.curves))

    @property
    def trials(self) -> "pd.DataFrame":
        """A row per trial, typed."""
        from fmnas.comparison.analysis.trials import typed_trials

        return typed_trials(self.report_input.trials, f"the trials of {self.report_input.context.name}")

    @property
    def curves(self) -> "pd.DataFrame":
        """A row per trial: what its run had spent by then on every axis, and the incumbent."""
        return self.tables["curves"]

    @property
    def ledger(self) -> "pd.DataFrame":
        """A row per run: what it spent."""
        return self.tables["ledger"]

    @property
    def tests(self) -> "pd.DataFrame":
        """A row per pair of optimizers."""
        return self.tables["tests"]

    def best(self, optimizer: str | None = None) -> Best:
        """Return the best result so far of an optimizer, or of all. Raises NoSuchResultError if nothing is finished."""
        from fmnas.comparison.analysis.trials import configuration_of, variable_columns

        names = list(self.summary.optimizers)
        if optimizer is not None and optimizer not in names:
            raise NoSuchResultError(f"optimizer {optimizer!r}: it must be one of {', '.join(names)}")
        full = self.results.curves.dropna(subset="objective")
        full = full[full["optimizer"].isin(names if optimizer is None else [optimizer])]
        if full.empty:
            raise NoSuchResultError(f"{optimizer or 'no optimizer'}: no evaluation at full fidelity has finished yet")
        best, trials = full.sort_values("objective", kind="stable").iloc[0], self.trials
        row = trials[(trials["run"] == best["run"]) & (trials["trial"] == best["trial"])].iloc[0]
        configuration = configuration_of(row, variable_columns(trials))
        return Best(best["optimizer"], configuration, float(best["objective"]), best["run"], int(best["trial"]))

    def figure(self, name: str = "anytime") -> "Figure":
        """Draw a figure of the report. Raises NoSuchResultError, which lists all names, for an unknown one."""
        from fmnas.comparison.figures import draw_figures

        names = []
        for drawing in draw_figures(self.results):
            if drawing.name == name:
                return drawing.figure
            names.append(drawing.name)
        raise NoSuchResultError(
            f"figure {name!r}: it must be one of {', '.join(dict.fromkeys(names)) or 'none, nothing ran yet'}"
        )

    def __repr__(self) -> str:
        """A line, the headline, and where its cautions are, if it has any."""
        read, summary = self.report_input, self.summary
        cautions = " Cautions: see .summary.caution." if summary.caution else ""
        return f"<{read.context.name}: {read.context.problem}, {len(read.trials)} trials> {summary.headline}{cautions}"

    def _repr_html_(self) -> str:
        """What a notebook shows: the result, what it does not support, the final table."""
        import pandas as pd

        from fmnas.comparison.page.tables import results_table

        table = results_table(self.summary)
        shown = pd.DataFrame(table.rows, columns=list(table.header)).to_html(index=False)
        return f"<p><strong>{escape(self.summary.headline)}</strong></p><p>{escape(self.summary.caution)}</p>{shown}"
