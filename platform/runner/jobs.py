"""The jobs of a driver: trials that optimizers suggest, or incumbents that are retrained.

Retraining uses separate seeds: a pure function of the experiment's seed, repeat and trial, and above 2**32, where the
seeds of a search end.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from fmnas.platform.errors import Ending, ExperimentFailed
from fmnas.platform.experiment.events import (
    Asked,
    Cancelled,
    Ended,
    Event,
    Failed,
    Finished,
    Lost,
    Retrained,
    RetrainingFailed,
    RetrainingStarted,
    Started,
)
from fmnas.platform.experiment.experiment import derived_seed
from fmnas.platform.experiment.observer import Observer
from fmnas.platform.experiment.state import ExperimentState, calling_optimizer
from fmnas.platform.experiment.trial_result import Job, TrialResult
from fmnas.platform.runner.driver import Clock, Driver, JobSource, RunningJob
from fmnas.platform.runner.racing import limit_trial
from fmnas.platform.workers.cancellation import Stopped, interruptible
from fmnas.platform.workers.pool import Outcome
from fmnas.search_spaces import Evaluation, Trial
from fmnas.search_spaces.records import LOST

SEED_OFFSET = 0x66696E61 << 32
"""Added to the seeds of retraining."""


class SearchJobs(JobSource):
    """Trials that the optimizers suggest. The run that has spent least goes first."""

    start_event = Started
    failure_message = (
        "{count} trials in a row failed, the last being {last}. Fix the cause and resume (call minimize again), or "
        "raise workers.failures (failures= of minimize)"
    )

    def __init__(self, state: ExperimentState) -> None:
        self._state, self._experiment, self._ledger = state, state.experiment, state.ledger

    def unfinished_jobs(self, driver: Driver) -> Iterable[Job]:
        """Return the pending trials of an earlier driver; results that a warm start has are recorded."""
        jobs = [Job(run, pending.trial, pending.attempt + 1) for (run, _), pending in self._ledger.pending.items()]
        return [job for job in jobs if not self._record_known_result(driver, job)]

    def next_job(self, driver: Driver) -> Job | None:
        """Ask the optimizer of the run that has spent least, and record the trial; None if all are waiting or done.

        Trials with a known result are recorded and passed over.
        """
        waiting: set[str] = set()  # for a result of theirs
        while not driver.is_stopping():
            in_progress = Counter(run for run, _ in self._ledger.pending)
            ready = [
                run
                for run in self._ledger.runs.values()
                if not run.is_done
                and run.name not in waiting
                and in_progress[run.name] < self._experiment.runs[run.name].concurrency
            ]
            if not ready:
                return None
            progress = min(ready, key=lambda run: run.budget.spent + run.budget.committed)
            run = self._experiment.runs[progress.name]
            driver.suggesting = run.name
            driver.observers.notify(Observer.on_suggesting, run.name)
            start = driver.clock.elapsed()
            try:
                with driver.clock.suggesting(), calling_optimizer(run), interruptible(driver.check_stop):
                    suggested = run.optimizer.ask()
                    trial = suggested and self._experiment.finalize_trial(run, suggested, progress.seeds)
            except Stopped:
                return None
            finally:
                seconds = driver.clock.elapsed() - start + driver.tell_seconds[run.name]
                driver.suggesting = ""
                driver.observers.notify(Observer.on_suggesting, "")
            if trial is None:
                waiting.add(run.name)
            elif not progress.budget.affords(trial.epochs, seconds):
                progress.is_exhausted = True
            else:
                driver.tell_seconds[run.name] = 0.0
                trial = limit_trial(self._state, run.name, trial)
                driver.record(Asked(run.name, trial, seconds, driver.clock.now()), wait=False)
                job = Job(run.name, trial)
                if not self._record_known_result(driver, job):
                    return job
        return None

    def has_more(self) -> bool:
        return not all(run.is_done for run in self._ledger.runs.values())

    def end_event(self, running: RunningJob, result: Outcome, clock: Clock) -> Finished | Failed | Lost:
        attempt, seconds, at = running.attempt, clock.elapsed() - running.since, clock.now()
        if isinstance(result, Evaluation):
            return Finished(*attempt, result, at)
        if result.status == LOST:  # also counts workers that earlier drivers lost
            losses = self._ledger.pending[running.job.key].losses + 1
            return Lost(*attempt, result.reason, losses >= self._state.config.workers.attempts, at)
        return Failed(*attempt, result.reason, seconds if result.seconds is None else result.seconds, at, result.status)

    def closing_events(self, running: Sequence[RunningJob], status: Ending, reason: str, clock: Clock) -> list[Event]:
        """Return the running trials as cancelled, and the end, unless the experiment has that status already."""
        why = "the experiment failed" if status == Ending.FAILED else "the driver was stopped"
        why += " before the trial ended; a resume repeats it"
        events: list[Event] = [Cancelled(*trial.attempt, why, clock.now()) for trial in running]
        return events if self._ledger.status == status else [*events, Ended(status, clock.now(), reason)]

    def _record_known_result(self, driver: Driver, job: Job) -> bool:
        """Record the result of a trial that an earlier experiment evaluated. Returns whether there is one."""
        known = self._experiment.runs[job.run].warm_start.evaluation(job.trial)
        if known is not None:
            driver.record(Finished(job.run, job.trial.id, job.attempt, "", known, driver.clock.now()))
        return known is not None


class RetrainingJobs(JobSource):
    """Incumbents that are trained with fresh seeds and tested on held-out images.

    A job that a stop cancels is not recorded: the next retraining repeats it. Nor is the end: the status of the
    experiment stays unchanged.
    save: called with the run and the files of what was trained, before the journal says that it was.
    """

    start_event = RetrainingStarted
    failure_message = "{count} retrainings in a row failed, the last being {last}. Fix the cause and repeat the command"

    def __init__(
        self,
        state: ExperimentState,
        results: Sequence[TrialResult],
        epochs: int,
        test_images: int,
        save: Callable[[str, Mapping[str, bytes]], None] = lambda run, files: None,
    ) -> None:
        self._attempts, self._test_images, self._save = state.config.workers.attempts, test_images, save
        seed = state.config.seed
        self._jobs = [Job(result.run, retraining_trial(result, seed, epochs)) for result in results]

    def unfinished_jobs(self, driver: Driver) -> Iterable[Job]:
        return self._jobs

    def end_event(self, running: RunningJob, result: Outcome, clock: Clock) -> Retrained | RetrainingFailed:
        attempt, at = running.attempt, clock.now()
        if isinstance(result, Evaluation):
            self._save(running.job.run, getattr(result, "files", {}))
            return Retrained(*attempt, result.errors, self._test_images, result.seconds, running.started_at, at)
        is_final = result.status != LOST or running.job.attempt >= self._attempts
        return RetrainingFailed(*attempt, result.reason, is_final, at)

    def check_failures(self, failures: Sequence[str]) -> None:
        """Raise ExperimentFailed if a retraining failed."""
        if failures:
            raise ExperimentFailed(
                f"{len(failures)} retraining(s) failed, the last being {failures[-1]}. Fix the cause and repeat the "
                "command"
            )


def retraining_seed(seed: int, repeat: int, trial: int) -> int:
    """Return the seed of the new trainings of a trial. seed: of the experiment."""
    return SEED_OFFSET + derived_seed(seed, repeat, trial, SEED_OFFSET >> 32)


def retraining_trial(result: TrialResult, seed: int, epochs: int) -> Trial:
    """Return the trial of an incumbent with its retraining seed. seed: of the experiment."""
    fresh = retraining_seed(seed, result.repeat, result.trial.id)
    return replace(result.trial, epochs=epochs, seed=fresh, note="", memo=(), first_seeds=None, stop_above=None)
