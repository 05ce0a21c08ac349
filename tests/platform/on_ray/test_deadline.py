"""Jobs past their deadline, in this process and on Ray: they end, and nothing of them is left for the next job."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import Any
from weakref import WeakSet

import numpy as np
import pytest

from fmnas.platform.config.schema import WorkersConfig
from fmnas.platform.experiment.trial_result import Job
from fmnas.platform.problems import problem
from fmnas.platform.workers.in_process import InProcessPool
from fmnas.platform.workers.pool import FailedEvaluation, JobEnded, Pool
from fmnas.platform.workers.ray_pool import RayPool
from fmnas.platform.workers.ray_worker import build_trainer
from fmnas.search_spaces import Evaluation, Trial
from fmnas.search_spaces.records import TIMED_OUT
from fmnas.trainers import EvaluationStoppedError, Trainer
from fmnas.trainers.contract import Report, Stop, never_stop, no_report
from fmnas.trainers.problem import Data, DataSettings, Hardware, ProblemSettings

pytestmark = pytest.mark.slow

SETTINGS = ProblemSettings(DataSettings(name="digits", train=64, validation=64), seeds=2)
TASK = problem("joint", SETTINGS)
ENDLESS = 1_000_000
"""Epochs of a trial that no test waits for."""


class Memory:
    """What a job held."""


class Scripted:
    """Does what a trial's id says; the objective is the number of things that earlier jobs left behind."""

    def __init__(self, data: Data | None) -> None:
        self._memories: WeakSet[Memory] = WeakSet()

    def evaluate(self, trial: Trial, report: Report = no_report, stop: Stop = never_stop) -> Evaluation:
        left = float(len(self._memories))
        if trial.id == HOLD:
            self._hold(stop)
        if trial.id == HANG:  # as a call into C that does not return
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
            time.sleep(3600)
        return Evaluation(left)

    def _hold(self, stop: Stop) -> None:
        """Hold memory in a cycle, such as frames and exceptions make, until `stop`."""
        memory = Memory()
        self._memories.add(memory)
        memory.itself = memory  # type: ignore[attr-defined]
        while not stop():
            time.sleep(0.001)
        raise EvaluationStoppedError("it was stopped")


NAP, HOLD, HANG = range(3)


class Threaded:
    """The trainer of cells, its seeds in threads; its seconds are the threads that earlier jobs left."""

    def __init__(self, data: Data | None) -> None:
        self._trainer = build_trainer("joint", SETTINGS, Hardware(threads=2, arrangement="fast"), data)

    def evaluate(self, trial: Trial, report: Report = no_report, stop: Stop = never_stop) -> Evaluation:
        left = sum(thread.name.startswith("training") for thread in threading.enumerate())
        return replace(self._trainer.evaluate(trial, report, stop), seconds=float(left))


class ThreadedAndDeaf(Threaded):
    """The same, without `stop`."""

    def evaluate(self, trial: Trial) -> Evaluation:  # type: ignore[override]
        return super().evaluate(trial)


MakePool = Callable[[str, Callable[[Data | None], Trainer], float], Pool]
Answer = Callable[[Pool, Job], JobEnded]


@pytest.fixture
def make_pool(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[MakePool]:
    """make_pool(kind, build, trial_seconds); a worker on Ray is killed much later than it should answer."""
    monkeypatch.setattr("fmnas.platform.workers.ray_pool.GRACE_SECONDS", 300.0)
    with ExitStack() as stack:

        def make(kind: str, build: Callable[[Data | None], Trainer], trial_seconds: float) -> Pool:
            if kind == "in-process":
                return InProcessPool(build(TASK.load()), trial_seconds)
            connected = request.getfixturevalue("ray")
            pool = RayPool(connected, build, TASK.load(), WorkersConfig(), 1, trial_seconds=trial_seconds)
            return stack.enter_context(closing(pool))

        yield make


def job(number: int, epochs: int = 1) -> Job:
    configuration = TASK.space.sample(np.random.default_rng(number))
    return Job("random/repeat-0", Trial(number, {**configuration, "momentum": 0.9}, epochs, "random", seed=7))


def check_timed_out(event: JobEnded, seconds: float) -> None:
    assert isinstance(event.result, FailedEvaluation)
    assert event.result.status == TIMED_OUT
    assert f"{seconds:g} s" in event.result.reason
    assert "budget.trial_seconds" in event.result.reason


@pytest.mark.parametrize("kind", ["in-process", "ray"])
def test_a_job_past_its_deadline_ends_and_its_worker_takes_the_next(
    make_pool: MakePool, answer: Answer, kind: str
) -> None:
    pool = make_pool(kind, Scripted, 1.0)
    late = answer(pool, job(HOLD))
    check_timed_out(late, 1.0)
    after = answer(pool, job(NAP))
    assert isinstance(after.result, Evaluation)
    assert after.worker == late.worker, "the same process"
    if kind == "ray":
        assert after.result.objective == 0.0, "what the job held is free"


@pytest.mark.parametrize(
    ("kind", "build"), [("in-process", Threaded), ("in-process", ThreadedAndDeaf), ("ray", Threaded)]
)
def test_seeds_in_threads_end_with_their_job(
    make_pool: MakePool, answer: Answer, kind: str, build: type[Threaded]
) -> None:
    pool = make_pool(kind, build, 2.0)
    check_timed_out(answer(pool, job(0, ENDLESS)), 2.0)
    after = answer(pool, job(0))
    assert isinstance(after.result, Evaluation)
    assert after.result.seconds == 0.0, "threads that were left"
    assert after.result == Threaded(TASK.load()).evaluate(job(0).trial)


def test_a_ray_worker_that_does_not_answer_is_killed(ray: Any, monkeypatch: pytest.MonkeyPatch, answer: Answer) -> None:
    monkeypatch.setattr("fmnas.platform.workers.ray_pool.GRACE_SECONDS", 0.5)
    pool = RayPool(ray, Scripted, None, WorkersConfig(), 1, trial_seconds=1.0)
    late = answer(pool, job(HANG))
    check_timed_out(late, 1.0)
    assert pool.capacity == 0
    again = answer(pool, job(NAP))
    assert isinstance(again.result, Evaluation)
    assert again.worker != late.worker, "another process"
    pool.close()
