"""What MLflow is told about a trial and about an optimizer's progress: plain records, no MLflow in sight.

A trial becomes one run: its configuration as params, its results as metrics, the validation error after each epoch
as the curve `val_error` (step = epoch, from 1). A log-scaled variable is also a metric `log10/NAME`, because the UI's
charts have no log axis for params.

An optimizer's progress is `incumbent`: the best full-fidelity objective once k evaluations are spent, one point for
each whole k. Short trainings (BOHB) cost a fraction of an evaluation and their trials end between two whole numbers,
so k gets the incumbent as it stood then. Thus every optimizer and every repeat has its points at the same steps,
and MLflow's charts can overlay and average them. `incumbent_by_epochs` is the same line with step = epochs.
"""

import csv
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from fmnas.platform.experiment.configuration import flatten
from fmnas.platform.experiment.trial_result import RunSnapshot, TrialResult
from fmnas.search_spaces import Real, Space
from fmnas.search_spaces.records import CANCELLED, FINISHED

KIND, EXPERIMENT_ID, RUN, TRIAL = "fmnas.kind", "fmnas.experiment_id", "fmnas.run", "fmnas.trial"
EXTENSIONS = "fmnas.extensions"
"""Tags by which runs are found again."""

COLOR, PARENT = "mlflow.runColor", "mlflow.parentRunId"
NAME, DESCRIPTION = "mlflow.runName", "mlflow.note.content"
"""Tags that MLflow's UI understands."""

EXPERIMENT_KIND, EARLIER_KIND, RUN_KIND, TRIAL_KIND = "experiment", "earlier experiment", "run", "trial"
MEAN_KIND, EARLIER_MEAN_KIND = "mean", "earlier mean"

MEAN_LINES = ("mean", "low", "high")
"""The lines that a report's mean curves give each optimizer: the mean over repeats, and its interval."""

INCUMBENT_LINES = INCUMBENT, INCUMBENT_BY_EPOCHS = "incumbent", "incumbent_by_epochs"


class Point(NamedTuple):
    """One value of a metric."""

    key: str
    value: float
    timestamp: int  # milliseconds since the epoch
    step: int


@dataclass(frozen=True)
class TrialRecord:
    """A trial as MLflow stores it; times in milliseconds since the epoch."""

    name: str
    status: str
    tags: Mapping[str, str]
    params: Mapping[str, str]
    points: tuple[Point, ...]
    started: int
    ended: int


def trial_record(outcome: TrialResult, space: Space | None) -> TrialRecord:
    """The MLflow run of a trial."""
    started, ended = milliseconds(outcome.started_at), milliseconds(outcome.finished_at)
    values = _metrics(outcome, space)
    points = [Point(valid_name(key), value, ended, 0) for key, value in values.items()]
    curve = outcome.evaluation.curve if outcome.evaluation else ()
    for epoch, error in enumerate(curve, start=1):
        points.append(Point("val_error", error, started + (ended - started) * epoch // len(curve), epoch))
    return TrialRecord(
        name=f"{outcome.run}/trial-{outcome.trial.id}",
        status={FINISHED: "FINISHED", CANCELLED: "KILLED"}.get(outcome.status, "FAILED"),
        tags=_trial_tags(outcome),
        params=params(outcome.trial.configuration),
        points=tuple(points),
        started=started,
        ended=ended,
    )


def incumbent_points(before: RunSnapshot, now: RunSnapshot, timestamp: int) -> list[Point]:
    """The points of the incumbent's lines that a trial adds: one per whole evaluation that it completes."""
    points = []
    first, last = (math.floor(standing.evaluations + _STEP_TOLERANCE) for standing in (before, now))
    for step in range(first + 1, last + 1):
        standing = now if step + _STEP_TOLERANCE > now.evaluations else before
        points += _line(step, standing.incumbent, now, timestamp)
    return points


def last_points(now: RunSnapshot, timestamp: int) -> list[Point]:
    """What ends the lines of a run that stopped between two whole evaluations."""
    step = math.ceil(now.evaluations - _STEP_TOLERANCE)
    return _line(step, now.incumbent, now, timestamp) if step > now.evaluations else []


def mean_lines(path: Path, timestamp: int) -> dict[str, list[Point]]:
    """The mean curves of a report, from its mean_curves.csv: optimizer -> `mean`, and its interval, `low` and `high`.

    The step is the number of evaluations; between two whole ones the curve is rounded up to the next, of which the last
    counts. Missing values have no point. Raises KeyError or ValueError for another table.
    """
    found: dict[str, dict[tuple[str, int], float]] = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            if row["axis"] == "evaluations":
                step = math.ceil(float(row["at"]) - _STEP_TOLERANCE)
                values = {(line, step): float(row[line]) for line in MEAN_LINES if row[line]}
                found.setdefault(row["optimizer"], {}).update(values)
    return {
        optimizer: [Point(line, value, timestamp, step) for (line, step), value in values.items()]
        for optimizer, values in found.items()
    }


def final_numbers(summary: Mapping[str, Any], optimizer: str) -> dict[str, float]:
    """The metrics that compare optimizers, from a report's summary; one that is not known is left out.

    objective, standard_error: of the final incumbent, over the repeats. test_error: of the best configurations,
    trained again, the mean over the repeats.
    """
    final = summary.get("optimizers", {}).get(optimizer, {})
    retrained = {row["optimizer"]: row["error"] for row in (summary.get("retrained") or {}).get("means", ())}
    values = {
        "objective": final.get("mean"),
        "standard_error": final.get("standard_error"),
        "test_error": retrained.get(optimizer),
    }
    return {key: float(value) for key, value in values.items() if value is not None}


def result_note(summary: Mapping[str, Any]) -> str:
    """The description of an experiment's own run: the report's headline and its caution; empty without a summary."""
    return "\n\n".join(filter(None, (summary.get("headline"), summary.get("caution"))))[:5000]


def params(values: Mapping[str, Any]) -> dict[str, str]:
    """Plain values, nested or not, as params named by their path; None is left out."""
    return {valid_name(key): as_text(value)[:6000] for key, value in flatten(values).items() if value is not None}


def as_text(value: Any) -> str:
    """A value as a param shows it: a float with 12 digits, so that 0.1 + 0.2 is 0.3."""
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def results(outcome: TrialResult | None) -> dict[str, float]:
    """What was measured; nothing of a trial that did not finish."""
    if outcome is None or outcome.evaluation is None:
        return {}
    names = ("objective", "error", "flops", "flops_ratio")
    values = {name: getattr(outcome.evaluation, name) for name in names}
    return {name: float(value) for name, value in values.items() if value is not None}


def best_note(outcome: TrialResult) -> str:
    """The description (Markdown) of a run: its best trial and that trial's configuration."""
    trial = outcome.trial
    rows = [f"| {name} | {as_text(value)} |" for name, value in trial.configuration.items()]
    head = f"Best: trial {trial.id} ({trial.origin}), objective {results(outcome)['objective']:.6g}"
    return "\n".join([head, "", "| variable | value |", "|---|---|", *rows])[:5000]


def mean_name(optimizer: str) -> str:
    """The name of the run of an optimizer's mean curve, e.g. "bo-fm/mean"."""
    return f"{optimizer}/mean"


def valid_name(name: str) -> str:
    """The name of a metric or param with what MLflow does not take replaced."""
    return re.sub(r"[^/\w.\- ]", "_", name)[:250]


def milliseconds(seconds: float) -> int:
    """MLflow's unit of time."""
    return round(seconds * 1000)


_STEP_TOLERANCE = 1e-6
"""Evaluations are epochs / full epochs: whole numbers come out whole but for rounding."""


def _line(step: int, value: float | None, now: RunSnapshot, timestamp: int) -> list[Point]:
    if value is None:
        return []
    full = now.epochs / now.evaluations  # epochs of a full evaluation
    by_epochs = Point(INCUMBENT_BY_EPOCHS, value, timestamp, round(step * full))
    return [Point(INCUMBENT, value, timestamp, step), by_epochs]


def _metrics(outcome: TrialResult, space: Space | None) -> dict[str, float]:
    evaluation, standing = outcome.evaluation, outcome.snapshot
    known: dict[str, float | None] = {
        "epochs": outcome.trial.epochs,
        "suggest_seconds": outcome.suggest_seconds,
        "spent/evaluations": standing.evaluations,
        "spent/epochs": standing.epochs,
        "spent/incumbent": standing.incumbent,
    }
    if evaluation:
        known |= {**results(outcome), "train_seconds": evaluation.seconds}
        known |= {f"error_seed_{i}": error for i, error in enumerate(evaluation.errors, start=1)}
    for variable in space.variables if space else ():
        value = outcome.trial.configuration.get(variable.name)
        if isinstance(variable, Real) and variable.log and isinstance(value, int | float):
            known[f"log10/{variable.name}"] = math.log10(value)
    return {key: float(value) for key, value in known.items() if value is not None}


def _trial_tags(outcome: TrialResult) -> dict[str, str]:
    trial, evaluation = outcome.trial, outcome.evaluation
    tags = {
        "optimizer": outcome.optimizer,
        "repeat": str(outcome.repeat),
        "origin": trial.origin,
        "status": outcome.status,
        "reason": outcome.reason[:5000],  # also an empty one: it removes that of an interrupted attempt
        "worker": outcome.worker,
        "attempt": str(outcome.attempt),
        "diverged": str(bool(evaluation and evaluation.diverged)).lower(),
        RUN: outcome.run,
        TRIAL: str(trial.id),
    }
    if trial.parent is not None:
        tags["parent_trial"] = str(trial.parent)
    return tags
