"""The driver: the loop that asks, journals, dispatches and tells. Only it touches pool, journal and tracker.

for each run with budget and a free worker:  ask, journal, submit
for each event:                              journal, tell, track
"""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from fmnas.platform.config.config import WorkersConfig
from fmnas.platform.errors import Ending, ExperimentFailed, one_line
from fmnas.platform.record.events import asked_record, finished_record, lost_record, started_record, unfinished_record
from fmnas.platform.record.experiment import Run
from fmnas.platform.record.journal import Journal, Record
from fmnas.platform.record.state import ExperimentState
from fmnas.platform.screen.progress import Progress
from fmnas.platform.tracking.tracker import Tracker
from fmnas.platform.workers.pool import Event, Failed, Finished, Job, Pool, TimedOut
from fmnas.platform.workers.stop import Stopped, StopRequest, watched
from fmnas.search_spaces import Trial
from fmnas.search_spaces.records import CANCELLED, FAILED, TIMED_OUT

POLL_SECONDS = 0.25
STOPPED = "it was stopped before it had finished; a resume repeats it"
ABANDONED = "the experiment failed before it had finished; a resume repeats it"


@dataclass(frozen=True)
class Clock:
    """now: seconds since the epoch, for records. elapsed: monotonic seconds, for durations."""

    now: Callable[[], float] = time.time
    elapsed: Callable[[], float] = time.perf_counter


@dataclass(frozen=True)
class Stage:
    """What the driver works with: the pool, the journal, and who follows along."""

    pool: Pool
    journal: Journal
    tracker: Tracker
    progress: Progress
    stop: StopRequest
    clock: Clock = field(default_factory=Clock)


@dataclass(frozen=True)
class _Flight:
    """A job in flight, its worker, and when it was submitted, in monotonic seconds."""

    job: Job
    worker: str
    since: float


class Driver:
    """Runs an experiment from its state to the end of every budget."""

    def __init__(self, state: ExperimentState, workers: WorkersConfig, stage: Stage) -> None:
        self._state, self._workers, self._stage = state, workers, stage
        self._waiting: deque[Job] = deque(state.unfinished())
        self._flying: dict[tuple[str, int], _Flight] = {}  # (run, trial) ->
        self._failures = 0
        self._announced = False

    def run(self) -> Ending:
        """Go on until every budget is spent or a stop is asked for: FINISHED or INTERRUPTED.

        Raises ExperimentFailed when too many trials in a row failed or were lost for good, or an optimizer raised.
        """
        self._stage.stop.heeded = True
        try:
            return self._drive()
        except ExperimentFailed:
            self._cancel(ABANDONED)
            raise
        finally:
            self._stage.stop.heeded = False

    def _drive(self) -> Ending:
        while True:
            self._fill()
            if not self._flying and not self._waits_for_workers():
                break
            event = self._stage.pool.next_event(POLL_SECONDS)
            if event is not None:
                self._handle(event)
            if self._out_of_patience():
                self._cancel(STOPPED)
                return Ending.INTERRUPTED
        return Ending.FINISHED if not self._waiting and self._all_spent() else Ending.INTERRUPTED

    def _waits_for_workers(self) -> bool:
        """Whether there is work, and no worker is ready: they are being built, or their nodes are gone."""
        return (
            self._stage.pool.capacity == 0 and not self._stopping() and (bool(self._waiting) or not self._all_spent())
        )

    def _all_spent(self) -> bool:
        return all(run.over or run.budget.exhausted for run in self._state.runs.values())

    def _fill(self) -> None:
        """Give every free worker a job: trials to repeat first, then the runs that have spent least."""
        while len(self._flying) < self._stage.pool.capacity and not self._stopping():
            job = self._waiting.popleft() if self._waiting else self._next_job()
            if job is None:
                return
            if self._stopping():  # it came while an optimizer thought
                self._waiting.appendleft(job)
                return
            worker = self._stage.pool.submit(job)
            self._flying[job.run, job.trial.id] = _Flight(job, worker, self._stage.clock.elapsed())
            self._record(started_record(job, worker, self._stage.clock.now()), wait=False)
            self._stage.progress.started(job, worker)

    def _next_job(self) -> Job | None:
        for run in sorted(self._state.runs.values(), key=lambda run: run.budget.spent + run.budget.committed):
            if not self._stopping() and not run.over and self._state.in_flight(run.name) < run.concurrency:
                trial = self._ask(run)
                if trial is not None:
                    return Job(run.name, trial)
        return None

    def _ask(self, run: Run) -> Trial | None:
        """The run's next trial, on record; None if it must wait or its budget affords no more."""
        if run.budget.exhausted:
            run.over = True
            return None
        self._stage.progress.suggesting(run.name)
        start = self._stage.clock.elapsed()
        try:
            with watched(self._check_stop):
                trial = run.optimizer.ask()
        except Stopped:
            return None
        except Exception as error:
            raise ExperimentFailed(f"{run.name}: the optimizer failed: {one_line(error)}") from error
        seconds = self._stage.clock.elapsed() - start
        self._stage.progress.suggesting("")
        if trial is None:
            return None
        if not run.budget.affords(trial.epochs, seconds):
            run.over = True
            return None
        trial = replace(trial, seed=self._state.experiment.trial_seed(run, trial))
        self._record(asked_record(run.name, trial, seconds, self._stage.clock.now()), wait=False)
        return trial

    def _stopping(self) -> bool:
        return self._stage.stop.count > 0

    def _check_stop(self) -> None:
        """A second stop request does not wait for an optimizer either."""
        if self._stage.stop.count > 1:
            raise Stopped

    def _handle(self, event: Event) -> None:
        job, now = event.job, self._stage.clock.now()
        seconds = self._stage.clock.elapsed() - self._flying.pop((job.run, job.trial.id)).since
        if isinstance(event, Finished):
            self._failures = 0
            self._record(finished_record(job, event.worker, event.evaluation, now))
        elif isinstance(event, Failed | TimedOut):
            status = FAILED if isinstance(event, Failed) else TIMED_OUT
            self._record({**unfinished_record(status, job, event.worker, event.reason, now), "seconds": seconds})
            self._count_failure(f"{job.run}, trial {job.trial.id}: {event.reason}")
        else:
            losses = self._state.open[job.run, job.trial.id].losses + 1
            final = losses >= self._workers.attempts
            self._record(lost_record(job, event.worker, event.reason, final, now))
            self._stage.progress.lost(job, event.worker, event.reason)
            if final:
                self._count_failure(f"{job.run}, trial {job.trial.id}: its worker was lost {losses} times")
            else:
                self._waiting.append(replace(job, attempt=job.attempt + 1))

    def _cancel(self, reason: str) -> None:
        """What still runs is left, on record."""
        now = self._stage.clock.now()
        for flight in self._flying.values():
            self._record(unfinished_record(CANCELLED, flight.job, flight.worker, reason, now))

    def _record(self, record: Record, wait: bool = True) -> None:
        """Journal first, then tell (the state does), then track."""
        self._stage.journal.append(record, wait)
        ended = self._state.apply(record)
        if ended is not None:
            self._stage.tracker.trial(*ended)
            self._stage.progress.ended(ended[0])

    def _count_failure(self, what: str) -> None:
        self._failures += 1
        if self._failures >= self._workers.failures:
            raise ExperimentFailed(
                f"{self._failures} trials in a row failed, the last being {what}. "
                "Mend the cause and resume, or raise workers.failures"
            )

    def _out_of_patience(self) -> bool:
        """After a stop request: whether a second came, or the grace time for running trials is over."""
        stop, grace = self._stage.stop, self._workers.grace_seconds
        if stop.count and not self._announced:
            self._announced = True
            self._stage.progress.say(
                f"stopping: waiting up to {grace:.0f} s for {len(self._flying)} running trial(s); "
                "Ctrl-C again stops at once"
            )
        return stop.over(grace)
