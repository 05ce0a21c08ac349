"""A job for a worker, the result of a trial, and the table of all results."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from fmnas.platform.errors import legible
from fmnas.search_spaces import Evaluation, Trial
from fmnas.search_spaces.records import CHARGED

if TYPE_CHECKING:
    import pandas as pd


def run_name(optimizer: str, repeat: int) -> str:
    """Return the name of a run, e.g. "bo-fm/repeat-0"."""
    return f"{optimizer}/repeat-{repeat}"


@dataclass(frozen=True)
class Job:
    """One attempt at a trial of a run. attempt: from 1."""

    run: str
    trial: Trial
    attempt: int = 1

    @property
    def key(self) -> tuple[str, int]:
        """Identifies the trial: (run, trial id)."""
        return self.run, self.trial.id


@dataclass(frozen=True)
class TrialResult:
    """How a trial ended.

    status: one of STATUSES; a diverged training is finished.
    evaluation: None unless finished. reason: why the trial did not finish; empty if it did.
    suggest_seconds: time that the optimizer took for this ask and the tells before it.
    started_at, finished_at: of the last attempt, in seconds since the epoch.
    seconds: duration of the last attempt by a monotonic clock; a finished trial has it in its evaluation.
    attempt: 1, or more if workers were lost. lost_seconds: duration of the earlier attempts, which is not charged.
    """

    optimizer: str
    repeat: int
    trial: Trial
    status: str
    evaluation: Evaluation | None
    suggest_seconds: float
    started_at: float
    finished_at: float
    worker: str
    attempt: int = 1
    reason: str = ""
    lost_seconds: float = 0.0
    seconds: float = 0.0

    @property
    def run(self) -> str:
        """Name of the run."""
        return run_name(self.optimizer, self.repeat)

    @property
    def objective(self) -> float | None:
        """Objective; None unless finished."""
        return self.evaluation.objective if self.evaluation else None

    @property
    def error(self) -> float | None:
        """Validation error averaged over seeds; None unless finished, and for problems without an error."""
        return self.evaluation.error if self.evaluation else None

    @property
    def epochs(self) -> float:
        """The epochs that it costs: those of the trial, times the share of its trainings that ran."""
        share = self.evaluation.share if self.evaluation else 1.0
        return self.trial.epochs if share == 1.0 else self.trial.epochs * share

    @property
    def charged_seconds(self) -> float:
        """Training time that counts towards budget.seconds."""
        if self.evaluation:
            return self.evaluation.seconds
        return self.seconds if self.status in CHARGED else 0.0

    def to_row(self, seeds: int, values: int = 0) -> dict[str, Any]:
        """Return the row of trials.csv.

        seeds: number of error columns, 0 for a synthetic problem. values: number of objectives with a column each.
        """
        evaluation = self.evaluation
        conditions = evaluation.conditions if evaluation else None
        errors: Sequence[float | None] = evaluation.errors if evaluation else ()
        errors = [*errors, *[None] * (seeds - len(errors))]
        objectives: Sequence[float | None] = evaluation.values if evaluation else [None] * values
        return {
            "run": self.run,
            "optimizer": self.optimizer,
            "repeat": self.repeat,
            "trial": self.trial.id,
            "origin": self.trial.origin,
            "parent": _as_int64(self.trial.parent),
            "epochs": self.epochs,
            "objective": self.objective,
            **{f"objective_{i}": value for i, value in enumerate(objectives, start=1)},
            "error": self.error,
            **{f"error_seed_{i}": error for i, error in enumerate(errors, start=1)},
            "flops": _as_int64(evaluation.flops) if evaluation else None,
            "flops_ratio": evaluation.flops_ratio if evaluation else None,
            "diverged": evaluation.diverged if evaluation else False,
            "extrapolated": evaluation.extrapolated if evaluation else False,
            "status": self.status,
            "suggest_seconds": round(self.suggest_seconds, 6),
            "train_seconds": round(self.charged_seconds, 6) if evaluation or self.charged_seconds else None,
            "started_at": utc_timestamp(self.started_at),
            "finished_at": utc_timestamp(self.finished_at),
            "worker": self.worker,
            "attempt": self.attempt,
            "reason": self.reason,
            "lost_seconds": round(self.lost_seconds, 6),
            "device": conditions.device if conditions else "",
            "arrangement": conditions.label if conditions else "",
            "fallback": self.trial.fallback,
            "note": legible(self.trial.note),
            **self.trial.configuration,
        }


def trials_table(results: Iterable[TrialResult], seeds: int) -> "pd.DataFrame":
    """Return the table of trials: one row per result, in the given order. seeds: number of error columns."""
    import pandas as pd

    results = list(results)
    values = max((len(result.evaluation.values) for result in results if result.evaluation), default=0)
    table = pd.DataFrame([result.to_row(seeds, values) for result in results])
    if results and not table["extrapolated"].any():  # as of every real training
        table = table.drop(columns="extrapolated")
    whole = [] if any(result.epochs % 1 for result in results) else ["epochs"]
    integers = table.columns.intersection([*whole, "trial", "parent", "flops", "attempt", "repeat"])
    return table.astype(dict.fromkeys(integers, "Int64"))


def utc_timestamp(seconds: float) -> str:
    """Format seconds since the epoch as ISO 8601 in UTC, to the millisecond."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def _as_int64(number: float | None) -> float | None:
    """Return the number, or None if it does not fit a column of 64-bit integers."""
    return number if number is None or abs(number) < 2**63 else None
