"""The contract of pools, for the one in this process and the one on Ray."""

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fmnas.platform.cluster import connect, pool_size
from fmnas.platform.config import WorkersConfig
from fmnas.platform.errors import ClusterError
from fmnas.platform.pool import Event, Failed, Finished, InProcessPool, Job, Lost, Pool
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
