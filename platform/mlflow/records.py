"""The contents of MLflow's runs, as plain records: what is logged of a trial, of an optimizer, of an experiment.

A trial is a run: its configuration as params, its results as metrics, the validation error after each epoch as the
curve `val_error` (step = epoch, from 1). A variable on a log scale is also a metric `log10/NAME`, because the UI's
charts have no log axis for params.

A run of an optimizer has the line `incumbent`: the best full-fidelity objective after k evaluations, a point for each
whole k, and `incumbent_by_epochs`, the same with step = epochs. Trials at lower fidelity (BOHB) cost a fraction of an
evaluation and end between whole numbers; k then has the incumbent of that time. So all lines have the same steps, and
MLflow's charts can overlay and average them.
"""

import csv
import math
import re
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from fmnas.platform.experiment.configuration import flatten
from fmnas.platform.experiment.trial_result import TrialResult
from fmnas.search_spaces import Real, Space
from fmnas.search_spaces.records import CANCELLED, CHARGED, FINISHED, is_full

KIND, EXPERIMENT_ID, RUN, TRIAL = "fmnas.kind", "fmnas.experiment_id", "fmnas.run", "fmnas.trial"
CONTENT, TEST_ERROR = "fmnas.content", "test_error"
"""Tags by which runs are found."""

COLOR, PARENT, DESCRIPTION = "mlflow.runColor", "mlflow.parentRunId", "mlflow.note.content"
"""Tags that MLflow's UI understands."""

EXPERIMENT_KIND, RUN_KIND, TRIAL_KIND, MEAN_KIND = "experiment", "run", "trial", "mean"
MEAN_LINES = ("mean", "low", "high")
"""The metrics of a mean run: the mean over repeats, and its interval."""
INCUMBENT_LINES = INCUMBENT, INCUMBENT_BY_EPOCHS = "incumbent", "incumbent_by_epochs"
STATUSES = {FINISHED: "FINISHED", CANCELLED: "KILLED", "interrupted": "KILLED"}
"""MLflow's status of a trial's or an experiment's; of any other, it is FAILED."""

_TOLERANCE = 1e-6
"""Evaluations are epochs / full epochs: whole numbers are whole up to rounding."""


class Point(NamedTuple):
    """A value of a metric. timestamp: in milliseconds since the epoch."""

    key: str
    value: float
    timestamp: int
    step: int


class LoggedTrial(NamedTuple):
    """A trial that ended, and its run after it. incumbent: the best full-fidelity objective; None before the first."""

    outcome: TrialResult
    epochs_spent: int
    evaluations_spent: float
    incumbent: float | None


@dataclass
class RunProgress:
    """An optimizer's run, folded over its trials in the journal's order.

    full: epochs of a full evaluation. epochs: spent so far. best: the first trial with the lowest full-fidelity
    objective. points: of the lines of its incumbent.
    """

    full: int
    epochs: int = 0
    trials: int = 0
    best: TrialResult | None = None
    started_at: float = 0.0
    ended_at: float = 0.0
    points: list[Point] = field(default_factory=list)

    @property
    def incumbent(self) -> float | None:
        """The lowest full-fidelity objective so far."""
        return self.best.objective if self.best else None

    @property
    def evaluations(self) -> float:
        """Epochs spent, in full evaluations."""
        return self.epochs / self.full

    def snapshot(self, outcome: TrialResult) -> LoggedTrial:
        """Return the trial with the present totals of its run."""
        return LoggedTrial(outcome, self.epochs, self.evaluations, self.incumbent)

    def add(self, outcome: TrialResult) -> LoggedTrial:
        """Fold the next trial that ended."""
        evaluations, incumbent = self.evaluations, self.incumbent
        self.trials += 1
        self.started_at = min(self.started_at or math.inf, outcome.started_at - outcome.suggest_seconds)
        self.ended_at = max(self.ended_at, outcome.finished_at)
        if outcome.status in CHARGED:
            self.epochs += outcome.trial.epochs
        objective = outcome.objective if is_full(outcome.trial.epochs, self.full) else None
        if objective is not None and (incumbent is None or objective < incumbent):
            self.best = outcome
        first, last = (math.floor(spent + _TOLERANCE) for spent in (evaluations, self.evaluations))
        for step in range(first + 1, last + 1):
            is_exact = step + _TOLERANCE > self.evaluations
            self.points += self._points(step, self.incumbent if is_exact else incumbent)
        return self.snapshot(outcome)

    def final_points(self) -> list[Point]:
        """Return what ends the lines of a run that stopped between two whole evaluations."""
        step = math.ceil(self.evaluations - _TOLERANCE)
        return self._points(step, self.incumbent) if step > self.evaluations else []

    def summary(self) -> dict[str, float]:
        """Return the final metrics of the run: its size, and the results of its best trial."""
        return {"trials": float(self.trials), "epochs": float(self.epochs), **results(self.best)}

    def _points(self, step: int, value: float | None) -> list[Point]:
        if value is None:
            return []
        at = milliseconds(self.ended_at)
        return [Point(INCUMBENT, value, at, step), Point(INCUMBENT_BY_EPOCHS, value, at, round(step * self.full))]


def trial_points(trial: LoggedTrial, space: Space | None) -> list[Point]:
    """Return the metrics of a trial, and its curve."""
    outcome = trial.outcome
    started, ended = milliseconds(outcome.started_at), milliseconds(outcome.finished_at)
    curve = outcome.evaluation.curve if outcome.evaluation else ()
    return [Point(valid_name(key), value, ended, 0) for key, value in _metrics(trial, space).items()] + [
        Point("val_error", error, started + (ended - started) * epoch // len(curve), epoch)
        for epoch, error in enumerate(curve, start=1)
    ]


def _metrics(trial: LoggedTrial, space: Space | None) -> dict[str, float]:
    outcome = trial.outcome
    known: dict[str, float | None] = {
        "epochs": outcome.trial.epochs,
        "suggest_seconds": outcome.suggest_seconds,
        "spent/evaluations": trial.evaluations_spent,
        "spent/epochs": trial.epochs_spent,
        "spent/incumbent": trial.incumbent,
        **results(outcome),
    }
    if outcome.evaluation:
        known["train_seconds"] = outcome.evaluation.seconds
        known |= {f"error_seed_{i}": error for i, error in enumerate(outcome.evaluation.errors, start=1)}
    for variable in space.variables if space else ():
        value = outcome.trial.configuration.get(variable.name)
        if isinstance(variable, Real) and variable.log and isinstance(value, int | float):
            known[f"log10/{variable.name}"] = math.log10(value)
    return {key: float(value) for key, value in known.items() if value is not None}


def trial_tags(outcome: TrialResult) -> dict[str, str]:
    """Return the tags of a trial."""
    trial, evaluation = outcome.trial, outcome.evaluation
    return {
        KIND: TRIAL_KIND,
        RUN: outcome.run,
        TRIAL: str(trial.id),
        "optimizer": outcome.optimizer,
        "repeat": str(outcome.repeat),
        "origin": trial.origin,
        "status": outcome.status,
        "reason": outcome.reason[:5000],
        "worker": outcome.worker,
        "attempt": str(outcome.attempt),
        "diverged": str(bool(evaluation and evaluation.diverged)).lower(),
        "parent_trial": "" if trial.parent is None else str(trial.parent),
    }


def mean_points(path: Path, summary: Mapping[str, Any], at: int) -> dict[str, list[Point]]:
    """Return the points of each optimizer's mean run: the report's mean curve with its interval, and final numbers.

    path: mean_curves.csv. summary: summary.json. at: milliseconds since the epoch. The step is the number of
    evaluations, rounded up; of several values at a step the last counts. objective, standard_error: of the final
    incumbents; test_error: of the best configurations, retrained; each the mean over the repeats.
    """
    lines: dict[str, dict[tuple[str, int], float]] = {}
    for row in csv.DictReader(path.read_text().splitlines()):
        if row["axis"] == "evaluations":
            step = math.ceil(float(row["at"]) - _TOLERANCE)
            points = lines.setdefault(row["optimizer"], {})
            points |= {(line, step): float(row[line]) for line in MEAN_LINES if row[line]}
    test_errors = {row["optimizer"]: row["error"] for row in (summary.get("retrained") or {}).get("means", ())}
    for optimizer, points in lines.items():
        final = summary.get("optimizers", {}).get(optimizer, {})
        numbers = {"objective": final.get("mean"), "standard_error": final.get("standard_error")}
        numbers["test_error"] = test_errors.get(optimizer)
        points |= {(key, 0): float(value) for key, value in numbers.items() if value is not None}
    return {
        optimizer: [Point(line, value, at, step) for (line, step), value in points.items()]
        for optimizer, points in lines.items()
    }


def experiment_note(summary: Mapping[str, Any]) -> str:
    """Return the description of an experiment's run: the report's headline and its caution."""
    return "\n\n".join(filter(None, (summary.get("headline"), summary.get("caution"))))[:5000]


def best_note(outcome: TrialResult) -> str:
    """Return the description (Markdown) of an optimizer's run: its best trial and the trial's configuration."""
    trial, objective = outcome.trial, results(outcome)["objective"]
    head = [f"Best: trial {trial.id} ({trial.origin}), objective {objective:.6g}", "", "| variable | value |"]
    rows = [f"| {name} | {as_text(value)} |" for name, value in trial.configuration.items()]
    return "\n".join([*head, "|---|---|", *rows])[:5000]


def results(outcome: TrialResult | None) -> dict[str, float]:
    """Return what a trial measured; nothing if it did not finish."""
    names = ("objective", "error", "flops", "flops_ratio") if outcome and outcome.evaluation else ()
    values = {name: getattr(outcome.evaluation, name) for name in names} if outcome else {}
    return {name: float(value) for name, value in values.items() if value is not None}


def params(values: Mapping[str, Any]) -> dict[str, str]:
    """Return nested values as params, named by their dotted keys; None is left out."""
    return {valid_name(key): as_text(value)[:6000] for key, value in flatten(values).items() if value is not None}


def as_text(value: Any) -> str:
    """Return a value as a param shows it: a float with 12 digits, so that 0.1 + 0.2 is 0.3."""
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def content_digest(points: Iterable[Point]) -> str:
    """Return what tells one set of values from another, whenever they were logged."""
    return f"{zlib.crc32(repr([(point.key, point.step, point.value) for point in points]).encode()):08x}"


def valid_name(name: str) -> str:
    """Return the name of a metric or param with the characters replaced that MLflow does not allow."""
    return re.sub(r"[^/\w.\- ]", "_", name)[:250]


def milliseconds(seconds: float) -> int:
    """Convert to MLflow's unit of time."""
    return round(seconds * 1000)
