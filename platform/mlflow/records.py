"""The contents of MLflow's runs, as plain records: what is logged of a trial, of an optimizer, of an experiment.

A trial is a run: its configuration as params, its results as metrics, the validation error after each epoch as the
curve `val_error` (step = epoch, from 1). A run of an optimizer has its incumbent after each whole number k of
evaluations. Trials at lower fidelity (BOHB) cost a fraction of an evaluation; k then has the incumbent of that time. So
all optimizers have points at the same steps, and MLflow's charts can overlay and average them.
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
from fmnas.search_spaces.records import CANCELLED, FINISHED

KIND, EXPERIMENT_ID, RUN, TRIAL = "fmnas.kind", "fmnas.experiment_id", "fmnas.run", "fmnas.trial"
CONTENT, TEST_ERROR, FILES = "fmnas.content", "test_error", "fmnas.files"
"""Tags by which runs and models are found."""

SOURCE_NAME = "mlflow.source.name"
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

    result: TrialResult
    epochs_spent: float
    evaluations_spent: float
    incumbent: float | None


@dataclass
class IncumbentCurve:
    """The incumbent of a run, folded over the trials that ended.

    full: epochs of a full evaluation. epochs: spent so far. started_at: when the optimizer was asked first, ended_at:
    when the last trial ended, in seconds since the epoch. points: of the lines `incumbent` and `incumbent_by_epochs`.
    """

    full: int
    epochs: float = 0
    incumbent: float | None = None
    started_at: float = math.inf
    ended_at: float = 0.0
    points: list[Point] = field(default_factory=list)

    @property
    def evaluations(self) -> float:
        """Epochs spent, in full evaluations."""
        return self.epochs / self.full

    def snapshot(self, result: TrialResult) -> LoggedTrial:
        """Return a trial with the present totals of its run."""
        return LoggedTrial(result, self.epochs, self.evaluations, self.incumbent)

    def add(self, result: TrialResult, epochs: float, incumbent: float | None) -> LoggedTrial:
        """Fold the next trial that ended. epochs, incumbent: of its run after it."""
        before, first = self.incumbent, math.floor(self.evaluations + _TOLERANCE) + 1
        self.ended_at = max(self.ended_at, result.finished_at)
        self.epochs, self.incumbent = epochs, incumbent
        for step in range(first, math.floor(self.evaluations + _TOLERANCE) + 1):
            self.points += self._line(step, incumbent if step + _TOLERANCE > self.evaluations else before)
        return self.snapshot(result)

    def final_points(self) -> list[Point]:
        """Return what ends the lines of a run that stopped between two whole evaluations."""
        step = math.ceil(self.evaluations - _TOLERANCE)
        return self._line(step, self.incumbent) if step > self.evaluations else []

    def _line(self, step: int, incumbent: float | None) -> list[Point]:
        time, steps = milliseconds(self.ended_at), {INCUMBENT: step, INCUMBENT_BY_EPOCHS: round(step * self.full)}
        return [] if incumbent is None else [Point(key, incumbent, time, k) for key, k in steps.items()]


def trial_points(trial: LoggedTrial) -> list[Point]:
    """Return the metrics of a trial, and its curve."""
    result = trial.result
    started, ended = milliseconds(result.started_at), milliseconds(result.finished_at)
    curve = result.evaluation.curve if result.evaluation else ()
    return [Point(valid_name(key), value, ended, 0) for key, value in _metrics(trial).items()] + [
        Point("val_error", error, started + (ended - started) * epoch // len(curve), epoch)
        for epoch, error in enumerate(curve, start=1)
    ]


def _metrics(trial: LoggedTrial) -> dict[str, float]:
    result = trial.result
    known: dict[str, float | None] = {
        "epochs": result.epochs,
        "suggest_seconds": result.suggest_seconds,
        "spent/evaluations": trial.evaluations_spent,
        "spent/epochs": trial.epochs_spent,
        "spent/incumbent": trial.incumbent,
        **results(result),
    }
    if result.evaluation:
        known["train_seconds"] = result.evaluation.seconds
        known |= {f"error_seed_{i}": error for i, error in enumerate(result.evaluation.errors, start=1)}
        known |= {f"objective_{i}": value for i, value in enumerate(result.evaluation.values, start=1)}
        known |= {f"system/{name}": value for name, value in result.evaluation.system_metrics.items()}
    return {key: float(value) for key, value in known.items() if value is not None}


def trial_tags(result: TrialResult) -> dict[str, str]:
    """Return the tags of a trial."""
    trial, evaluation = result.trial, result.evaluation
    return {
        KIND: TRIAL_KIND,
        RUN: result.run,
        TRIAL: str(trial.id),
        "optimizer": result.optimizer,
        "repeat": str(result.repeat),
        "origin": trial.origin,
        "status": result.status,
        "reason": result.reason[:5000],
        "worker": result.worker,
        "attempt": str(result.attempt),
        "diverged": str(bool(evaluation and evaluation.diverged)).lower(),
        "parent_trial": "" if trial.parent is None else str(trial.parent),
    }


def source_tags(commit: str, repository: Mapping[str, str]) -> dict[str, str]:
    """Return MLflow's tags of what made a run. commit: ends with -dirty if files were changed; empty if unknown.

    repository: its branch and URL, as far as they are known.
    """
    git = {"commit": commit.removesuffix("-dirty"), "branch": repository.get("branch", "")}
    git |= {"repoURL": repository.get("url", ""), "dirty": str(commit.endswith("-dirty")).lower() if commit else ""}
    return {SOURCE_NAME: "fmnas", "mlflow.source.type": "LOCAL"} | {f"mlflow.source.git.{k}": v for k, v in git.items()}


def mean_points(path: Path, summary: Mapping[str, Any], at: int) -> dict[str, list[Point]]:
    """Return the points of each optimizer's mean run: the report's mean curve with its interval, and final numbers.

    path: mean_curves.csv. summary: summary.json. at: milliseconds since the epoch. The step is the number of
    evaluations, rounded up; of several values at a step the last counts. The final numbers are means over the repeats,
    of the incumbents' objectives and of the test errors of the retrained ones.
    """
    lines: dict[str, dict[tuple[str, int], float]] = {}
    for row in csv.DictReader(path.read_text().splitlines()):
        if row["axis"] == "evaluations":
            step = math.ceil(float(row["at"]) - _TOLERANCE)
            line = {(name, step): float(row[name]) for name in MEAN_LINES if row[name]}
            lines.setdefault(row["optimizer"], {}).update(line)
    test_errors = {row["optimizer"]: row["error"] for row in (summary.get("retrained") or {}).get("means", ())}
    for optimizer, line in lines.items():
        final = summary.get("optimizers", {}).get(optimizer, {})
        numbers = {"objective": final.get("mean"), "standard_error": final.get("standard_error")}
        numbers[TEST_ERROR] = test_errors.get(optimizer)
        line |= {(name, 0): float(value) for name, value in numbers.items() if value is not None}
    return {name: [Point(key, value, at, step) for (key, step), value in line.items()] for name, line in lines.items()}


def results(result: TrialResult | None) -> dict[str, float]:
    """Return what a trial measured; nothing if it did not finish."""
    if result is None or result.evaluation is None:
        return {}
    values = {name: getattr(result.evaluation, name) for name in ("objective", "error", "flops", "flops_ratio")}
    return {name: float(value) for name, value in values.items() if value is not None}


def params(values: Mapping[str, Any]) -> dict[str, str]:
    """Return nested values as params, named by their dotted keys; None is left out. Floats have all digits."""
    return {valid_name(key): str(value)[:6000] for key, value in flatten(values).items() if value is not None}


def content_digest(points: Iterable[Point]) -> str:
    """Return what tells one set of values from another, whenever they were logged."""
    return f"{zlib.crc32(repr([(point.key, point.step, point.value) for point in points]).encode()):08x}"


def valid_name(name: str) -> str:
    """Return the name of a metric or param with the characters replaced that MLflow does not allow."""
    return re.sub(r"[^/\w.\- ]", "_", name)[:250]


def milliseconds(seconds: float) -> int:
    """Convert to MLflow's unit of time."""
    return round(seconds * 1000)
