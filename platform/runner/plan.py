"""What a driver is about to do in a run directory, checked before anything is written there.

An experiment is begun, resumed, or extended if the given configuration has grown; or its incumbents are retrained.
"""

import math
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from functools import partial

from fmnas.platform.config.schema import Config
from fmnas.platform.errors import Ending, RunDirectoryError
from fmnas.platform.experiment.comparability import (
    budget_change_notes,
    design_warnings,
    format_extension,
    warm_start_notes,
)
from fmnas.platform.experiment.configuration import announce_user_code, check_extension, current_config
from fmnas.platform.experiment.events import FORMAT, Begun, DriverWork, Event, Extended, RetrainingBegun
from fmnas.platform.experiment.experiment import build_experiment
from fmnas.platform.experiment.journal import read_events
from fmnas.platform.experiment.ledger import Ledger, RetrainSettings, fold
from fmnas.platform.experiment.provenance import changes_of_code, driver_started
from fmnas.platform.experiment.run_directory import RunDirectory
from fmnas.platform.experiment.saved_models import save_model, saved_models
from fmnas.platform.experiment.saved_problem import placeholder_problem
from fmnas.platform.experiment.state import ExperimentState, load_state, restore_state
from fmnas.platform.runner.driver import JobSource, RunContext
from fmnas.platform.runner.jobs import RetrainingJobs, SearchJobs
from fmnas.platform.runner.warm_start import load_warm_starts
from fmnas.platform.workers.factory import PoolSpec, open_pool
from fmnas.platform.workers.pool import Pool
from fmnas.platform.workers.simulated import BEGINNING, SimulatedTime
from fmnas.trainers.checkpoints import Checkpoints
from fmnas.trainers.problem import Data

ConfigChange = Callable[[Config], Config]
Notify = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """Work for a driver, in a run directory.

    events: recorded first. source: of the jobs, after these events; None without jobs. load: loads the data of the
    problem. trainings: per job. jobs: the largest number at once. simulation: its time, if that is computed.
    """

    state: ExperimentState
    events: Sequence[Event]
    source: JobSource | None
    load: Callable[[], Data | None]
    trainings: int
    jobs: int
    work: DriverWork = DriverWork.EXPERIMENT
    simulation: SimulatedTime | None = None

    def open_pool(
        self, data: Data | None, directory: RunDirectory, context: RunContext, notify: Notify
    ) -> AbstractContextManager[Pool]:
        """Return the workers; see `factory.open_pool`."""
        config = self.state.config
        seconds, checkpoints = math.inf, None
        if self.work == DriverWork.EXPERIMENT:
            folder, kept = directory.checkpoints.resolve(), config.checkpoints
            seconds = config.budget.trial_seconds or math.inf
            checkpoints = Checkpoints(folder, kept.every, kept.continue_promoted) if kept.every else None
        if context.address is not None and config.workers.is_in_driver:
            notify(f"ignored: --address {context.address}: workers.kind = {config.workers.kind}")
        spec = PoolSpec(
            config, data, self.trainings, self.jobs, seconds, checkpoints, context.print_tracebacks, self.simulation
        )
        return open_pool(spec, context.address, context.stop, notify)


def simulated_time(config: Config, ledger: Ledger, at: float) -> tuple[SimulatedTime | None, float]:
    """Return the time at which a simulated experiment begins or continues; None and `at` if its time is real."""
    if not config.workers.is_simulated:
        return None, at
    starts = {key: pending.first_start for key, pending in ledger.pending.items() if pending.attempt}
    simulation = SimulatedTime(max(BEGINNING, ledger.last_at), starts)
    return simulation, simulation.now()


def plan_new(config: Config, at: float, notify: Notify) -> Plan:
    """Plan a new experiment. Raises FmnasError for invalid input."""
    warm_starts = load_warm_starts(config)
    experiment = build_experiment(config, warm_starts)
    simulation, at = simulated_time(config, Ledger(), at)
    for note in (*design_warnings(config), *warm_start_notes(config, warm_starts)):
        notify(note)
    begun = Begun(uuid.uuid4().hex, FORMAT, config.model_dump(mode="json"), at, warm_starts)
    events: list[Event] = [begun, driver_started(config, DriverWork.EXPERIMENT, at)]
    return _plan_search(ExperimentState(experiment, Ledger()), events, simulation)


def plan_existing(config: Config | ConfigChange, directory: RunDirectory, at: float, notify: Notify) -> Plan:
    """Plan to resume an experiment, or to extend it if `config` has grown; see `run_experiment`.

    Raises FmnasError if the experiment cannot be resumed, or the configuration changes what was done.
    """
    events = read_events(directory)
    announce_user_code(directory, events, notify)
    with placeholder_problem(directory):
        before = current_config(directory, events)
        config = config if isinstance(config, Config) else config(before)
        changes = check_extension(before, config, directory.root)
        recorded = fold(events).warm_starts
        warm_starts = load_warm_starts(config, recorded) if changes else recorded
        state = restore_state(build_experiment(config, warm_starts), events)
    simulation, at = simulated_time(config, state.ledger, at)
    opening: list[Event] = [driver_started(config, DriverWork.EXPERIMENT, at)]
    if changes:
        new = {label: data for label, data in warm_starts.items() if recorded.get(label) != data}
        opening.append(Extended(changes, config.model_dump(mode="json"), at, new))
        notify(f"extending: {format_extension(changes)}")
        budget_notes = budget_change_notes(changes, config).values()
        warnings = design_warnings(config, [entry.label for entry in before.optimizers])
        for note in (*warnings, *budget_notes, *warm_start_notes(config, new)):
            notify(note)
    elif state.ledger.status == Ending.FINISHED:
        return replace(_plan_search(state, [], simulation), source=None)
    for warning in changes_of_code(state):
        notify(warning)
    return _plan_search(state, opening, simulation)


def plan_retraining(
    asked: Mapping[str, int], directory: RunDirectory, at: float, notify: Notify, saves: bool = False
) -> Plan:
    """Plan to retrain the incumbents. asked: epochs, images and seeds that differ from the experiment's.

    saves: keep the networks, and train those again that an earlier retraining did not keep.

    Raises FmnasError if there is nothing to retrain.
    """
    state = load_state(directory, notify)
    config, ledger = state.config, state.ledger
    simulation, at = simulated_time(config, ledger, at)
    load = state.experiment.problem.load_final
    if load is None:
        raise RunDirectoryError(f"problem = {config.problem}: it has no held-out test set, so nothing can be retrained")
    images = (config.data.train or 0) + (config.data.validation or 0)
    default = {"epochs": config.fidelity.epochs, "images": images, "seeds": config.seeds}
    settings = RetrainSettings(**{**default, **asked})
    done = saved_models(directory, ledger, settings) if saves else ledger.current_retrained(settings)
    left = [result for result in ledger.incumbents() if result.run not in done]
    if not ledger.incumbents():
        raise RunDirectoryError(
            f"{directory.root}: no full training has finished: continue with `fmnas {directory.command('resume')}`"
        )
    if ledger.status != Ending.FINISHED:
        notify("the experiment is not finished: the present incumbents are retrained")
    begun = RetrainingBegun(**asdict(settings), runs=tuple(result.run for result in left), at=at)
    events: list[Event] = [driver_started(config, DriverWork.RETRAINING, at), begun]
    if not left:
        is_latest = ledger.retrain_settings == settings
        return Plan(state, [] if is_latest else events, None, lambda: None, settings.seeds, 0, DriverWork.RETRAINING)
    split = load(settings.images)
    save = {"save": partial(save_model, directory)} if saves else {}
    jobs = RetrainingJobs(state, left, settings.epochs, len(split.held_out_inputs), **save)
    return Plan(state, events, jobs, lambda: split, settings.seeds, len(left), DriverWork.RETRAINING, simulation)


def _plan_search(state: ExperimentState, events: Sequence[Event], simulation: SimulatedTime | None) -> Plan:
    config, load = state.config, state.experiment.problem.load
    jobs = SearchJobs(state)
    return Plan(state, events, jobs, load, config.seeds, config.concurrency, simulation=simulation)
