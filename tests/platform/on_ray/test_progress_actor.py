"""The actor to which workers on Ray report epochs: what it keeps, how often, and that nobody waits for it."""

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from fmnas.platform.config.schema import WorkersConfig
from fmnas.platform.experiment.trial_result import Job
from fmnas.platform.workers import progress_actor
from fmnas.platform.workers.pool import JobEnded, Pool
from fmnas.platform.workers.progress_actor import ProgressBoard, ProgressReader, progress_reporter
from fmnas.platform.workers.ray_pool import RayPool
from fmnas.search_spaces import Evaluation, Trial
from fmnas.trainers.contract import Report, Stop, never_stop, no_report

ONE, TWO = ("r", 1), ("r", 2)


def test_only_the_jobs_that_are_read_are_kept() -> None:
    board = ProgressBoard()
    for job, epochs in ((ONE, 3), (TWO, 4), (ONE, 5)):
        board.write(job, epochs)
    assert board.read([ONE, ("r", 7)]) == {ONE: 5}
    assert board.read([ONE, TWO]) == {ONE: 5}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Any:
    """`now` is the time."""
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(progress_actor, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


def test_a_trial_is_reported_after_a_second_and_once_a_second(clock: Any) -> None:
    written: list[tuple[Any, int]] = []
    report = progress_reporter(SimpleNamespace(write=SimpleNamespace(remote=lambda *args: written.append(args))), ONE)
    for tenths in range(25):
        clock.now = 100.0 + tenths / 10
        report(tenths)
    assert written == [(ONE, 10), (ONE, 20)]


def test_an_actor_that_cannot_be_reached_is_ignored(clock: Any) -> None:
    def fail(*_: Any) -> None:
        raise ConnectionError

    report = progress_reporter(SimpleNamespace(write=SimpleNamespace(remote=fail)), ONE)
    clock.now += 10.0
    report(1)


def test_the_driver_polls_and_takes_what_has_come(clock: Any, fake_ray: Any) -> None:
    ray = fake_ray(read={ONE: 5})
    ray.done.remove("read")
    reader = ProgressReader(ray)
    reader.poll([ONE])
    assert not ray.asked, "not at once"
    clock.now += progress_actor.POLL_SECONDS
    reader.poll([])
    assert not ray.asked, "not without jobs"
    for _ in range(3):
        reader.poll([ONE, TWO])
    assert ray.asked == [[ONE, TWO]], "one question at a time"
    assert reader.epochs == {}
    ray.done.add("read")
    reader.poll([ONE, TWO])
    assert reader.epochs == {ONE: 5}
    clock.now += progress_actor.POLL_SECONDS
    ray.answers["read"] = ray.exceptions.RayError()
    for _ in range(2):
        reader.poll([ONE])
    assert reader.epochs == {}, "the actor is gone"


class Slow:
    """Reports an epoch every tenth of a second."""

    def __init__(self, data: None) -> None:
        pass

    def evaluate(self, trial: Trial, report: Report = no_report, stop: Stop = never_stop) -> Evaluation:
        for epoch in range(trial.epochs):
            time.sleep(0.1)
            report(0, epoch + 1, 0.5)
        return Evaluation(0.5)


def test_on_ray_the_pool_knows_the_epochs_of_its_jobs_and_loses_nothing_with_the_actor(
    ray: Any, give: Callable[[Pool, Job], None], wait: Callable[[Pool], JobEnded], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress_actor, "POLL_SECONDS", 0.0)
    pool = RayPool(ray, Slow, None, WorkersConfig(), 1)
    give(pool, Job("random/repeat-0", Trial(4, {}, 30, "random")))
    while not pool.progress():
        assert pool.next_event(0.1) is None
    ((key, epochs),) = pool.progress().items()
    assert key == ("random/repeat-0", 4)
    assert 0 < epochs <= 30
    ray.kill(pool._progress.actor)
    assert isinstance(wait(pool).result, Evaluation)
    assert pool.progress() == {}
    give(pool, Job("random/repeat-0", Trial(5, {}, 1, "random")))
    assert isinstance(wait(pool).result, Evaluation)
    pool.close()
