"""Retraining the best configuration of every run of a run directory, on the test images that no search has seen.

The trainings draw from seeds of their own: a pure function of the experiment's seed, repeat and trial, and far above
2**32, where the search's seeds end.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from fmnas.platform.config.schema import Config, WorkersConfig
from fmnas.platform.display.progress import RetrainingProgress
from fmnas.platform.display.summary import ExperimentResult
from fmnas.platform.errors import Ending, ExperimentFailed, RunDirectoryError
from fmnas.platform.experiment.events import driver_record
from fmnas.platform.experiment.experiment import derived_seed
from fmnas.platform.experiment.journal import DriverWork, Journal
from fmnas.platform.experiment.lock import locked
from fmnas.platform.experiment.provenance import check_same_data, own_digests
from fmnas.platform.experiment.retrained import RetrainedRow, Scale, retrained_rows, write_retrained
from fmnas.platform.experiment.run_directory import RunDirectory
from fmnas.platform.experiment.state import restore
from fmnas.platform.experiment.trial_result import Job, Outcome, iso
from fmnas.platform.mlflow.setup import check_tracking
from fmnas.platform.runner.driver import Dispatcher, Flight, Stage, epochs_reached
from fmnas.platform.runner.run import Session, Surroundings
from fmnas.platform.workers.factory import PoolSpec, open_pool
from fmnas.platform.workers.pool import Event
from fmnas.search_spaces import Evaluation
from fmnas.search_spaces.records import LOST

NAMESPACE = 0x66696E61 << 32
"""Added to the seeds: more than any number of trainings, so no stream of random numbers is a search's either."""


def retraining_seed(seed: int, repeat: int, trial: int) -> int:
    """What the new trainings of a trial derive their randomness from; `seed` is the experiment's."""
    return NAMESPACE + derived_seed(seed, repeat, trial, NAMESPACE >> 32)


def retraining_job(outcome: Outcome, seed: int, epochs: int) -> Job:
    """The incumbent's configuration with fresh seeds; `seed` is the experiment's."""
    fresh = retraining_seed(seed, outcome.repeat, outcome.trial.id)
    return Job(outcome.run, replace(outcome.trial, epochs=epochs, seed=fresh, note="", memo=()))


class Retraining(Dispatcher[RetrainingProgress]):
    """Trains the incumbents, and fails in the end if one did.

    test_images: how many there are, for the record. keep: puts a row on disk.
    """

    too_many = "{count} retrainings in a row failed, the last being {last}"

    def __init__(
        self,
        chosen: Sequence[Outcome],
        seed: int,
        scale: Scale,
        test_images: int,
        workers: WorkersConfig,
        stage: Stage[RetrainingProgress],
        keep: Callable[[RetrainedRow], None],
    ) -> None:
        jobs = (retraining_job(outcome, seed, scale.epochs) for outcome in chosen)
        super().__init__(stage, workers, jobs)
        self._chosen = {outcome.run: outcome for outcome in chosen}
        self._scale, self._test_images, self._keep = scale, test_images, keep

    def _drive(self) -> Ending:
        ending = super()._drive()
        if self._failures and not self._stop.over(self._workers.grace_seconds):
            raise ExperimentFailed(f"{len(self._failures)} retraining(s) failed, the last being {self._failures[-1]}")
        return ending

    def _ended(self, event: Event, flight: Flight) -> str:
        job, result, progress = event.job, event.result, self._progress
        if isinstance(result, Evaluation):
            row = self._row(event, result, flight.at)
            self._keep(row)
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


def retrain(directory: RunDirectory, asked: Mapping[str, int], around: Surroundings) -> ExperimentResult:
    """Retrain what is not there yet, write the report again, and send it to MLflow.

    asked: of epochs, images and seeds, what is not to be as the experiment has it.
    Raises FmnasError, with nothing written, when there is nothing to retrain or the input or the machine will not do.
    """
    directory.check_present()
    with locked(directory.lock, around.screen.say) as note:
        session = Session(*restore(directory, heard=False, say=around.screen.say), directory, around)
        config = session.config
        load = session.state.experiment.problem.load_final
        if load is None:
            raise RunDirectoryError(
                f"problem {config.problem}: there is nothing to retrain; it has no test images that its search leaves "
                "alone, as joint has"
            )
        scale = _scale(config, asked)
        chosen = _chosen(session)
        rows = _there(directory, chosen, scale)
        check_tracking(config, directory)
        left = [outcome for outcome in chosen if outcome.run not in rows]
        ending, reason = Ending.FINISHED, ""
        if left:
            split = load(scale.images)
            check_same_data(split, directory)
            work = PoolSpec(config, split, scale.seeds, len(left))
            with open_pool(work, around.address, around.stop, around.screen.say) as pool:
                note(work=DriverWork.RETRAINING, workers=pool.size, since=around.clock.now())
                with Journal(directory.journal) as journal:
                    journal.append(driver_record(DriverWork.RETRAINING, around.clock.now(), own_digests(config)))
                facts, reached = (config.name, scale), partial(epochs_reached, pool, scale.seeds)
                progress = RetrainingProgress(around.screen, chosen, rows, facts, lambda: pool.size, reached=reached)
                keep = partial(_keep, directory, chosen, rows)
                stage, tests = Stage(pool, progress, around.stop, around.clock), len(split.held_out_inputs)
                retraining = Retraining(left, config.seed, scale, tests, config.workers, stage, keep)
                ending, reason = session.driven(retraining)
        return replace(session.sent_as_it_is(), ending=ending, reason=reason)


def _keep(directory: RunDirectory, chosen: Sequence[Outcome], rows: dict[str, RetrainedRow], row: RetrainedRow) -> None:
    """Put a row with those that are there, in the order of the chosen, on disk."""
    rows[row.run] = row
    write_retrained(directory.retrained, [rows[outcome.run] for outcome in chosen if outcome.run in rows])


def _scale(config: Config, asked: Mapping[str, int]) -> Scale:
    """What is asked for, with the experiment's values where nothing is."""
    for name, value in asked.items():
        if value < 1:
            raise RunDirectoryError(f"--{name} {value}: it must be at least 1; leave it out for the experiment's own")
    images = (config.data.train or 0) + (config.data.validation or 0)
    return Scale(**{"epochs": config.fidelity.epochs, "images": images, "seeds": config.seeds, **asked})


def _chosen(session: Session) -> Sequence[Outcome]:
    chosen, directory = session.state.incumbents(), session.directory
    if not chosen:
        raise RunDirectoryError(
            f"{directory.root} has no finished full training yet, so there is nothing to retrain; go on with "
            f"`fmnas {directory.command('resume')}`"
        )
    if session.state.status != Ending.FINISHED:
        session.around.screen.say("the experiment is not finished: what is best in each run now is retrained")
    return chosen


def _there(directory: RunDirectory, chosen: Sequence[Outcome], scale: Scale) -> dict[str, RetrainedRow]:
    """The rows that need not be trained again. Raises RunDirectoryError where they were trained in another way.

    A row whose run has a better configuration by now is left out; the file loses it when the next row is written.
    """
    rows = retrained_rows(directory.retrained)
    others = [row.scale for row in rows.values() if row.scale != scale]
    if others:
        there = others[0]
        raise RunDirectoryError(
            f"{directory.retrained} was made with {'; '.join(sorted(set(map(str, others))))}, and you ask for {scale}: "
            f"say --epochs {there.epochs} --images {there.images} --seeds {there.seeds}, or move the file away"
        )
    best = {outcome.run: outcome.trial.id for outcome in chosen}
    return {run: row for run, row in rows.items() if best.get(run) == row.trial}
