"""What a person sees while an experiment runs: a live table on a terminal, one line per trial elsewhere."""

import time
from typing import Protocol

from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from fmnas.platform.experiment import Run
from fmnas.platform.outcomes import FINISHED, Outcome
from fmnas.platform.state import ExperimentState


class Progress(Protocol):
    """Follows the driver."""

    def suggesting(self, run: str) -> None:
        """An optimizer is thinking about its next trial; "" when it is done."""

    def ended(self, state: ExperimentState, outcome: Outcome) -> None:
        """A trial ended."""

    def refresh(self, state: ExperimentState) -> None:
        """Some time went by."""

    def say(self, text: str) -> None:
        """Something a person should know."""

    def close(self) -> None:
        """The experiment is over."""


class LineProgress:
    """A line per trial that ended: for logs and pipes."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def suggesting(self, run: str) -> None:
        """Nothing."""

    def ended(self, state: ExperimentState, outcome: Outcome) -> None:
        """Run, trial, objective, incumbent, budget."""
        run = state.runs[outcome.run]
        value = f"{outcome.evaluation.objective:.5f}" if outcome.evaluation else f"{outcome.status}: {outcome.reason}"
        flag = " diverged" if outcome.evaluation and outcome.evaluation.diverged else ""
        self._console.print(
            f"{run.name}  trial {outcome.trial.id} ({outcome.trial.origin}, {outcome.trial.epochs} ep)  "
            f"{value}{flag}  best {_number(run.incumbent)}  epochs {run.budget.spent}/{run.budget.epochs}",
            highlight=False,
            soft_wrap=True,
        )

    def refresh(self, state: ExperimentState) -> None:
        """Nothing."""

    def say(self, text: str) -> None:
        """A line of its own."""
        self._console.print(text, highlight=False, soft_wrap=True)

    def close(self) -> None:
        """Nothing."""


class LiveProgress:
    """A table with a row per run, redrawn in place."""

    def __init__(self, console: Console, state: ExperimentState) -> None:
        self._state = state
        self._suggesting = ""
        self._begun = time.monotonic()
        self._spent_before = {run.name: run.budget.spent for run in state.runs.values()}
        self._live = Live(get_renderable=self._table, console=console, refresh_per_second=4, transient=True)
        self._console = console
        self._live.start()

    def suggesting(self, run: str) -> None:
        """Shown beside the run."""
        self._suggesting = run

    def ended(self, state: ExperimentState, outcome: Outcome) -> None:
        """Failures stay visible above the table."""
        if outcome.status != FINISHED:
            self.say(f"{outcome.run}, trial {outcome.trial.id} {outcome.status}: {outcome.reason}")

    def refresh(self, state: ExperimentState) -> None:
        """The table redraws itself."""

    def say(self, text: str) -> None:
        """Printed above the table."""
        self._console.print(text, highlight=False)

    def close(self) -> None:
        """Take the table away."""
        self._live.stop()

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
                _number(run.incumbent),
                self._doing(run),
                self._left(run),
            )
        return table

    def _doing(self, run: Run) -> str:
        if run.name == self._suggesting:
            return "suggesting"
        flying = [opened.trial for (name, _), opened in list(self._state.open.items()) if name == run.name]
        if flying:
            return "training " + ", ".join(str(trial.id) for trial in flying[:4])
        return "done" if run.over or run.budget.exhausted else "waiting"

    def _left(self, run: Run) -> str:
        """Time left at the pace so far in this session."""
        spent = run.budget.spent - self._spent_before[run.name]
        if not spent:
            return "-"
        seconds = (time.monotonic() - self._begun) / spent * (run.budget.epochs - run.budget.spent)
        minutes, rest = divmod(round(seconds), 60)
        hours, minutes = divmod(minutes, 60)
        return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.5f}"
