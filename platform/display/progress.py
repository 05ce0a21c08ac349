"""What is told while an experiment runs, or its best configurations are trained again, in words and in facts.

The facts of an event beside `event` and `at`, as `--progress json` gives them. Of an experiment:

| event | facts |
|---|---|
| begun | name, problem, runs, workers, and the budget's |
| started | run, trial, attempt, origin, epochs, worker, and the budget's |
| ended | run, trial, status, objective, error, diverged, reason, incumbent, run_epochs, and the budget's |
| lost | run, trial, attempt, worker, reason, and the budget's: a worker is gone, its trial may be repeated |
| said | text |

The budget's: spent_epochs, budget_epochs, spent_share, seconds_left (None while unknown), workers_busy, workers.
Objectives, errors and incumbents are None where there are none. Of a retraining:

| event | facts |
|---|---|
| begun | name, epochs, images, seeds, runs, and how it stands |
| started | run, trial, attempt, worker, and how it stands |
| ended | run, trial, selected_error, test_error, and how it stands |
| failed, lost | run, trial, attempt, worker, reason, and how it stands; who is lost may be repeated |
| said | text |

How it stands: done, of, seconds_left (None while unknown), workers_busy, workers.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from fmnas.platform.config.schema import IN_PROCESS
from fmnas.platform.display.console import plain_table
from fmnas.platform.display.modes import Happening, Screen, as_reached, as_time, spent_of, time_left
from fmnas.platform.display.runs_table import Doing, RunRow, RunsTable, as_number
from fmnas.platform.experiment.events import (
    DriverWork,
    Event,
    Lost,
    Retrained,
    RetrainingBegun,
    RetrainingFailed,
    RetrainingStarted,
    Started,
)
from fmnas.platform.experiment.ledger import RunProgress, settings_of
from fmnas.platform.experiment.observer import Observer, PoolStatus, mean_epochs_done
from fmnas.platform.experiment.state import ExperimentState
from fmnas.platform.experiment.trial_result import Job, TrialResult
from fmnas.platform.problems import display_name
from fmnas.platform.workers.pool import short_worker_name
from fmnas.search_spaces import Trial
from fmnas.search_spaces.records import FINISHED, MODEL, WARM_START

Reached = Callable[[], Mapping[tuple[str, int], int]]
"""(run, trial) -> the epoch that it has reached, of those in flight as far as it is known."""


class JobProgress(ABC):
    """What is told of jobs, whatever they are for.

    workers: tells how many there are. reached: how far the jobs are. elapsed: monotonic seconds.
    """

    def __init__(
        self, screen: Screen, workers: Callable[[], int], reached: Reached, elapsed: Callable[[], float]
    ) -> None:
        self._screen, self._workers, self._reached, self._elapsed = screen, workers, reached, elapsed
        self._flying: dict[tuple[str, int], tuple[float, int]] = {}  # (run, trial) -> since when, for how many epochs
        self._begun = elapsed()

    def lost(self, job: Job, worker: str, reason: str) -> None:
        """A worker is gone with its job, which may be repeated."""
        self._gone("lost", "was lost with", job, worker, reason)

    @abstractmethod
    def started(self, job: Job, worker: str) -> None:
        """A worker has begun a job."""

    @abstractmethod
    def _standing(self) -> dict[str, Any]:
        """The facts of how it stands."""

    def _start(self, job: Job, facts: Mapping[str, Any], line: str = "") -> None:
        """A live table shows it anyway."""
        self._flying[job.run, job.trial.id] = self._elapsed(), job.trial.epochs
        self._screen.tell(Happening("started", {**_job(job), **facts, **self._standing()}, line, shown_live=False))

    def _gone(self, event: str, what: str, job: Job, worker: str, reason: str) -> None:
        self._flying.pop((job.run, job.trial.id), None)
        line = f"{short_worker_name(worker)} {what} trial {job.trial.id} of {job.run}: {reason}"
        self._tell(event, {**_job(job), "worker": worker, "reason": reason}, line, bad=True)

    def _tell(self, event: str, facts: Mapping[str, Any], line: str = "", bad: bool = False) -> None:
        self._screen.tell(Happening(event, {**facts, **self._standing()}, line, bad))

    def _time_left(self, runs: Sequence[tuple[float, float]]) -> float | None:
        """As `time_left`, of what was done and what is ahead, at the pace of this session."""
        return time_left(runs, self._elapsed() - self._begun)

    def _crew(self, left: float | None) -> dict[str, Any]:
        """The facts that all have. left: seconds."""
        rounded = None if left is None else round(left, 1)
        return {"seconds_left": rounded, "workers_busy": len(self._flying), "workers": self._workers()}

    def _foot(self) -> str:
        """How it stands, below a table."""
        told = self._standing()
        spent = f", {told['spent_share']:.0%} of all budgets spent" if "spent_share" in told else ""
        return f"{told['workers_busy']} of {told['workers']} workers busy{spent}, {as_time(told['seconds_left'])} left"

    def _training(self, run: str) -> dict[int, str]:
        """Trial -> how far it is, of the run's in flight."""
        now, reached = self._elapsed(), self._reached()
        return {
            trial: as_reached(reached.get((name, trial)), epochs, now - since)
            for (name, trial), (since, epochs) in list(self._flying.items())
            if name == run
        }


class ExperimentProgress(JobProgress):
    """Tells a screen of an experiment."""

    def __init__(
        self,
        screen: Screen,
        state: ExperimentState,
        workers: Callable[[], int] = lambda: 1,
        elapsed: Callable[[], float] = time.monotonic,
        reached: Reached = dict,
    ) -> None:
        super().__init__(screen, workers, reached, elapsed)
        self._state, self._suggesting = state, ""
        self._before = {run.name: run.budget.spent for run in state.ledger.runs.values()}
        config = state.experiment.config
        self._tell("begun", {"name": config.name, "problem": config.problem, "runs": list(state.ledger.runs)})
        screen.show(self._table)

    def suggesting(self, run: str) -> None:
        """Its optimizer is thinking about the next trial; "" when it is done."""
        self._suggesting = run

    def started(self, job: Job, worker: str) -> None:
        """With where it is from, and its epochs; a line where that is not over at once."""
        trial, again = job.trial, f", attempt {job.attempt}" if job.attempt > 1 else ""
        takes_long = self._state.experiment.config.workers.kind != IN_PROCESS
        on = short_worker_name(worker)
        line = f"{job.run}  trial {trial.id} ({trial.origin}, {trial.epochs} ep{again})  starts on {on}"
        facts = {"origin": trial.origin, "epochs": trial.epochs, "worker": worker}
        self._start(job, facts, line if takes_long else "")

    def ended(self, outcome: TrialResult) -> None:
        """Run, trial, objective, incumbent, budget. What an earlier experiment evaluated says nothing of the pace."""
        self._flying.pop((outcome.run, outcome.trial.id), None)
        if outcome.trial.origin == WARM_START:
            self._before[outcome.run] += outcome.trial.epochs
        run, evaluation = self._state.ledger.runs[outcome.run], outcome.evaluation
        facts = {
            "run": outcome.run,
            "trial": outcome.trial.id,
            "status": outcome.status,
            "objective": outcome.objective,
            "error": outcome.error,
            "diverged": bool(evaluation and evaluation.diverged),
            "reason": outcome.reason,
            "incumbent": run.incumbent,
            "run_epochs": run.budget.spent,
        }
        self._tell("ended", facts, _ended_line(run, outcome), bad=outcome.status != FINISHED)

    def say(self, text: str) -> None:
        """As it is."""
        self._screen.say(text)

    def _standing(self) -> dict[str, Any]:
        runs = self._state.ledger.runs.values()
        return {**spent_of(runs), **self._crew(self._left(*runs))}

    def _left(self, *runs: RunProgress) -> float | None:
        """Seconds until these runs have spent their budgets, or what they will spend of them."""
        return self._time_left([(run.budget.spent - self._before[run.name], run.epochs_left) for run in runs])

    def _table(self) -> RenderableType:
        config, full = self._state.experiment.config, self._state.experiment.epochs
        rows = [
            RunRow(
                run.name,
                run.optimizer,
                run.budget.spent,
                run.budget.epochs,
                full,
                run.incumbent,
                *self._doing(run),
                self._left(run),
            )
            for run in self._state.ledger.runs.values()
        ]
        what = f"{config.name}: {display_name(config.problem)}, {config.budget.evaluations} evaluations each"
        return RunsTable(f"{what}; lower is better", rows, self._foot())

    def _doing(self, run: RunProgress) -> tuple[Doing, str]:
        """And in words, with the trials that train."""
        trials = [f"{trial} ({reached})" for trial, reached in self._training(run.name).items()]
        if run.name == self._suggesting:
            doing = Doing.SUGGESTING
        elif trials:
            return Doing.TRAINING, f"{Doing.TRAINING} {', '.join(trials[:4])}"
        else:
            doing = Doing.DONE if run.is_done else Doing.WAITING
        return doing, doing


def _job(job: Job) -> dict[str, Any]:
    return {"run": job.run, "trial": job.trial.id, "attempt": job.attempt}


def _ended_line(run: RunProgress, outcome: TrialResult) -> str:
    evaluation, trial = outcome.evaluation, outcome.trial
    value = as_number(evaluation.objective) if evaluation else f"{outcome.status}: {outcome.reason}"
    flag = " diverged" if evaluation and evaluation.diverged else ""
    return (
        f"{run.name}  trial {trial.id} ({trial.origin}, {trial.epochs} ep)  "
        f"{value}{flag}  best {as_number(run.incumbent)}  epochs {run.budget.spent}/{run.budget.epochs}"
    )


class RetrainingProgress(JobProgress):
    """Tells a screen of a retraining."""

    def __init__(
        self,
        screen: Screen,
        state: ExperimentState,
        begun: RetrainingBegun,
        workers: Callable[[], int],
        elapsed: Callable[[], float] = time.monotonic,
        reached: Reached = dict,
    ) -> None:
        super().__init__(screen, workers, reached, elapsed)
        self._ledger, self._chosen = state.ledger, state.ledger.incumbents()
        self._before = len(state.ledger.current_retrained())
        what = {"name": state.config.name, "epochs": begun.epochs, "images": begun.images, "seeds": begun.seeds}
        line = (
            f"{state.config.name}: {len(begun.runs)} of {len(self._chosen)} best configurations to retrain, "
            f"{settings_of(begun)}"
        )
        self._tell("begun", {**what, "runs": [outcome.run for outcome in self._chosen]}, line)
        screen.show(self._table)

    def started(self, job: Job, worker: str) -> None:
        """For programs alone."""
        self._start(job, {"worker": worker})

    def ended(self, event: Retrained) -> None:
        """What was chosen by, and what came out."""
        self._flying.pop((event.run, event.trial_id), None)
        best, error = self._ledger.runs[event.run].best, _test_error(event)
        selected = best.error if best else None
        facts = {"run": event.run, "trial": event.trial_id, "selected_error": selected, "test_error": error}
        line = (
            f"{event.run}  trial {event.trial_id}  validation error of the search {as_number(selected)}  "
            f"test error {as_number(error)}  {len(self._ledger.current_retrained())} of {len(self._chosen)}"
        )
        self._tell("ended", facts, line)

    def failed(self, job: Job, worker: str, reason: str) -> None:
        """It is given up."""
        self._gone("failed", "failed at", job, worker, reason)

    def _standing(self) -> dict[str, Any]:
        done, of = len(self._ledger.current_retrained()), len(self._chosen)
        return {"done": done, "of": of, **self._crew(self._time_left([(done - self._before, of - done)]))}

    def _table(self) -> RenderableType:
        table = plain_table(("run", "trial", "validation error", "test error", "now"), {"run", "now"})
        retrained = self._ledger.current_retrained()
        for outcome in self._chosen:
            row, reached = retrained.get(outcome.run), self._training(outcome.run).get(outcome.trial.id)
            doing = Doing.WAITING if reached is None else f"{Doing.TRAINING} ({reached})"
            error, test = as_number(outcome.error), as_number(_test_error(row) if row else None)
            table.add_row(outcome.run, str(outcome.trial.id), error, test, Doing.DONE if row else doing)
        return Group(table, Text(self._foot()))


def _test_error(event: Retrained) -> float:
    return sum(event.errors) / len(event.errors)


class Progress(Observer):
    """Follows an experiment, or a retraining, on a screen."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._experiment: ExperimentProgress | None = None
        self._retraining: RetrainingProgress | None = None

    def on_start(self, state: ExperimentState, pool: PoolStatus) -> None:
        """Show the experiment, unless its incumbents are about to be retrained."""
        self._state, self._pool = state, pool
        if not state.ledger.drivers or state.ledger.drivers[-1].work != DriverWork.RETRAINING:
            seeds = state.experiment.problem.seeds
            self._experiment = ExperimentProgress(
                self._screen, state, lambda: pool.size, reached=lambda: mean_epochs_done(pool, seeds)
            )

    def on_event(self, event: Event, result: TrialResult | None) -> None:
        """Show a start or an end."""
        match event:
            case RetrainingBegun():
                pool = self._pool
                reached = partial(mean_epochs_done, pool, event.seeds)
                self._retraining = RetrainingProgress(
                    self._screen, self._state, event, lambda: pool.size, reached=reached
                )
            case Started() if self._experiment:
                trial = self._state.ledger.pending[event.run, event.trial_id].trial
                self._experiment.started(Job(event.run, trial, event.attempt), event.worker)
            case Lost() | RetrainingFailed():
                self._lost(event)
            case RetrainingStarted() if self._retraining:
                self._retraining.started(self._job(event), event.worker)
            case Retrained() if self._retraining:
                self._retraining.ended(event)
        if result is not None and self._experiment:
            self._experiment.ended(result)

    def on_suggesting(self, run: str) -> None:
        """Show whose optimizer is busy."""
        if self._experiment:
            self._experiment.suggesting(run)

    def on_message(self, text: str) -> None:
        """Print a line."""
        self._screen.say(text)

    def on_end(self, status: str, reason: str) -> None:
        """Leave the screen as it was."""
        self._screen.close()

    def _job(self, event: RetrainingStarted | RetrainingFailed | Lost) -> Job:
        begun = self._state.ledger.retraining
        trial = Trial(event.trial_id, {}, begun.epochs if begun else 1, MODEL)
        return Job(event.run, trial, event.attempt)

    def _lost(self, event: RetrainingFailed | Lost) -> None:
        progress = self._retraining or self._experiment
        if isinstance(event, RetrainingFailed) and event.final and self._retraining:
            self._retraining.failed(self._job(event), event.worker, event.reason)
        elif progress:
            progress.lost(self._job(event), event.worker, event.reason)
