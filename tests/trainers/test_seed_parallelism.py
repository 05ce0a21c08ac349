"""How trainings share a machine: the plan, threads, reports in the caller's thread, and how they end."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from fmnas.trainers import TrainerError
from fmnas.trainers.contract import Report, Stop, never_stop, no_report
from fmnas.trainers.images.seed_parallelism import TrainingPlan, plan_training, train_side_by_side

CPU, GPU, META = torch.device("cpu"), torch.device("cuda", 0), torch.device("meta")


@pytest.mark.parametrize(
    ("arrangement", "device", "threads", "seeds", "plan"),
    [
        ("auto", CPU, 2, 4, TrainingPlan("fast", 2, 1)),
        ("auto", CPU, None, 4, TrainingPlan("fast", 2, 1)),
        ("fast", CPU, 3, 2, TrainingPlan("fast", 2, 1)),
        ("fast", CPU, 9, 4, TrainingPlan("fast", 4, 2)),
        ("plain", CPU, 8, 4, TrainingPlan("plain", 1, 8)),
        ("plain", CPU, None, 4, TrainingPlan("plain", 1, None)),
        ("auto", GPU, 8, 4, TrainingPlan("stacked", 1, 8, captured=True)),
        ("stacked", GPU, None, 1, TrainingPlan("stacked", 1, None, captured=True)),
        ("stacked", CPU, 2, 4, TrainingPlan("stacked", 1, 2)),
        ("plain", GPU, 1, 4, TrainingPlan("plain", 1, 1)),
        ("auto", META, 1, 4, TrainingPlan("plain", 1, 1)),
    ],
)
def test_the_plan(arrangement: str, device: torch.device, threads: int | None, seeds: int, plan: TrainingPlan) -> None:
    torch.set_num_threads(2)
    assert plan_training(arrangement, device, threads, seeds) == plan


def test_invalid_arrangements_are_refused() -> None:
    with pytest.raises(TrainerError, match=r"arrangement = 'fast'.*cuda:0"):
        plan_training("fast", GPU, 1, 4)


def counting(number: int, report: Report, stop: Stop) -> tuple[int, int]:
    """Reports three epochs; returns the number and torch's threads."""
    for epoch in (1, 2, 3):
        report(number, epoch, number + epoch / 10)
    return number, torch.get_num_threads()


def endless(number: int, report: Report, stop: Stop) -> None:
    """Runs until it is stopped."""
    report(number, 1, 0.0)
    while not stop():
        time.sleep(0.001)


def training_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("training")]


@pytest.mark.parametrize(("count", "workers", "share"), [(1, 1, 1), (5, 2, 1), (2, 1, 2)])
def test_results_are_in_order_and_reports_in_this_thread(count: int, workers: int, share: int) -> None:
    reports, threads = [], set()

    def report(*epoch: object) -> None:
        reports.append(epoch)
        threads.add(threading.get_ident())

    before = torch.get_num_threads()
    assert train_side_by_side(counting, count, workers, share, report, never_stop) == [
        (number, share) for number in range(count)
    ]
    assert threads == {threading.get_ident()}
    for number in range(count):
        assert [r for r in reports if r[0] == number] == [(number, epoch, number + epoch / 10) for epoch in (1, 2, 3)]
    assert len(reports) == 3 * count
    assert torch.get_num_threads() == before


def test_an_exception_in_report_stops_all() -> None:
    def report(*epoch: object) -> None:
        raise KeyError

    with pytest.raises(KeyError):
        train_side_by_side(endless, 3, 2, 1, report, never_stop)
    assert not training_threads()


def test_an_interruption_while_trainings_start_stops_those_that_run(monkeypatch: pytest.MonkeyPatch) -> None:
    submit = ThreadPoolExecutor.submit

    def submit_or_interrupt(pool: ThreadPoolExecutor, run: Callable[[int], object], number: int) -> object:
        if number == 1:
            raise KeyboardInterrupt
        return submit(pool, run, number)

    monkeypatch.setattr(ThreadPoolExecutor, "submit", submit_or_interrupt)
    with pytest.raises(KeyboardInterrupt):
        train_side_by_side(endless, 2, 2, 1, no_report, never_stop)
    assert not training_threads()


def test_an_exception_of_a_training_stops_the_others() -> None:
    def train(number: int, report: Report, stop: Stop) -> None:
        if number == 1:
            raise ZeroDivisionError("training 1")
        endless(number, report, stop)

    with pytest.raises(ZeroDivisionError, match="training 1"):
        train_side_by_side(train, 4, 2, 1, no_report, never_stop)


def test_a_stop_reaches_every_training() -> None:
    callers = []

    def stop() -> bool:
        callers.append(threading.current_thread().name)
        return len(set(callers)) == 2  # once both have called it

    assert train_side_by_side(endless, 2, 2, 1, no_report, stop) == [None, None]
