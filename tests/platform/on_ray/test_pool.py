"""The contract of pools, for the one in this process and the one on Ray."""

import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fmnas.platform.config.schema import WorkersConfig
from fmnas.platform.errors import ClusterError, ExperimentFailed
from fmnas.platform.experiment.trial_result import Job
from fmnas.platform.problems import problem
from fmnas.platform.workers.cluster import max_workers, workers_that_fit
from fmnas.platform.workers.in_process import InProcessPool
from fmnas.platform.workers.pool import FailedEvaluation, JobEnded, Pool, timed_out
from fmnas.platform.workers.ray_pool import RayPool, describe_actor_death
from fmnas.platform.workers.ray_worker import NODE, PLACE, VERSIONS, build_trainer, versions
from fmnas.search_spaces import Evaluation, Trial
from fmnas.search_spaces.records import FAILED, LOST
from fmnas.trainers.checkpoints import Checkpoints, pack, unpack
from fmnas.trainers.problem import DataSettings, Hardware, ProblemSettings

pytestmark = pytest.mark.slow

SETTINGS = ProblemSettings(DataSettings(name="digits", train=64, validation=64), seeds=2)
TASK = problem("joint", SETTINGS)
SPLIT = TASK.load()
BUILD = partial(build_trainer, "joint", SETTINGS, Hardware())
Give = Callable[[Pool, Job], None]
Wait = Callable[[Pool], JobEnded]


@pytest.fixture(params=["in-process", "ray"])
def pool(request: pytest.FixtureRequest) -> Iterator[Pool]:
    if request.param == "in-process":
        yield InProcessPool(TASK.trainer)
    else:
        with closing(RayPool(request.getfixturevalue("ray"), BUILD, SPLIT, WorkersConfig(), 1)) as made:
            yield made


def job(number: int = 0, epochs: int = 1) -> Job:
    configuration = TASK.space.sample(np.random.default_rng(number))
    return Job("random/repeat-0", Trial(number, {**configuration, "momentum": 0.9}, epochs, "random", seed=7))


def test_a_job_is_answered_with_its_evaluation_also_after_one_that_failed(pool: Pool, give: Give, wait: Wait) -> None:
    give(pool, replace(job(), trial=replace(job().trial, epochs=0)))
    failed = wait(pool)
    assert isinstance(failed.result, FailedEvaluation)
    assert failed.result.status == FAILED
    assert "epochs" in failed.result.reason
    give(pool, job())
    assert pool.capacity == 1
    event = wait(pool)
    assert isinstance(event.result, Evaluation)
    assert event.job == job()
    expected = TASK.trainer.evaluate(job().trial)
    assert replace(event.result, seconds=0.0) == replace(expected, seconds=0.0)
    assert event.worker == failed.worker, "one worker has one name, however its trials end"


def test_a_killed_worker_is_lost_and_replaced_and_its_trial_resumes(
    ray: Any, tmp_path: Path, give: Give, wait: Wait
) -> None:
    folder, long = tmp_path / "checkpoints", job(1, 5)
    expected = TASK.trainer.evaluate(long.trial)
    settings = replace(SETTINGS, checkpoints=Checkpoints(folder, every=1))
    pool = RayPool(ray, partial(build_trainer, "joint", settings, Hardware()), SPLIT, WorkersConfig(), 1)
    give(pool, job())
    first = wait(pool)
    give(pool, long)
    while not list(folder.glob("*-0.pt")):
        assert pool.next_event(0.02) is None
    os.kill(int(first.worker.rpartition(":")[2]), signal.SIGKILL)
    lost = wait(pool)
    assert isinstance(lost.result, FailedEvaluation)
    assert lost.result.status == LOST
    assert lost.job == Job(long.run, long.trial)
    (path,) = folder.glob("*-0.pt")
    content = unpack(path.read_bytes())
    assert tuple(content["errors"]) != ()
    content["errors"][0] += 1.0  # appears in the result, which reuses the checkpoint
    path.write_bytes(pack(content))
    give(pool, replace(long, attempt=2))
    event = wait(pool)
    pool.close()
    assert isinstance(event.result, Evaluation)
    assert event.worker != first.worker
    assert event.result.curve[0] == pytest.approx(expected.curve[0] + 0.5)
    assert event.result.curve[1:] == expected.curve[1:]
    assert event.result.errors == expected.errors
    assert not list(folder.iterdir())


def test_a_job_that_takes_more_memory_than_there_is_has_failed_and_its_worker_is_replaced(
    fake_ray: Any, give: Give
) -> None:
    fake = fake_ray()
    fake.answers["evaluate"] = fake.exceptions.OutOfMemoryError(
        "Task was killed due to the node running low on memory."
    )
    pool = RayPool(fake, BUILD, None, WorkersConfig(), 1)
    give(pool, job())
    event = pool.next_event(1.0)
    assert event is not None
    assert isinstance(event.result, FailedEvaluation)
    assert event.result.status == FAILED
    assert event.result.reason.startswith("out of memory: ")
    assert (fake.made, fake.killed) == (2, [1])


def died(who: str, detail: str) -> str:
    """Ray's message about a dead actor."""
    return (
        f"The actor died unexpectedly before finishing this task.\n\tclass_name: Worker\n\tactor_id: {who * 32}\n"
        f"\tpid: 2{who}34\n\tip: 127.0.0.1\nThe actor is dead because {detail}"
    )


@pytest.mark.parametrize(
    ("detail", "reason"),
    [
        (
            "its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits "
            "with a connection error code 2. End of file. Some common causes include: (1) the process was killed by",
            "its worker process has died (SYSTEM_ERROR)",
        ),
        ("its node has died. Node Id: " + "0a" * 28, "its node has died"),
        ("of nothing known", "RayError: The actor died unexpectedly before finishing this task"),
    ],
)
def test_workers_that_died_alike_are_lost_for_the_same_short_reason(
    fake_ray: Any, give: Give, detail: str, reason: str
) -> None:
    for who in "1f":
        fake = fake_ray()
        fake.answers["evaluate"] = fake.exceptions.RayError(died(who, detail))
        pool = RayPool(fake, BUILD, None, WorkersConfig(), 1)
        give(pool, job())
        event = pool.next_event(1.0)
        assert event is not None
        assert event.result == FailedEvaluation(LOST, reason)
    gone = fake.exceptions.RayError(f"The actor {'0b' * 16} is unavailable: it is gone. The task may have run.")
    assert describe_actor_death(gone) == "RayError: The actor is unavailable: it is gone"


def test_a_worker_that_is_still_being_built_is_given_nothing(monkeypatch: pytest.MonkeyPatch, fake_ray: Any) -> None:
    monkeypatch.setattr("fmnas.platform.workers.ray_pool.GRACE_SECONDS", 0.0)
    fake = fake_ray()
    fake.done = set()
    pool = RayPool(fake, BUILD, None, WorkersConfig(), 1, trial_seconds=1e-6)
    assert pool.next_event(0.0) is None
    assert pool.capacity == 0
    fake.done = {"ready"}
    assert pool.next_event(0.0) is None
    assert pool.capacity == 1
    pool.submit(job())
    time.sleep(0.001)
    event = pool.next_event(0.0)
    assert event is not None
    assert event.result == timed_out(1e-6)
    assert (fake.made, fake.killed, pool.capacity) == (2, [1], 0)


def test_the_pool_grows_and_shrinks_with_the_cluster(
    monkeypatch: pytest.MonkeyPatch, fake_ray: Any, give: Give
) -> None:
    monkeypatch.setattr("fmnas.platform.workers.ray_pool.NODES_SECONDS", 0.0)
    fake = fake_ray()
    fake.done = {"ready"}
    pool = RayPool(fake, BUILD, None, WorkersConfig(), 3)
    give(pool, job())
    assert (pool.capacity, fake.made) == (1, 1)
    fake.cpus["b"] = 8.0
    fake.answers["ready"] = {**fake.answers["ready"], NODE: "b"}
    for _ in range(3):
        assert pool.next_event(0.0) is None
    assert (pool.capacity, fake.made) == (3, 3), "no more than the runs can use"
    del fake.cpus["b"]
    assert pool.next_event(0.0) is None
    assert (pool.capacity, fake.killed) == (1, [2, 3]), "idle workers of a dead node are not counted"
    fake.cpus["c"] = 1.0
    fake.done = set()
    assert pool.next_event(0.0) is None
    assert (pool.capacity, fake.made) == (1, 4)
    del fake.cpus["c"]
    assert pool.next_event(0.0) is None
    assert fake.killed == [2, 3, 4], "nor is one that waits for a place there"


def test_with_autoscale_workers_that_fit_nowhere_wait_for_nodes(
    monkeypatch: pytest.MonkeyPatch, fake_ray: Any, give: Give
) -> None:
    monkeypatch.setattr("fmnas.platform.workers.ray_pool.NODES_SECONDS", 0.0)
    fake = fake_ray()
    fake.done, fake.cpus = set(), {}
    pool = RayPool(fake, BUILD, None, WorkersConfig(autoscale=True), 3)
    assert (pool.capacity, pool.size, fake.made) == (0, 3, 3)
    fake.cpus = {"a": 1.0}
    fake.done = {"ready"}
    give(pool, job())
    assert (fake.made, fake.killed) == (3, [])
    assert len(set(fake.names)) == 3
    assert all(re.fullmatch(r"fmnas-test-worker-[012]-[0-9a-f]{8}", name) for name in fake.names)


def test_a_cluster_without_resources_is_reported(monkeypatch: pytest.MonkeyPatch, fake_ray: Any) -> None:
    monkeypatch.setattr("fmnas.platform.workers.ray_pool.NODES_SECONDS", 0.0)
    monkeypatch.setattr("fmnas.platform.workers.ray_pool.IDLE_NOTICE_SECONDS", 0.0)
    fake, notices = fake_ray(), list[str]()
    fake.cpus = {}
    pool = RayPool(fake, BUILD, None, WorkersConfig(), 1, notify=notices.append)
    assert pool.next_event(0.001) is None
    assert "on no node" in notices[-1]


@pytest.mark.parametrize("info", [{VERSIONS: "fmnas 0.0.9", PLACE: "far:7"}, {"fmnas": "0.0.9", PLACE: "far:7"}])
def test_a_worker_of_another_version_is_refused_by_name(fake_ray: Any, info: dict[str, str]) -> None:
    pool = RayPool(fake_ray(ready=info), BUILD, None, WorkersConfig(), 1)
    with pytest.raises(ExperimentFailed) as caught:
        pool.next_event(0.0)
    for text in (versions(), info.get(VERSIONS, "older"), "far:7"):
        assert text in str(caught.value)


def test_a_local_cluster_whose_node_died_ends_the_experiment(monkeypatch: pytest.MonkeyPatch, fake_ray: Any) -> None:
    monkeypatch.setattr("fmnas.platform.workers.ray_pool.NODES_SECONDS", 0.0)
    dead = [("monitor", None)]
    node = SimpleNamespace(dead_processes=lambda: dead, get_logs_dir_path=lambda: "/logs")
    pool = RayPool(fake_ray(), BUILD, None, WorkersConfig(), 1, own_node=node)
    assert pool.next_event(0.0) is None, "Ray needs no monitor"
    dead.append(("raylet", None))
    with pytest.raises(ExperimentFailed, match=r"^raylet .* /logs\."):
        pool.next_event(0.0)
    assert pool.capacity == pool.size == 0


def test_workers_that_cannot_be_built_end_the_experiment_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, fake_ray: Any
) -> None:
    monkeypatch.setattr("fmnas.platform.workers.ray_pool.NODES_SECONDS", 0.0)
    fake = fake_ray()
    where = "\x1b[36mray::Worker.__init__()\x1b[39m (pid=7)\n" + '  File "ray_worker.py", line 27, in build\n' * 40
    error = fake.exceptions.RayTaskError(
        "__init__", f"{where}ImportError: no such wheel", ImportError("no such wheel")
    )  # as Ray raises it
    fake.answers["ready"] = fake.exceptions.ActorDiedError(error)
    pool = RayPool(fake, BUILD, None, WorkersConfig(failures=3), 1)
    assert pool.next_event(0.0) is None
    assert pool.next_event(0.0) is None
    with pytest.raises(ExperimentFailed, match=r"worker-0: ImportError: no such wheel"):
        pool.next_event(0.0)
    assert fake.killed == [1, 2, 3]


def test_only_failures_to_build_count_and_only_those_in_a_row(monkeypatch: pytest.MonkeyPatch, fake_ray: Any) -> None:
    """Not a node that died while a worker started there, nor what was before a worker that could be built."""
    monkeypatch.setattr("fmnas.platform.workers.ray_pool.NODES_SECONDS", 0.0)
    fake = fake_ray()
    ready = fake.answers["ready"]
    fake.answers["ready"] = fake.exceptions.ActorDiedError()
    pool = RayPool(fake, BUILD, None, WorkersConfig(failures=2), 1)
    for _ in range(4):
        assert pool.next_event(0.0) is None
    unbuilt = fake.exceptions.ActorDiedError(fake.exceptions.RayTaskError("__init__", "no", ImportError("no")))
    for answer in (unbuilt, ready):
        fake.answers["ready"] = answer
        assert pool.next_event(0.0) is None
    assert pool.capacity == 1
    del fake.cpus["a"]  # its node is gone, and another one comes
    assert pool.next_event(0.0) is None
    fake.cpus["b"], fake.answers["ready"] = 1.0, unbuilt
    assert pool.next_event(0.0) is None
    with pytest.raises(ExperimentFailed, match="no"):
        pool.next_event(0.0)


@pytest.mark.parametrize(
    ("nodes", "cpus", "gpus", "fit"),
    [
        ([(4, 2)], 1, 0, 4),
        ([(4, 2)], 2, 0, 2),
        ([(4, 2)], 0.5, 0.25, 8),
        ([(3, 0), (3, 0)], 2, 0, 2),  # no worker spans nodes
        ([(9, 2)], 1, 0.4, 4),  # nor on two devices
        ([(9, 3)], 1, 2, 1),
        ([(9, 0), (1, 4)], 2, 1, 0),
        ([], 1, 0, 0),
    ],
)
def test_how_many_workers_fit(nodes: list[tuple[float, float]], cpus: float, gpus: float, fit: int) -> None:
    assert workers_that_fit(({"CPU": float(c), "GPU": float(g)} for c, g in nodes), cpus, gpus) == fit


NODES = [{"CPU": 4.0, "GPU": 2.0}, {"CPU": 6.0}]


@pytest.mark.parametrize(("count", "wanted", "most"), [("auto", 99, 99), (10, 3, 10)])
def test_how_many_workers_there_may_be(count: int | str, wanted: int, most: int) -> None:
    assert max_workers(NODES, count, 1, 0, wanted) == most


@pytest.mark.parametrize(
    ("count", "cpus", "gpus", "words"),
    [
        ("auto", 8, 0, ["workers.cpus = 8", "6 CPUs", "2 GPUs"]),
        ("auto", 6, 1, ["workers.cpus = 6", "workers.gpus = 1"]),
        (9, 0.1, 0.25, ["workers.count = 9", "8 fit"]),
    ],
)
def test_more_than_there_is_is_refused(count: int | str, cpus: float, gpus: float, words: list[str]) -> None:
    with pytest.raises(ClusterError) as caught:
        max_workers(NODES, count, cpus, gpus, wanted=9)
    assert all(word in str(caught.value) for word in words)
