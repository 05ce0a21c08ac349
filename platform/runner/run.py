"""Running an experiment in its directory: a new one, or one to go on with.

Everything that can be wrong with the input is checked before the run directory is touched.
"""

import math
import shutil
import uuid
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from fmnas.platform.config.schema import IN_PROCESS, Config
from fmnas.platform.config.uri import redact
from fmnas.platform.display.modes import Screen
from fmnas.platform.display.progress import ExperimentProgress, Reached
from fmnas.platform.display.summary import ExperimentResult
from fmnas.platform.environment import describe_environment, driver_in_words, same_fmnas
from fmnas.platform.errors import Ending, ExperimentFailed
from fmnas.platform.experiment.comparability import budget_change_notes, warm_start_notes
from fmnas.platform.experiment.configuration import check_own_code, check_tracked, current_config, is_written
from fmnas.platform.experiment.events import begun_record, driver_record, ended_record, extended_record
from fmnas.platform.experiment.experiment import build_experiment
from fmnas.platform.experiment.journal import DriverWork, Journal, experiment_records
from fmnas.platform.experiment.lock import Note, kept_up, locked
from fmnas.platform.experiment.provenance import (
    DATA_DIGEST,
    altered_since,
    check_same_data,
    data_digest,
    described,
    own_digests,
)
from fmnas.platform.experiment.run_directory import RunDirectory, write_json, write_text
from fmnas.platform.experiment.saved_problem import keep_own
from fmnas.platform.experiment.state import ExperimentState, read, restore
from fmnas.platform.experiment.warm_start import Knowledge, recorded_knowledge
from fmnas.platform.mlflow.credentials import withhold_credentials
from fmnas.platform.mlflow.setup import SYNC_SECONDS, Write, begin_tracking, check_tracking, finish_tracking
from fmnas.platform.mlflow.sync import FLUSH_SECONDS, Tracker
from fmnas.platform.runner.driver import Clock, Dispatcher, Driver, Stage, epochs_reached
from fmnas.platform.runner.extension import extended_config, growth, taken
from fmnas.platform.runner.preflight import remarks
from fmnas.platform.runner.warm_start import check_known_data, read_knowledge
from fmnas.platform.workers.cancellation import StopRequest
from fmnas.platform.workers.factory import PoolSpec, open_pool
from fmnas.platform.workers.pool import Pool
from fmnas.trainers.checkpoints import Checkpoints
from fmnas.trainers.problem import Data


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


@dataclass(frozen=True)
class Session:
    """Work in a run directory, by whichever command: the experiment as it stands there, its id, what surrounds it.

    uri_given: whether the user gave tracking.uri with this command; else the run directory names it.
    """

    state: ExperimentState
    identity: str
    directory: RunDirectory
    around: Surroundings
    uri_given: bool = False

    @property
    def config(self) -> Config:
        """Of the experiment."""
        return self.state.experiment.config

    def pool(self, data: Data | None) -> AbstractContextManager[Pool]:
        """The workers of its trials, see `open_pool`."""
        config, around, every = self.config, self.around, self.config.checkpoints.every
        kept = Checkpoints(self.directory.checkpoints.resolve(), every) if every else None
        seconds = math.inf if config.budget.trial_seconds is None else config.budget.trial_seconds
        if around.address is not None and config.workers.kind == IN_PROCESS:
            around.screen.say(f"without effect: --address {around.address}: workers.kind = {IN_PROCESS}")
        work = PoolSpec(config, data, config.seeds, config.concurrency, seconds, kept, around.traced)
        return open_pool(work, around.address, around.stop, around.screen.say)

    def driven(self, dispatcher: Dispatcher[Any]) -> tuple[Ending, str]:
        """How the work ended, and why it failed if it did; the screen is closed."""
        try:
            return dispatcher.run(), ""
        except ExperimentFailed as error:
            return Ending.FAILED, str(error)
        finally:
            self.around.screen.close()

    def sent(self, tracker: Tracker, ending: str, reason: str = "") -> ExperimentResult:
        """The results, written and sent, see `finish_tracking`."""
        say = self.around.screen.say
        try:
            report, summary = finish_tracking(tracker, self.state, self.directory, ending, say, self.around.write)
        except KeyboardInterrupt:
            command = self.directory.command("report")
            say(f"stopped before all was written: the journal has every result, and `fmnas {command}` writes the rest")
            raise
        store = redact(self.config.tracking.uri or self.directory.store)
        return ExperimentResult(Ending(ending), reason, summary, report, store)

    def sent_as_it_is(self, flush_seconds: float = FLUSH_SECONDS) -> ExperimentResult:
        """The same, of an experiment at which nobody works now."""
        return self.sent(self.tracker(flush_seconds), self.state.status or Ending.INTERRUPTED)

    def tracker(self, flush_seconds: float = FLUSH_SECONDS) -> Tracker:
        """See `begin_tracking`. A server that only the run directory names gets no credentials of the environment."""
        tracking = self.config.tracking
        if tracking.enabled and not self.uri_given and (line := withhold_credentials(tracking.uri or "")):
            self.around.screen.say(line)
        return begin_tracking(self.state, self.directory, self.identity, flush_seconds)


def launch(config: Config, directory: RunDirectory, around: Surroundings) -> ExperimentResult:
    """Run a new experiment. Raises FmnasError, with nothing written, when the input or the machine will not do."""
    directory.check_absent()
    knowledge = read_knowledge(config)
    experiment, files = build_experiment(config, knowledge), own_digests(config)
    session = Session(ExperimentState(experiment), uuid.uuid4().hex, directory, around, uri_given=True)
    check_tracking(config, directory)
    for remark in (*remarks(config), *warm_start_notes(experiment)):
        around.screen.say(remark)
    data = experiment.problem.load()
    inputs = described(data, files)
    check_known_data(knowledge, inputs.get(DATA_DIGEST, ""))
    with session.pool(data) as pool:
        directory.create()
        with locked(directory.lock, around.screen.say) as note:
            directory.check_absent()  # another may have begun here since
            _write_config(config, directory)
            write_json(directory.environment, {**describe_environment(), **inputs})
            keep_own(config, experiment.problem, directory)
            with Journal(directory.journal) as journal:
                resolved = config.model_dump(mode="json")
                journal.append(begun_record(session.identity, resolved, around.clock.now(), knowledge))
                return _conduct(session, note, journal, pool)


def resume(directory: RunDirectory, around: Surroundings) -> ExperimentResult:
    """Go on with an experiment from its journal. Raises FmnasError when it cannot or its configuration was changed."""
    directory.check_present()
    with locked(directory.lock, around.screen.say) as note:
        return _go_on(Session(*restore(directory, say=around.screen.say), directory, around), note, {}, {})


def extend(directory: RunDirectory, given: Sequence[str], around: Surroundings) -> ExperimentResult:
    """Let an experiment grow, and go on with it. given: what is to be, as `KEY=VALUE`.

    Raises FmnasError, with nothing written, when it cannot, or what is given would not leave what was done as it is.
    """
    directory.check_present()
    with locked(directory.lock, around.screen.say) as note:
        records = experiment_records(directory)
        check_own_code(directory, records, around.screen.say)
        before = current_config(directory, records)
        after = extended_config(before, given, directory.root)
        changes = growth(before, after)
        kept = recorded_knowledge(records)
        knowledge = read_knowledge(after, kept)
        check_known_data(knowledge, data_digest(directory))
        state = ExperimentState(build_experiment(after, knowledge))
        state.replay(records[1:])
        news = {label: known for label, known in knowledge.items() if kept.get(label) != known}
        told = taken(before, after)
        if changes:
            warm_starts = warm_start_notes(state.experiment) if news else []
            told = [*remarks(after), *budget_change_notes(changes, after).values(), *warm_starts, *told]
        elif after == before:
            told = ["the experiment has all of that already: nothing is added, and it goes on as it is"]
        for remark in told:
            around.screen.say(remark)
        uri_given = any(each.startswith(("tracking=", "tracking.uri=")) for each in given)
        return _go_on(Session(state, str(records[0]["id"]), directory, around, uri_given), note, changes, news)


def _go_on(session: Session, note: Note, changes: Mapping[str, Any], news: Mapping[str, Knowledge]) -> ExperimentResult:
    """From where it stands to its end. Raises FmnasError where the machine, the data or MLflow's store will not do.

    changes: how the experiment grows first. news: what those of its optimizers begin with that are new or have more
    repeats.
    """
    state, config, directory, around = session.state, session.config, session.directory, session.around
    check_tracking(config, directory)
    over = state.status == Ending.FINISHED and not changes
    for altered in () if over else altered_since(state, directory):
        around.screen.say(altered)
    if over and not state.open:  # neither data nor workers are needed
        keep_own(config, state.experiment.problem, directory, anew=False)
        _write_config(config, directory)
        ExperimentProgress(around.screen, state, workers=lambda: 0)  # whoever follows is told that it begins
        around.screen.close()
        return session.sent_as_it_is()
    data = state.experiment.problem.load()
    check_same_data(data, directory)
    with session.pool(data) as pool, Journal(directory.journal) as journal:
        if changes:
            _enter(session, journal, DriverWork.EXTENSION)
            grown = extended_record(changes, config.model_dump(mode="json"), around.clock.now(), news)
            state.record(journal, grown)
        keep_own(config, state.experiment.problem, directory, anew=bool(changes))
        _write_config(config, directory)
        return _conduct(session, note, journal, pool)


def _write_config(config: Config, directory: RunDirectory) -> None:
    """Where config.yaml does not say just that."""
    if not is_written(config, directory):
        write_text(directory.config, config.to_yaml())


def sync(directory: RunDirectory, around: Surroundings) -> ExperimentResult:
    """Send to MLflow what it missed; what is there already stays as it is. Raises FmnasError while a driver works."""
    directory.check_present()
    with locked(directory.lock, around.screen.say) as note:
        note(work=DriverWork.SYNC, since=around.clock.now())
        session = Session(*read(directory), directory, around)
        check_tracked(session.config.tracking, directory)
        check_tracking(session.config, directory)
        return session.sent_as_it_is(SYNC_SECONDS)


def _enter(session: Session, journal: Journal, work: DriverWork) -> None:
    """Say in the journal who goes on, and say it aloud where that is not who was here before."""
    state, directory, around = session.state, session.directory, session.around
    before, files = (state.drivers[-1] if state.drivers else {}), own_digests(session.config)
    record = driver_record(work, around.clock.now(), files)
    if before and not (same_fmnas(before, record) and before.get("torch") == record["torch"]):
        around.screen.say(
            f"{directory.root} was driven by {driver_in_words(before)}, and goes on with {driver_in_words(record)}: "
            "results of both stand in one comparison, and the report says so"
        )
    state.record(journal, record)


def _conduct(session: Session, note: Note, journal: Journal, pool: Pool) -> ExperimentResult:
    """Drive to the end, then write results and close the tracking, however it ended."""
    state, around = session.state, session.around
    reached = partial(epochs_reached, pool, state.experiment.problem.seeds)
    with kept_up(note, partial(_noted, pool, reached, around.clock.now())):
        if state.status != Ending.FINISHED:
            _enter(session, journal, DriverWork.EXPERIMENT)
        tracker = session.tracker()
        progress = ExperimentProgress(around.screen, state, lambda: pool.size, reached=reached)
        stage = Stage(pool, progress, around.stop, around.clock)
        ending, reason = session.driven(Driver(state, stage, journal, tracker))
        if state.status != ending:  # else it said so before and did nothing since
            state.record(journal, ended_record(ending, reason, around.clock.now()))
        if ending == Ending.INTERRUPTED and not (state.outcomes or state.open):
            raise KeyboardInterrupt  # no trial has begun: there is nothing to report
        if ending == Ending.FINISHED:  # what is left is of trials that were killed
            shutil.rmtree(session.directory.checkpoints, ignore_errors=True)
        return session.sent(tracker, ending, reason)


def _noted(pool: Pool, reached: Reached, since: float) -> dict[str, Any]:
    """What the lock tells of the driver at work. reached: run, trial and epoch of each trial that told of one."""
    trials = [[run, trial, epoch] for (run, trial), epoch in reached().items()]
    return {"work": DriverWork.EXPERIMENT, "workers": pool.size, "since": since, "reached": trials}
