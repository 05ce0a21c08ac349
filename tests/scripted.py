"""The driver on a scripted pool: what tests of the driver, of resuming and of reading share."""

import json
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from support import begin, events_of

from fmnas.platform.config.load import check_config
from fmnas.platform.config.schema import Config
from fmnas.platform.errors import Ending, ExperimentFailed
from fmnas.platform.experiment.events import Asked, Finished
from fmnas.platform.experiment.experiment import build_experiment
from fmnas.platform.experiment.journal import Journal, read_journal
from fmnas.platform.experiment.ledger import fold
from fmnas.platform.experiment.observer import Observers
from fmnas.platform.experiment.state import ExperimentState, restore_state
from fmnas.platform.experiment.trial_result import Job
from fmnas.platform.experiment.warm_start import NO_WARM_STARTS, WarmStartData
from fmnas.platform.runner.driver import Clock, Driver, RunContext
from fmnas.platform.runner.jobs import SearchJobs
from fmnas.platform.workers.cancellation import StopRequest
from fmnas.platform.workers.pool import FailedEvaluation, JobEnded
from fmnas.search_spaces.records import FAILED, LOST, TIMED_OUT

Fate = Callable[[Job], str]


def configured(**changes: Any) -> Config:
    """A small experiment with every optimizer."""
    data: dict[str, Any] = {
        "name": "t",
        "problem": "func2c",
        "optimizers": [
            {"name": "bo-fm"},
            {"name": "regularized-evolution", "population": 4, "tournament": 2},
            "bohb",
            "random",
        ],
        "initial_design": 3,
        "budget": {"evaluations": 5},
        "fidelity": {"epochs": 3},
    }
    return check_config({**data, **changes}, "here")


class ScriptedPool:
    """Evaluates in this process; `fate` says how each job ends, `seed` in which order those in flight end."""

    def __init__(
        self, state: ExperimentState, capacity: int = 1, fate: Fate = lambda job: "finish", seed: int = 0
    ) -> None:
        self.capacity = capacity
        self._trainer = state.experiment.problem.trainer
        self._fate = fate
        self._rng = np.random.default_rng(seed)
        self._flying: deque[Job] = deque()
        self.most = 0

    def submit(self, job: Job) -> str:
        self._flying.append(job)
        self.most = max(self.most, len(self._flying))
        assert len(self._flying) <= self.capacity
        return "w"

    def next_event(self, timeout: float) -> JobEnded | None:
        index = int(self._rng.integers(len(self._flying)))
        job = self._flying[index]
        del self._flying[index]
        fate = self._fate(job)
        if fate == "lose":
            return JobEnded(job, "w", FailedEvaluation(LOST, "killed"))
        if fate == "fail":
            return JobEnded(job, "w", FailedEvaluation(FAILED, "ValueError: no"))
        if fate == "time out":
            return JobEnded(job, "w", FailedEvaluation(TIMED_OUT, "too slow"))
        return JobEnded(job, "w", self._trainer.evaluate(job.trial))


def drive(
    config: Config,
    journal: Path,
    capacity: int = 1,
    fate: Fate = lambda job: "finish",
    stop: StopRequest | None = None,
    elapsed: Callable[[], float] = lambda: 0.0,
    warm_starts: Mapping[str, WarmStartData] = NO_WARM_STARTS,
) -> tuple[str, ExperimentState, ScriptedPool]:
    """Run to the end, from whatever the journal holds; a new journal begins here. Raises ExperimentFailed."""
    ticks = iter(range(10**9))
    clock = Clock(now=lambda: float(next(ticks)), elapsed=elapsed)
    if not journal.exists() or not read_journal(journal):
        begin(journal, config, warm_starts)
    state = restore_state(build_experiment(config, fold(read_journal(journal)).warm_starts), read_journal(journal))
    pool = ScriptedPool(state, capacity, fate)
    context = RunContext(stop=stop or StopRequest(), clock=clock)
    with Journal(journal) as log:
        status, reason = Driver(state, SearchJobs(state), log, pool, Observers(), context).run()
    if status == Ending.FAILED:
        raise ExperimentFailed(reason)
    return status, state, pool


def asks(journal: Path) -> list[tuple[str, str]]:
    """(run, trial as JSON) in the order asked."""
    return [(event.run, json.dumps(event.trial.to_dict())) for event in events_of(journal, Asked)]


def results(journal: Path) -> dict[tuple[str, int], Any]:
    """(run, trial) -> objective; fails on a trial that finished twice."""
    objectives: dict[tuple[str, int], Any] = {}
    for event in events_of(journal, Finished):
        key = event.run, event.trial_id
        assert key not in objectives
        objectives[key] = event.evaluation.objective
    return objectives
