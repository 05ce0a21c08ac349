"""How the end of a run, resume or retrain is told: the table and where everything is, or one JSON object.

The facts of `--progress json`'s last line, whose event is `ending`:

| fact | meaning |
|---|---|
| status | finished, interrupted, failed or "wrong input"; exit_code is the process's |
| reason | why it failed; else empty |
| run_directory, page | where the results are |
| again | the command that goes on with it; None where it is finished |
| headline, caution | what the table shows, and what it does not |
| optimizers | name -> mean, standard_error, best, repeats; the lowest mean first |
| mlflow | store, written, present, missed, reason, remark: what to know of how the store was found |

A run that was broken off before it could write its results lacks what comes after `again`; one that had not begun,
run_directory and page, too.
"""

import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from rich.console import Console

from fmnas.platform.config.uri import redact
from fmnas.platform.display.console import complain, print_summary, say
from fmnas.platform.display.modes import JSON, QUIET, Happening, JsonScreen
from fmnas.platform.errors import Ending, ExperimentFailed
from fmnas.platform.experiment.run_directory import RunDirectory

if TYPE_CHECKING:
    from fmnas.comparison.summary import Summary
    from fmnas.platform.mlflow.sync import TrackingReport


@dataclass(frozen=True)
class ExperimentResult:
    """How it ended, and why it failed if it did; the summary; the tracking and its store."""

    ending: Ending
    reason: str
    summary: "Summary"
    tracking: "TrackingReport"
    store: str


@dataclass(frozen=True)
class Teller:
    """Tells of an ending.

    mode: one of the screen's. directory: None while it is not known. again: the command, without `fmnas`, that goes on
    with it. file: where JSON goes; standard output if None.
    """

    mode: str
    console: Console
    directory: RunDirectory | None = None
    again: str = ""
    file: TextIO | None = None

    def tell(self, result: ExperimentResult) -> int:
        """Everything about it; returns the exit code."""
        assert self.directory is not None
        facts = _results(result) if self.mode == JSON else {}
        if self.mode != JSON:
            print_summary(result.summary, self.console)
            if self.mode != QUIET:
                self._print_places(result, self.directory)
            self._print_missed(result, self.directory)
        if result.ending == Ending.FAILED:
            complain(f"the experiment failed: {result.reason}")
        return self._end(result.ending, facts)

    def failed(self, error: ExperimentFailed) -> int:
        """It could not be brought to an end, or its results not be written; returns the exit code."""
        reason = redact(str(error))
        complain(f"the experiment failed: {reason}")
        return self._end(Ending.FAILED, {"reason": reason})

    def interrupted(self) -> int:
        """It was broken off before it could write its results; returns the exit code."""
        return self._end(Ending.INTERRUPTED, {})

    def _end(self, ending: Ending, facts: Mapping[str, Any]) -> int:
        """The command that goes on with it, unless it is finished or had not begun; returns the exit code."""
        begun = self.directory if self.directory and self.directory.journal.exists() else None
        again = f"{called()} {self.again}" if begun and ending != Ending.FINISHED else None
        if self.mode == JSON:
            where = {"run_directory": str(begun.root), "page": str(begun.page)} if begun else {}
            tell_ending(ending, ending.exit_code, {**where, "again": again, **facts}, self.file)
        elif again:
            stopped = "interrupted; " if ending == Ending.INTERRUPTED else ""
            say(self.console, f"{stopped}resume with     {again}")
        return ending.exit_code

    def _print_places(self, result: ExperimentResult, directory: RunDirectory) -> None:
        places = {"run directory": str(directory.root), "page": str(directory.page)}
        if result.tracking.store_experiment or result.tracking.missed:
            places |= {"MLflow store": result.store, "open it with": f"{called()} {directory.command('ui')}"}
        for what, place in places.items():
            say(self.console, f"{what:<15} {place}")

    def _print_missed(self, result: ExperimentResult, directory: RunDirectory) -> None:
        tracking = result.tracking
        if tracking.remark:
            say(self.console, tracking.remark)
        if tracking.missed or tracking.reason:
            what = f"{tracking.missed} trial(s)" if tracking.missed else "the results at the end"
            say(
                self.console,
                f"MLflow missed {what} ({tracking.reason}); the run directory has them: "
                f"`{called()} {directory.command('sync')}` sends them",
            )


def tell_ending(status: str, code: int, facts: Mapping[str, Any], file: TextIO | None = None) -> None:
    """The last line of `--progress json`. facts: the others, and the reason where there is one. file: as JsonScreen."""
    JsonScreen(file).tell(Happening("ending", {"status": status, "reason": "", "exit_code": code, **facts}))


def called() -> str:
    """How to call this command again: by its path where `fmnas` would not find it, as outside a virtual environment."""
    program = sys.argv[0]
    if Path(program).name != "fmnas" or os.path.realpath(shutil.which("fmnas") or "") == os.path.realpath(program):
        return "fmnas"
    return shlex.quote(program)


def _results(result: ExperimentResult) -> dict[str, Any]:
    shown = ("mean", "standard_error", "best", "repeats")
    rows = result.summary.to_json()["optimizers"].items()
    sent = ("written", "present", "missed", "reason", "remark")
    return {
        "reason": result.reason,
        "headline": result.summary.headline,
        "caution": result.summary.caution,
        "optimizers": {name: {key: row[key] for key in shown} for name, row in rows},
        "mlflow": {"store": result.store, **{name: getattr(result.tracking, name) for name in sent}},
    }
