"""A function minimised, from a script or a notebook: an experiment of one optimizer and one repeat, in this process.

It is driven as `fmnas run` drives one, with the same journal, seeds and rules for what fails. The function need not
stand in a file: a lambda does, and so does what a notebook defines.
"""

import re
import signal
import threading
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from fmnas.api.results import NoSuchResultError, RunResults, load_run
from fmnas.platform.errors import ConfigError, Ending, ExperimentFailed, RunDirectoryError
from fmnas.platform.experiment.journal import DRIVER, Record, experiment_records
from fmnas.platform.experiment.run_directory import RunDirectory, new_run_directory, run_directory
from fmnas.platform.problems import display_name
from fmnas.platform.workers.cancellation import StopRequest, stop_on_signals
from fmnas.search_spaces import Space
from fmnas.search_spaces.variables import Variable
from fmnas.trainers import Problem, TrainerError, objective

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from fmnas.comparison import Summary
    from fmnas.platform.config.schema import Config
    from fmnas.platform.display.modes import Screen
    from fmnas.platform.display.summary import ExperimentResult
    from fmnas.platform.experiment.state import ExperimentState
    from fmnas.platform.runner.run import Surroundings

Function = Callable[..., Any]
ARGUMENTS = {
    "budget.evaluations": "evaluations",
    "workers.failures": "failures",
    "optimizers.0.use": "optimizer",
    "optimizers.0.": "",
    "optimizers.0": "optimizer",
}
"""What the keys of the configuration are called in a call."""
_MUST_AGREE = ("problem", "optimizers", "seed", "fidelity")
"""The keys of a configuration in which two calls must agree to be one search."""
_MAY_DIFFER = ("budget.evaluations", "workers.failures")
"""Those in which a later call may ask for another value."""


@dataclass(frozen=True, eq=False)
class MinimizeResult:
    """What was found.

    best: the configuration of the lowest objective. reason: why it ended early; empty where it did not.
    results: everything else, as `load_run` gives it.
    """

    best: Mapping[str, Any]
    objective: float
    reason: str
    results: RunResults

    @property
    def trials(self) -> "pd.DataFrame":
        """A row per trial, those that failed too."""
        return self.results.trials

    def plot(self) -> "Figure":
        """The lowest objective so far against the evaluations."""
        return self.results.figure("anytime_evaluations")

    def __repr__(self) -> str:
        early = f", {self.reason}" if self.reason else ""
        return f"<objective {self.objective:.6g} at {dict(self.best)}, {len(self.trials)} trials{early}>"


def minimize(
    function: Function | Problem,
    space: Space | Iterable[Variable] | None = None,
    evaluations: int = 50,
    optimizer: str = "bo-fm",
    seed: int = 0,
    out: str | Path | None = None,
    progress: bool = False,
    failures: int = 5,
    **options: Any,
) -> MinimizeResult:
    """Minimise function(configuration), a number, over a space, in this process.

    function: may take epochs, seed and report by name, as `objective` describes it; or it is what `objective` made of
    a function, with its settings and its space.
    optimizer: of `fmnas list optimizers`, or one of your own, as "MODULE:CLASS" or "FILE.py:CLASS". options: its own;
    and warm_start, the out=DIR of an earlier call with this function and space, whose results it begins with, and which
    count as evaluations.
    out: a run directory, of which `fmnas report` makes the page; None keeps nothing. A call with the directory of an
    earlier one, the same in everything, goes on with that, or gives what it found; with more evaluations it adds them.
    It warns where the function was altered since.
    progress: whether trials are told on the screen. failures: how many failed trials in a row end it.

    An exception of the function is a failed trial. It ends early after too many of them in a row, or at Ctrl-C, with a
    warning and what there is. Raises FmnasError for input that cannot be, ExperimentFailed and KeyboardInterrupt where
    it ended so and no evaluation had finished.
    """
    from fmnas.platform.config.errors import CALL_HINT
    from fmnas.platform.config.load import check_config
    from fmnas.platform.registry import registered

    task = _problem(function, space)
    place = TemporaryDirectory(prefix="fmnas-") if out is None else nullcontext(str(out))
    with place as folder, registered(_name(function), task) as use:
        settings = {
            "name": re.sub(r"[^A-Za-z0-9._-]", "", f"minimize-{_name(function)}")[:100],
            "problem": use,
            "optimizers": [{**_optimizer(optimizer), **options}],
            "seed": seed,
            "budget": {"evaluations": evaluations},
            "workers": {"kind": "in-process", "grace_seconds": 0.0, "failures": failures},
            "tracking": {"enabled": False},
        }
        try:
            config = check_config(settings, "fmnas.api.minimize", CALL_HINT)
        except ConfigError as error:
            raise ConfigError(_in_words_of_the_call(str(error))) from None
        results, reason = _Search(config, task, RunDirectory(Path(folder)), progress).run()
    best = results.best()
    if reason:
        warnings.warn(reason, stacklevel=2)
    return MinimizeResult(best.configuration, best.objective, reason, results)


def _problem(function: Function | Problem, space: Space | Iterable[Variable] | None) -> Problem:
    if isinstance(function, Problem):
        if space is not None:
            raise TrainerError("space: the problem has its own; leave it out")
        return function
    if isinstance(space, Variable):
        raise TrainerError(f"space = {space!r}: give the variables in a list, [{space!r}], or a Space")
    if space is None:
        raise TrainerError("space is missing: give the variables, e.g. [Real('x', 0.0, 1.0)], or a Space")
    return objective(space)(function)


def _name(function: Function | Problem) -> str:
    """What tables and pages call it."""
    told = (function.function or function) if isinstance(function, Problem) else function
    return str(getattr(told, "__name__", type(told).__name__)).strip("<>")


def _optimizer(name: str) -> dict[str, str]:
    """As a configuration has it: of the registry, or one's own."""
    return {"name": name} if ":" not in name else {"name": name.rpartition(":")[2], "use": name}


def _in_words_of_the_call(message: str) -> str:
    """A message about the configuration that the arguments make, about the arguments."""
    for key, argument in ARGUMENTS.items():
        message = message.replace(key, argument)
    return message


@dataclass(frozen=True)
class _Search:
    """The search behind a call: begun, or gone on with, driven to an end, and read.

    Its journal stands in the run directory, so whatever ends it, what had finished by then is found. The problem is
    named in the configuration and given meanwhile, see `named.given`.

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
        results = found or load_run(self.directory.place)
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
        from fmnas.platform.report.write import report_input
        from fmnas.platform.runner.run import Surroundings

        found: list[RunResults] = []

        def write(directory: RunDirectory, state: "ExperimentState", say: Callable[[str], None]) -> "Summary":
            found.append(RunResults(report_input(directory, state)))
            return found[-1].summary

        main = threading.current_thread() is threading.main_thread()  # which alone hears signals
        with stop_on_signals(signal.SIGINT) if main else nullcontext(StopRequest()) as stop:
            around = Surroundings(None, _screen(self.shown), stop, write=write, traced=self.shown)
            try:
                result = self._begun(around)
            except KeyboardInterrupt:
                if not self.directory.journal.is_file():
                    raise
                return None, Ending.INTERRUPTED, ""
        return (found[-1] if found else None), result.ending, result.reason

    def _begun(self, around: "Surroundings") -> "ExperimentResult":
        from fmnas.platform.experiment.configuration import current_config, differences
        from fmnas.platform.experiment.saved_problem import standing_in
        from fmnas.platform.runner.run import extend, launch, resume

        if not self.directory.journal.is_file():
            return launch(self.config, new_run_directory(self.directory.root), around)
        directory = run_directory(self.directory.root, write=True)
        records = experiment_records(directory)
        with standing_in(directory):
            found = differences(current_config(directory, records), self.config)
        self._check_same(found)
        if caution := self._caution(records):
            warnings.warn(caution, stacklevel=5)  # of who calls minimize
        changes = [f"{key}={found[key][1]}" for key in _MAY_DIFFER if key in found]
        return extend(directory, changes, around) if changes else resume(directory, around)

    def _caution(self, records: Sequence[Record]) -> str:
        """Why the results there may be of another function; empty where they are not. records: of the journal."""
        from fmnas.platform.experiment.provenance import PROBLEM, is_altered, own_digests

        drivers = [record for record in records if record["event"] == DRIVER]
        now, name = own_digests(self.config).get(PROBLEM), display_name(self.config.problem)
        if now is None:
            return f"{name} has no source and no bytecode: fmnas cannot tell whether it is the function of before"
        if is_altered(PROBLEM, now, self.directory, drivers):
            return (
                f"{name} is not the function that {self.directory.root} has results of: these are kept, and new ones "
                "stand beside them. Give another out=DIR to begin again"
            )
        return ""

    def _check_same(self, found: Mapping[str, tuple[Any, Any]]) -> None:
        """Raise RunDirectoryError unless the configurations are of one search, as far as can be known.

        found: their `differences`. What is asked may have more evaluations than what was begun, but not fewer.
        """
        from fmnas.platform.experiment.configuration import is_within
        from fmnas.platform.experiment.saved_problem import kept_space

        changed = [
            f"  {key} = {asked}: it began with {begun}"
            for key, (begun, asked) in found.items()
            if is_within(key, _MUST_AGREE)
        ]
        there, wanted = found.get("budget.evaluations", (0, 0))
        if wanted < there:
            changed.append(f"  evaluations = {wanted}: it has {there}, and there may be more, not fewer")
        if not changed and kept_space(self.directory) != self.task.space:
            changed = ["  space: its variables were others"]
        if changed:
            raise RunDirectoryError(
                f"{self.directory.root} holds another search:\n" + "\n".join(changed) + "\nSay the same to go on with "
                "it, or give another out=DIR"
            )


def _screen(shown: bool) -> "Screen":
    from fmnas.platform.display.console import terminal
    from fmnas.platform.display.modes import QUIET, mode_for, open_screen

    console = terminal()
    return open_screen(mode_for(None if shown else QUIET, console), console)


def _last_reason(results: RunResults) -> str:
    reasons = results.findings.trials.get("reason")
    told = [] if reasons is None else [str(each) for each in reasons.dropna() if each]
    return told[-1] if told else "none was at full fidelity"
