"""The contract of pools, for the one in this process and the one on Ray."""

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fmnas.platform.cluster import connect, pool_size
from fmnas.platform.config import WorkersConfig
from fmnas.platform.errors import ClusterError
from fmnas.platform.pool import Event, Failed, Finished, InProcessPool, Job, Lost, Pool, TimedOut
from fmnas.platform.problems import DataSettings, ProblemSettings, problem
from fmnas.platform.ray_pool import RayPool
from fmnas.search_spaces import Trial

SETTINGS = ProblemSettings(DataSettings(name="digits", train=64, validation=64), seeds=2)
TASK = problem("joint", SETTINGS)
SPLIT = TASK.load()


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    connected = connect(None)
    yield connected
    connected.shutdown()


@pytest.fixture(params=["in-process", "ray"])
def pool(request: pytest.FixtureRequest) -> Iterator[Pool]:
    if request.param == "in-process":
        made: Pool = InProcessPool(TASK.trainer)
    else:
        made = RayPool(request.getfixturevalue("ray"), "joint", SETTINGS, SPLIT, WorkersConfig(), 1)
    yield made
    made.close()


def job(number: int = 0, epochs: int = 1) -> Job:
    configuration = TASK.space.sample(np.random.default_rng(number))
    return Job("random/repeat-0", Trial(number, {**configuration, "momentum": 0.9}, epochs, "random", seed=7))


def wait(pool: Pool) -> Event:
    for _ in range(600):
        event = pool.next_event(timeout=0.5)
        if event is not None:
            return event
    raise AssertionError("no event came")


def test_a_job_is_answered_with_its_evaluation(pool: Pool) -> None:
    assert pool.capacity == 1
    assert pool.next_event(timeout=0.0) is None
    pool.submit(job())
    event = wait(pool)
    assert isinstance(event, Finished)
    assert event.job == job()
    expected = TASK.trainer.evaluate(job().trial)
    assert replace(event.evaluation, seconds=0.0) == replace(expected, seconds=0.0)


def test_a_job_that_raises_has_failed_and_the_worker_lives_on(pool: Pool, capsys: pytest.CaptureFixture[str]) -> None:
    pool.submit(replace(job(), trial=replace(job().trial, epochs=0)))
    event = wait(pool)
    assert isinstance(event, Failed)
    assert "epochs" in event.reason
    pool.submit(job())
    assert isinstance(wait(pool), Finished)


def test_a_killed_worker_is_lost_and_replaced(ray: Any) -> None:
    pool = RayPool(ray, "joint", SETTINGS, SPLIT, WorkersConfig(), 1)
    pool.submit(job())
    first = wait(pool)
    pool.submit(job(1, epochs=500))
    os.kill(int(first.worker.rpartition(":")[2]), signal.SIGKILL)
    event = wait(pool)
    assert isinstance(event, Lost)
    assert event.job.trial.id == 1
    pool.submit(job(2))
    again = wait(pool)
    pool.close()
    assert isinstance(again, Finished)
    assert again.worker != first.worker


def test_a_job_past_its_deadline_is_killed(ray: Any) -> None:
    pool = RayPool(ray, "joint", SETTINGS, SPLIT, WorkersConfig(), 1, trial_seconds=2.0)
    pool.submit(job(1, epochs=1_000_000))
    event = wait(pool)
    assert isinstance(event, TimedOut)
    assert event.job.trial.id == 1
    assert "budget.trial_seconds = 2" in event.reason
    pool.close()
    pool = RayPool(ray, "joint", SETTINGS, SPLIT, WorkersConfig(), 1, trial_seconds=1000.0)
    pool.submit(job(2))
    assert isinstance(wait(pool), Finished)
    pool.close()


class FakeRay:
    """As much of Ray as the pool uses; `fate` is what becomes of a job: its result, or an error to raise."""

    def __init__(self, exceptions: Any, fate: Any) -> None:
        self.exceptions, self.fate = exceptions, fate
        self.killed: list[Any] = []
        self.made = 0

    def remote(self, given: Any) -> Any:
        return self

    def options(self, **given: Any) -> Any:
        def make(*arguments: Any) -> Any:
            self.made += 1
            number = self.made
            methods = {
                name: SimpleNamespace(remote=lambda *_, name=name: (name, number)) for name in ("ready", "evaluate")
            }
            return SimpleNamespace(**methods)

        return SimpleNamespace(remote=make)

    def wait(self, futures: list[Any], num_returns: int, timeout: float) -> tuple[list[Any], list[Any]]:
        return futures[:1], futures[1:]

    def get(self, future: Any) -> Any:
        if isinstance(self.fate, Exception):
            raise self.fate
        return self.fate

    def put(self, data: Any) -> Any:
        return data

    def kill(self, actor: Any, no_restart: bool) -> None:
        self.killed.append(actor)


def test_a_job_that_takes_more_memory_than_there_is_has_failed_and_its_worker_is_replaced() -> None:
    from ray import exceptions

    fake = FakeRay(exceptions, exceptions.OutOfMemoryError("Task was killed due to the node running low on memory."))
    pool = RayPool(fake, "joint", SETTINGS, None, WorkersConfig(), 1)
    pool.submit(job())
    event = pool.next_event(1.0)
    assert isinstance(event, Failed)
    assert event.reason.startswith("out of memory: ")
    assert (fake.made, len(fake.killed)) == (2, 1)


def test_the_deadline_does_not_run_while_a_worker_is_still_being_built() -> None:
    class Slow(FakeRay):
        def wait(self, futures: list[Any], num_returns: int, timeout: float) -> tuple[list[Any], list[Any]]:
            done = [future for future in futures if future[0] in self.done]
            return done[:1], futures

    fake = Slow(None, None)
    fake.done: set[str] = set()
    pool = RayPool(fake, "joint", SETTINGS, None, WorkersConfig(), 1, trial_seconds=1e-6)
    pool.submit(job())
    assert pool.next_event(0.0) is None
    assert pool.next_event(0.0) is None
    fake.done = {"ready"}
    assert pool.next_event(0.0) is None
    fake.done = set()
    time.sleep(0.001)
    assert isinstance(pool.next_event(0.0), TimedOut)


@pytest.mark.parametrize(
    ("count", "cpus", "gpus", "wanted", "size"),
    [("auto", 1, 0, 3, 3), ("auto", 1, 0, 9, 4), ("auto", 2, 0, 9, 2), ("auto", 0.5, 0.25, 9, 8), (3, 1, 0, 1, 3)],
)
def test_pool_size(count: int | str, cpus: float, gpus: float, wanted: int, size: int) -> None:
    assert pool_size({"CPU": 4.0, "GPU": 2.0}, count, cpus, gpus, wanted) == size


@pytest.mark.parametrize(
    ("count", "cpus", "gpus", "words"),
    [
        ("auto", 1, 3, ["workers.gpus = 3", "2 GPUs", "0 trains on CPUs"]),
        ("auto", 8, 0, ["workers.cpus = 8", "4 CPUs"]),
        (5, 1, 0, ["workers.count = 5", "4 fit"]),
        (9, 0.1, 0.25, ["workers.count = 9", "8 fit"]),
    ],
)
def test_more_than_there_is_is_refused(count: int | str, cpus: float, gpus: float, words: list[str]) -> None:
    with pytest.raises(ClusterError) as caught:
        pool_size({"CPU": 4.0, "GPU": 2.0}, count, cpus, gpus, wanted=9)
    for word in words:
        assert word in str(caught.value)
