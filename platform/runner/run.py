"""Running an experiment in its directory: beginning, resuming, extending it, or retraining its incumbents.

Everything that can be wrong with the input is checked before anything is written.
"""

import shutil
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

from fmnas.platform.config.schema import Config
from fmnas.platform.errors import Ending
from fmnas.platform.experiment.configuration import save_config
from fmnas.platform.experiment.events import Begun, DriverWork, Extended
from fmnas.platform.experiment.journal import Journal
from fmnas.platform.experiment.lock import driver_lock, heartbeat
from fmnas.platform.experiment.observer import Observers, PoolStatus, mean_epochs_done
from fmnas.platform.experiment.provenance import save_inputs
from fmnas.platform.experiment.run_directory import RunDirectory
from fmnas.platform.experiment.state import ExperimentState
from fmnas.platform.runner.driver import Driver, RunContext
from fmnas.platform.runner.plan import ConfigChange, Plan, plan_existing, plan_new, plan_retraining


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
) -> RunResult:
    """Run an experiment to its end.

    A directory without an experiment begins one, with `config`. One with an experiment resumes it, and extends it if
    `config` has grown. config: may be a function of the present configuration.
    retrain: retrain the incumbents instead, with these `epochs`, `images` and `seeds` in place of the experiment's.

    Raises FmnasError for invalid input, with nothing written; KeyboardInterrupt at the third request to stop, and if it
    was stopped before any trial.
    """
    observers, now = Observers(context.observers), context.clock.now
    is_new = not directory.journal.exists()
    with ExitStack() as stack:
        if is_new:
            directory.check_absent()
            assert isinstance(config, Config), "a new experiment has no present configuration"
            plan = plan_new(config, now(), observers.on_message)
        else:
            stack.enter_context(
                driver_lock(directory, DriverWork.EXPERIMENT if retrain is None else DriverWork.RETRAINING)
            )
            if retrain is None:
                plan = plan_existing(config, directory, now(), observers.on_message)
            else:
                plan = plan_retraining(retrain, directory, now(), observers.on_message)
        observers.check(plan.state.config)
        pool: Any = NoWorkers()
        data = None
        if plan.make_source is not None:
            data = plan.load_data()
            pool = stack.enter_context(plan.open_pool(data, directory, context, observers.on_message))
        if is_new:
            directory.create()
            stack.enter_context(driver_lock(directory, DriverWork.EXPERIMENT))
            directory.check_absent()  # another process may have begun an experiment meanwhile
        save_inputs(plan.state.experiment, data, directory, _changes_config(plan))
        return _drive(plan, directory, pool, context, observers)


def _drive(plan: Plan, directory: RunDirectory, pool: Any, context: RunContext, observers: Observers) -> RunResult:
    """Record the first events of a plan, and work through its jobs."""
    state = plan.state
    facts = partial(_driver_facts, plan, pool, context.clock.now())
    with Journal(directory.journal) as journal, heartbeat(directory, facts):
        for event in plan.events:
            journal.append(event)
            state.ledger.apply(event)
        save_config(state.config, directory)
        observers.on_start(state, pool)
        for event in plan.events:
            observers.on_event(event, None)
        if plan.make_source is None:
            status, reason = Ending(state.ledger.status or Ending.INTERRUPTED), ""
        else:
            status, reason = Driver(state, plan.make_source(), journal, pool, observers, context).run()
    if status == Ending.INTERRUPTED and not (state.ledger.results or state.ledger.pending):
        raise KeyboardInterrupt  # no trial has begun: there is nothing to report
    if status == Ending.FINISHED and plan.work == DriverWork.EXPERIMENT:  # left by trials that were killed
        shutil.rmtree(directory.checkpoints, ignore_errors=True)
    observers.on_end(status, reason)
    return RunResult(state, status, reason)


def _changes_config(plan: Plan) -> bool:
    return any(isinstance(event, Begun | Extended) for event in plan.events)


def _driver_facts(plan: Plan, pool: PoolStatus, since: float) -> dict[str, Any]:
    """Return what driver.json has about the work: its kind, workers and the epochs done of running trials."""
    done = mean_epochs_done(pool, plan.trainings).items()
    epochs = [[run, trial, epochs] for (run, trial), epochs in done]
    return {"work": plan.work, "since": since, "workers": pool.size, "epochs_done": epochs}
