"""What an export takes: the ended trials of an experiment, run by run. fmnas.platform's results have this form."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from fmnas.search_spaces import Evaluation, FmnasError, Space, Trial


class ExportError(FmnasError):
    """Raised if trials cannot be written for another tool."""


class EndedTrial(Protocol):
    """A trial that ended. status: one of STATUSES. evaluation: None unless it finished. Times: seconds since the epoch.

    epochs, charged_seconds, suggest_seconds: what it and its suggestion cost. reason: why it did not finish.
    """

    @property
    def trial(self) -> Trial: ...
    @property
    def status(self) -> str: ...
    @property
    def evaluation(self) -> Evaluation | None: ...
    @property
    def epochs(self) -> float: ...
    @property
    def started_at(self) -> float: ...
    @property
    def finished_at(self) -> float: ...
    @property
    def charged_seconds(self) -> float: ...
    @property
    def suggest_seconds(self) -> float: ...
    @property
    def worker(self) -> str: ...
    @property
    def reason(self) -> str: ...


@dataclass(frozen=True)
class ExportedRun:
    """One optimizer and one repeat, with its trials in the order in which they ended."""

    optimizer: str
    repeat: int
    trials: Sequence[EndedTrial]


@dataclass(frozen=True)
class ExportedExperiment:
    """An experiment. space: without fixed variables. epochs: full fidelity. facts: about all runs."""

    name: str
    space: Space
    epochs: int
    runs: Sequence[ExportedRun]
    facts: Mapping[str, Any]


def describe_trial(ended: EndedTrial) -> dict[str, Any]:
    """Return what a trial has in addition to its configuration, objective and times, without missing values."""
    trial, evaluation = ended.trial, ended.evaluation
    facts: dict[str, Any] = {
        "trial": trial.id,
        "status": ended.status,
        "origin": trial.origin,
        "epochs": trial.epochs,
        "seed": trial.seed,
        "parent": trial.parent,
        "note": trial.note,
        "reason": ended.reason,
        "worker": ended.worker,
        "train_seconds": ended.charged_seconds,
        "suggest_seconds": ended.suggest_seconds,
    }
    if evaluation is not None:
        facts |= {"error": evaluation.error, "flops": evaluation.flops, "curve": list(evaluation.curve)}
        facts |= {"diverged": evaluation.diverged, "values": list(evaluation.values)}
    return {name: value for name, value in facts.items() if value is not None and value not in ("", [])}
