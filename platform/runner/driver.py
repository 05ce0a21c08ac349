"""The driver: the loop that keeps workers busy (`Dispatcher`), and what an experiment does in it (`Driver`).

while there is work:  give every free worker a job; wait for an event; leave what runs once a stop's grace is over

A lost job is repeated until its attempts are used up; too many failures in a row end the loop. A retraining has the
same loop (retraining.py). An experiment, in it:

for each run with budget and a free worker:  ask, journal, submit; or journal the result, where it is known
for each event:                              journal, tell, track
"""

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, TypeVar

from fmnas.optimizers.isolation import same_working_directory
from fmnas.platform.config.schema import WorkersConfig
from fmnas.platform.display.progress import ExperimentProgress, JobProgress
from fmnas.platform.errors import LET_THROUGH, Ending, ExperimentFailed, one_line, own_line
from fmnas.platform.experiment.events import asked_record, job_record
from fmnas.platform.experiment.experiment import Run
from fmnas.platform.experiment.journal import STARTED, Journal, Record
from fmnas.platform.experiment.state import ExperimentState
from fmnas.platform.experiment.trial_result import Job
from fmnas.platform.mlflow.sync import Tracker
from fmnas.platform.workers.cancellation import Stopped, StopRequest, interruptible
from fmnas.platform.workers.pool import Event, Pool
from fmnas.search_spaces import Evaluation, Trial
from fmnas.search_spaces.records import CANCELLED, FINISHED, LOST

POLL_SECONDS = 0.25
PATIENCE_SECONDS = 2.0
"""How long a stop request waits for an optimizer before a person is told so."""


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


Progress = TypeVar("Progress", bound=JobProgress)


@dataclass(frozen=True)
class Stage(Generic[Progress]):
    """What a dispatcher works with: the pool, who follows along, and who may stop it."""

    pool: Pool
    progress: Progress
    stop: StopRequest
    clock: Clock = field(default_factory=Clock)


class Dispatcher(ABC, Generic[Progress]):
    """Works through jobs. A subclass says what becomes of them, and may have more of them than those that wait.

    waiting: jobs that go first.
    """

    too_many: ClassVar[str]
    """Why it ends after too many failures in a row: {count} of them, {last} the last."""

    def __init__(self, stage: Stage[Progress], workers: WorkersConfig, waiting: Iterable[Job]) -> None:
        self._pool, self._progress, self._stop, self._clock = stage.pool, stage.progress, stage.stop, stage.clock
        self._workers, self._waiting = workers, deque(waiting)
        self._flying: dict[tuple[str, int], Flight] = {}  # (run, trial) ->
        self._failures: list[str] = []
        self._failures_in_a_row = 0

    def _started(self, flight: Flight) -> None:
        """A worker has begun a job."""
        self._progress.started(flight.job, flight.worker)

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
        elif event.result.status == LOST:
            self._waiting.append(replace(job, attempt=job.attempt + 1))


def epochs_reached(pool: Pool, trainings: int) -> dict[tuple[str, int], int]:
    """(run, trial) -> the epochs that its trainings, so many per trial, have done on average, rounded down."""
    return {key: epochs // max(1, trainings) for key, epochs in pool.progress().items()}


class Driver(Dispatcher[ExperimentProgress]):
    """Runs an experiment from its state to the end of every budget.

    It also fails when an optimizer raises. Trials to repeat go first, then the runs that have spent least.
    """

    too_many = (
        "{count} trials in a row failed, the last being {last}. Mend the cause and go on, or allow more in a row "
        "(workers.failures, or failures= of minimize)"
    )

    def __init__(
        self, state: ExperimentState, stage: Stage[ExperimentProgress], journal: Journal, tracker: Tracker
    ) -> None:
        unfinished = (Job(run, opened.trial, opened.attempt + 1) for (run, _), opened in state.open.items())
        super().__init__(stage, state.experiment.config.workers, unfinished)
        self._state, self._journal, self._tracker = state, journal, tracker
        self._announced, self._waits = False, False

    def _drive(self) -> Ending:
        try:
            self._waiting = deque(job for job in self._waiting if not self._is_known(job))
            ending = super()._drive()
        except ExperimentFailed:
            self._cancel("the experiment failed before it had finished; a resume repeats it")
            raise
        self._cancel("it was stopped before it had finished; a resume repeats it")
        return ending

    def _has_more(self) -> bool:
        return not all(run.done for run in self._state.runs.values())

    def _next_job(self) -> Job | None:
        """The next trial that a worker is to evaluate; those that are known are passed over, with their results."""
        while (job := self._asked()) is not None:
            if not self._is_known(job):
                return job
        return None

    def _is_known(self, job: Job) -> bool:
        """Whether an earlier experiment has the result, which then goes on record."""
        known = self._state.runs[job.run].warm_start.evaluation(job.trial)
        if known is not None:
            self._record(job_record(FINISHED, job, "", self._clock.now(), evaluation=known.to_dict()))
        return known is not None

    def _asked(self) -> Job | None:
        """A trial of the run that has spent least, on record; None if all must wait or are over."""
        for run in sorted(self._state.runs.values(), key=lambda run: run.budget.spent + run.budget.committed):
            if not self._stopping() and not run.done and self._state.in_flight(run.name) < run.concurrency:
                trial = self._ask(run)
                if trial is not None:
                    return Job(run.name, trial)
        return None

    def _ask(self, run: Run) -> Trial | None:
        """The run's next trial, on record; None if it must wait or its budget affords no more."""
        self._progress.suggesting(run.name)
        start = self._clock.elapsed()
        try:
            with same_working_directory(), interruptible(lambda: self._check_stop(run)):
                suggested = run.optimizer.ask()
            trial = None if suggested is None else self._state.experiment.issued(run, suggested)
        except Stopped:
            return None
        except LET_THROUGH:
            raise
        except BaseException as error:
            told = f"{one_line(error)}{own_line(error)}"
            raise ExperimentFailed(f"{run.name}: the optimizer failed: {told}") from error
        seconds = self._clock.elapsed() - start
        self._progress.suggesting("")
        if trial is None:
            return None
        if not run.budget.affords(trial.epochs, seconds):
            run.over = True
            return None
        self._record(asked_record(run.name, trial, seconds, self._clock.now()), wait=False)
        return trial

    def _check_stop(self, run: Run) -> None:
        """A second stop request does not wait for an optimizer either; the first is told of one that takes long."""
        if self._stop.count > 1:
            raise Stopped
        if not self._waits and self._stop.over(PATIENCE_SECONDS):
            self._waits = True
            with suppress(RuntimeError):  # the optimizer may itself be printing
                self._progress.say(f"stopping: waiting for {run.name} to suggest; Ctrl-C again stops at once")

    def _started(self, flight: Flight) -> None:
        self._record(job_record(STARTED, flight.job, flight.worker, flight.at), wait=False)
        super()._started(flight)

    def _ended(self, event: Event, flight: Flight) -> str:
        result, seconds = event.result, self._clock.elapsed() - flight.since
        if isinstance(result, Evaluation):
            self._record_end(FINISHED, event, evaluation=result.to_dict())
            return ""
        if result.status == LOST:
            return self._lost(event, result.reason)
        self._record_end(result.status, event, reason=result.reason, seconds=seconds)
        return result.reason

    def _lost(self, event: Event, reason: str) -> str:
        """Why it is not repeated, if it is not. Workers that earlier drivers lost count, too."""
        losses = self._state.open[event.job.run, event.job.trial.id].losses + 1
        final = losses >= self._workers.attempts
        self._record_end(LOST, event, reason=reason, final=final)
        self._progress.lost(event.job, event.worker, reason)
        return f"its worker was lost {losses} times" if final else ""

    def _record_end(self, status: str, event: Event, **facts: Any) -> None:
        self._record(job_record(status, event.job, event.worker, self._clock.now(), **facts))

    def _cancel(self, reason: str) -> None:
        """What still runs is left, on record."""
        now = self._clock.now()
        for flight in self._flying.values():
            self._record(job_record(CANCELLED, flight.job, flight.worker, now, reason=reason))

    def _out_of_patience(self) -> bool:
        if self._stopping() and not self._announced:
            self._announced = True
            self._progress.say(
                f"stopping: waiting up to {self._workers.grace_seconds:.0f} s for {len(self._flying)} running "
                "trial(s); Ctrl-C again stops at once"
            )
        return super()._out_of_patience()

    def _record(self, record: Record, wait: bool = True) -> None:
        """Journal first, then tell (the state does), then track."""
        ended = self._state.record(self._journal, record, wait)
        if ended is not None:
            self._tracker.trial(ended)
            self._progress.ended(ended)
