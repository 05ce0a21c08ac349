"""The search behind a call of `minimize`: begun, or gone on with, driven to an end, and read.

It is the driver of `fmnas run` with one worker, in this process. The journal stands in the run directory, so whatever
ends the search, what had finished by then is found.
"""

import signal
import threading
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fmnas.api.results import NoSuchResultError, RunResults, load_run
from fmnas.platform.errors import Ending, ExperimentFailed, RunDirectoryError
from fmnas.platform.record.journal import experiment_records
from fmnas.platform.record.run_directory import RunDirectory, new_run_directory, run_directory
from fmnas.platform.workers.stop import StopRequest, stopped_by_signals
from fmnas.trainers import Problem

if TYPE_CHECKING:
    from fmnas.comparison import Summary
    from fmnas.platform.config.config import Config
    from fmnas.platform.drive.launch import Surroundings
    from fmnas.platform.record.state import ExperimentState
    from fmnas.platform.screen.ending import ExperimentResult
    from fmnas.platform.screen.screen import Screen


@dataclass(frozen=True)
class Search:
    """An experiment of a problem that its configuration names and that is given meanwhile, see `named.given`.

    shown: whether trials are told on the screen.
    """

    config: "Config"
    task: Problem
    directory: RunDirectory
    shown: bool

    def run(self) -> tuple[RunResults, str]:
        """Drive it to its end, or to Ctrl-C; what it came to, and why it ended early; "" where it did not.

        Raises FmnasError for input that cannot be; KeyboardInterrupt or ExperimentFailed where it ended early and no
        full evaluation had finished.
        """
        found, ending, reason = self._driven()
        results = found or load_run(self.directory.root)
        if ending == Ending.INTERRUPTED:
            done, wanted = len(results.findings.trials), self.config.budget.evaluations
            reason = f"interrupted: {done} of {wanted} trials had begun"
        try:
            results.best()
        except NoSuchResultError:
            if ending == Ending.INTERRUPTED:
                raise KeyboardInterrupt from None
            raise ExperimentFailed(reason or f"no evaluation came to a result: {_last_reason(results)}") from None
        return results, reason

    def _driven(self) -> tuple[RunResults | None, Ending, str]:
        """Its results, where the driver lived to give them; how it ended, and why it failed.

        No page is written, which would take longer than most searches: `fmnas report` writes it.
        """
        from fmnas.platform.drive.launch import Surroundings
        from fmnas.platform.drive.results import findings_of

        found: list[RunResults] = []

        def write(directory: RunDirectory, state: "ExperimentState") -> "Summary":
            found.append(RunResults(findings_of(directory, state)))
            return found[-1].summary

        main = threading.current_thread() is threading.main_thread()  # which alone hears signals
        with stopped_by_signals(signal.SIGINT) if main else nullcontext(StopRequest()) as stop:
            around = Surroundings(None, _screen(self.shown), stop, write=write, traced=self.shown)
            try:
                result = self._begun(around)
            except KeyboardInterrupt:
                if not self.directory.journal.is_file():
                    raise
                return None, Ending.INTERRUPTED, ""
        return (found[-1] if found else None), result.ending, result.reason

    def _begun(self, around: "Surroundings") -> "ExperimentResult":
        from fmnas.platform.drive.launch import extend, launch, resume
        from fmnas.platform.record.configuration import current_config
        from fmnas.platform.record.handed_over import standing_in

        if not self.directory.journal.is_file():
            return launch(self.config, new_run_directory(self.directory.root), around)
        directory = run_directory(self.directory.root, write=True)
        with standing_in(directory):
            begun = current_config(directory, experiment_records(directory)).model_dump(mode="json")
        asked = self.config.model_dump(mode="json")
        self._check_same(begun, asked)
        changes = [
            f"{part}.{key}={asked[part][key]}" for part, key in _MAY_DIFFER if asked[part][key] != begun[part][key]
        ]
        return extend(directory, changes, around) if changes else resume(directory, around)

    def _check_same(self, begun: Mapping[str, Any], asked: Mapping[str, Any]) -> None:
        """Raise RunDirectoryError unless the configurations are of one search, as far as can be known.

        What is asked may have more evaluations than what was begun, but not fewer.
        """
        from fmnas.platform.record.handed_over import kept_space

        differing = [key for key in _MUST_AGREE if asked[key] != begun[key]]
        changed = [f"  {key} = {asked[key]}: it began with {begun[key]}" for key in differing]
        there, wanted = begun["budget"]["evaluations"], asked["budget"]["evaluations"]
        if wanted < there:
            changed.append(f"  evaluations = {wanted}: it has {there}, and there may be more, not fewer")
        if not changed and kept_space(self.directory) != self.task.space:
            changed = ["  space: its variables were others"]
        if changed:
            raise RunDirectoryError(
                f"{self.directory.root} holds another search:\n" + "\n".join(changed) + "\nSay the same to go on with "
                "it, or give another out=DIR"
            )


_MUST_AGREE = ("problem", "optimizers", "seed", "fidelity")
"""The keys of a configuration in which two calls must agree to be one search."""
_MAY_DIFFER = (("budget", "evaluations"), ("workers", "failures"))
"""Those in which a later call may ask for another value."""


def _screen(shown: bool) -> "Screen":
    from fmnas.platform.screen.screen import QUIET, mode_for, open_screen
    from fmnas.platform.screen.terminal import terminal

    console = terminal()
    return open_screen(mode_for(None if shown else QUIET, console), console)


def _last_reason(results: RunResults) -> str:
    reasons = results.findings.trials.get("reason")
    told = [] if reasons is None else [str(each) for each in reasons.dropna() if each]
    return told[-1] if told else "none was at full fidelity"
