"""What each run spent: trials, epochs and seconds.

The unit of cost is the epoch. A trial that failed or timed out is charged for all its epochs: its configuration is the
cause. A trial that was lost with its worker, or cancelled, is not charged.

| currency | what counts |
|---|---|
| full evaluations | results at full fidelity |
| epochs | of charged trials; evaluations are the same in units of full trainings |
| training seconds | of charged trials, on their workers |
| wall-clock | from the run's first start to its last finish, with other runs' work, without time without a driver |
| optimizer seconds | of every suggestion, with the tells before it; includes failed and pending trials |

A repeated evaluation costs budget as any other; duplicates are only counted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pandas as pd

from fmnas.comparison.analysis.resampling import Floats
from fmnas.comparison.analysis.trials import LOST_SECONDS, SOURCE, Budget, variable_columns
from fmnas.search_spaces import Cell, canonical_form
from fmnas.search_spaces.nasnet import CELL_NAMES
from fmnas.search_spaces.records import CHARGED, FINISHED, ORIGINS, STATUSES, WARM_START, is_full


@dataclass(frozen=True)
class LedgerRow:
    """What one run spent.

    finished, failed, lost, timed_out, cancelled: its trials by status. pending: suggested and not ended.
    evaluations: epochs in units of full trainings. full_evaluations: finished trials at full fidelity.
    share_*: share of the run's trials of each of ORIGINS; they sum to 1.
    duplicates: charged trials that repeat an earlier configuration of the run at the same epochs.
    isomorphic_duplicates: charged trials that do so with a different encoding of the cell; 0 without a cell.
    suggest_seconds: includes pending trials. lost_seconds: worker time of lost and cancelled attempts.
    notes: trials with a note of their optimizer.
    """

    run: str
    optimizer: str
    repeat: int
    trials: int
    finished: int
    failed: int
    lost: int
    timed_out: int
    cancelled: int
    pending: int
    full_evaluations: int
    epochs: float
    evaluations: float
    train_seconds: float
    suggest_seconds: float
    wall_seconds: float
    lost_seconds: float
    share_initial: float
    share_random: float
    share_model: float
    share_mutation: float
    share_promotion: float
    share_warm_start: float
    diverged: int
    duplicates: int
    isomorphic_duplicates: int
    notes: int

    @property
    def shares(self) -> dict[str, float]:
        """The share of each of ORIGINS."""
        return {origin: getattr(self, f"share_{origin}") for origin in ORIGINS}


LEDGER_COLUMNS = tuple(field.name for field in fields(LedgerRow))


@dataclass(frozen=True)
class Pending:
    """A trial that was suggested and has not ended: its run, and the seconds of the suggestion."""

    run: str
    suggest_seconds: float


Pauses = Mapping[str, Sequence[tuple[float, float]]]
"""SOURCE of a trial -> begin and end of each time without a driver, in seconds since the epoch; they do not overlap."""


def in_working_time(trials: pd.DataFrame, pauses: Pauses) -> pd.DataFrame:
    """The trials with started_at and finished_at moved back by the pauses before them: differences are working time."""
    moved = trials.copy()
    for source, spans in pauses.items():
        here = trials[SOURCE] == source
        for name in ("started_at", "finished_at"):
            times = _seconds_since_epoch(trials.loc[here, name])
            paused = sum((np.clip(times - begin, 0.0, end - begin) for begin, end in spans), np.zeros(len(times)))
            moved.loc[here, name] = trials.loc[here, name] - pd.to_timedelta(paused, unit="s")
    return moved


def charged_epochs(trials: pd.DataFrame) -> "pd.Series[Any]":
    """The epochs that each trial costs if its status is in CHARGED, else 0; integers unless some were raced."""
    epochs = trials["epochs"].astype("float64").where(trials["status"].isin(CHARGED), 0)
    return epochs if (epochs % 1).any() else epochs.astype("int64")


def spent_epochs(run: pd.DataFrame) -> "pd.Series[Any]":
    """The epochs that a run has spent after each of its trials; integers unless some were raced."""
    return charged_epochs(run).cumsum().round(9)  # as the driver counts them: three thirds are one


def within_budget(trials: pd.DataFrame, budget: Budget) -> "pd.Series[Any]":
    """Whether the budget of a trial's run pays for it, if the budget is spent in the order in which trials end."""
    ordered = trials.sort_values(["run", "finished_at", "trial", "attempt"])
    spent = charged_epochs(ordered).groupby(ordered["run"]).cumsum().round(9)
    return (spent <= budget.epochs).reindex(trials.index)


def worker_seconds(trials: pd.DataFrame) -> "pd.Series[float]":
    """The seconds that each trial cost its worker; 0 if it is not charged.

    A failed trial has no measured training time: the time from start to finish counts.
    """
    seconds = trials["train_seconds"].fillna(_elapsed_seconds(trials)).fillna(0.0)
    return seconds.where(trials["status"].isin(CHARGED), 0.0).astype("float64")


def lost_seconds(trials: pd.DataFrame) -> "pd.Series[float]":
    """The worker time of each trial that is not charged: of all attempts that were lost or cancelled."""
    last_attempt = _elapsed_seconds(trials).fillna(0.0).where(~trials["status"].isin(CHARGED), 0.0)
    return trials[LOST_SECONDS].astype("float64") + last_attempt


def wall_seconds(trials: pd.DataFrame) -> "pd.Series[float]":
    """When each trial of one run finished: seconds since the run's first start.

    The first attempt of a repeated trial started at least its lost seconds before the last one. Trials known from an
    earlier experiment take no time: they are there when the first other trial starts.
    """
    starts = trials["started_at"] - pd.to_timedelta(trials[LOST_SECONDS].fillna(0.0), unit="s")
    trained = starts[trials["origin"] != WARM_START]
    first = starts.min() if trained.empty else trained.min()
    return (trials["finished_at"] - first).dt.total_seconds().clip(lower=0.0)


def is_full_result(trials: pd.DataFrame, budget: Budget) -> "pd.Series[bool]":
    """Which trials may be an incumbent: finished, at full fidelity, with a finite objective."""
    full = is_full(trials["epochs"].astype("float64"), budget.epochs_per_evaluation)
    return (trials["status"] == FINISHED) & np.isfinite(trials["objective"]) & full


def ledger_table(trials: pd.DataFrame, budget: Budget, pending: Sequence[Pending] = ()) -> pd.DataFrame:
    """A `LedgerRow` per run with a trial, columns LEDGER_COLUMNS, by optimizer and repeat.

    pending: trials that are not in the table because they have not ended.
    """
    ordered = trials.sort_values(["optimizer", "repeat", "run"], kind="stable")
    rows = [
        _run_row(run, budget, [trial.suggest_seconds for trial in pending if trial.run == name])
        for name, run in ordered.groupby("run", sort=False)
    ]
    return pd.DataFrame(rows, columns=list(LEDGER_COLUMNS))


def ledger_rows(ledger: pd.DataFrame) -> tuple[LedgerRow, ...]:
    """The rows of a `ledger_table` as records."""
    return tuple(LedgerRow(**{str(name): value for name, value in row.items()}) for row in ledger.to_dict("records"))


def count_duplicates(table: pd.DataFrame) -> tuple[int, int]:
    """How many rows repeat an earlier one: in every value; only as the same network in a different encoding.

    The second: not equal, but the cells have the same canonical form and all other values are equal. Raises SpaceError
    for values that do not describe a cell.
    """
    table = table.astype(object).map(lambda value: (value,) if isinstance(value, bool) else value)  # True is not 1
    exact = table.duplicated()
    if table.empty or not set(CELL_NAMES) <= set(table):
        return int(exact.sum()), 0
    encodings, different = pd.factorize(pd.MultiIndex.from_frame(table[list(CELL_NAMES)]))
    cells = (Cell.from_configuration(dict(zip(CELL_NAMES, values, strict=True))) for values in different)
    forms = pd.factorize(pd.Series([canonical_form(cell) for cell in cells], dtype="object"))[0]
    networks = pd.Series(forms[encodings], index=table.index, name="network")
    same = pd.concat([table.drop(columns=list(CELL_NAMES)), networks], axis=1).astype(object).duplicated()
    return int(exact.sum()), int((same & ~exact).sum())


def _run_row(run: pd.DataFrame, budget: Budget, pending: Sequence[float]) -> dict[str, object]:
    """A row of the `ledger_table`, seconds to the microsecond. pending: suggestion seconds of each pending trial."""
    charged = run[run["status"].isin(CHARGED)]
    spent = float(spent_epochs(run).iloc[-1])
    epochs = int(spent) if spent.is_integer() else spent
    exact, isomorphic = count_duplicates(charged[["epochs", *variable_columns(charged)]])
    return {
        "run": run["run"].iloc[0],
        "optimizer": run["optimizer"].iloc[0],
        "repeat": int(run["repeat"].iloc[0]),
        "trials": len(run),
        **{status: int((run["status"] == status).sum()) for status in STATUSES},
        "pending": len(pending),
        "full_evaluations": int(is_full_result(run, budget).sum()),
        "epochs": epochs,
        "evaluations": epochs / budget.epochs_per_evaluation,
        "train_seconds": round(float(worker_seconds(run).sum()), 6),
        "suggest_seconds": round(float(run["suggest_seconds"].sum()) + sum(pending), 6),
        "wall_seconds": round(float(wall_seconds(run).max()), 6),
        "lost_seconds": round(float(lost_seconds(run).sum(skipna=False)), 6),
        **{f"share_{origin}": float((run["origin"] == origin).mean()) for origin in ORIGINS},
        "diverged": int(run["diverged"].sum()),
        "duplicates": exact,
        "isomorphic_duplicates": isomorphic,
        "notes": int(((run["note"] != "") & (run["origin"] != WARM_START)).sum()),
    }


def _elapsed_seconds(trials: pd.DataFrame) -> "pd.Series[float]":
    """The seconds of each trial's last attempt, from start to finish."""
    return (trials["finished_at"] - trials["started_at"]).dt.total_seconds().clip(lower=0)


def _seconds_since_epoch(times: "pd.Series[pd.Timestamp]") -> Floats:
    return np.asarray((times - pd.Timestamp(0, tz="UTC")).dt.total_seconds().to_numpy(dtype=float))
