"""Running an experiment in its directory: a new one, or one to go on with.

Everything that can be wrong with the input is checked before the run directory is touched.
"""

import shutil
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from fmnas.platform.config.config import Config
from fmnas.platform.drive.description import warm_starts_of
from fmnas.platform.drive.driver import Clock, Driver, Stage, epochs_reached
from fmnas.platform.drive.extension import extended_config, growth, taken, two_budgets
from fmnas.platform.drive.forecast import remarks
from fmnas.platform.drive.inputs import (
    DATA_DIGEST,
    PROBLEM,
    PROBLEM_DIGEST,
    altered_since,
    check_same_data,
    data_digest,
    described,
    own_digests,
)
from fmnas.platform.drive.results import last_driver
from fmnas.platform.drive.sending import (
    SYNC_SECONDS,
    Write,
    begin_tracking,
    check_tracking,
    finish_tracking,
    shown_store,
)
from fmnas.platform.drive.warm_start import check_known_data, read_knowledge
from fmnas.platform.environment import describe_environment, driver_in_words, same_fmnas
from fmnas.platform.errors import Ending, ExperimentFailed
from fmnas.platform.record.configuration import check_tracked, current_config, is_written
from fmnas.platform.record.events import begun_record, driver_record, ended_record, extended_record
from fmnas.platform.record.experiment import Experiment, build_experiment
from fmnas.platform.record.handed_over import keep_problem
from fmnas.platform.record.journal import DriverWork, Journal, experiment_records
from fmnas.platform.record.lock import Note, kept_up, locked
from fmnas.platform.record.run_directory import RunDirectory, write_json, write_text
from fmnas.platform.record.state import ExperimentState, restore
from fmnas.platform.record.warm_start import Knowledge, recorded_knowledge
from fmnas.platform.screen.ending import ExperimentResult
from fmnas.platform.screen.progress import ExperimentProgress
from fmnas.platform.screen.screen import Screen
from fmnas.platform.tracking.password import keep_password
from fmnas.platform.tracking.tracker import Tracker, TrackingReport
from fmnas.platform.workers.open_pool import Work, open_pool
from fmnas.platform.workers.pool import Pool
from fmnas.platform.workers.stop import StopRequest
from fmnas.trainers.checkpoints import Checkpoints
from fmnas.trainers.problem import Data

ALREADY = "the experiment has all of that already: nothing is added, and it goes on as it is"


@dataclass(frozen=True)
class Surroundings:
    """What a launch is given from outside: the cluster's address, the screen, the stop request, the clock.

    write: what writes the results; None as a rule. traced: whether what a trial in this process raised is printed.
    """

    address: str | None
    screen: Screen
    stop: StopRequest
    clock: Clock = field(default_factory=Clock)
    write: Write | None = None
    traced: bool = True


def launch(config: Config, directory: RunDirectory, around: Surroundings) -> ExperimentResult:
    """Run a new experiment. Raises FmnasError, with nothing written, when the input or the machine will not do."""
    directory.check_absent()
    knowledge = read_knowledge(config)
    experiment, files = build_experiment(config, knowledge), own_digests(config)
    check_tracking(config, directory)
    for remark in (*remarks(config), *warm_starts_of(experiment)):
        around.screen.say(remark)
    data = experiment.problem.load()
    check_known_data(knowledge, described(data).get(DATA_DIGEST, ""))
    with open_pool(_work(experiment, data, directory, around), around.address, around.stop, around.screen.say) as pool:
        directory.create()
        noted = _noted(experiment, pool, around.clock.now())
        with locked(directory.lock, around.screen.say) as note, kept_up(note, noted):
            directory.check_absent()  # another may have begun here since
            identity = uuid.uuid4().hex
            keep_password(config, directory)
            write_text(directory.config, config.to_yaml())
            digest = {PROBLEM_DIGEST: files[PROBLEM]} if PROBLEM in files else {}
            write_json(directory.environment, {**describe_environment(), **described(data), **digest})
            keep_problem(config, experiment.problem, directory)
            with Journal(directory.journal) as journal:
                resolved = config.model_dump(mode="json")
                journal.append(begun_record(identity, resolved, around.clock.now(), knowledge))
                return _conduct(ExperimentState(experiment), directory, journal, pool, identity, around)


def resume(directory: RunDirectory, around: Surroundings) -> ExperimentResult:
    """Go on with an experiment from its journal. Raises FmnasError when it cannot or its configuration was changed."""
    directory.check_present()
    with locked(directory.lock, around.screen.say) as note:
        state, identity = restore(directory)
        return _go_on(Continuation(state, identity), directory, around, note)


def extend(directory: RunDirectory, given: Sequence[str], around: Surroundings) -> ExperimentResult:
    """Let an experiment grow, and go on with it. given: what is to be, as `KEY=VALUE`.

    Raises FmnasError, with nothing written, when it cannot, or what is given would not leave what was done as it is.
    """
    directory.check_present()
    with locked(directory.lock, around.screen.say) as note:
        records = experiment_records(directory)
        before = current_config(directory, records)
        after = extended_config(before, given, directory.root)
        changes = growth(before, after)
        kept = recorded_knowledge(records)
        knowledge = read_knowledge(after, kept)
        check_known_data(knowledge, data_digest(directory))
        state = ExperimentState(build_experiment(after, knowledge))
        state.replay(records[1:])
        told = [f"{label} {text}" for label, text in two_budgets(changes, after).items()]
        news = {label: known for label, known in knowledge.items() if kept.get(label) != known}
        told += warm_starts_of(state.experiment) if news else []
        told = [*remarks(after), *told] if changes else [ALREADY] if after == before else []
        for remark in (*told, *taken(before, after)):
            around.screen.say(remark)
        return _go_on(Continuation(state, str(records[0]["id"]), changes, news), directory, around, note)


@dataclass(frozen=True)
class Continuation:
    """An experiment to go on with: its state and id, and how it grows first, as an extension's record tells it.

    news: what its optimizers begin with, of those that are new or have more repeats.
    """

    state: ExperimentState
    identity: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    news: Mapping[str, Knowledge] = field(default_factory=dict)


def _go_on(on: Continuation, directory: RunDirectory, around: Surroundings, note: Note) -> ExperimentResult:
    state, config = on.state, on.state.experiment.config
    check_tracking(config, directory)
    for altered in altered_since(state, directory) if on.changes or state.status != Ending.FINISHED else ():
        around.screen.say(altered)
    if state.status == Ending.FINISHED and not on.changes and not state.open:  # neither data nor workers are needed
        _write_config(config, directory)
        ExperimentProgress(around.screen, state, workers=lambda: 0)  # whoever follows is told that it begins
        around.screen.close()
        tracker = begin_tracking(state, directory, on.identity)
        return _results(tracker, state, directory, Ending.FINISHED, "", around)
    data = state.experiment.problem.load()
    check_same_data(data, directory)
    work = _work(state.experiment, data, directory, around)
    with (
        open_pool(work, around.address, around.stop, around.screen.say) as pool,
        Journal(directory.journal) as journal,
    ):
        if on.changes:
            _enter(state, directory, journal, around, DriverWork.EXTENSION)
            record = extended_record(on.changes, config.model_dump(mode="json"), around.clock.now(), on.news)
            journal.append(record)
            state.apply(record)
        _write_config(config, directory)
        with kept_up(note, _noted(state.experiment, pool, around.clock.now())):
            return _conduct(state, directory, journal, pool, on.identity, around)


def _write_config(config: Config, directory: RunDirectory) -> None:
    """Where config.yaml does not say just that."""
    if not is_written(config, directory):
        keep_password(config, directory)
        write_text(directory.config, config.to_yaml())


@dataclass(frozen=True)
class Sent:
    """What became of an experiment's trials in MLflow, and in which store."""

    tracking: TrackingReport
    store: str


def sync(directory: RunDirectory, around: Surroundings) -> Sent:
    """Send to MLflow what it missed; what is there already stays as it is. Raises FmnasError while a driver works."""
    directory.check_present()
    with locked(directory.lock, around.screen.say) as note:
        note(work=DriverWork.SYNC, since=around.clock.now())
        state, identity = restore(directory, heard=False)
        config = state.experiment.config
        check_tracked(config.tracking, directory)
        check_tracking(config, directory)
        tracker = begin_tracking(state, directory, identity, SYNC_SECONDS)
        report, _ = finish_tracking(tracker, state, directory, state.status or Ending.INTERRUPTED)
        return Sent(report, shown_store(config, directory))


def _work(experiment: Experiment, data: Data | None, directory: RunDirectory, around: Surroundings) -> Work:
    config, every = experiment.config, experiment.config.checkpoints.every
    checkpoints = Checkpoints(directory.checkpoints.resolve(), every) if every else None
    return Work(config, data, config.seeds, config.concurrency, config.budget.trial_seconds, checkpoints, around.traced)


def _noted(experiment: Experiment, pool: Pool, since: float) -> Callable[[], dict[str, Any]]:
    """What the lock tells of the driver at work. reached: run, trial and epoch of each trial that told of one."""

    def noted() -> dict[str, Any]:
        reached = epochs_reached(pool, experiment.problem.seeds)
        return {
            "work": DriverWork.EXPERIMENT,
            "workers": pool.size,
            "since": since,
            "reached": [[run, trial, epoch] for (run, trial), epoch in reached.items()],
        }

    return noted


def _enter(
    state: ExperimentState,
    directory: RunDirectory,
    journal: Journal,
    around: Surroundings,
    work: DriverWork = DriverWork.EXPERIMENT,
) -> None:
    """Say in the journal who goes on, and say it aloud where that is not who was here before."""
    before, files = last_driver(state, directory), own_digests(state.experiment.config)
    record = driver_record(work, around.clock.now(), files)
    if before and not (same_fmnas(before, record) and before.get("torch") == record["torch"]):
        around.screen.say(
            f"{directory.root} was driven by {driver_in_words(before)}, and goes on with {driver_in_words(record)}: "
            "results of both stand in one comparison, and the report says so"
        )
    journal.append(record)
    state.apply(record)


def _leave(state: ExperimentState, journal: Journal, status: str, reason: str, at: float) -> None:
    """Say in the journal how the driver leaves, unless it said so before and did nothing since."""
    if state.status != status:
        record = ended_record(status, reason, at)
        journal.append(record)
        state.apply(record)


def _conduct(
    state: ExperimentState,
    directory: RunDirectory,
    journal: Journal,
    pool: Pool,
    identity: str,
    around: Surroundings,
) -> ExperimentResult:
    """Drive to the end, then write results and close the tracking, however it ended."""
    if state.status != Ending.FINISHED:
        _enter(state, directory, journal, around)
    tracker = begin_tracking(state, directory, identity)
    reached = partial(epochs_reached, pool, state.experiment.problem.seeds)
    progress = ExperimentProgress(around.screen, state, lambda: pool.size, reached=reached)
    reason = ""
    try:
        stage = Stage(pool, journal, tracker, progress, around.stop, around.clock)
        status = Driver(state, state.experiment.config.workers, stage).run()
    except ExperimentFailed as error:
        status, reason = Ending.FAILED, str(error)
    finally:
        around.screen.close()
    _leave(state, journal, status, reason, around.clock.now())
    if status == Ending.FINISHED:  # what is left is of trials that were killed
        shutil.rmtree(directory.checkpoints, ignore_errors=True)
    return _results(tracker, state, directory, status, reason, around)


def _results(
    tracker: Tracker,
    state: ExperimentState,
    directory: RunDirectory,
    ending: Ending,
    reason: str,
    around: Surroundings,
) -> ExperimentResult:
    """Written, and sent."""
    config = state.experiment.config
    if around.write is None:
        to_mlflow = ", and to MLflow" if config.tracking.enabled else ""
        around.screen.say(f"writing tables, figures and the page{to_mlflow}")
    report, summary = finish_tracking(tracker, state, directory, ending, around.write)
    return ExperimentResult(ending, reason, summary, report, shown_store(config, directory))
