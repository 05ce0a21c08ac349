"""The contract of pools of workers, which evaluate jobs.

A pool takes at most `capacity` jobs at a time and answers each with exactly one event. A job has failed if its trainer
raised, ran out of memory or returned an invalid result; it has timed out if it was ended at its deadline; it is lost if
its worker died or its device failed, and then the worker is replaced. A pool retries nothing.
"""

from dataclasses import dataclass
from typing import Protocol

from fmnas.platform.experiment.observer import PoolStatus
from fmnas.platform.experiment.trial_result import Job
from fmnas.search_spaces import Evaluation
from fmnas.search_spaces.records import TIMED_OUT


@dataclass(frozen=True)
class FailedEvaluation:
    """The outcome of a job without an evaluation. status: FAILED, TIMED_OUT or LOST. reason: one line.

    seconds: what it took, if that is known otherwise than by the clock of the driver.
    """

    status: str
    reason: str
    seconds: float | None = None


def timed_out(seconds: float) -> FailedEvaluation:
    """Return the outcome of a job that was ended after `seconds`."""
    return FailedEvaluation(TIMED_OUT, f"timed out after {seconds:g} s (budget.trial_seconds)")


Outcome = Evaluation | FailedEvaluation


@dataclass(frozen=True)
class JobEnded:
    """The end of a job. worker: its name, NAME@HOST:PID on Ray."""

    job: Job
    worker: str
    result: Outcome


class Pool(PoolStatus, Protocol):
    """Evaluates jobs on workers."""

    @property
    def capacity(self) -> int:
        """The number of workers that are ready: how many jobs may run at a time."""

    def submit(self, job: Job) -> str:
        """Start a job and return its worker's name. Allowed while fewer than `capacity` jobs run."""

    def next_event(self, timeout: float) -> JobEnded | None:
        """Return the next event, or None after `timeout` seconds without one."""


def short_worker_name(worker: str) -> str:
    """Return a worker's name without its host and process."""
    return worker.partition("@")[0]
