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
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from fmnas.platform.record.experiment import Run
from fmnas.platform.record.outcome import Outcome
from fmnas.platform.record.retrained import Retrained, Scale
from fmnas.platform.record.state import ExperimentState
from fmnas.platform.screen.screen import Happening, Screen, as_time, seconds_left
from fmnas.platform.workers.pool import Job
from fmnas.search_spaces.records import FINISHED


class Progress(Protocol):
    """Follows the driver."""

    def suggesting(self, run: str) -> None:
        """An optimizer is thinking about its next trial; "" when it is done."""

    def started(self, job: Job, worker: str) -> None:
        """A worker has begun a trial."""

    def ended(self, outcome: Outcome) -> None:
        """A trial ended."""

    def lost(self, job: Job, worker: str, reason: str) -> None:
        """A worker is gone with its trial."""

    def say(self, text: str) -> None:
        """Something a person should know."""


class ExperimentProgress:
    """Tells a screen. workers: tells how many there are. elapsed: monotonic seconds."""

    def __init__(
        self,
        screen: Screen,
        state: ExperimentState,
        workers: Callable[[], int] = lambda: 1,
        elapsed: Callable[[], float] = time.monotonic,
    ) -> None:
        self._screen, self._state, self._workers, self._elapsed = screen, state, workers, elapsed
        self._suggesting = ""
        self._flying: dict[tuple[str, int], float] = {}  # (run, trial) -> since when
        self._begun = elapsed()
        self._before = {run.name: run.budget.spent for run in state.runs.values()}
        config = state.experiment.config
        facts = {"name": config.name, "problem": config.problem, "runs": list(state.runs)}
        screen.tell(Happening("begun", {**facts, **self._budget()}))
        screen.show(self._table)

    def suggesting(self, run: str) -> None:
        """Shown beside the run."""
        self._suggesting = run

    def started(self, job: Job, worker: str) -> None:
        """For programs alone; a live table shows it anyway."""
        self._flying[job.run, job.trial.id] = self._elapsed()
        facts = {**_job(job), "origin": job.trial.origin, "epochs": job.trial.epochs, "worker": worker}
        self._screen.tell(Happening("started", {**facts, **self._budget()}))

    def ended(self, outcome: Outcome) -> None:
        """Run, trial, objective, incumbent, budget."""
        self._flying.pop((outcome.run, outcome.trial.id), None)
        run, evaluation = self._state.runs[outcome.run], outcome.evaluation
        facts = {
            "run": outcome.run,
            "trial": outcome.trial.id,
            "status": outcome.status,
            "objective": evaluation.objective if evaluation else None,
            "error": evaluation.error if evaluation else None,
            "diverged": bool(evaluation and evaluation.diverged),
            "reason": outcome.reason,
            "incumbent": run.incumbent,
            "run_epochs": run.budget.spent,
        }
        bad = outcome.status != FINISHED
        self._screen.tell(Happening("ended", {**facts, **self._budget()}, _ended_line(run, outcome), bad))

    def lost(self, job: Job, worker: str, reason: str) -> None:
        """Who, what, why."""
        self._flying.pop((job.run, job.trial.id), None)
        line = f"{worker} was lost with trial {job.trial.id} of {job.run}: {reason}"
        facts = {**_job(job), "worker": worker, "reason": reason, **self._budget()}
        self._screen.tell(Happening("lost", facts, line, bad=True))

    def say(self, text: str) -> None:
        """As it is."""
        self._screen.say(text)

    def _budget(self) -> dict[str, Any]:
        runs = self._state.runs.values()
        spent, whole = sum(run.budget.spent for run in runs), sum(run.budget.epochs for run in runs)
        left = self._left(*runs)
        return {
            "spent_epochs": spent,
            "budget_epochs": whole,
            "spent_share": round(spent / whole, 6),
            "seconds_left": None if left is None else round(left, 1),
            "workers_busy": len(self._flying),
            "workers": self._workers(),
        }

    def _left(self, *runs: Run) -> float | None:
        """Seconds until these runs have spent their budgets, at the pace of this session."""
        done = sum(run.budget.spent - self._before[run.name] for run in runs)
        ahead = sum(0 if _is_over(run) else run.budget.epochs - run.budget.spent for run in runs)
        return seconds_left(done, ahead, self._elapsed() - self._begun)

    def _table(self) -> RenderableType:
        table = Table(box=None, pad_edge=False)
        for header in ("run", "budget", "", "evaluations", "epochs", "incumbent", "now", "left"):
            table.add_column(header, no_wrap=True, justify="right" if header in ("epochs", "left") else "left")
        full = self._state.experiment.epochs
        for run in self._state.runs.values():
            budget = run.budget
            table.add_row(
                run.name,
                ProgressBar(total=budget.epochs, completed=budget.spent, width=16),
                f"{budget.spent / budget.epochs:.0%}",
                f"{budget.spent / full:.1f}/{budget.epochs / full:.0f}",
                f"{budget.spent}/{budget.epochs}",
                as_number(run.incumbent),
                self._doing(run),
                as_time(self._left(run)),
            )
        return Group(table, Text(self._foot()))

    def _foot(self) -> str:
        told = self._budget()
        busy = f"{told['workers_busy']} of {told['workers']} workers busy"
        return f"{busy}, {told['spent_share']:.0%} of all budgets spent, {as_time(told['seconds_left'])} left"

    def _doing(self, run: Run) -> str:
        if run.name == self._suggesting:
            return "suggesting"
        now, flying = self._elapsed(), list(self._flying.items())
        trials = [f"{trial} ({now - since:.0f} s)" for (name, trial), since in flying if name == run.name]
        if trials:
            return "training " + ", ".join(trials[:4])
        return "done" if _is_over(run) else "waiting"


def as_number(value: float | None) -> str:
    """An objective or error for a table; a dash if there is none."""
    return "-" if value is None else f"{value:.5f}"


def _is_over(run: Run) -> bool:
    return run.over or run.budget.exhausted


def _job(job: Job) -> dict[str, Any]:
    return {"run": job.run, "trial": job.trial.id, "attempt": job.attempt}


def _ended_line(run: Run, outcome: Outcome) -> str:
    evaluation, trial = outcome.evaluation, outcome.trial
    value = f"{evaluation.objective:.5f}" if evaluation else f"{outcome.status}: {outcome.reason}"
    flag = " diverged" if evaluation and evaluation.diverged else ""
    return (
        f"{run.name}  trial {trial.id} ({trial.origin}, {trial.epochs} ep)  "
        f"{value}{flag}  best {as_number(run.incumbent)}  epochs {run.budget.spent}/{run.budget.epochs}"
    )


class RetrainingProgress:
    """Tells a screen.

    chosen: all incumbents. there: rows that an earlier call left. workers: tells how many there are.
    """

    def __init__(
        self,
        screen: Screen,
        chosen: Sequence[Outcome],
        there: Mapping[str, Retrained],
        facts: tuple[str, Scale],
        workers: Callable[[], int],
        elapsed: Callable[[], float] = time.monotonic,
    ) -> None:
        """facts: the experiment's name, and how its best are trained."""
        self._screen, self._chosen, self._workers, self._elapsed = screen, chosen, workers, elapsed
        self._rows = {outcome.run: there[outcome.run] for outcome in chosen if outcome.run in there}
        self._before, self._begun = len(self._rows), elapsed()
        self._flying: dict[str, float] = {}  # run -> since when
        name, scale = facts
        what = {"name": name, "epochs": scale.epochs, "images": scale.images, "seeds": scale.seeds}
        line = f"{name}: {len(chosen) - self._before} of {len(chosen)} best configurations to retrain, {scale}"
        runs = [outcome.run for outcome in chosen]
        screen.tell(Happening("begun", {**what, "runs": runs, **self._standing()}, line))
        screen.show(self._table)

    def started(self, job: Job, worker: str) -> None:
        """For programs alone."""
        self._flying[job.run] = self._elapsed()
        self._screen.tell(Happening("started", {**_job(job), "worker": worker, **self._standing()}))

    def ended(self, row: Retrained) -> None:
        """What was chosen by, and what came out."""
        self._flying.pop(row.run, None)
        self._rows[row.run] = row
        facts = {"run": row.run, "trial": row.trial, "selected_error": row.selected_error, "test_error": row.error}
        line = (
            f"{row.run}  trial {row.trial}  validation error of the search {row.selected_error:.5f}  "
            f"test error {row.error:.5f}  {len(self._rows)} of {len(self._chosen)}"
        )
        self._screen.tell(Happening("ended", {**facts, **self._standing()}, line))

    def lost(self, job: Job, worker: str, reason: str) -> None:
        """A worker is gone; it will be tried again."""
        self._gone("lost", f"{worker} was lost with", job, worker, reason)

    def failed(self, job: Job, worker: str, reason: str) -> None:
        """It is given up."""
        self._gone("failed", f"{worker} failed at", job, worker, reason)

    def _gone(self, event: str, what: str, job: Job, worker: str, reason: str) -> None:
        self._flying.pop(job.run, None)
        facts = {**_job(job), "worker": worker, "reason": reason, **self._standing()}
        line = f"{what} trial {job.trial.id} of {job.run}: {reason}"
        self._screen.tell(Happening(event, facts, line, bad=True))

    def _standing(self) -> dict[str, Any]:
        done, of = len(self._rows), len(self._chosen)
        left = seconds_left(done - self._before, of - done, self._elapsed() - self._begun)
        return {
            "done": done,
            "of": of,
            "seconds_left": None if left is None else round(left, 1),
            "workers_busy": len(self._flying),
            "workers": self._workers(),
        }

    def _table(self) -> RenderableType:
        table = Table(box=None, pad_edge=False)
        for header in ("run", "trial", "validation error", "test error", "now"):
            table.add_column(header, no_wrap=True, justify="left" if header in ("run", "now") else "right")
        now = self._elapsed()
        for outcome in self._chosen:
            row, since = self._rows.get(outcome.run), self._flying.get(outcome.run)
            doing = "waiting" if since is None else f"training ({now - since:.0f} s)"
            error = outcome.evaluation.error if outcome.evaluation else None
            test = as_number(row.error if row else None)
            table.add_row(outcome.run, str(outcome.trial.id), as_number(error), test, "done" if row else doing)
        told = self._standing()
        foot = f"{told['workers_busy']} of {told['workers']} workers busy, {as_time(told['seconds_left'])} left"
        return Group(table, Text(foot))
