"""`fmnas record`: the results of run directories as one file, which is a problem of its own (`recorded:FILE.npz`).

It holds every trial that was charged: finished, failed and timed out. Trials that a worker lost, that a stop cancelled,
that a warm start took from another directory, or that racing stopped are left out. The directories must have the same
objective; which variables were `fixed`, the optimizers, budgets and seeds may differ.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fmnas.platform.errors import ExperimentFailed, RunDirectoryError
from fmnas.platform.experiment.comparability import format_differences, objective_settings
from fmnas.platform.experiment.provenance import data_hash, read_environment
from fmnas.platform.experiment.run_directory import RunDirectory, run_directory
from fmnas.platform.experiment.saved_problem import SAVED_FIELDS
from fmnas.platform.experiment.state import ExperimentState, read_state
from fmnas.platform.experiment.trial_result import TrialResult, utc_timestamp
from fmnas.platform.problems import display_name, find_problem
from fmnas.search_spaces.records import CHARGED, WARM_START
from fmnas.trainers import DataError
from fmnas.trainers.recorded import identify
from fmnas.trainers.recorded_table import RecordedResult, TableHeader, read_header, write_table

SUFFIX = ".npz"


def record_results(roots: Sequence[Path], out: Path, notify: Callable[[str], None]) -> None:
    """Write the results of run directories to a file, which replaces an earlier one.

    notify: receives a line for each directory, and one with the number of results.

    Raises RunDirectoryError for directories that cannot be read or put together, or if `out` is another file;
    ExperimentFailed if the disk does not take the file.
    """
    _check_out(out)
    sources: list[tuple[RunDirectory, ExperimentState]] = []
    for root in roots:
        notify(f"reading {root}")
        directory = run_directory(root)
        sources.append((directory, read_state(directory)))
    _check_sources(sources)
    charged = [
        (i, result)
        for i, (_, state) in enumerate(sources)
        for result in state.ledger.results
        if result.status in CHARGED and result.trial.origin != WARM_START
    ]
    results = [_make_recorded_result(i, result) for i, result in charged if result.epochs == result.trial.epochs]
    if not results:
        raise RunDirectoryError(f"{', '.join(map(str, roots))}: no trial has ended yet: record them when some have")
    try:
        write_table(out, _header(sources), results)
    except OSError as error:
        raise ExperimentFailed(f"{out} cannot be written ({error.strerror}): choose another file with --out") from error
    n_configurations = len({identify(result.trial.configuration) for result in results})
    counts = f"results = {len(results)}, configurations = {n_configurations}, experiments = {len(sources)}"
    stopped = len(charged) - len(results)
    notify(f"{out}: {counts}" + f"; left out, stopped by racing = {stopped}" * bool(stopped))


def _check_out(out: Path) -> None:
    """Raise RunDirectoryError if the file has another suffix, or is there and not one of recorded results."""
    if out.suffix != SUFFIX:
        raise RunDirectoryError(f"--out {out}: must end with {SUFFIX}")
    if out.exists():
        try:
            read_header(out)
        except DataError as error:
            raise RunDirectoryError(f"--out {out} would be overwritten, and it is something else: {error}") from None


def _check_sources(sources: Sequence[tuple[RunDirectory, ExperimentState]]) -> None:
    """Raise RunDirectoryError unless the directories are different experiments of the same, real objective."""
    roots: dict[str, Path] = {}
    for directory, state in sources:
        root, entry = directory.root, find_problem(state.config.problem)
        if entry is not None and entry.is_recorded:
            raise RunDirectoryError(f"{root} looked its results up in {entry.use}: leave it out")
        if (other := roots.setdefault(state.ledger.id, root)) is not root:
            raise RunDirectoryError(f"{other} and {root} are the same experiment: leave one out")
        if differences := list(format_differences(_settings(*sources[0]), _settings(directory, state))):
            raise RunDirectoryError(
                f"{sources[0][0].root} and {root} have different objectives: {'; '.join(differences)}: record them "
                "into two files"
            )


def _settings(directory: RunDirectory, state: ExperimentState) -> dict[str, Any]:
    """Return what defines the objective of every configuration of the space."""
    settings = objective_settings(state.config, state.experiment.problem.space, data_hash(directory))
    return {key: value for key, value in settings.items() if key != "fixed"}


def _header(sources: Sequence[tuple[RunDirectory, ExperimentState]]) -> TableHeader:
    directory, state = sources[0]
    task, config = state.experiment.problem, state.config
    facts = {
        "name": display_name(config.problem),
        **{name: getattr(task, name) for name in SAVED_FIELDS},
        "epochs": config.fidelity.epochs,
        "description": f"Recorded results of {display_name(config.problem)}. {task.description}".strip(),
    }
    settings = {key: value for key, value in _settings(directory, state).items() if key != "space"}
    return TableHeader(task.space, facts, settings, [_describe_source(*source) for source in sources])


def _describe_source(directory: RunDirectory, state: ExperimentState) -> dict[str, Any]:
    """Return which experiment it was, with which software, and on what; without names of hosts and paths."""
    environment, driver = read_environment(directory), state.ledger.drivers[0]
    software = {name: value for name, value in asdict(driver.software).items() if name != "host"}
    return {
        "experiment": state.ledger.id,
        "name": state.config.name,
        "seed": state.config.seed,
        "begun": utc_timestamp(driver.at),
        "software": software,
        **{key: environment[key] for key in ("system", "cpu", "gpus", "libraries") if key in environment},
        "workers": state.config.workers.model_dump(mode="json", include={"kind", "cpus", "gpus", "arrangement"}),
    }


def _make_recorded_result(source: int, result: TrialResult) -> RecordedResult:
    return RecordedResult(
        *(source, result.run, result.trial, result.status, result.charged_seconds),
        evaluation=result.evaluation,
        reason=result.reason[:200],
    )
