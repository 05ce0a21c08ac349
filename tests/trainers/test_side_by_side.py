"""Trainings in threads: whose report is heard where and when, and how they end."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from fmnas.trainers.contract import Report, Stop, ignore, never
from fmnas.trainers.images.seed_parallelism import train_side_by_side


def counting(number: int, report: Report, stop: Stop) -> tuple[int, int]:
    """Three epochs; the result is the number and torch's threads."""
    for epoch in (1, 2, 3):
        report(number, epoch, number + epoch / 10)
    return number, torch.get_num_threads()


def endless(number: int, report: Report, stop: Stop) -> None:
    """Until it is stopped."""
    report(number, 1, 0.0)
    while not stop():
        time.sleep(0.001)


@pytest.mark.parametrize(("count", "workers"), [(1, 1), (4, 2), (3, 3), (5, 2)])
def test_results_come_in_order_and_reports_in_this_thread(count: int, workers: int) -> None:
    heard, threads = [], set()

    def listen(*epoch: object) -> None:
        heard.append(epoch)
        threads.add(threading.get_ident())

    before = torch.get_num_threads()
    assert train_side_by_side(counting, count, workers, 1, listen, never) == [(number, 1) for number in range(count)]
    assert threads == {threading.get_ident()}
    for number in range(count):
        own = [epoch for epoch in heard if epoch[0] == number]
        assert own == [(number, epoch, number + epoch / 10) for epoch in (1, 2, 3)]
    assert len(heard) == 3 * count
    assert torch.get_num_threads() == before


def test_what_the_listener_raises_stops_all() -> None:
    def listen(*epoch: object) -> None:
        raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        train_side_by_side(endless, 3, 2, 1, listen, never)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("training")]


def test_what_ends_the_start_of_the_trainings_stops_those_that_run(monkeypatch: pytest.MonkeyPatch) -> None:
    submit = ThreadPoolExecutor.submit

    def broken_off(pool: ThreadPoolExecutor, run: Callable[[int], object], number: int) -> object:
        if number == 1:
            raise KeyboardInterrupt
        return submit(pool, run, number)

    monkeypatch.setattr(ThreadPoolExecutor, "submit", broken_off)
    with pytest.raises(KeyboardInterrupt):
        train_side_by_side(endless, 2, 2, 1, ignore, never)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("training")]


def test_what_one_training_raises_stops_the_others() -> None:
    def train(number: int, report: Report, stop: Stop) -> None:
        if number == 1:
            raise ZeroDivisionError("training 1")
        endless(number, report, stop)

    with pytest.raises(ZeroDivisionError, match="training 1"):
        train_side_by_side(train, 4, 2, 1, ignore, never)


def test_the_stop_from_outside_reaches_every_training() -> None:
    seen = []

    def stop() -> bool:
        seen.append(threading.current_thread().name)
        return len(set(seen)) == 2  # once both have asked

    assert train_side_by_side(endless, 2, 2, 1, ignore, stop) == [None, None]
