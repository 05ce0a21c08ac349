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

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from fmnas.platform.config.uri import hide_passwords
from fmnas.platform.errors import Ending, ExitCode, ExperimentFailed
from fmnas.platform.record.run_directory import RunDirectory
from fmnas.platform.screen.screen import JSON, QUIET, Happening, JsonScreen
from fmnas.platform.screen.terminal import complain, print_summary, say

if TYPE_CHECKING:
    from fmnas.comparison.summary import Summary
    from fmnas.platform.tracking.tracker import TrackingReport


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
    """Tells of an ending. mode: one of the screen's. again: the command, without `fmnas`, that goes on with it."""

    mode: str
    console: Console
    directory: RunDirectory
    again: str

    def tell(self, result: ExperimentResult) -> int:
        """Everything about it; returns the exit code."""
        code = result.ending.exit_code
        if self.mode == JSON:
            tell_ending(result.ending, result.reason, code, {**self._where(result.ending), **_results(result)})
        else:
            print_summary(result.summary, self.console)
            if self.mode != QUIET:
                self._print_places(result)
            self._print_missed(result)
        if result.ending == Ending.FAILED:
            complain(f"the experiment failed: {result.reason}")
        if self.mode != JSON and code == ExitCode.FAILED:
            self._print(f"resume with     {called()} {self.again}")
        if self.mode != JSON and code == ExitCode.INTERRUPTED:
            self._print_interrupted()
        return code

    def failed(self, error: ExperimentFailed) -> int:
        """It could not be brought to an end, or its results not be written; returns the exit code."""
        reason, begun = hide_passwords(str(error)), self.directory.journal.exists()
        complain(f"the experiment failed: {reason}")
        if self.mode == JSON:
            facts = self._where(Ending.FAILED) if begun else {"again": None}
            tell_ending(Ending.FAILED, reason, ExitCode.FAILED, facts)
        elif begun:
            self._print(f"resume with     {called()} {self.again}")
        return ExitCode.FAILED

    def interrupted(self) -> int:
        """It was broken off before it could write its results; returns the exit code."""
        if not self.directory.journal.exists():
            return tell_interrupted(self.mode)
        if self.mode == JSON:
            tell_ending(Ending.INTERRUPTED, "", ExitCode.INTERRUPTED, self._where(Ending.INTERRUPTED))
        else:
            self._print_interrupted()
        return ExitCode.INTERRUPTED

    def _where(self, status: Ending) -> dict[str, Any]:
        again = None if status == Ending.FINISHED else f"{called()} {self.again}"
        return {"run_directory": str(self.directory.root), "page": str(self.directory.page), "again": again}

    def _print_places(self, result: ExperimentResult) -> None:
        places = {"run directory": str(self.directory.root), "page": str(self.directory.page)}
        if result.tracking.store_experiment or result.tracking.missed:
            places |= {"MLflow store": result.store, "open it with": f"{called()} ui {self._quoted}"}
        for what, place in places.items():
            self._print(f"{what:<15} {place}")

    def _print_missed(self, result: ExperimentResult) -> None:
        tracking = result.tracking
        if tracking.remark:
            self._print(tracking.remark)
        if tracking.missed or tracking.reason:
            what = f"{tracking.missed} trial(s)" if tracking.missed else "the results at the end"
            self._print(
                f"MLflow missed {what} ({tracking.reason}); the run directory has them: "
                f"`{called()} sync {self._quoted}` sends them"
            )

    @property
    def _quoted(self) -> str:
        return shlex.quote(str(self.directory.root))

    def _print_interrupted(self) -> None:
        self._print(f"interrupted; resume with     {called()} {self.again}")

    def _print(self, text: str) -> None:
        say(self.console, text)


def tell_interrupted(mode: str) -> int:
    """It was broken off before anything began; returns the exit code."""
    if mode == JSON:
        tell_ending(Ending.INTERRUPTED, "", ExitCode.INTERRUPTED, {"again": None})
    return ExitCode.INTERRUPTED


def tell_ending(status: str, reason: str, code: int, facts: dict[str, Any]) -> None:
    """The last line of `--progress json`."""
    JsonScreen().tell(Happening("ending", {"status": status, "reason": reason, "exit_code": code, **facts}))


def called() -> str:
    """How this command was called, so that what is printed can be typed: the virtual environment may not be active."""
    return shlex.quote(sys.argv[0]) if Path(sys.argv[0]).name == "fmnas" else "fmnas"


def _results(result: ExperimentResult) -> dict[str, Any]:
    shown = ("mean", "standard_error", "best", "repeats")
    rows = result.summary.to_json()["optimizers"].items()
    tracking = result.tracking
    return {
        "headline": result.summary.headline,
        "caution": result.summary.caution,
        "optimizers": {name: {key: row[key] for key in shown} for name, row in rows},
        "mlflow": {
            "store": result.store,
            "written": tracking.written,
            "present": tracking.present,
            "missed": tracking.missed,
            "reason": tracking.reason,
            "remark": tracking.remark,
        },
    }
