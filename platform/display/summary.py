"""The end of `run`, `resume`, `extend` and `retrain`: the final table and the paths of the results, or a JSON line."""

import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from rich.console import Console

from fmnas.platform.config.uri import redact
from fmnas.platform.display.console import FILE_WIDTH, print_error, print_line
from fmnas.platform.display.formatting import plain_table
from fmnas.platform.display.log import JSON, QUIET, log_end
from fmnas.platform.errors import Ending
from fmnas.platform.experiment.run_directory import RunDirectory

if TYPE_CHECKING:
    from fmnas.comparison.page.tables import Table
    from fmnas.comparison.problems_report import ProblemsSummary
    from fmnas.comparison.summary import Summary
    from fmnas.platform.mlflow.sync import TrackingReport

LESS_IMPORTANT = ("epochs", "evaluations", "its error", "repeats", "best", "mean regret")
"""Columns of the final table, in the order in which a narrow terminal loses them."""


@dataclass(frozen=True)
class ExperimentResult:
    """How a driver ended, why it failed if it did, the summary, and what MLflow has. store: its URI for messages."""

    ending: Ending
    reason: str
    summary: "Summary"
    tracking: "TrackingReport"
    store: str


@dataclass(frozen=True)
class ResultPrinter:
    """Prints the end of a command. mode: one of PROGRESS_MODES. directory: None while it is not known.

    resume_command: the arguments of `fmnas` that continue the experiment.
    """

    mode: str
    console: Console
    directory: RunDirectory | None = None
    resume_command: str = ""

    def print_result(self, result: ExperimentResult) -> int:
        """Print the results, and how the command ended; return the exit code."""
        if self.mode == JSON:
            return self.print_end(result.ending, result.reason, _result_fields(result))
        print_summary(result.summary, self.console)
        self._print_places(result)
        return self.print_end(result.ending, result.reason)

    def print_end(self, ending: Ending, reason: str = "", facts: Mapping[str, Any] = MappingProxyType({})) -> int:
        """Print why the experiment failed, if it did, and how to resume it; return the exit code.

        facts: about the results, for the JSON line.
        """
        reason = redact(reason)
        if ending == Ending.FAILED:
            print_error(f"the experiment failed: {reason}")
        directory = self.directory if self.directory and self.directory.journal.exists() else None
        is_resumable = directory is not None and ending != Ending.FINISHED
        command = f"{program_name()} {self.resume_command}" if is_resumable else None
        if self.mode == JSON:
            paths = {"run_directory": str(directory.root), "page": str(directory.page)} if directory else {}
            fields = {**paths, "resume_command": command, "reason": reason, **facts}
            log_end(self.console, ending, ending.exit_code, fields)
        elif command:
            interrupted = "interrupted; " if ending == Ending.INTERRUPTED else ""
            print_line(self.console, f"{interrupted}resume with     {command}")
        return ending.exit_code

    def _print_places(self, result: ExperimentResult) -> None:
        """Print where the results are, and what MLflow lacks; if quiet, only this."""
        directory, tracking = self.directory, result.tracking
        assert directory is not None
        places = {"run directory": str(directory.root), "page": str(directory.page)}
        if directory.models.exists():
            places["networks"] = str(directory.models)
        if tracking.store_experiment or tracking.missed:
            places |= {"MLflow store": result.store, "open it with": f"{program_name()} {directory.command('ui')}"}
        for what, text in places.items() if self.mode != QUIET else ():
            print_line(self.console, f"{what:<15} {text}")
        if tracking.remark:
            print_line(self.console, tracking.remark)
        if tracking.missed or tracking.reason:
            what = f"{tracking.missed} trial(s)" if tracking.missed else "the final results"
            sync = f"{program_name()} {directory.command('sync')}"
            print_line(self.console, f"MLflow lacks {what} ({tracking.reason}); to log them: `{sync}`")


def program_name() -> str:
    """Return how to call this program again: its path if `fmnas` would not find it, e.g. outside its environment."""
    program = sys.argv[0]
    if Path(program).name != "fmnas" or os.path.realpath(shutil.which("fmnas") or "") == os.path.realpath(program):
        return "fmnas"
    return shlex.quote(program)


def print_summary(summary: "Summary", console: Console) -> None:
    """Print the final table, its headline and caution, and the tables of retrained incumbents if there are any."""
    from fmnas.comparison.page import tables

    console.print()
    _print_table(tables.results_table(summary), console)
    print_line(console, summary.headline)
    print_line(console, summary.caution, "dim")
    console.print()
    if retrained := summary.retrained:
        settings = f"epochs = {retrained.epochs}, images = {retrained.images}, fresh seeds = {retrained.seeds}"
        print_line(console, f"Retrained incumbents ({settings}):")
        for table in (tables.retrained_means(retrained), tables.pairs(retrained.tests)):
            if table:
                _print_table(table, console)


def print_problems_summary(summary: "ProblemsSummary", console: Console) -> None:
    """Print the mean ranks over problems, the tests, the headline and the caution."""
    from fmnas.comparison.problems_report import ranks_table, tests_table

    console.print()
    for table in (ranks_table(summary), tests_table(summary)):
        _print_table(table, console)
    print_line(console, summary.headline)
    print_line(console, summary.caution, "dim")
    console.print()


def _print_table(table: "Table", console: Console) -> None:
    """Print a table; a terminal that is too narrow for it loses the columns of LESS_IMPORTANT, which the page has."""
    unlimited = console.options.update_width(FILE_WIDTH)
    for name in ("", *LESS_IMPORTANT):  # at first with all columns
        table = table.without_column(name)
        shown = plain_table(table.header, table.rows, {"optimizer", "pair", "against", "verdict"})
        if console.measure(shown, options=unlimited).maximum <= console.width:
            break
    console.print(shown)
    console.print()


def _result_fields(result: ExperimentResult) -> dict[str, Any]:
    rows = result.summary.to_json()["optimizers"].items()
    sync_fields = ("written", "present", "missed", "reason", "remark")
    return {
        "headline": result.summary.headline,
        "caution": result.summary.caution,
        "optimizers": {name: {k: row[k] for k in ("mean", "standard_error", "best", "repeats")} for name, row in rows},
        "mlflow": {"store": result.store, **{name: getattr(result.tracking, name) for name in sync_fields}},
    }
