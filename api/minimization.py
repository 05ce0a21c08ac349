"""Minimising a function from a script or a notebook: an experiment of one optimizer and one repeat, in this process.

It runs as `fmnas run` runs one, with the same journal, seeds and handling of failures. The function need not be in a
file: it may be a lambda, or defined in a notebook.
"""

import os
import re
import signal
import threading
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from inspect import signature
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from fmnas.api.results import NoSuchResultError, RunResults, load_run
from fmnas.platform.errors import ConfigError, Ending, ExperimentFailed, RunDirectoryError
from fmnas.platform.experiment.run_directory import RunDirectory, new_run_directory, run_directory
from fmnas.platform.problems import display_name
from fmnas.platform.references import IN_MEMORY, replace_references
from fmnas.platform.workers.cancellation import StopRequest, stop_on_signals
from fmnas.search_spaces import Space
from fmnas.search_spaces.variables import Variable, plain
from fmnas.trainers import Problem, TrainerError, objective

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from fmnas.platform.config.schema import Config
    from fmnas.platform.runner.plan import ConfigChange

Function = Callable[..., Any]


@dataclass(frozen=True, eq=False)
class MinimizeResult:
    """The result of `minimize`.

    best: the configuration with the lowest objective. reason: why the search ended early, else empty.
    results: everything else, as `load_run` returns it.
    """

    best: Mapping[str, Any]
    objective: float
    reason: str
    results: RunResults

    @property
    def trials(self) -> "pd.DataFrame":
        """One row per trial, including failed ones."""
        return self.results.trials

    def plot(self) -> "Figure":
        """Plot the lowest objective so far against the number of evaluations."""
        return self.results.figure("anytime_evaluations")

    def __repr__(self) -> str:
        early = f", {self.reason}" if self.reason else ""
        return f"<objective {self.objective:.6g} at {dict(self.best)}, {len(self.trials)} trials{early}>"


def minimize(  # noqa: PLR0913  # one per choice that a search has
    function: Function | Problem,
    space: Space | Iterable[Variable] | None = None,
    evaluations: int = 50,
    optimizer: str | Callable[..., Any] = "bo-fm",
    seed: int = 0,
    out: str | Path | None = None,
    progress: bool = False,
    failures: int = 5,
    initial_design: int | None = None,
    **options: Any,
) -> MinimizeResult:
    """Minimise function(configuration), a number, over a space, in this process.

    function: may take epochs, seed and report by name, see `objective`; or a problem made with `objective`, which has
    its space.
    optimizer: one of `fmnas list optimizers`, or a custom one: its class or function, or "FILE.py:CLASS". options: of
    the optimizer; and warm_start, the out=DIR of an earlier call with this function and space, whose results it begins
    with, and which count as evaluations.
    out: a run directory, of which `fmnas report` makes a page; None keeps nothing. Calling again with the directory of
    an earlier call and the same arguments resumes it, or returns its results; more evaluations extend it. A warning is
    issued if the function has changed since.
    progress: whether trials are shown. failures: how many failed trials in a row end the search.
    initial_design: number of random points to begin with; None: a third of the evaluations, from 1 to 10.

    An exception of the function is a failed trial. After too many of them in a row, or at Ctrl-C, the search ends early
    with a warning and the results so far. Raises FmnasError for invalid input; ExperimentFailed or KeyboardInterrupt if
    the search ended early before any full evaluation finished.
    """
    from fmnas.platform.config.errors import CALL_HINT
    from fmnas.platform.config.load import check_config

    if reserved := [name for name in ("name", "use", "label", "concurrency", "options") if name in options]:
        raise ConfigError(f"{', '.join(reserved)}: cannot be set; options are the optimizer's, and warm_start")
    task, title = _as_problem(function, space), _name_of(function)
    reference = f"{IN_MEMORY}:{title}"
    entry, targets = _as_entry(optimizer)
    recorded = {name: _as_plain(name, value) for name, value in options.items()}
    place = TemporaryDirectory(prefix="fmnas-") if out is None else nullcontext(str(out))
    with place as folder, replace_references({**targets, reference: task}):
        settings = {
            "name": _as_label(f"minimize-{title}", 100),
            "problem": reference,
            "optimizers": [{**entry, **recorded}],
            "seed": plain(seed),
            "initial_design": plain(initial_design),
            "budget": {"evaluations": plain(evaluations)},
            "workers": {"kind": "in-process", "grace_seconds": 0.0, "failures": plain(failures)},
            "tracking": {"enabled": False},
        }
        try:
            config = check_config(settings, "fmnas.api.minimize", CALL_HINT)
            results, reason = _search(config, task, Path(folder), progress, initial_design)
        except ConfigError as error:
            raise ConfigError(_name_arguments(str(error), options)) from None
    best = results.best()
    if reason:
        warnings.warn(reason, stacklevel=2)
    return MinimizeResult(best.configuration, best.objective, reason, results)


def _name_of(called: Any) -> str:
    """Return the name of a class, of a function, or of a problem's function; of a partial, that of its function."""
    called = (called.function or called) if isinstance(called, Problem) else called
    called = called.func if isinstance(called, partial) else called
    return str(getattr(called, "__name__", type(called).__name__)).strip("<>")


def _as_entry(optimizer: Any) -> tuple[dict[str, str], dict[str, Any]]:
    """Return the optimizer's entry in a configuration, and by reference what is not in a file."""
    if isinstance(optimizer, str):
        return {"name": optimizer}, {}
    if not callable(optimizer):
        raise ConfigError(f"optimizer = {optimizer!r}: it must be a name, or a class or function make(space, seed)")
    name = _name_of(optimizer)
    use = f"{IN_MEMORY}:optimizer {name}"
    return {"name": name, "use": use, "label": _as_label(name, 40) or "optimizer"}, {use: optimizer}


def _as_label(name: str, length: int) -> str:
    """Return a name without the characters that a label cannot have, shortened."""
    return re.sub(r"[^A-Za-z0-9._-]", "", name)[:length]


def _as_plain(name: str, value: Any) -> Any:
    """Return an option as a configuration can hold it, tuples as lists. Raises ConfigError for an object in it."""
    if isinstance(value, list | tuple):
        return [_as_plain(name, item) for item in value]
    if isinstance(value, dict):
        return {key: _as_plain(name, item) for key, item in value.items()}
    value = str(value) if isinstance(value, Path) else plain(value)
    if value is not None and not isinstance(value, bool | int | float | str):
        raise ConfigError(
            f"{name} = {value!r}: options are recorded, so they must be numbers, texts, True, False, None, or lists or "
            "dicts of these; set an object in a function make(space, seed)"
        )
    return value


def _as_problem(function: Function | Problem, space: Space | Iterable[Variable] | None) -> Problem:
    if isinstance(function, Problem):
        if space is not None:
            raise TrainerError("space: the problem has its own space; omit the argument")
        return function
    if space is None or isinstance(space, Variable):
        raise TrainerError(f"space = {space!r}: pass a list of variables, e.g. [Real('x', 0.0, 1.0)], or a Space")
    return objective(space)(function)


def _name_arguments(message: str, options: Mapping[str, Any]) -> str:
    """Replace configuration keys in a message by the arguments that set them; add arguments like unknown options."""
    from fmnas.platform.config.errors import suggest_similar

    named = re.sub(r"\b(budget\.(?=evaluations\b)|workers\.(?=failures\b))", "", message)
    named = re.sub(r"\boptimizers\.0(\.(name|use))?\b", "optimizer", named)
    named = re.sub(r"(allowed are .*)concurrency, ", r"\1", named)  # minimize runs one trial at a time
    named = re.sub(r"'?<minimize>:optimizer (\w+)'?", r"\1", named)
    lines = dict.fromkeys(named.splitlines())  # two keys may follow from one argument
    for name in options:
        hint = suggest_similar(name, list(signature(minimize).parameters)[:-1])
        if hint and f"optimizer.{name}: " in named:
            lines[f"{name} is not an argument of minimize: {hint}"] = None
    return "\n".join(lines)


def _search(
    config: "Config", task: Problem, root: Path, progress: bool, initial_design: int | None
) -> tuple[RunResults, str]:
    """Run the experiment, or resume it. Returns its results, and why it ended early, else "".

    No page is written: that would take longer than most searches. initial_design: as passed to `minimize`.
    """
    from fmnas.platform.display.console import make_console
    from fmnas.platform.display.log import QUIET, resolve_mode
    from fmnas.platform.display.progress import Progress
    from fmnas.platform.report.write import report_input
    from fmnas.platform.runner.driver import RunContext
    from fmnas.platform.runner.run import run_experiment

    change: Config | ConfigChange = config
    if os.path.isfile(RunDirectory(root).journal):  # unlike Path.is_file, it raises nothing
        directory = run_directory(root, write=True)
        _check_same_function(config, task, directory)
        change = partial(_continue_with, config, root, initial_design)
    else:
        directory = new_run_directory(root)
    console = make_console()
    observer = Progress(resolve_mode(None if progress else QUIET, console), console)
    is_main = threading.current_thread() is threading.main_thread()  # only the main thread receives signals
    with stop_on_signals(signal.SIGINT) if is_main else nullcontext(StopRequest()) as stop:
        context = RunContext([observer], stop, print_tracebacks=progress)
        try:
            run = run_experiment(change, directory, context)
        except KeyboardInterrupt:
            if not directory.journal.is_file():
                raise
            results, status, reason = load_run(directory.place), Ending.INTERRUPTED, ""
        else:
            results, status, reason = RunResults(report_input(directory, run.state)), run.status, run.reason
    if status == Ending.INTERRUPTED:
        reason = f"interrupted: {len(results.report_input.trials)} of {config.budget.evaluations} trials had begun"
    try:
        results.best()
    except NoSuchResultError:
        if status == Ending.INTERRUPTED:
            raise KeyboardInterrupt from None
        reasons = [str(text) for text in results.report_input.trials["reason"].dropna() if text]
        last = reasons[-1] if reasons else "none was at full fidelity"
        raise ExperimentFailed(reason or f"no evaluation has a result: {last}") from None
    return results, reason


def _continue_with(config: "Config", root: Path, initial_design: int | None, before: "Config") -> "Config":
    """Return the configuration of this call in the directory of an earlier one, whose configuration is `before`.

    Without an initial_design, the number of random points stays, though its default depends on the evaluations. Raises
    RunDirectoryError, naming every argument, if another than `evaluations`, which may grow, and `failures` has changed.
    """
    from fmnas.platform.experiment.configuration import MUTABLE_KEYS, diff, is_under

    after = config.model_copy(update={"initial_design": before.initial_design} if initial_design is None else {})
    may_change = [*MUTABLE_KEYS, "name", "optimizers.0.label"]  # the last two follow from the function and optimizer
    if after.budget.evaluations > before.budget.evaluations:
        may_change.append("budget.evaluations")
    changes = diff(before, after)
    if "optimizers.0.name" in changes:
        may_change.append("optimizers.0.use")  # follows from the name
    changed = "".join(
        f"  {'function' if key == 'problem' else _name_arguments(key, {})} = {now}: cannot change; it has {earlier}\n"
        for key, (earlier, now) in changes.items()
        if not is_under(key, may_change)
    )
    if changed:
        raise RunDirectoryError(
            f"{root} has the results of a different search:\n{changed}"
            "Pass the same arguments to continue it (evaluations may grow), or another out=DIR"
        )
    return after


def _check_same_function(config: "Config", task: Problem, directory: RunDirectory) -> None:
    """Raise RunDirectoryError if the directory has a different space; warn of a function or optimizer that changed."""
    from fmnas.platform.experiment.journal import read_events
    from fmnas.platform.experiment.ledger import fold
    from fmnas.platform.experiment.provenance import PROBLEM, recorded_hashes, user_file_hashes
    from fmnas.platform.experiment.saved_problem import load_space

    ledger = fold(read_events(directory))
    if ledger.config["problem"] != config.problem:
        return  # `_continue_with` raises
    if load_space(directory) != task.space:
        raise RunDirectoryError(
            f"space: {directory.root} has results over different variables: pass the same space, or another out=DIR"
        )
    hashes, root = user_file_hashes(config), directory.root
    cautions = [
        f"{display_name(config.problem if key == PROBLEM else config.optimizers[0].name)} has changed since {root} was "
        "begun: earlier results are kept; another out=DIR starts again"
        for key, digest in hashes.items()
        if recorded_hashes(ledger, key) - {digest}
    ]
    if PROBLEM not in hashes:
        name = display_name(config.problem)
        cautions.append(f"{name} has no bytecode, so it is not known whether it has changed since {root} was begun")
    for caution in cautions:
        warnings.warn(caution, stacklevel=4)  # of the call of minimize
