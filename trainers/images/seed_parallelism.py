"""How the trainings of an evaluation share a machine. It affects speed only: results agree up to float rounding.

| arrangement | meaning | devices |
|---|---|---|
| plain | the reference: one seed after another; torch's threads share each operation | all |
| fast | the network rewritten for CPUs; one thread per seed, each with its share of torch's threads | CPUs |
| stacked | all seeds in one program; on a GPU its step is captured as a CUDA graph | all; slow on CPUs |
| auto | fast on CPUs, stacked on GPUs | all |

Seeds run in threads, not in processes: on two cores, a step of a seed of the largest cell took 44 ms either way. Its
convolutions run at 95 to 135 GFLOP/s per core, where a large matrix product had 79. torch.compile took a minute and
then 30% more per step. A step that cannot be captured is a device failure, without a fallback to a slower arrangement.

Reports reach the caller in its own thread, each training's epochs in order. The first exception, of a training or of
the caller's report, stops the other trainings and is raised.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Literal

import torch

from fmnas.search_spaces import Cell, Schedule, Trial
from fmnas.trainers.contract import DeviceFailedError, Report, Stop, TrainerError, TrainingFailedError
from fmnas.trainers.images.training import Weights
from fmnas.trainers.memory import device_failure, error_text
from fmnas.trainers.problem import Arrangement

Mode = Literal["plain", "fast", "stacked"]


@dataclass(frozen=True)
class TrainingPlan:
    """An arrangement, resolved for a device.

    side_by_side: trainings at the same time; 1 for stacked ones, which are a single program.
    threads: torch's threads per training; None: unchanged. captured: whether steps become CUDA graphs.
    """

    mode: Mode
    side_by_side: int
    threads: int | None
    captured: bool = False


def plan_training(arrangement: Arrangement, device: torch.device, threads: int | None, seeds: int) -> TrainingPlan:
    """The plan for `seeds` trainings on a device with this number of CPU threads (None: torch's).

    A second training is a better use of a thread than a second thread per training, so trainings get more than one
    only if there are more threads than seeds. Raises TrainerError if the arrangement does not support the device.
    """
    on_cpu, on_gpu = device.type == "cpu", device.type == "cuda"
    if arrangement == "fast" and not on_cpu:
        raise TrainerError(f"arrangement = 'fast' needs a CPU, not device = '{device}': choose auto, plain or stacked")
    if arrangement == "stacked" or (arrangement == "auto" and on_gpu):
        return TrainingPlan("stacked", 1, threads, captured=on_gpu)
    if arrangement == "plain" or not on_cpu:
        return TrainingPlan("plain", 1, threads)
    available = threads if threads is not None else torch.get_num_threads()
    side_by_side = min(available, seeds)
    return TrainingPlan("fast", side_by_side, available // side_by_side)


@dataclass(frozen=True)
class Task:
    """The trainings of a trial that one learner runs, by their numbers, and where they report."""

    trial: Trial
    cell: Cell
    schedule: Schedule
    numbers: Sequence[int]
    report: Report
    stop: Stop

    def report_epoch(self, epoch: int, errors: Sequence[float]) -> None:
        """Report an epoch (from 0) of every training, with their errors."""
        for number, error in zip(self.numbers, errors, strict=True):
            self.report(number, epoch + 1, error)


@dataclass(frozen=True)
class Training:
    """The result of one training: the validation error after each epoch, and whether it diverged.

    weights: of the network; empty if they are not kept.
    """

    errors: tuple[float, ...]
    diverged: bool
    weights: Weights = field(default_factory=dict)


@contextmanager
def wrap_device_errors(task: Task, device: torch.device) -> Iterator[None]:
    """Convert errors of the device to TrainingFailedError, with the trainings and their cell.

    Raises DeviceFailedError instead if the device has failed, see `device_failure`.
    """
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        numbers = " ".join(map(str, task.numbers))
        message = f"training {numbers} of {task.cell} failed: {type(error).__name__}: {error_text(error)}"
        if failure := device_failure(error, device):
            raise DeviceFailedError(f"{failure} ({message})") from error
        raise TrainingFailedError(message) from error


Train = Callable[[int, Report, Stop], Training]
"""Runs one of the trainings, by its place among them; calls report after each epoch and stop before each step."""


def train_side_by_side(
    train: Train, count: int, workers: int, threads: int, report: Report, stop: Stop
) -> list[Training]:
    """The results of trainings 0 to count - 1, `workers` at a time, each with this number of torch's threads."""
    events: SimpleQueue[tuple[int, int, float] | Future[Training]] = SimpleQueue()  # epochs, and trainings that ended
    stopped = threading.Event()

    def run(number: int) -> Training:
        return train(number, lambda *epoch: events.put(epoch), lambda: stopped.is_set() or stop())

    # torch.set_num_threads is for each of the pool's threads.
    with ThreadPoolExecutor(workers, "training", torch.set_num_threads, (threads,)) as pool:
        try:  # an evaluation may be interrupted anywhere, also while the threads start
            futures = [pool.submit(run, number) for number in range(count)]
            for future in futures:
                future.add_done_callback(events.put)
            running = count
            while running:
                match events.get():
                    case Future() as training:
                        training.result()  # raises what the training raised
                        running -= 1
                    case epoch:
                        report(*epoch)
        except BaseException:
            stopped.set()
            pool.shutdown(wait=True, cancel_futures=True)
            raise
        return [future.result() for future in futures]
