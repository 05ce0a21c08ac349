"""How the trainings of an evaluation are arranged on a machine. It is a matter of speed: results agree up to rounding.

| arrangement | what it is | where |
|---|---|---|
| plain | the reference: one seed after another, torch's threads share each operation | everywhere |
| fast | the network rearranged for CPUs; seeds side by side, each with its share of the threads | CPUs |
| stacked | all seeds in one program; on a GPU, its step is captured as a CUDA graph | everywhere; slow on CPUs |
| auto | the fastest of them that the device has: fast on CPUs, stacked on GPUs | everywhere |

Seeds side by side are threads, not processes: on two cores a step of a seed took 44 ms of the largest cell either way,
and 15 to 19 against 15 to 18 of two others. The convolutions of the largest cell are four fifths of its step; they run
at 95 to 135 GFLOP/s on a core where a large matrix product had 79. torch.compile took a minute and then 30% more time
per step.

A step that cannot be captured is a device that fails: the evaluation is not trained in another, much slower way.

torch's operations let other threads run while they compute. What one reports reaches the listener in the thread that
asked for the evaluation: as it comes, each training's epochs in their order. The first exception, a training's or the
listener's, stops the others and is raised.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Literal, TypeVar, get_args

import torch

from fmnas.search_spaces import Cell, Schedule, Trial
from fmnas.trainers.contract import DeviceFailedError, Report, Stop, TrainerError, TrainingFailedError
from fmnas.trainers.images.devices import device_failure
from fmnas.trainers.problem import Arrangement

Way = Literal["plain", "fast", "stacked"]
ARRANGEMENTS: tuple[str, ...] = get_args(Arrangement)


@dataclass(frozen=True)
class Arranged:
    """An arrangement, worked out for a device.

    way: how a training is done. side_by_side: how many train at a time; of a stack, which is one program, 1.
    threads: torch's threads for each of them; None leaves them alone. captured: whether steps become CUDA graphs.
    """

    way: Way
    side_by_side: int
    threads: int | None
    captured: bool = False


def arrange(arrangement: Arrangement, device: torch.device, threads: int | None, seeds: int) -> Arranged:
    """What an arrangement means for `seeds` trainings on a device with this many CPU threads (None: torch's own).

    One thread per training is worth more than several on each, so threads are shared out only beyond one per seed.
    Raises TrainerError for an arrangement that is unknown, or not for this device.
    """
    if arrangement not in ARRANGEMENTS:
        raise TrainerError(f"arrangement = {arrangement!r}: it must be one of {', '.join(ARRANGEMENTS)}")
    on_cpu, on_gpu = device.type == "cpu", device.type == "cuda"
    if arrangement == "fast" and not on_cpu:
        raise TrainerError(f"arrangement = 'fast' is for CPUs, and device = '{device}': choose auto, plain or stacked")
    if arrangement == "stacked" or (arrangement == "auto" and on_gpu):
        return Arranged("stacked", 1, threads, captured=on_gpu)
    if arrangement == "plain" or not on_cpu:
        return Arranged("plain", 1, threads)
    own = threads if threads is not None else torch.get_num_threads()
    side_by_side = min(own, seeds)
    return Arranged("fast", side_by_side, own // side_by_side)


@dataclass(frozen=True)
class Task:
    """Trainings of a trial that one learner does, by their numbers.

    report, stop: the evaluation's, or those that a thread is given.
    """

    trial: Trial
    cell: Cell
    schedule: Schedule
    numbers: Sequence[int]
    report: Report
    stop: Stop

    def tell(self, epoch: int, errors: Sequence[float]) -> None:
        """Report an epoch, from 0, of every training: its errors."""
        for number, error in zip(self.numbers, errors, strict=True):
            self.report(number, epoch + 1, error)


@dataclass(frozen=True)
class Training:
    """How one training went: the validation error after each epoch, and whether it diverged."""

    errors: tuple[float, ...]
    diverged: bool


@contextmanager
def named_failure(task: Task, device: torch.device) -> Iterator[None]:
    """Names the trainings and their cell in what breaks down on the device.

    Raises TrainingFailedError; DeviceFailedError where it is the device's failure, see `device_failure`.
    """
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        reason = " ".join(str(error).split()) or "no reason given"
        numbers = " ".join(str(number) for number in task.numbers)
        what = f"training {numbers} of {task.cell} failed: {type(error).__name__}: {reason}"
        if why := device_failure(error, device):
            raise DeviceFailedError(f"{why} ({what})") from error
        raise TrainingFailedError(what) from error


Result = TypeVar("Result")
Train = Callable[[int, Report, Stop], Result]
"""Runs the training of that number; reports its epochs, and asks now and then whether to stop."""


def train_side_by_side(
    train: Train[Result], count: int, workers: int, threads: int | None, report: Report, stop: Stop
) -> list[Result]:
    """The results of trainings 0 to count - 1, `workers` of them at a time, each with so many of torch's threads."""
    news: SimpleQueue[tuple[int, int, float] | Future[Result]] = SimpleQueue()  # epochs, and trainings that are over
    over = threading.Event()

    def run(number: int) -> Result:
        return train(number, lambda *epoch: news.put(epoch), lambda: over.is_set() or stop())

    def begin() -> None:
        if threads is not None:
            torch.set_num_threads(threads)  # of this thread alone

    with ThreadPoolExecutor(workers, "training", begin) as pool:
        try:  # an evaluation may be broken off anywhere, while the threads start, too
            futures = [pool.submit(run, number) for number in range(count)]
            for future in futures:
                future.add_done_callback(news.put)
            _listen(news, count, report)
        except BaseException:
            over.set()
            pool.shutdown(wait=True, cancel_futures=True)
            raise
        return [future.result() for future in futures]


def _listen(news: "SimpleQueue[tuple[int, int, float] | Future[Result]]", count: int, report: Report) -> None:
    """Pass the epochs on until all trainings are over; raise what one of them raised."""
    while count:
        match news.get():
            case Future() as training:
                training.result()
                count -= 1
            case epoch:
                report(*epoch)
