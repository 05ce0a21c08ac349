"""The pool in this process: one job at a time, for debuggers and small experiments."""

import math
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from fmnas.optimizers.isolation import same_working_directory
from fmnas.platform.errors import ExperimentFailed, print_traceback
from fmnas.platform.experiment.trial_result import Job
from fmnas.platform.workers.cancellation import Stopped, StopRequest, deadline
from fmnas.platform.workers.evaluation import evaluate_trial
from fmnas.platform.workers.pool import FailedEvaluation, JobEnded
from fmnas.platform.workers.system_metrics import SystemMonitor
from fmnas.search_spaces.records import LOST
from fmnas.trainers import Trainer, TrainerError, TrainingFailedError


class InProcessPool:
    """Evaluates one job at a time in this process.

    A device failure ends the experiment, as this process cannot use the device again; a resume repeats the job.
    trial_seconds: deadline of a job. stop, grace_seconds: when a running job is abandoned.
    print_tracebacks: whether to print the traceback of what a trial raised.
    monitor: measures what a trial uses of the machine.
    """

    capacity = size = 1

    def __init__(
        self,
        trainer: Trainer,
        trial_seconds: float = math.inf,
        stop: StopRequest | None = None,
        grace_seconds: float = 0.0,
        print_tracebacks: bool = True,
        monitor: SystemMonitor | None = None,
    ) -> None:
        self._trainer, self._print_tracebacks, self._monitor = trainer, print_tracebacks, monitor
        self._seconds, self._stop, self._grace = trial_seconds, stop or StopRequest(), grace_seconds
        self._job: Job | None = None
        self._epochs = 0
        self._worker = f"in-process@{socket.gethostname()}"

    def submit(self, job: Job) -> str:
        """Keep the job for `next_event`, which evaluates it."""
        if self._job is not None:
            raise RuntimeError("a job is running already")
        self._job, self._epochs = job, 0
        return self._worker

    def next_event(self, timeout: float) -> JobEnded | None:
        """Evaluate the job until its deadline or a stop request; None, and the job still runs, after a stop request.

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

    def _evaluate(self, job: Job) -> JobEnded:
        check_deadline = deadline(self._seconds)

        def check() -> None:
            if self._stop.must_abandon(self._grace):
                raise Stopped
            check_deadline()

        with same_working_directory():
            result = evaluate_trial(
                self._trainer,
                replace(job.trial, configuration=dict(job.trial.configuration)),  # the ledger keeps its own
                self._report,
                check,
                self._seconds,
                interrupt=True,
                monitor=self._monitor,
                on_error=self._on_error,
            )
        if isinstance(result, FailedEvaluation) and result.status == LOST:
            raise ExperimentFailed(
                f"{job.run}, trial {job.trial.id}: {result.reason}. The device failed and this process cannot use it "
                "again (the trial is not charged): fix it and resume, or use workers.kind = ray, which replaces workers"
            )
        return JobEnded(job, self._worker, result)

    def _on_error(self, error: Exception) -> None:
        if self._print_tracebacks and not isinstance(error, TrainerError):  # that is an invalid result: no code raised
            cause = error.__cause__ if isinstance(error, TrainingFailedError) else None
            with suppress(OSError):  # stderr may be closed
                print_traceback(cause or error)

    def _report(self, epochs: int) -> None:
        self._epochs = epochs

    def progress(self) -> Mapping[tuple[str, int], int]:
        """See Pool; the job is in it from its first epoch on."""
        job, epochs = self._job, self._epochs
        return {(job.run, job.trial.id): epochs} if job is not None and epochs else {}
