"""Pools of workers: where trials are evaluated. The contract, its event, and the pool in this process.

Contract: a pool takes at most `capacity` jobs at a time and answers each with exactly one event. A failed job is the
trial's own fault (its exception, more memory than there is, or what is no result), and so is one that was ended at its
deadline; a lost one is the worker's, which died or whose device failed, and which is replaced. Nothing is retried by
the pool. What finished is whole, and all its numbers are finite.
"""

import math
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from fmnas.optimizers.isolation import same_working_directory
from fmnas.platform.errors import ExperimentFailed, print_traceback
from fmnas.platform.experiment.trial_result import Job
from fmnas.platform.workers.cancellation import Stopped, StopRequest, deadline
from fmnas.platform.workers.evaluation import Evaluator, Unfinished
from fmnas.search_spaces import Evaluation
from fmnas.search_spaces.records import LOST
from fmnas.trainers import Trainer, TrainerError, TrainingFailedError


def without_place(worker: str) -> str:
    """A worker's name for people who look at a screen, where its host and process take too much room."""
    return worker.partition("@")[0]


@dataclass(frozen=True)
class Event:
    """A job ended: which, on which worker, and with what."""

    job: Job
    worker: str
    result: Evaluation | Unfinished


class Pool(Protocol):
    """Evaluates jobs somewhere."""

    @property
    def capacity(self) -> int:
        """How many jobs may be in flight: the workers that are ready."""
        ...

    @property
    def size(self) -> int:
        """How many workers there are, ready or starting."""
        ...

    def submit(self, job: Job) -> str:
        """Start a job; returns the worker's name. Only while fewer than `capacity` are in flight."""
        ...

    def next_event(self, timeout: float) -> Event | None:
        """The next event, or None when none came within `timeout` seconds."""
        ...

    def progress(self) -> Mapping[tuple[str, int], int]:
        """(run, trial) -> epochs that its trainings have done together, of jobs in flight as far as it is known.

        Answered at once, in any thread, and some seconds old.
        """
        ...


class InProcessPool:
    """One job at a time in this process, for a debugger: the traceback of what a trial raised is printed, if `traced`.

    There is no other worker to give a job to when the device fails, and this process cannot use it any more: the
    experiment ends, the job is on record as cancelled, and a resume, which is a new process, repeats it.

    trial_seconds: how long a job may take. stop, grace_seconds: when a job is left unanswered.
    """

    capacity = size = 1

    def __init__(
        self,
        trainer: Trainer,
        trial_seconds: float = math.inf,
        stop: StopRequest | None = None,
        grace_seconds: float = 0.0,
        traced: bool = True,
    ) -> None:
        self._traced = traced
        self._evaluator = Evaluator(trainer)
        self._seconds = trial_seconds
        self._stop, self._grace = stop or StopRequest(), grace_seconds
        self._job: Job | None = None
        self._epochs = 0
        self._worker = f"in-process@{socket.gethostname()}"

    def submit(self, job: Job) -> str:
        """Remember the job; `next_event` evaluates it."""
        if self._job is not None:
            raise RuntimeError("a job is in flight already")
        self._job, self._epochs = job, 0
        return self._worker

    def next_event(self, timeout: float) -> Event | None:
        """Evaluate the job, until its deadline or a stop; after a stop it stays in flight.

        Raises ExperimentFailed when the device fails.
        """
        if self._job is None:
            return None
        try:
            event = self._evaluate(self._job)
        except Stopped:
            return None
        self._job = None
        return event

    def _evaluate(self, job: Job) -> Event:
        check_deadline = deadline(self._seconds)

        def check() -> None:
            if self._stop.over(self._grace):
                raise Stopped
            check_deadline()

        with same_working_directory():
            result = self._evaluator.result(job.trial, self._tell, check, self._seconds, self._trace)
        if isinstance(result, Unfinished) and result.status == LOST:
            raise ExperimentFailed(
                f"{job.run}, trial {job.trial.id}: {result.reason}. This process, the only worker, cannot train "
                "any more; it charged nobody. Mend the device and resume; workers.kind = ray replaces such a worker"
            )
        return Event(job, self._worker, result)

    def _trace(self, error: Exception) -> None:
        if self._traced and not isinstance(error, TrainerError):  # a TrainerError is about the result: no code raised
            cause = error.__cause__ if isinstance(error, TrainingFailedError) else None
            with suppress(OSError):  # nobody reads what goes wrong
                print_traceback(cause or error)

    def _tell(self, epochs: int) -> None:
        self._epochs = epochs

    def progress(self) -> Mapping[tuple[str, int], int]:
        """Of the one job, from its first epoch on."""
        job, epochs = self._job, self._epochs
        return {(job.run, job.trial.id): epochs} if job is not None and epochs else {}
