"""The driver: the loop that asks, journals, dispatches and tells.

for each run with budget and a free worker:  ask, journal, submit; or journal the result, where it is known
for each event:                              journal, tell, track
"""

from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from fmnas.platform.config.config import WorkersConfig
from fmnas.platform.drive.dispatch import Clock, Dispatcher, Flight
from fmnas.platform.errors import Ending, ExperimentFailed, one_line, own_line
from fmnas.platform.record.events import asked_record, job_record
from fmnas.platform.record.experiment import Run
from fmnas.platform.record.journal import STARTED, Journal, Record
from fmnas.platform.record.outcome import Job
from fmnas.platform.record.state import ExperimentState
from fmnas.platform.screen.progress import Progress
from fmnas.platform.tracking.tracker import Tracker
from fmnas.platform.workers.pool import Event, Pool
from fmnas.platform.workers.stop import Stopped, StopRequest, watched
from fmnas.search_spaces import Evaluation, Trial
from fmnas.search_spaces.records import CANCELLED, FINISHED, LOST

NOBODY = ""
"""In place of a worker, of a trial that none evaluated."""
PATIENCE_SECONDS = 2.0
"""How long a stop request waits for an optimizer before a person is told so."""


@dataclass(frozen=True)
class Stage:
    """What the driver works with: the pool, the journal, and who follows along."""

    pool: Pool
    journal: Journal
    tracker: Tracker
    progress: Progress
    stop: StopRequest
    clock: Clock = field(default_factory=Clock)


class Driver(Dispatcher):
    """Runs an experiment from its state to the end of every budget.

    It also fails when an optimizer raises. Trials to repeat go first, then the runs that have spent least.
    """

    too_many = (
        "{count} trials in a row failed, the last being {last}. Mend the cause and go on, or allow more in a row "
        "(workers.failures, or failures= of minimize)"
    )

    def __init__(self, state: ExperimentState, workers: WorkersConfig, stage: Stage) -> None:
        super().__init__(stage.pool, stage.stop, stage.clock, workers, state.unfinished())
        self._state, self._stage = state, stage
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
            self._record(job_record(FINISHED, job, NOBODY, self._clock.now(), evaluation=known.to_dict()))
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
        self._stage.progress.suggesting(run.name)
        start = self._clock.elapsed()
        try:
            with watched(lambda: self._check_stop(run)):
                suggested = run.optimizer.ask()
            trial = None if suggested is None else self._state.experiment.issued(run, suggested)
        except Stopped:
            return None
        except (Exception, SystemExit) as error:
            told = f"{one_line(error)}{own_line(error)}"
            raise ExperimentFailed(f"{run.name}: the optimizer failed: {told}") from error
        seconds = self._clock.elapsed() - start
        self._stage.progress.suggesting("")
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
                self._stage.progress.say(f"stopping: waiting for {run.name} to suggest; Ctrl-C again stops at once")

    def _started(self, flight: Flight) -> None:
        self._record(job_record(STARTED, flight.job, flight.worker, flight.at), wait=False)
        self._stage.progress.started(flight.job, flight.worker)

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
        self._stage.progress.lost(event.job, event.worker, reason)
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
            self._stage.progress.say(
                f"stopping: waiting up to {self._workers.grace_seconds:.0f} s for {len(self._flying)} running "
                "trial(s); Ctrl-C again stops at once"
            )
        return super()._out_of_patience()

    def _record(self, record: Record, wait: bool = True) -> None:
        """Journal first, then tell (the state does), then track."""
        self._stage.journal.append(record, wait)
        ended = self._state.apply(record)
        if ended is not None:
            self._stage.tracker.trial(*ended)
            self._stage.progress.ended(ended[0])
