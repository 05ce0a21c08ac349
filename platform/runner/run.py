"""Running an experiment in its directory: beginning, resuming, extending it, or retraining its incumbents.

Everything that can be wrong with the input is checked before anything is written.
"""

import shutil
from collections.abc import Mapping
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from fmnas.platform.config.schema import INSTANT, Config
from fmnas.platform.errors import Ending
from fmnas.platform.experiment.configuration import config_events, save_config
from fmnas.platform.experiment.events import DriverWork
from fmnas.platform.experiment.journal import Journal
from fmnas.platform.experiment.lock import driver_lock, heartbeat
from fmnas.platform.experiment.observer import Observer, Observers, PoolStatus, mean_epochs_done
from fmnas.platform.experiment.provenance import check_same_data, save_inputs
from fmnas.platform.experiment.run_directory import RunDirectory
from fmnas.platform.experiment.state import ExperimentState
from fmnas.platform.runner.driver import Clock, Driver, RunContext
from fmnas.platform.runner.plan import ConfigChange, Plan, plan_existing, plan_new, plan_retraining
from fmnas.platform.runner.warm_start import check_warm_start_data

SYNC_SECONDS = 1.0
"""How often the journal of a simulation waits for the disk, at most."""


@dataclass(frozen=True)
class RunResult:
    """How a driver left. status: of its work; reason: why it failed, else empty."""

    state: ExperimentState
    status: Ending
    reason: str = ""


class NoWorkers:
    """The pool of an experiment at which nothing is left to do."""

    size = 0

    def progress(self) -> Mapping[tuple[str, int], int]:
        """Return nothing."""
        return {}


def run_experiment(
    config: Config | ConfigChange,
    directory: RunDirectory,
    context: RunContext,
    retrain: Mapping[str, int] | None = None,
    saves: bool = False,
) -> RunResult:
    """Run an experiment to its end.

    A directory without an experiment begins one, with `config`. One with an experiment resumes it, and extends it if
    `config` has grown. config: may be a function of the present configuration.
    retrain: retrain the incumbents instead, with these `epochs`, `images` and `seeds` in place of the experiment's.
    saves: whether the networks are kept; those that an earlier retraining did not keep are trained again.

    Raises FmnasError for invalid input, with nothing written; KeyboardInterrupt at a third stop, or before any trial.
    """
    observers, now, is_new = Observers(context.observers), context.clock.now, not directory.journal.exists()
    work = DriverWork.EXPERIMENT if retrain is None else DriverWork.RETRAINING
    pool: Any = NoWorkers()
    with ExitStack() as stack, ExitStack() as workers:
        if is_new:
            directory.check_absent()
            assert isinstance(config, Config), "a new experiment has no present configuration"
            plan = plan_new(config, now(), observers.on_message)
        else:
            stack.enter_context(driver_lock(directory, work))
            if retrain is None:
                plan = plan_existing(config, directory, now(), observers.on_message)
            else:
                plan = plan_retraining(retrain, directory, now(), observers.on_message, saves)
        state = plan.state
        observers.check(state.config)
        data = None if plan.source is None else plan.load()
        if plan.source is not None:
            check_same_data(data, directory)
            check_warm_start_data(state.experiment.warm_starts, getattr(data, "digest", ""))
            pool = workers.enter_context(plan.open_pool(data, directory, context, observers.on_message))
        if is_new:
            directory.create()
            stack.enter_context(driver_lock(directory, work))
            directory.check_absent()  # another process may have begun an experiment meanwhile
        save_inputs(state.experiment, data, directory, is_changed=bool(config_events(plan.events)))
        journal = stack.enter_context(Journal(directory.journal, SYNC_SECONDS if plan.simulation else 0.0))
        stack.enter_context(heartbeat(directory, partial(_driver_facts, plan, pool, now())))
        for event in plan.events:
            journal.append(event)
            state.ledger.apply(event)
        save_config(state.config, directory)
        observers.notify(Observer.on_start, state, pool)
        for event in plan.events:
            observers.notify(Observer.on_event, event, None)
        status, reason = Ending.FINISHED, ""  # without a source nothing is left
        if plan.source is not None:
            status, reason = Driver(state, plan.source, journal, pool, observers, _driver_context(plan, context)).run()
            workers.close()  # report and MLflow may take minutes, in which others can use Ray's GPUs
        if status == Ending.INTERRUPTED and not (state.ledger.results or state.ledger.pending):
            raise KeyboardInterrupt  # no trial has begun: there is nothing to report
        if status == Ending.FINISHED and work == DriverWork.EXPERIMENT:  # left by trials that were killed
            shutil.rmtree(directory.checkpoints, ignore_errors=True)
        observers.notify(Observer.on_end, status, reason)
        return RunResult(state, status, reason)


def _driver_context(plan: Plan, context: RunContext) -> RunContext:
    """Return the context with the clock of the simulation, if there is one; the real one measures suggestions."""
    simulation = plan.simulation
    if simulation is None:
        return context
    is_instant = plan.state.config.workers.suggestions == INSTANT
    suggesting = nullcontext if is_instant else partial(simulation.measure, context.clock.elapsed)
    return replace(context, clock=Clock(simulation.now, simulation.now, suggesting))


def _driver_facts(plan: Plan, pool: PoolStatus, since: float) -> dict[str, Any]:
    """Return what driver.json has about the work: its kind, workers and the epochs done of running trials."""
    is_search = plan.work == DriverWork.EXPERIMENT
    trainings = plan.state.experiment.problem.seeds if is_search else plan.trainings
    epochs = [[run, trial, epochs] for (run, trial), epochs in mean_epochs_done(pool, trainings).items()]
    return {"work": plan.work, "since": since, "workers": pool.size, "epochs_done": epochs}
