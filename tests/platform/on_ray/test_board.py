"""The board on which workers on Ray leave word: what is on it, how often, and that nobody ever waits for it."""

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from fmnas.platform.config.schema import WorkersConfig
from fmnas.platform.experiment.trial_result import Job
from fmnas.platform.workers import progress_actor as boards
from fmnas.platform.workers.pool import Event, Pool
from fmnas.platform.workers.progress_actor import BoardReader, BoardWriter, ProgressBoard, start_board
from fmnas.platform.workers.ray_pool import RayPool, Watch
from fmnas.search_spaces import Evaluation, Trial
from fmnas.trainers.contract import Report, Stop, ignore, never


def test_only_the_jobs_that_are_asked_for_are_kept() -> None:
    board = ProgressBoard()
    for job, epochs in ((1, 3), (2, 4), (1, 5)):
        board.write(job, epochs)
    assert board.read([1, 7]) == {1: 5}
    assert board.read([1, 2]) == {1: 5}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Any:
    """`now` is the time."""
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(boards, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


def test_a_trial_is_told_of_after_a_second_and_once_a_second(clock: Any) -> None:
    written: list[tuple[int, int]] = []
    board = SimpleNamespace(write=SimpleNamespace(remote=lambda *word: written.append(word)))
    writer = BoardWriter(board, 7)
    for passed in range(25):  # tenths of a second
        clock.now = 100.0 + passed / 10
        writer.tell(passed)
    assert written == [(7, 10), (7, 20)]
    BoardWriter(None, 7).tell(1)


def test_a_board_that_cannot_be_written_costs_nothing(clock: Any) -> None:
    def broken(*_: int) -> None:
        raise ConnectionError

    writer = BoardWriter(SimpleNamespace(write=SimpleNamespace(remote=broken)), 7)
    clock.now += 10.0
    writer.tell(1)


class FakeRay:
    """`answer`: what a read gives, or raises; None while it has not come."""

    exceptions = SimpleNamespace(RayError=ConnectionError)

    def __init__(self) -> None:
        self.answer: Any = None
        self.asked: list[list[int]] = []
        self.board = SimpleNamespace(read=SimpleNamespace(remote=self._ask))

    def _ask(self, jobs: list[int]) -> str:
        self.asked.append(jobs)
        return "future"

    def wait(self, futures: list[str], num_returns: int, timeout: float) -> tuple[list[str], list[str]]:
        assert timeout == 0.0, "nobody waits"
        return (futures, []) if self.answer is not None else ([], futures)

    def get(self, future: str) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def test_the_driver_asks_now_and_then_and_takes_what_has_come(clock: Any) -> None:
    ray = FakeRay()
    reader = BoardReader(ray, ray.board)
    reader.look([1])
    assert not ray.asked, "not at once"
    clock.now += boards.READ_SECONDS
    reader.look([])
    assert not ray.asked, "not without jobs"
    for _ in range(3):
        reader.look([1, 2])
    assert ray.asked == [[1, 2]], "one question at a time"
    assert reader.epochs == {}
    ray.answer = {1: 5}
    reader.look([1, 2])
    assert reader.epochs == {1: 5}
    clock.now += boards.READ_SECONDS
    reader.look([1])
    ray.answer = ConnectionError()
    reader.look([1])
    assert reader.epochs == {}, "the board is gone"
    BoardReader(ray, None).look([1])
    assert len(ray.asked) == 2


class Slow:
    """Reports an epoch every tenth of a second."""

    def __init__(self, data: None) -> None:
        pass

    def evaluate(self, trial: Trial, report: Report = ignore, stop: Stop = never) -> Evaluation:
        for epoch in range(trial.epochs):
            time.sleep(0.1)
            report(0, epoch + 1, 0.5)
        return Evaluation(0.5)


def test_on_ray_the_pool_knows_how_far_its_jobs_are_and_loses_nothing_with_the_board(
    ray: Any, give: Callable[[Pool, Job], None], wait: Callable[[Pool], Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boards, "READ_SECONDS", 0.0)
    board = start_board(ray)
    pool = RayPool(ray, Slow, None, WorkersConfig(), 1, watch=Watch(board=board))
    job = Job("random/repeat-0", Trial(4, {}, 50, "random"))
    give(pool, job)
    while not pool.progress():
        assert pool.next_event(0.1) is None
    ((key, epochs),) = pool.progress().items()
    assert key == ("random/repeat-0", 4)
    assert 0 < epochs <= 50
    ray.kill(board)
    assert isinstance(wait(pool).result, Evaluation)
    assert pool.progress() == {}
    give(pool, Job("random/repeat-0", Trial(5, {}, 1, "random")))
    assert isinstance(wait(pool).result, Evaluation)
    pool.close()
