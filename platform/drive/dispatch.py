"""The loop that keeps workers busy, for the driver of an experiment and for a retraining.

while there is work:  give every free worker a job; wait for an event; leave what runs once a stop's grace is over

A lost job is repeated until its attempts are used up; too many failures in a row end the loop.
"""

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import ClassVar

from fmnas.platform.config.config import WorkersConfig
from fmnas.platform.errors import Ending, ExperimentFailed
from fmnas.platform.record.outcome import Job
from fmnas.platform.workers.pool import Event, Pool
from fmnas.platform.workers.stop import StopRequest
from fmnas.search_spaces import Evaluation

POLL_SECONDS = 0.25


@dataclass(frozen=True)
class Clock:
    """now: seconds since the epoch, for records. elapsed: monotonic seconds, for durations."""

    now: Callable[[], float] = time.time
    elapsed: Callable[[], float] = time.perf_counter


@dataclass(frozen=True)
class Flight:
    """A job in flight and its worker. since, at: when it was submitted, in monotonic seconds and since the epoch."""

    job: Job
    worker: str
    since: float
    at: float


class Dispatcher(ABC):
    """Works through jobs. A subclass says what becomes of them, and may have more of them than those that wait.

    waiting: jobs that go first.
    """

    too_many: ClassVar[str]
    """Why it ends after too many failures in a row: {count} of them, {last} the last."""

    def __init__(
        self, pool: Pool, stop: StopRequest, clock: Clock, workers: WorkersConfig, waiting: Iterable[Job]
    ) -> None:
        self._pool, self._stop, self._clock, self._workers = pool, stop, clock, workers
        self._waiting = deque(waiting)
        self._flying: dict[tuple[str, int], Flight] = {}  # (run, trial) ->
        self._failures: list[str] = []
        self._failures_in_a_row = 0

    @abstractmethod
    def _started(self, flight: Flight) -> None:
        """A worker has begun a job."""

    @abstractmethod
    def _ended(self, event: Event, flight: Flight) -> str:
        """A job ended: why it counts as failed; "" if it finished, or was lost and is to be repeated."""

    def _has_more(self) -> bool:
        """Whether there will be jobs beside those that wait."""
        return False

    def _next_job(self) -> Job | None:
        """One beside those that wait; None if there is none now."""
        return None

    def run(self) -> Ending:
        """Go on until no work is left or a stop is asked for: FINISHED or INTERRUPTED.

        Raises ExperimentFailed when too many jobs in a row failed.
        """
        self._stop.heeded = True
        try:
            return self._drive()
        finally:
            self._stop.heeded = False

    def _drive(self) -> Ending:
        while True:
            self._fill()
            if not self._flying and not self._waits_for_workers():
                return Ending.INTERRUPTED if self._waiting or self._has_more() else Ending.FINISHED
            event = self._pool.next_event(POLL_SECONDS)
            if event is not None:
                self._handle(event)
            if self._out_of_patience():
                return Ending.INTERRUPTED

    def _stopping(self) -> bool:
        return self._stop.count > 0

    def _out_of_patience(self) -> bool:
        """After a stop request: whether a second came, or the grace time for what runs is over."""
        return self._stop.over(self._workers.grace_seconds)

    def _waits_for_workers(self) -> bool:
        """Whether there is work, and no worker is ready: they are being built, or their nodes are gone."""
        return self._pool.capacity == 0 and not self._stopping() and (bool(self._waiting) or self._has_more())

    def _fill(self) -> None:
        """Give every free worker a job, those that wait first."""
        while len(self._flying) < self._pool.capacity and not self._stopping():
            job = self._waiting.popleft() if self._waiting else self._next_job()
            if job is None:
                return
            if self._stopping():  # it came while the job was sought
                self._waiting.appendleft(job)
                return
            flight = Flight(job, self._pool.submit(job), self._clock.elapsed(), self._clock.now())
            self._flying[job.run, job.trial.id] = flight
            self._started(flight)

    def _handle(self, event: Event) -> None:
        job = event.job
        failure = self._ended(event, self._flying.pop((job.run, job.trial.id)))
        if failure:
            self._failures.append(f"{job.run}, trial {job.trial.id}: {failure}")
            self._failures_in_a_row += 1
            if self._failures_in_a_row >= self._workers.failures:
                raise ExperimentFailed(self.too_many.format(count=self._failures_in_a_row, last=self._failures[-1]))
        elif isinstance(event.result, Evaluation):
            self._failures_in_a_row = 0
        else:
            self._waiting.append(replace(job, attempt=job.attempt + 1))


def epochs_reached(pool: Pool, trainings: int) -> dict[tuple[str, int], int]:
    """(run, trial) -> the epochs that its trainings, so many per trial, have done on average, rounded down."""
    return {key: epochs // max(1, trainings) for key, epochs in pool.progress().items()}
