"""Progress of an experiment or a retraining while it runs: an observer with a live table, log lines or JSON lines."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.measure import Measurement
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from fmnas.platform.display.formatting import (
    EPOCHS,
    budget_fields,
    budget_unit,
    estimate_eta,
    format_activity,
    format_duration,
    format_epochs,
    format_value,
)
from fmnas.platform.display.log import LIVE, make_logger
from fmnas.platform.experiment.events import (
    Asked,
    Cancelled,
    Event,
    Failed,
    Finished,
    Lost,
    Retrained,
    RetrainingBegun,
    RetrainingFailed,
    RetrainingStarted,
    Started,
    event_to_dict,
)
from fmnas.platform.experiment.observer import Observer, PoolStatus, mean_epochs_done
from fmnas.platform.experiment.trial_result import TrialResult
from fmnas.platform.problems import display_name
from fmnas.platform.workers.pool import short_worker_name
from fmnas.search_spaces import Trial
from fmnas.search_spaces.records import FINISHED, WARM_START

if TYPE_CHECKING:
    from fmnas.platform.experiment.state import ExperimentState

Key = tuple[str, int]
"""Run and trial id."""


@dataclass(frozen=True)
class _Row:
    """A run: work done, total work, work still expected (epochs, or 1 retraining), and its incumbent or test error."""

    run: str
    done: float
    total: int
    left: float
    value: float | None


@dataclass(frozen=True)
class _RunName:
    """The name of a run in a table, which loses its middle in a narrow column: it ends with the repeat."""

    text: str

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(1, len(self.text))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width, ends = options.max_width, [self.text[self.text.rfind(sign) :] for sign in "/-"]  # /repeat-0 or -0
        end = next((end for end in ends if len(end) + 3 < width < len(self.text)), "")
        text = f"{self.text[: width - len(end) - 1]}…{end}" if end else self.text
        yield Text(text, no_wrap=True, overflow="ellipsis")


class Progress(Observer):
    """Reports everything that happens in one of PROGRESS_MODES. elapsed: monotonic seconds."""

    def __init__(self, mode: str, console: Console, elapsed: Callable[[], float] = time.monotonic) -> None:
        self._logger, self._elapsed = make_logger(mode, console), elapsed
        self._table_console = console if mode == LIVE else None
        self._live: Live | None = None
        self._running: dict[Key, tuple[float, int]] = {}  # since when, and epochs of the trial
        self._trials: dict[Key, Trial] = {}  # suggested and not ended
        self._suggesting = ""
        self._retraining: RetrainingBegun | None = None
        self._test_errors: dict[str, float] = {}

    def on_start(self, state: "ExperimentState", pool: PoolStatus) -> None:
        """Show the table, and report that work begins."""
        self._state, self._pool, self._started_at = state, pool, self._elapsed()
        self._unit = budget_unit(state.ledger.full_epochs)
        self._done_before = {run.name: run.budget.spent for run in state.ledger.runs.values()}
        self._trials |= {key: pending.trial for key, pending in state.ledger.pending.items()}
        config = state.config
        facts = {"name": config.name, "problem": config.problem, "runs": list(state.ledger.runs)}
        self._log("start", facts, level=logging.DEBUG)
        if self._table_console is not None:
            self._live = Live(get_renderable=self.render, console=self._table_console, transient=True)
            self._live.start()

    def on_suggesting(self, run: str) -> None:
        """Remember which optimizer is busy."""
        self._suggesting = run

    def on_message(self, text: str) -> None:
        """Report a line for the user."""
        self._logger.info("%s", text)

    def on_end(self, status: str, reason: str) -> None:
        """Remove the table."""
        self.close()

    def close(self) -> None:
        """Remove the table, if there is one."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def on_event(self, event: Event, result: TrialResult | None) -> None:
        """Report the start and the end of every trial and retraining."""
        if isinstance(event, Finished | Failed | Lost | Cancelled | Retrained | RetrainingFailed):
            self._running.pop((event.run, event.trial_id), None)
        match event:
            case Asked():
                self._trials[event.run, event.trial.id] = event.trial
            case Started():
                self._on_trial_started(event)
            case Finished() | Failed() | Lost(final=True) if result is not None:
                self._on_result(event, result)
            case Lost() | RetrainingFailed():
                self._on_failure(event)
            case Cancelled():
                self._log_event(event, level=logging.DEBUG)
            case RetrainingBegun():
                self._retraining = event
                line = f"retraining {len(event.runs)} incumbents: epochs = {event.epochs}, images = {event.images}"
                self._log_event(event, f"{line}, seeds = {event.seeds}")
            case RetrainingStarted() if self._retraining:
                self._running[event.run, event.trial_id] = self._elapsed(), self._retraining.epochs
                self._log_event(event, level=logging.DEBUG)
            case Retrained():
                self._on_retrained(event)

    def _on_trial_started(self, event: Started) -> None:
        trial = self._trials[event.run, event.trial_id]
        self._running[event.run, trial.id] = self._elapsed(), trial.epochs
        attempt = f", attempt {event.attempt}" if event.attempt > 1 else ""
        line = f"{self._trial_text(event.run, trial, attempt)}  starts on {short_worker_name(event.worker)}"
        self._log_event(event, line, logging.DEBUG if self._state.config.workers.is_in_driver else logging.INFO)

    def _on_result(self, event: Finished | Failed | Lost, result: TrialResult) -> None:
        self._trials.pop((result.run, result.trial.id), None)
        if result.trial.origin == WARM_START:  # it took no time
            self._done_before[result.run] += result.epochs
        run, evaluation = self._state.ledger.runs[result.run], result.evaluation
        value = format_value(evaluation.objective) if evaluation else f"{result.status}: {result.reason}"
        diverged = "  diverged" if evaluation and evaluation.diverged else ""
        line = (
            f"{self._trial_text(run.name, result.trial)}  {value}{diverged}  best {format_value(run.incumbent)}  "
            f"{self._unit} {format_epochs(run.budget.spent)}/{run.budget.epochs}"
        )
        level = logging.INFO if result.status == FINISHED else logging.WARNING
        self._log_event(event, line, level, incumbent=run.incumbent, run_epochs=run.budget.spent)

    def _on_failure(self, event: Lost | RetrainingFailed) -> None:
        what = "failed" if isinstance(event, RetrainingFailed) else "lost"
        line = f"{event.run}  trial {event.trial_id}  {what} on {short_worker_name(event.worker)}: {event.reason}"
        self._log_event(event, line, logging.WARNING)

    def _on_retrained(self, event: Retrained) -> None:
        self._test_errors[event.run] = sum(event.errors) / len(event.errors)
        best = self._state.ledger.runs[event.run].best
        line = (
            f"{event.run}  trial {event.trial_id}  validation error {format_value(best.error if best else None)}  "
            f"test error {format_value(self._test_errors[event.run])}"
        )
        self._log_event(event, line)

    def _log_event(self, event: Event, line: str = "", level: int = logging.INFO, **more_facts: Any) -> None:
        facts = event_to_dict(event) | more_facts
        self._log(facts.pop("event"), facts, line, level)

    def _log(self, event: str, facts: Mapping[str, Any], line: str = "", level: int = logging.INFO) -> None:
        self._logger.log(level, "%s", line, extra={"event": event, "facts": {**facts, **self.status_fields()}})

    def status_fields(self) -> dict[str, Any]:
        """Return the fields of every JSON event: budget spent or retrainings done, time left, and workers."""
        rows = self._rows()
        done, total = sum(row.done for row in rows), sum(row.total for row in rows)
        work = {"done": done, "of": total} if self._retraining else budget_fields(self._state.ledger.runs.values())
        eta = self._eta(rows)
        return {
            **work,
            "seconds_left": None if eta is None else round(eta, 1),
            "workers_busy": len(self._running),
            "workers": self._pool.size,
        }

    def _rows(self) -> list[_Row]:
        if self._retraining:
            names, errors = self._retraining.runs, self._test_errors
            return [_Row(name, int(name in errors), 1, int(name not in errors), errors.get(name)) for name in names]
        runs = self._state.ledger.runs.values()
        return [_Row(run.name, run.budget.spent, run.budget.epochs, run.epochs_left, run.incumbent) for run in runs]

    def _eta(self, rows: Sequence[_Row]) -> float | None:
        before = {} if self._retraining else self._done_before
        work = [(row.done - before.get(row.run, 0), row.left) for row in rows]
        return estimate_eta(work, self._elapsed() - self._started_at)

    def render(self) -> RenderableType:
        """Return the table: a row per run, cut to the width and the height of the terminal."""
        config, fields, rows = self._state.config, self.status_fields(), self._rows()
        header = Text(
            f"{config.name}: {display_name(config.problem)}, lower is better; {fields['workers_busy']} of "
            f"{fields['workers']} workers busy, {format_duration(fields['seconds_left'])} left"
        )
        value = "test error" if self._retraining else "best"
        table = Table(box=None, pad_edge=False)
        for name in ("run", "", "done" if self._retraining else self._unit, value, "now", "left"):
            is_text = name in ("run", "now")
            table.add_column(name, justify="left" if is_text else "right", no_wrap=not is_text)
        shown = self._select_rows(rows)
        for row in shown:
            table.add_row(
                _RunName(row.run),
                ProgressBar(total=row.total, completed=row.done, width=12),
                f"{format_epochs(row.done)}/{row.total}",
                format_value(row.value),
                Text(self._activity(row), no_wrap=True, overflow="ellipsis"),
                format_duration(self._eta([row])),
            )
        more = [Text(f"and {len(rows) - len(shown)} more")] if len(shown) < len(rows) else []
        return Group(header, table, *more)

    def _select_rows(self, rows: Sequence[_Row]) -> Sequence[_Row]:
        """Return the rows that the terminal has lines for: those at work, then unfinished ones, then others."""
        room = self._table_console.height - 5 if self._table_console else len(rows)  # 5: above and below the rows
        busy = {self._suggesting, *(run for run, _ in list(self._running))}
        kept = {row.run for row in sorted(rows, key=lambda row: (row.run not in busy, not row.left))[: max(room, 0)]}
        return [row for row in rows if row.run in kept]

    def _activity(self, row: _Row) -> str:
        if row.run == self._suggesting:
            return "suggesting"
        now, trainings = self._elapsed(), self._retraining or self._state.experiment.problem
        epochs_done = mean_epochs_done(self._pool, trainings.seeds)
        trials = [
            (key[1], epochs_done.get(key), epochs, now - since)
            for key, (since, epochs) in list(self._running.items())
            if key[0] == row.run
        ]
        idle = "waiting" if row.left else "done"
        return format_activity(trials) if trials else idle

    def _trial_text(self, run: str, trial: Trial, attempt: str = "") -> str:
        epochs = f", {trial.epochs} ep" if self._unit == EPOCHS else ""
        return f"{run}  trial {trial.id} ({trial.origin}{epochs}{attempt})"
