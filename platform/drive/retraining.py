"""Retraining the best configuration of every run of a run directory, on the test images that no search has seen.

The trainings draw from seeds of their own: a pure function of the experiment's seed, repeat and trial, and far above
2**32, where the search's seeds end.
"""

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from fmnas.platform.config.config import Config, WorkersConfig
from fmnas.platform.drive.driver import Clock, Dispatcher, Flight, epochs_reached
from fmnas.platform.drive.inputs import check_same_data, own_digests
from fmnas.platform.drive.launch import Surroundings
from fmnas.platform.drive.sending import begin_tracking, check_tracking, finish_tracking, shown_store
from fmnas.platform.errors import Ending, ExperimentFailed, RunDirectoryError
from fmnas.platform.record.events import driver_record
from fmnas.platform.record.experiment import Experiment, derived_seed
from fmnas.platform.record.journal import DriverWork, Journal
from fmnas.platform.record.lock import locked
from fmnas.platform.record.outcome import Job, Outcome, iso
from fmnas.platform.record.retrained import RetrainedRow, Scale, retrained_rows, write_retrained
from fmnas.platform.record.run_directory import RunDirectory
from fmnas.platform.record.state import ExperimentState, restore
from fmnas.platform.screen.ending import ExperimentResult
from fmnas.platform.screen.progress import RetrainingProgress
from fmnas.platform.workers.open_pool import Work, open_pool
from fmnas.platform.workers.pool import Event, Pool
from fmnas.platform.workers.stop import StopRequest
from fmnas.search_spaces import Evaluation
from fmnas.search_spaces.records import LOST
from fmnas.trainers.split import Split

NAMESPACE = 0x66696E61 << 32
"""Added to the seeds: more than any number of trainings, so no stream of random numbers is a search's either."""


def retraining_seed(seed: int, repeat: int, trial: int) -> int:
    """What the new trainings of a trial derive their randomness from; `seed` is the experiment's."""
    return NAMESPACE + derived_seed(seed, repeat, trial, NAMESPACE >> 32)


def retraining_job(outcome: Outcome, seed: int, epochs: int) -> Job:
    """The incumbent's configuration with fresh seeds; `seed` is the experiment's."""
    fresh = retraining_seed(seed, outcome.repeat, outcome.trial.id)
    return Job(outcome.run, replace(outcome.trial, epochs=epochs, seed=fresh, note="", memo=()))


@dataclass(frozen=True)
class RetrainingStage:
    """Where a retraining happens: the pool, whom it tells, and who may stop it. keep: puts a row on disk."""

    pool: Pool
    progress: RetrainingProgress
    stop: StopRequest
    keep: Callable[[RetrainedRow], None]
    clock: Clock = field(default_factory=Clock)


class Retraining(Dispatcher):
    """Trains the incumbents, and fails in the end if one did. test_images: how many there are, for the record."""

    too_many = "{count} retrainings in a row failed, the last being {last}"

    def __init__(
        self,
        chosen: Sequence[Outcome],
        seed: int,
        scale: Scale,
        test_images: int,
        workers: WorkersConfig,
        stage: RetrainingStage,
    ) -> None:
        jobs = (retraining_job(outcome, seed, scale.epochs) for outcome in chosen)
        super().__init__(stage.pool, stage.stop, stage.clock, workers, jobs)
        self._chosen = {outcome.run: outcome for outcome in chosen}
        self._scale, self._test_images, self._stage = scale, test_images, stage

    def _drive(self) -> Ending:
        ending = super()._drive()
        if self._failures and not self._stop.over(self._workers.grace_seconds):
            raise ExperimentFailed(f"{len(self._failures)} retraining(s) failed, the last being {self._failures[-1]}")
        return ending

    def _started(self, flight: Flight) -> None:
        self._stage.progress.started(flight.job, flight.worker)

    def _ended(self, event: Event, flight: Flight) -> str:
        job, result, progress = event.job, event.result, self._stage.progress
        if isinstance(result, Evaluation):
            row = self._row(event, result, flight.at)
            self._stage.keep(row)
            progress.ended(row)
            return ""
        if result.status == LOST and job.attempt < self._workers.attempts:
            progress.lost(job, event.worker, result.reason)
            return ""
        progress.failed(job, event.worker, result.reason)
        return result.reason

    def _row(self, event: Event, trained: Evaluation, started: float) -> RetrainedRow:
        outcome = self._chosen[event.job.run]
        searched = outcome.evaluation
        assert searched is not None
        assert searched.error is not None
        return RetrainedRow(
            run=outcome.run,
            optimizer=outcome.optimizer,
            repeat=outcome.repeat,
            trial=outcome.trial.id,
            selected_objective=searched.objective,
            selected_error=searched.error,
            errors=trained.errors,
            epochs=self._scale.epochs,
            images=self._scale.images,
            test_images=self._test_images,
            train_seconds=round(trained.seconds, 6),
            started_at=iso(started),
            finished_at=iso(self._clock.now()),
            worker=event.worker,
        )


@dataclass(frozen=True)
class RetrainingOptions:
    """What the user says of the retraining; None is as the experiment has it."""

    epochs: int | None = None
    images: int | None = None
    seeds: int | None = None


def retrain(directory: RunDirectory, options: RetrainingOptions, around: Surroundings) -> ExperimentResult:
    """Retrain what is not there yet, write the report again, and send it to MLflow.

    Raises FmnasError, with nothing written, when there is nothing to retrain or the input or the machine will not do.
    """
    directory.check_present()
    with locked(directory.lock, around.screen.say) as note:
        state, identity = restore(directory, heard=False)
        config = state.experiment.config
        load, scale = _load(state.experiment), _scale(config, options)
        chosen = _chosen(state, directory, around)
        there = _there(directory, chosen, scale)
        check_tracking(config, directory)
        left = [outcome for outcome in chosen if outcome.run not in there]
        status, reason = Ending.FINISHED, ""
        if left:
            split = load(scale.images)
            check_same_data(split, directory)
            work = Work(config, split, scale.seeds, len(left))
            with open_pool(work, around.address, around.stop, around.screen.say) as pool:
                note(work=DriverWork.RETRAINING, workers=pool.size, since=around.clock.now())
                with Journal(directory.journal) as journal:
                    journal.append(driver_record(DriverWork.RETRAINING, around.clock.now(), own_digests(config)))
                status, reason = _train(_Task(config, scale, chosen, there, split), directory, pool, around)
        tracker = begin_tracking(state, directory, identity)
        report, summary = finish_tracking(tracker, state, directory, state.status or Ending.INTERRUPTED)
        return ExperimentResult(status, reason, summary, report, shown_store(config, directory))


@dataclass(frozen=True)
class _Task:
    """chosen: all incumbents. there: run -> its row, where it is done already."""

    config: Config
    scale: Scale
    chosen: Sequence[Outcome]
    there: dict[str, RetrainedRow]
    split: Split


def _train(task: _Task, directory: RunDirectory, pool: Pool, around: Surroundings) -> tuple[Ending, str]:
    """Status and reason of the ending."""
    rows, order = dict(task.there), [outcome.run for outcome in task.chosen]

    def keep(row: RetrainedRow) -> None:
        rows[row.run] = row
        write_retrained(directory.retrained, sorted(rows.values(), key=lambda each: order.index(each.run)))

    facts, reached = (task.config.name, task.scale), partial(epochs_reached, pool, task.scale.seeds)
    progress = RetrainingProgress(around.screen, task.chosen, task.there, facts, lambda: pool.size, reached=reached)
    stage = RetrainingStage(pool, progress, around.stop, keep, around.clock)
    left = [outcome for outcome in task.chosen if outcome.run not in task.there]
    tests = len(task.split.held_out_inputs)
    try:
        return Retraining(left, task.config.seed, task.scale, tests, task.config.workers, stage).run(), ""
    except ExperimentFailed as error:
        return Ending.FAILED, str(error)
    finally:
        around.screen.close()


def _load(experiment: Experiment) -> Callable[[int], Split]:
    """What loads that many images for the last word."""
    if experiment.problem.load_final is None:
        raise RunDirectoryError(
            f"problem {experiment.config.problem}: there is nothing to retrain; it has no test images that its search "
            "leaves alone, as joint has"
        )
    return experiment.problem.load_final


def _scale(config: Config, options: RetrainingOptions) -> Scale:
    """What is asked for, with the experiment's values where nothing is."""
    for name in ("epochs", "images", "seeds"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise RunDirectoryError(f"--{name} {value}: it must be at least 1; leave it out for the experiment's own")
    images = (config.data.train or 0) + (config.data.validation or 0)
    return Scale(options.epochs or config.fidelity.epochs, options.images or images, options.seeds or config.seeds)


def _chosen(state: ExperimentState, directory: RunDirectory, around: Surroundings) -> list[Outcome]:
    chosen = list(state.incumbents())
    if not chosen:
        raise RunDirectoryError(
            f"{directory.root} has no finished full training yet, so there is nothing to retrain; go on with "
            f"`fmnas resume {shlex.quote(str(directory.root))}`"
        )
    if state.status != Ending.FINISHED:
        around.screen.say("the experiment is not finished: what is best in each run now is retrained")
    return chosen


def _there(directory: RunDirectory, chosen: Sequence[Outcome], scale: Scale) -> dict[str, RetrainedRow]:
    """The rows that need not be trained again. Raises RunDirectoryError where they were trained in another way.

    A row whose run has a better configuration by now is left out; the file loses it when the next row is written.
    """
    rows = retrained_rows(directory.retrained)
    others = sorted({str(row.scale) for row in rows.values() if row.scale != scale})
    if others:
        there = next(row.scale for row in rows.values() if row.scale != scale)
        raise RunDirectoryError(
            f"{directory.retrained} was made with {'; '.join(others)}, and you ask for {scale}: say "
            f"--epochs {there.epochs} --images {there.images} --seeds {there.seeds}, or move the file away"
        )
    best = {outcome.run: outcome.trial.id for outcome in chosen}
    return {run: row for run, row in rows.items() if best.get(run) == row.trial}
