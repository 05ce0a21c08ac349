"""The jobs of a driver: trials that optimizers suggest, or incumbents that are retrained.

Retraining uses separate seeds: a pure function of the experiment's seed, repeat and trial, and above 2**32, where the
seeds of a search end.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

from fmnas.optimizers.isolation import same_working_directory
from fmnas.platform.errors import LET_THROUGH, Ending, ExperimentFailed, one_line, own_line
from fmnas.platform.experiment.events import (
    Asked,
    Cancelled,
    Ended,
    Failed,
    Finished,
    Lost,
    Retrained,
    RetrainingFailed,
    RetrainingStarted,
    Started,
)
from fmnas.platform.experiment.experiment import Run, derived_seed
from fmnas.platform.experiment.ledger import RunProgress
from fmnas.platform.experiment.state import ExperimentState
from fmnas.platform.experiment.trial_result import Job, TrialResult
from fmnas.platform.runner.driver import Clock, Driver, RunningJob
from fmnas.platform.workers.cancellation import Stopped, interruptible
from fmnas.platform.workers.pool import Event as JobEnded
from fmnas.search_spaces import Evaluation, Trial
from fmnas.search_spaces.records import LOST

SLOW_SUGGESTION_SECONDS = 2.0
"""After a stop request, a suggestion that takes longer is announced."""
SEED_OFFSET = 0x66696E61 << 32
"""Added to the seeds of retraining."""


class SearchJobs:
    """Trials that the optimizers suggest. The run that has spent least goes first."""

    failure_message = (
        "{count} trials in a row failed, the last being {last}. Fix the cause and resume, or raise workers.failures "
        "(failures= of minimize)"
    )

    def __init__(self, state: ExperimentState) -> None:
        self._state, self._experiment, self._ledger = state, state.experiment, state.ledger
        self._is_wait_announced = False

    def unfinished_jobs(self, driver: Driver) -> Iterable[Job]:
        """Return the pending trials of an earlier driver; results that a warm start has are recorded."""
        jobs = [
            Job(run, interrupted.trial, interrupted.attempt + 1)
            for (run, _), interrupted in self._ledger.pending.items()
        ]
        return [job for job in jobs if not self._record_known_result(driver, job)]

    def next_job(self, driver: Driver) -> Job | None:
        """Return the next suggestion to evaluate; those with a known result are recorded and passed over."""
        while (job := self._suggest(driver)) is not None:
            if not self._record_known_result(driver, job):
                return job
        return None

    def has_more(self) -> bool:
        return not all(run.is_done for run in self._ledger.runs.values())

    def start_event(self, running: RunningJob) -> Started:
        job = running.job
        return Started(job.run, job.trial.id, job.attempt, running.worker, running.started_at)

    def end_event(self, ended: JobEnded, running: RunningJob, clock: Clock) -> Finished | Failed | Lost:
        job, result, seconds, at = ended.job, ended.result, clock.elapsed() - running.since, clock.now()
        key = (job.run, job.trial.id, job.attempt, ended.worker)
        if isinstance(result, Evaluation):
            return Finished(*key, result, at)
        if result.status == LOST:  # also counts workers that earlier drivers lost
            losses = self._ledger.pending[job.key].losses + 1
            return Lost(*key, result.reason, losses >= self._state.config.workers.attempts, at)
        return Failed(*key, result.reason, seconds, at, result.status)

    def cancel_event(self, running: RunningJob, reason: str, at: float) -> Cancelled:
        job = running.job
        return Cancelled(job.run, job.trial.id, job.attempt, running.worker, reason, at)

    def finish_event(self, status: Ending, reason: str, at: float) -> Ended | None:
        """Return the end of the driver, unless the experiment has that status already."""
        return None if self._ledger.status == status else Ended(status, at, reason)

    def check_failures(self, failures: Sequence[str]) -> None:
        """Accept failed trials: they are results of the experiment."""

    def _record_known_result(self, driver: Driver, job: Job) -> bool:
        """Record the result of a trial that an earlier experiment evaluated. Returns whether there is one."""
        known = self._experiment.runs[job.run].warm_start.evaluation(job.trial)
        if known is not None:
            driver.record(Finished(job.run, job.trial.id, job.attempt, "", known, driver.clock.now()))
        return known is not None

    def _suggest(self, driver: Driver) -> Job | None:
        """Ask the optimizer of the run that has spent least, and record the trial; None if all are waiting or done."""
        for run in sorted(self._ledger.runs.values(), key=lambda run: run.budget.spent + run.budget.committed):
            concurrency = self._experiment.runs[run.name].concurrency
            if not driver.is_stopping() and not run.is_done and self._ledger.pending_count(run.name) < concurrency:
                trial = self._ask(driver, self._experiment.runs[run.name], run)
                if trial is not None:
                    return Job(run.name, trial)
        return None

    def _ask(self, driver: Driver, run: Run, progress: RunProgress) -> Trial | None:
        """Ask an optimizer and record its trial; None if it must wait or its budget does not afford the trial."""
        driver.observers.on_suggesting(run.name)
        start = driver.clock.elapsed()
        try:
            with same_working_directory(), interruptible(lambda: self._check_stop(driver, run)):
                suggested = run.optimizer.ask()
            finalize = self._experiment.finalize_trial
            trial = None if suggested is None else finalize(run, suggested, progress.seeds)
        except Stopped:
            return None
        except LET_THROUGH:
            raise
        except BaseException as error:
            message = f"{one_line(error)}{own_line(error)}"
            raise ExperimentFailed(f"{run.name}: the optimizer failed: {message}") from error
        seconds = driver.clock.elapsed() - start
        driver.observers.on_suggesting("")
        if trial is None:
            return None
        if not progress.budget.affords(trial.epochs, seconds):
            progress.is_exhausted = True
            return None
        driver.record(Asked(run.name, trial, seconds, driver.clock.now()), wait=False)
        return trial

    def _check_stop(self, driver: Driver, run: Run) -> None:
        """Interrupt a suggestion at the second stop request; after the first, announce one that takes long."""
        if driver.stop.count > 1:
            raise Stopped
        if not self._is_wait_announced and driver.stop.over(SLOW_SUGGESTION_SECONDS):
            self._is_wait_announced = True
            with suppress(RuntimeError):  # the optimizer may be printing at this moment
                driver.observers.on_message(
                    f"stopping: waiting for {run.name} to suggest a trial; Ctrl-C again stops at once"
                )


class RetrainingJobs:
    """Incumbents that are trained with fresh seeds and tested on held-out images."""

    failure_message = "{count} retrainings in a row failed, the last being {last}"

    def __init__(self, state: ExperimentState, results: Sequence[TrialResult], epochs: int, test_images: int) -> None:
        self._attempts, self._test_images = state.config.workers.attempts, test_images
        seed = state.config.seed
        self._jobs = [Job(result.run, retraining_trial(result, seed, epochs)) for result in results]

    def unfinished_jobs(self, driver: Driver) -> Iterable[Job]:
        return self._jobs

    def next_job(self, driver: Driver) -> Job | None:
        return None

    def has_more(self) -> bool:
        return False

    def start_event(self, running: RunningJob) -> RetrainingStarted:
        job = running.job
        return RetrainingStarted(job.run, job.trial.id, job.attempt, running.worker, running.started_at)

    def end_event(self, ended: JobEnded, running: RunningJob, clock: Clock) -> Retrained | RetrainingFailed:
        job, result, at = ended.job, ended.result, clock.now()
        key = (job.run, job.trial.id, job.attempt, ended.worker)
        if isinstance(result, Evaluation):
            return Retrained(*key, result.errors, self._test_images, result.seconds, running.started_at, at)
        is_final = result.status != LOST or job.attempt >= self._attempts
        return RetrainingFailed(*key, result.reason, is_final, at)

    def cancel_event(self, running: RunningJob, reason: str, at: float) -> None:
        """Record nothing: the next retraining repeats the job."""

    def finish_event(self, status: Ending, reason: str, at: float) -> None:
        """Record nothing: the status of the experiment stays unchanged."""

    def check_failures(self, failures: Sequence[str]) -> None:
        """Raise ExperimentFailed if a retraining failed."""
        if failures:
            raise ExperimentFailed(f"{len(failures)} retraining(s) failed, the last being {failures[-1]}")


def retraining_seed(seed: int, repeat: int, trial: int) -> int:
    """Return the seed of the new trainings of a trial. seed: of the experiment."""
    return SEED_OFFSET + derived_seed(seed, repeat, trial, SEED_OFFSET >> 32)


def retraining_trial(result: TrialResult, seed: int, epochs: int) -> Trial:
    """Return the trial of an incumbent with its retraining seed. seed: of the experiment."""
    fresh = retraining_seed(seed, result.repeat, result.trial.id)
    return replace(result.trial, epochs=epochs, seed=fresh, note="", memo=())
