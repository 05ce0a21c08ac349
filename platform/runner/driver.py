"""The driver: keeps the workers busy, and records what happens.

    while there is work:  give every free worker a job; wait for one to end; record it

Which jobs there are is up to a source: the trials that optimizers suggest, or incumbents to retrain. A job whose worker
was lost is repeated; too many failures in a row end the work.
"""

import time
from abc import ABC, abstractmethod
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from typing import ClassVar

from fmnas.platform.errors import Ending, ExperimentFailed
from fmnas.platform.experiment.events import Event, Lost, RetrainingFailed, RetrainingStarted, Started
from fmnas.platform.experiment.journal import Journal
from fmnas.platform.experiment.observer import Observer, Observers
from fmnas.platform.experiment.state import ExperimentState, report_result
from fmnas.platform.experiment.trial_result import Job
from fmnas.platform.workers.cancellation import Stopped, StopRequest
from fmnas.platform.workers.pool import JobEnded, Outcome, Pool
from fmnas.search_spaces import Evaluation

POLL_SECONDS = 0.25


@dataclass(frozen=True)
class Clock:
    """now: seconds since the epoch, for events. elapsed: monotonic seconds, for durations.

    suggesting: the context in which an optimizer is asked or given results; simulated time passes in no other.
    """

    now: Callable[[], float] = time.time
    elapsed: Callable[[], float] = time.perf_counter
    suggesting: Callable[[], AbstractContextManager[None]] = nullcontext


@dataclass(frozen=True)
class RunContext:
    """What a run needs besides its configuration and directory.

    observers: called in this order. address: of a Ray cluster; None starts one on this machine if needed.
    stop: the user's request to stop. print_tracebacks: whether exceptions of in-process trials are printed.
    """

    observers: Sequence[Observer] = ()
    stop: StopRequest = field(default_factory=StopRequest)
    address: str | None = None
    clock: Clock = field(default_factory=Clock)
    print_tracebacks: bool = True


@dataclass(frozen=True)
class RunningJob:
    """A job on a worker. since: monotonic seconds when it was submitted; started_at: the same since the epoch."""

    job: Job
    worker: str
    since: float
    started_at: float

    @property
    def attempt(self) -> tuple[str, int, int, str]:
        """The fields of an `AttemptEvent`."""
        return self.job.run, self.job.trial.id, self.job.attempt, self.worker


class JobSource(ABC):
    """Where the jobs of a driver come from, and which events describe them.

    start_event: type of the event of a job that was given to a worker.
    failure_message: why too many failures in a row end the work: a format with {count} and {last}.
    """

    start_event: ClassVar[type[Started | RetrainingStarted]]
    failure_message: ClassVar[str]

    @abstractmethod
    def unfinished_jobs(self, driver: "Driver") -> Iterable[Job]:
        """Return the jobs to start with."""

    @abstractmethod
    def end_event(self, running: RunningJob, result: Outcome, clock: Clock) -> Event:
        """Return the event of a job that ended with this result."""

    def next_job(self, driver: "Driver") -> Job | None:
        """Return one more job; None without one at present."""
        return None

    def has_more(self) -> bool:
        """Whether `next_job` may return a job now or later."""
        return False

    def closing_events(
        self, running: Sequence[RunningJob], status: Ending, reason: str, clock: Clock
    ) -> Sequence[Event]:
        """Return what is recorded when the driver ends while these jobs are running. reason: why it failed."""
        return ()

    def check_failures(self, failures: Sequence[str]) -> None:  # noqa: B027  # optional
        """Raise ExperimentFailed if no job is left, and these failures mean that the work failed."""


class Driver:
    """Works through the jobs of a source with the workers of a pool."""

    def __init__(
        self,
        state: ExperimentState,
        source: JobSource,
        journal: Journal,
        pool: Pool,
        observers: Observers,
        context: RunContext,
    ) -> None:
        self.state, self.observers = state, observers
        self.clock, self.stop = context.clock, context.stop
        self._source, self._journal, self._pool = source, journal, pool
        self._workers = state.config.workers
        self._waiting: deque[Job] = deque()
        self._running: dict[tuple[str, int], RunningJob] = {}
        self._failures: list[str] = []
        self._failures_in_a_row = 0
        self._is_stop_announced = False
        self.suggesting = ""  # the run whose optimizer is being asked
        self.tell_seconds: defaultdict[str, float] = defaultdict(float)  # by run, since its last suggestion

    def run(self) -> tuple[Ending, str]:
        """Work until no job is left or a stop is requested. Returns the status, and why the work failed if it did.

        Raises KeyboardInterrupt at the third stop request.
        """
        status, reason = Ending.INTERRUPTED, ""
        self.stop.is_checked = True
        try:
            self._waiting.extend(self._source.unfinished_jobs(self))
            while not (self.is_stopping() and self.stop.must_abandon(self._workers.grace_seconds)):
                self._fill()
                has_more = bool(self._waiting) or self._source.has_more()
                is_waiting_for_workers = has_more and self._pool.capacity == 0 and not self.is_stopping()
                if not self._running and not is_waiting_for_workers:
                    status = Ending.INTERRUPTED if has_more else Ending.FINISHED
                    break
                ended = self._pool.next_event(POLL_SECONDS)
                if ended is not None:
                    self._handle(ended)
            if status == Ending.FINISHED:
                self._source.check_failures(self._failures)
        except ExperimentFailed as error:
            status, reason = Ending.FAILED, str(error)
        finally:
            self.stop.is_checked = False
        try:
            for event in self._source.closing_events([*self._running.values()], status, reason, self.clock):
                self.record(event)
        except ExperimentFailed as error:  # such as a full disk
            status, reason = Ending.FAILED, reason or str(error)
        return status, reason

    def record(self, event: Event, wait: bool = True) -> None:
        """Write an event to the journal, apply it, report a result to its optimizer, and notify the observers."""
        self._journal.append(event, wait)
        result = self.state.ledger.apply(event)
        if result is not None:
            start = self.clock.elapsed()
            with self.clock.suggesting():
                report_result(self.state.experiment, result)
            self.tell_seconds[result.run] += self.clock.elapsed() - start
        self.observers.notify(Observer.on_event, event, result)

    def is_stopping(self) -> bool:
        """Whether the user has requested a stop, which is announced once."""
        if self.stop.count > 0 and not self._is_stop_announced:
            self._is_stop_announced = True
            first = f"waiting for {self.suggesting} to suggest a trial; " if self.suggesting else ""
            rest = f"running trials have {self._workers.grace_seconds:.0f} s to end; Ctrl-C again stops at once"
            with suppress(RuntimeError):  # the optimizer may be printing at this moment
                self.observers.on_message(f"stopping: {first}{rest}")
        return self.stop.count > 0

    def check_stop(self) -> None:
        """Raise Stopped, which interrupts a suggestion, after the second stop request."""
        if self.is_stopping() and self.stop.count > 1:
            raise Stopped

    def _fill(self) -> None:
        """Give every free worker a job; those that wait first."""
        while len(self._running) < self._pool.capacity and not self.is_stopping():
            job = self._waiting.popleft() if self._waiting else self._source.next_job(self)
            if job is None:
                return
            if self.is_stopping():  # the request came while the optimizer was asked
                self._waiting.appendleft(job)
                return
            running = RunningJob(job, self._pool.submit(job), self.clock.elapsed(), self.clock.now())
            self._running[job.key] = running
            self.record(self._source.start_event(*running.attempt, running.started_at), wait=False)

    def _handle(self, ended: JobEnded) -> None:
        """Record the end of a job, and repeat the job if its worker was lost."""
        job, result = ended.job, ended.result
        event = self._source.end_event(self._running.pop(job.key), result, self.clock)
        self.record(event)
        if isinstance(result, Evaluation):
            self._failures_in_a_row = 0
        elif isinstance(event, Lost | RetrainingFailed) and not event.final:
            self._waiting.append(replace(job, attempt=job.attempt + 1))
        else:
            self._failures.append(f"{job.run}, trial {job.trial.id}: {result.reason}")
            self._failures_in_a_row += 1
        if self._failures_in_a_row >= self._workers.failures:
            count, last = self._failures_in_a_row, self._failures[-1]
            raise ExperimentFailed(self._source.failure_message.format(count=count, last=last))
