"""Retraining the best configuration of every run of a run directory, on the test images that no search has seen."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from fmnas.platform.config import Config
from fmnas.platform.errors import ExperimentFailed, RunDirectoryError
from fmnas.platform.experiment import Experiment
from fmnas.platform.journal import RETRAINING, Journal
from fmnas.platform.launch import Ending, Surroundings, restore
from fmnas.platform.lock import locked
from fmnas.platform.opening import Work, open_pool
from fmnas.platform.outcomes import Outcome
from fmnas.platform.paths import RunDirectory
from fmnas.platform.pool import Pool
from fmnas.platform.retrained import Retrained, Scale, read_retrained, write_retrained
from fmnas.platform.retraining import Place, Retraining, incumbents
from fmnas.platform.retraining_progress import RetrainingProgress
from fmnas.platform.sending import begin_tracking, check_tracking, finish_tracking, shown_store
from fmnas.platform.state import ExperimentState, driver_record
from fmnas.trainers import FinalSplit


@dataclass(frozen=True)
class Wishes:
    """What the user says of the retraining; None is as the experiment has it."""

    epochs: int | None = None
    images: int | None = None
    seeds: int | None = None


def retrain(directory: RunDirectory, wishes: Wishes, around: Surroundings) -> Ending:
    """Retrain what is not there yet, write the report again, and send it to MLflow.

    Raises FmnasError, with nothing written, when there is nothing to retrain or the input or the machine will not do.
    """
    directory.check_present()
    with locked(directory.lock, around.screen.say) as note:
        state, identity = restore(directory, heard=False)
        config = state.experiment.config
        scale, chosen = _scale(state.experiment, wishes), _chosen(state, directory, around)
        there = _there(directory, chosen, scale)
        check_tracking(config, directory)
        left = [outcome for outcome in chosen if outcome.run not in there]
        status, reason = "finished", ""
        if left:
            split = _load(state.experiment, scale.images)
            work = Work(config, split, scale.seeds, len(left))
            with open_pool(work, around.address, around.stop, around.screen.say) as pool:
                note(work="retraining", workers=pool.size, since=around.clock.now())
                with Journal(directory.journal) as journal:
                    journal.append(driver_record(RETRAINING, around.clock.now()))
                status, reason = _train(_Task(config, scale, chosen, there, split), directory, pool, around)
        tracker = begin_tracking(state, directory, identity)
        report, summary = finish_tracking(tracker, state, directory, state.status or "interrupted")
        return Ending(status, reason, summary, report, shown_store(config, directory))


@dataclass(frozen=True)
class _Task:
    """chosen: all incumbents. there: run -> its row, where it is done already."""

    config: Config
    scale: Scale
    chosen: Sequence[Outcome]
    there: dict[str, Retrained]
    split: FinalSplit


def _train(task: _Task, directory: RunDirectory, pool: Pool, around: Surroundings) -> tuple[str, str]:
    """Status and reason of the ending."""
    rows, order = dict(task.there), [outcome.run for outcome in task.chosen]

    def keep(row: Retrained) -> None:
        rows[row.run] = row
        write_retrained(directory.retrained, sorted(rows.values(), key=lambda each: order.index(each.run)))

    facts = (task.config.name, task.scale)
    progress = RetrainingProgress(around.screen, task.chosen, task.there, facts, lambda: pool.size)
    place = Place(pool, progress, around.stop, keep, around.clock)
    left = [outcome for outcome in task.chosen if outcome.run not in task.there]
    tests = len(task.split.test_images)
    try:
        return Retraining(left, task.config.seed, task.scale, tests, task.config.workers, place).run(), ""
    except ExperimentFailed as error:
        return "failed", str(error)
    finally:
        around.screen.close()


def _scale(experiment: Experiment, wishes: Wishes) -> Scale:
    """What is asked for, with the experiment's values where nothing is."""
    config = experiment.config
    if experiment.problem.load_final is None:
        raise RunDirectoryError(
            f"problem {config.problem}: there is nothing to retrain; it has no test images that its search leaves "
            "alone, as joint has"
        )
    for name in ("epochs", "images", "seeds"):
        value = getattr(wishes, name)
        if value is not None and value < 1:
            raise RunDirectoryError(f"--{name} {value}: it must be at least 1; leave it out for the experiment's own")
    images = (config.data.train or 0) + (config.data.validation or 0)
    return Scale(wishes.epochs or config.fidelity.epochs, wishes.images or images, wishes.seeds or config.seeds)


def _chosen(state: ExperimentState, directory: RunDirectory, around: Surroundings) -> list[Outcome]:
    chosen = incumbents(state)
    if not chosen:
        raise RunDirectoryError(
            f"{directory.root} has no finished full training yet, so there is nothing to retrain; go on with "
            f"`fmnas resume {shlex.quote(str(directory.root))}`"
        )
    if state.status != "finished":
        around.screen.say("the experiment is not finished: what is best in each run now is retrained")
    return chosen


def _there(directory: RunDirectory, chosen: Sequence[Outcome], scale: Scale) -> dict[str, Retrained]:
    """The rows that need not be trained again. Raises RunDirectoryError where they were trained in another way.

    A row whose run has a better configuration by now is left out, and replaced when that is trained.
    """
    rows = read_retrained(directory.retrained)
    others = sorted({str(row.scale) for row in rows.values() if row.scale != scale})
    if others:
        there = next(row.scale for row in rows.values() if row.scale != scale)
        raise RunDirectoryError(
            f"{directory.retrained} was made with {'; '.join(others)}, and you ask for {scale}: say "
            f"{there.as_options()}, or move the file away"
        )
    best = {outcome.run: outcome.trial.id for outcome in chosen}
    return {run: row for run, row in rows.items() if best.get(run) == row.trial}


def _load(experiment: Experiment, images: int) -> FinalSplit:
    assert experiment.problem.load_final is not None
    return experiment.problem.load_final(images)
