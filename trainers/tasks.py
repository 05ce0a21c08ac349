"""What a learner is to do for a trial, and what comes of it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from fmnas.search_spaces import Cell, Trial
from fmnas.trainers.arrangement import Arranged
from fmnas.trainers.devices import device_failure
from fmnas.trainers.errors import DeviceFailedError, TrainingFailedError
from fmnas.trainers.trainer import Report, Stop


@dataclass(frozen=True)
class Task:
    """Trainings of a trial that one learner does: their numbers, and how they are arranged.

    report, stop: the evaluation's, or those that a thread is given.
    """

    trial: Trial
    cell: Cell
    numbers: Sequence[int]
    how: Arranged
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
