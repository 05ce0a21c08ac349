"""A trial as a worker is given it, and as it ended: what the journal proves, and a row of trials.csv."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from fmnas.search_spaces import Evaluation, Trial
from fmnas.search_spaces.records import CHARGED

if TYPE_CHECKING:
    import pandas as pd


def run_name(optimizer: str, repeat: int) -> str:
    """The name of a run, e.g. "bo-fm/repeat-0"."""
    return f"{optimizer}/repeat-{repeat}"


@dataclass(frozen=True)
class Job:
    """A trial of a run, for the attempt-th time."""

    run: str
    trial: Trial
    attempt: int = 1


@dataclass(frozen=True)
class RunStanding:
    """Where a run stands after a trial.

    evaluations: budget spent, in full evaluations (epochs spent / epochs of a full evaluation).
    epochs: epochs spent.
    incumbent: best full-fidelity objective so far; None before the first.
    """

    evaluations: float = 0.0
    epochs: int = 0
    incumbent: float | None = None


@dataclass(frozen=True)
class Outcome:
    """How one trial of one run ended.

    status: one of STATUSES; a diverged training is finished.
    evaluation: what it measured; None unless finished.
    reason: why it did not finish; empty when it did.
    suggest_seconds: how long the optimizer took to ask for it.
    started_at, finished_at: seconds since the epoch, of the last attempt.
    seconds: how long that took by a clock that nobody sets; of a finished trial its evaluation has them.
    worker: which worker ran it.
    attempt: 1 for the first; more when workers were lost.
    lost_seconds: what the attempts before it took of workers; nobody is charged for it.
    standing: where its run stands after it.
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
    standing: RunStanding = RunStanding()

    @property
    def run(self) -> str:
        """The run's name."""
        return run_name(self.optimizer, self.repeat)

    @property
    def objective(self) -> float | None:
        """What it measured; None unless finished."""
        return self.evaluation.objective if self.evaluation else None

    @property
    def error(self) -> float | None:
        """The same of its error; None also where a problem has none."""
        return self.evaluation.error if self.evaluation else None

    def _train_seconds(self) -> float | None:
        """What is charged; None of what is not, and of a failure in a journal that has no such number."""
        if self.evaluation:
            return round(self.evaluation.seconds, 6)
        return round(self.seconds, 6) if self.status in CHARGED and self.seconds else None

    def to_row(self, seeds: int) -> dict[str, Any]:
        """The row of trials.csv; `seeds` is the number of error columns (0 for a synthetic problem)."""
        evaluation = self.evaluation
        conditions = evaluation.conditions if evaluation else None
        errors: Sequence[float | None] = evaluation.errors if evaluation else ()
        errors = [*errors, *[None] * (seeds - len(errors))]
        return {
            "run": self.run,
            "optimizer": self.optimizer,
            "repeat": self.repeat,
            "trial": self.trial.id,
            "origin": self.trial.origin,
            "parent": _storable(self.trial.parent),
            "epochs": self.trial.epochs,
            "objective": self.objective,
            "error": self.error,
            **{f"error_seed_{i}": error for i, error in enumerate(errors, start=1)},
            "flops": _storable(evaluation.flops) if evaluation else None,
            "flops_ratio": evaluation.flops_ratio if evaluation else None,
            "diverged": evaluation.diverged if evaluation else False,
            "status": self.status,
            "suggest_seconds": round(self.suggest_seconds, 6),
            "train_seconds": self._train_seconds(),
            "started_at": iso(self.started_at),
            "finished_at": iso(self.finished_at),
            "worker": self.worker,
            "attempt": self.attempt,
            "reason": self.reason,
            "lost_seconds": round(self.lost_seconds, 6),
            "device": conditions.device if conditions else "",
            "arrangement": conditions.way if conditions else "",
            "fallback": self.trial.fallback,
            "note": self.trial.note,
            **self.trial.configuration,
        }


def _storable(number: float | None) -> float | None:
    """The number; None for one that is too large for a column of 64-bit integers."""
    return number if number is None or abs(number) < 2**63 else None


def trials_table(outcomes: Iterable[Outcome], seeds: int) -> "pd.DataFrame":
    """The table of trials: a row per outcome, in the order given."""
    import pandas as pd

    table = pd.DataFrame([outcome.to_row(seeds) for outcome in outcomes])
    whole = table.columns.intersection(["trial", "parent", "epochs", "flops", "attempt", "repeat"])
    return table.astype(dict.fromkeys(whole, "Int64"))


def iso(seconds: float) -> str:
    """Seconds since the epoch as a time of day in UTC, to the millisecond."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
