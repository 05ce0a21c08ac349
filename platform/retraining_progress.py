"""What is told while the best configurations are trained again, in words and in facts.

| event | its facts beside `event` and `at`, as `--progress json` gives them |
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
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from fmnas.platform.outcomes import Outcome
from fmnas.platform.pace import as_time, seconds_left
from fmnas.platform.pool import Job
from fmnas.platform.progress import as_number
from fmnas.platform.retrained import Retrained, Scale
from fmnas.platform.screen import Happening, Screen


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


def _job(job: Job) -> dict[str, Any]:
    return {"run": job.run, "trial": job.trial.id, "attempt": job.attempt}
