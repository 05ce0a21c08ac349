"""Running an experiment in its directory: a new one, or one to go on with.

Everything that can be wrong with the input is checked before the run directory is touched.
"""

import math
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import yaml
from rich.console import Console

from fmnas.comparison.summary import Summary
from fmnas.platform.cluster import connect, live_nodes, most_workers
from fmnas.platform.config import Config, WorkersConfig, check_config
from fmnas.platform.driver import Clock, Driver, Stage
from fmnas.platform.environment import describe_environment
from fmnas.platform.errors import ExperimentFailed, RunDirectoryError
from fmnas.platform.experiment import Experiment, build_experiment
from fmnas.platform.journal import Journal, Record, read_journal
from fmnas.platform.lock import locked
from fmnas.platform.mlflow_settings import TrackingSettings, check_uri, without_password
from fmnas.platform.mlflow_store import MlflowStore
from fmnas.platform.paths import RunDirectory, write_aside, write_json
from fmnas.platform.pool import InProcessPool, Pool
from fmnas.platform.problems import Data, Hardware, ProblemSettings
from fmnas.platform.progress import LineProgress, LiveProgress, Progress
from fmnas.platform.results import write_results
from fmnas.platform.state import ExperimentState, ended_record
from fmnas.platform.stop import StopRequest
from fmnas.platform.tracking import BackgroundTracker, NoTracker, Tracker, TrackingReport

FREE_TO_CHANGE = ("workers", "tracking", "data.root")
"""What a resume may change: it decides where and how fast trials run. What comes out changes by rounding at most."""

FLUSH_SECONDS, SYNC_SECONDS = 60.0, 24 * 3600.0
"""How long a store that answers may take for what is left: at the end of an experiment, and of a sync."""


@dataclass(frozen=True)
class Ending:
    """How it went: "finished", "interrupted" or "failed" (and why), the summary, the tracking and its store."""

    status: str
    reason: str
    summary: Summary
    tracking: TrackingReport
    store: str


@dataclass(frozen=True)
class Surroundings:
    """What a launch is given from outside: the cluster's address, the terminal, the stop request, the clock."""

    address: str | None
    console: Console
    stop: StopRequest
    clock: Clock = field(default_factory=Clock)

    def say(self, text: str) -> None:
        """A line for the person at the terminal."""
        self.console.print(text, highlight=False, soft_wrap=True, markup=False)


def launch(config: Config, directory: RunDirectory, around: Surroundings) -> Ending:
    """Run a new experiment. Raises FmnasError, with nothing written, when the input or the machine will not do."""
    directory.check_absent()
    experiment = build_experiment(config)
    _check_tracking(config)
    data = experiment.problem.load()
    with _open_pool(experiment, data, around) as pool:
        directory.create()
        with locked(directory.lock, around.say):
            directory.check_absent()  # another may have begun here since
            identity = uuid.uuid4().hex
            write_aside(directory.config, config.to_yaml())
            place = {"data": data.place} if data is not None else {}
            write_json(directory.environment, {**describe_environment(), **place})
            with Journal(directory.journal) as journal:
                resolved = config.model_dump(mode="json")
                journal.append({"event": "experiment", "id": identity, "config": resolved, "at": around.clock.now()})
                return _conduct(ExperimentState(experiment), directory, journal, pool, identity, around)


def resume(directory: RunDirectory, around: Surroundings) -> Ending:
    """Go on with an experiment from its journal. Raises FmnasError when it cannot or its configuration was changed."""
    directory.check_present()
    with locked(directory.lock, around.say):
        state, identity = restore(directory)
        config = state.experiment.config
        _check_tracking(config)
        data = state.experiment.problem.load()
        with _open_pool(state.experiment, data, around) as pool, Journal(directory.journal) as journal:
            return _conduct(state, directory, journal, pool, identity, around)


@dataclass(frozen=True)
class Sent:
    """What became of an experiment's trials in MLflow, and in which store."""

    tracking: TrackingReport
    store: str


def sync(directory: RunDirectory, around: Surroundings) -> Sent:
    """Send to MLflow what it missed; what is there already stays as it is. Raises FmnasError while a driver works."""
    directory.check_present()
    with locked(directory.lock, around.say):
        state, identity = restore(directory)
        config = state.experiment.config
        if not config.tracking.enabled:
            raise RunDirectoryError(
                f"{directory.config} says tracking.enabled = false: there is no store to send to; say true to have one"
            )
        _check_tracking(config)
        tracker = _tracker(state, directory, identity, SYNC_SECONDS)
        for outcome, standing in state.cancelled():
            tracker.trial(outcome, standing)
        return Sent(_finish(tracker, state, directory, state.status or "interrupted")[0], _store(config, directory))


def restore(directory: RunDirectory) -> tuple[ExperimentState, str]:
    """The state that the journal proves, and the experiment's id."""
    records = experiment_records(directory)
    config = _unchanged_config(directory, records[0])
    state = ExperimentState(build_experiment(config))
    state.replay(records[1:])
    return state, str(records[0]["id"])


def experiment_records(directory: RunDirectory) -> list[Record]:
    """The journal's records, the first of which is the experiment's.

    Raises RunDirectoryError when there is no such journal, or it is damaged.
    """
    directory.check_present()
    records = read_journal(directory.journal)
    if not records or records[0]["event"] != "experiment" or not {"id", "config"} <= set(records[0]):
        raise RunDirectoryError(
            f"{directory.journal} does not begin with an experiment: it was cut off before anything ran; "
            f"remove {directory.root} and run the configuration again"
        )
    return records


def begun_config(directory: RunDirectory, head: Record) -> Config:
    """What the experiment began with, by the first record of its journal; keys that came later have their defaults."""
    return check_config(head["config"], str(directory.journal))


def _unchanged_config(directory: RunDirectory, head: Record) -> Config:
    try:
        data = yaml.safe_load(directory.config.read_text())
    except (OSError, yaml.YAMLError) as error:
        raise RunDirectoryError(f"{directory.config} cannot be read: {' '.join(str(error).split())}") from None
    config = check_config(data if isinstance(data, dict) else {}, str(directory.config))
    before, now = (_flat(each.model_dump(mode="json")) for each in (begun_config(directory, head), config))
    changed = [
        key for key in {**before, **now} if before.get(key) != now.get(key) and not key.startswith(FREE_TO_CHANGE)
    ]
    if changed:
        lines = "\n".join(
            f"  {key} = {now.get(key)!r}: the experiment began with {before.get(key)!r}" for key in changed
        )
        raise RunDirectoryError(
            f"{directory.config} was changed:\n{lines}\nPut it back to resume, or run the new configuration into "
            f"another directory. Only {', '.join(FREE_TO_CHANGE)} may change."
        )
    return config


def _flat(data: Any, prefix: str = "") -> dict[str, Any]:
    """Nested data as dotted keys."""
    if isinstance(data, Mapping):
        items = [(str(key), value) for key, value in data.items()]
    elif isinstance(data, list):
        items = [(str(i), value) for i, value in enumerate(data)]
    else:
        return {prefix: data}
    return {key: value for name, part in items for key, value in _flat(part, f"{prefix}.{name}".lstrip(".")).items()}


def _check_tracking(config: Config) -> None:
    if config.tracking.enabled and config.tracking.uri is not None:
        check_uri(config.tracking.uri)


@contextmanager
def _open_pool(experiment: Experiment, data: Data | None, around: Surroundings) -> Iterator[Pool]:
    """The pool that the configuration asks for; closed, and Ray left, whatever happens."""
    config = experiment.config
    if config.workers.kind == "in-process":
        hardware = Hardware(arrangement=config.workers.arrangement)
        trainer, limit = experiment.problem.build(data, hardware), config.budget.trial_seconds
        yield InProcessPool(trainer, limit, around.stop, config.workers.grace_seconds)
        return
    from fmnas.platform.ray_pool import RayPool
    from fmnas.platform.ray_worker import build_trainer

    ray = connect(around.address)
    try:
        workers, wanted = config.workers, sum(run.concurrency for run in experiment.runs)
        nodes = live_nodes(ray).values()
        most = most_workers(nodes, workers.count, workers.cpus, workers.gpus, wanted)
        build = partial(build_trainer, config.problem, ProblemSettings(config.data, config.seeds), _hardware(workers))
        pool = RayPool(ray, build, data, workers, most, config.budget.trial_seconds, around.say)
        try:
            yield pool
        finally:
            pool.close()
    finally:
        ray.shutdown()


def _hardware(workers: WorkersConfig) -> Hardware:
    return Hardware("cuda" if workers.gpus > 0 else "cpu", max(1, math.floor(workers.cpus)), workers.arrangement)


def _leave(state: ExperimentState, journal: Journal, status: str, at: float) -> None:
    """Say in the journal how the driver leaves, unless it said so before and did nothing since."""
    if state.status != status:
        record = ended_record(status, at)
        journal.append(record)
        state.apply(record)


def _tracker(
    state: ExperimentState, directory: RunDirectory, identity: str, flush_seconds: float = FLUSH_SECONDS
) -> Tracker:
    """Started, and told of every trial that has ended."""
    tracker = _new_tracker(state, directory, identity, flush_seconds)
    tracker.start([(run.optimizer_name, run.repeat) for run in state.runs.values()])
    for outcome, standing in state.outcomes:
        tracker.trial(outcome, standing)
    return tracker


def _new_tracker(state: ExperimentState, directory: RunDirectory, identity: str, flush_seconds: float) -> Tracker:
    config = state.experiment.config
    if not config.tracking.enabled:
        return NoTracker()
    environment = describe_environment()
    settings = TrackingSettings(
        uri=config.tracking.uri or directory.store,
        experiment=config.tracking.experiment or config.name,
        experiment_id=identity,
        tags={
            "problem": config.problem,
            "dataset": state.experiment.problem.dataset,
            "commit": environment["commit"] or f"fmnas {environment['packages']['fmnas']}",
        },
        space=state.experiment.problem.space,
        artifacts=directory.artifacts,
    )
    return BackgroundTracker(MlflowStore(settings), flush_seconds)


def _store(config: Config, directory: RunDirectory) -> str:
    return without_password(config.tracking.uri or directory.store)


def _finish(
    tracker: Tracker, state: ExperimentState, directory: RunDirectory, status: str
) -> tuple[TrackingReport, Summary]:
    """Write the results, and give the tracker what is known at the end."""
    summary = write_results(directory, state)
    pictures = sorted(directory.report.glob("*.png"))
    files = [directory.config, directory.environment, directory.trials, directory.page, *pictures]
    return tracker.finish(status, files, summary), summary


def _conduct(
    state: ExperimentState,
    directory: RunDirectory,
    journal: Journal,
    pool: Pool,
    identity: str,
    around: Surroundings,
) -> Ending:
    """Drive to the end, then write results and close the tracking, however it ended."""
    tracker = _tracker(state, directory, identity)
    live = around.console.is_terminal
    progress: Progress = LiveProgress(around.console, state) if live else LineProgress(around.console)
    reason = ""
    try:
        stage = Stage(pool, journal, tracker, progress, around.stop, around.clock)
        status = Driver(state, state.experiment.config.workers, stage).run()
    except ExperimentFailed as error:
        status, reason = "failed", str(error)
    finally:
        progress.close()
    _leave(state, journal, status, around.clock.now())
    for outcome, standing in state.cancelled():
        tracker.trial(outcome, standing)
    report, summary = _finish(tracker, state, directory, status)
    return Ending(status, reason, summary, report, _store(state.experiment.config, directory))
