"""Trainings side by side, in threads: torch's operations let the other threads run while they compute.

What a training reports reaches the listener in the thread that asked for the evaluation: as it comes, each training's
epochs in their order. The first exception, a training's or the listener's, stops the others and is raised.
"""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from queue import SimpleQueue
from typing import TypeVar

import torch

from fmnas.trainers.trainer import Report, Stop

Result = TypeVar("Result")
Train = Callable[[int, Report, Stop], Result]
"""Runs the training of that number; reports its epochs, and asks now and then whether to stop."""


@dataclass(frozen=True)
class _Epoch:
    number: int
    epochs: int
    error: float


@dataclass(frozen=True)
class _End:
    """A training is over; with what it raised, if it did."""

    error: BaseException | None


def train_in_turn(train: Train[Result], count: int, report: Report, stop: Stop) -> list[Result]:
    """One training after another, in this thread."""
    return [train(number, report, stop) for number in range(count)]


def train_side_by_side(
    train: Train[Result], count: int, workers: int, threads: int | None, report: Report, stop: Stop
) -> list[Result]:
    """The results of trainings 0 to count - 1, `workers` of them at a time, each with so many of torch's threads."""
    news: SimpleQueue[_Epoch | _End] = SimpleQueue()
    over = threading.Event()

    def run(number: int) -> Result:
        error: BaseException | None = None
        try:
            return train(number, lambda *epoch: news.put(_Epoch(*epoch)), lambda: over.is_set() or stop())
        except BaseException as caught:
            error = caught
            raise
        finally:
            news.put(_End(error))

    def begin() -> None:
        if threads is not None:
            torch.set_num_threads(threads)  # of this thread alone

    with ThreadPoolExecutor(workers, "training", begin) as pool:
        try:  # an evaluation may be broken off anywhere, while the threads start, too
            futures = [pool.submit(run, number) for number in range(count)]
            _listen(news, count, report)
        except BaseException:
            over.set()
            pool.shutdown(wait=True, cancel_futures=True)
            raise
        return [future.result() for future in futures]


def _listen(news: "SimpleQueue[_Epoch | _End]", count: int, report: Report) -> None:
    """Pass the news on until all trainings are over; raise what one of them raised."""
    running = count
    while running:
        match news.get():
            case _Epoch(number, epochs, error):
                report(number, epochs, error)
            case _End(error):
                if error is not None:
                    raise error
                running -= 1
