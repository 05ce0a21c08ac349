"""What each run spent, and on what: trials, epochs, seconds, the time of idle workers.

The unit of cost is the epoch. A trial that failed or timed out is charged for all its epochs: its configuration brought
it about. A trial that was lost with its worker, or cancelled, is not: what workers spent on it is the platform's.

| currency | what counts |
|---|---|
| full evaluations | results at full fidelity |
| epochs | of charged trials; evaluations are the same in full trainings' worth |
| training seconds | of charged trials, on their workers |
| wall-clock | from the run's first start to its last finish: other runs' work counts, time without a driver does not |
| optimizer seconds | of every suggestion, whatever became of it; of pending trials, too |
| idle seconds | of workers, while the optimizer thought |

A driver asks one optimizer at a time, and only when a worker is free. So for as long as it waits for a suggestion,

- that worker waits for its trial: all of the suggestion's seconds, and
- a worker that ends a trial meanwhile waits until the driver hears of it: from the end of its training to the record.

The first part is the sum of the suggestions; the second is measured by the clocks: a trial ended its training
train_seconds after its start, and was heard of at finished_at. What of that time lies within a suggestion of a run
is that run's. A worker that no run had a use for does not wait for anyone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
import pandas as pd

from fmnas.comparison.analysis.duplicates import count_duplicates
from fmnas.comparison.analysis.resampling import Floats
from fmnas.comparison.analysis.trials import LOST_SECONDS, SOURCE, Budget, variable_columns
from fmnas.search_spaces.records import CHARGED, FINISHED, ORIGINS, STATUSES, WARM_START, is_full

DUPLICATES = ("duplicates", "isomorphic_duplicates", "known_cells", "isomorphic_cells")


@dataclass(frozen=True)
class LedgerRow:
    """What one run spent, and on what.

    finished, failed, lost, timed_out, cancelled: its trials by status. pending: asked and not ended.
    evaluations: the epochs in full trainings' worth. full_evaluations: finished trials at full fidelity.
    share_*: share of the run's trials of each of ORIGINS; they sum to 1.
    duplicates: charged trials that repeat an earlier configuration of the run at the same epochs.
    isomorphic_duplicates: those that do so in another encoding of the cell.
    known_cells, isomorphic_cells: the same of cells alone, whatever the other variables; 0 without a cell.
    suggest_seconds, idle_seconds: with those of pending trials. lost_seconds: NaN where a file does not say.
    notes: trials whose optimizer had something to say, e.g. that a model failed and chance chose.
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
    epochs: int
    evaluations: float
    train_seconds: float
    suggest_seconds: float
    wall_seconds: float
    idle_seconds: float
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
    known_cells: int
    isomorphic_cells: int
    notes: int

    @property
    def shares(self) -> dict[str, float]:
        """The share of each of ORIGINS."""
        return {origin: getattr(self, f"share_{origin}") for origin in ORIGINS}


LEDGER_COLUMNS = tuple(field.name for field in fields(LedgerRow))


@dataclass(frozen=True)
class Pending:
    """A trial asked and not ended: its run, and how long its optimizer took to suggest it."""

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
            times = _seconds(trials.loc[here, name])
            paused = sum((np.clip(times - begin, 0.0, end - begin) for begin, end in spans), np.zeros(len(times)))
            moved.loc[here, name] = trials.loc[here, name] - pd.to_timedelta(paused, unit="s")
    return moved


def charged_epochs(trials: pd.DataFrame) -> "pd.Series[int]":
    """The epochs that each trial costs: its fidelity if its status is in CHARGED, else 0."""
    epochs = trials["epochs"].astype("int64")
    return epochs.where(trials["status"].isin(CHARGED), 0)


def worker_seconds(trials: pd.DataFrame) -> "pd.Series[float]":
    """The seconds that each trial cost its worker; 0 if it is not charged.

    A trial that failed measured nothing: for it, the time from start to finish.
    """
    seconds = trials["train_seconds"].fillna(_elapsed(trials)).fillna(0.0)
    return seconds.where(trials["status"].isin(CHARGED), 0.0).astype("float64")


def lost_seconds(trials: pd.DataFrame) -> "pd.Series[float]":
    """The worker's seconds of each trial that came to nothing and are charged to nobody.

    Those of the attempts before its last, and of the last if that was lost or cancelled. NaN where a file does not say.
    """
    last = _elapsed(trials).fillna(0.0).where(~trials["status"].isin(CHARGED), 0.0)
    return trials[LOST_SECONDS].astype("float64") + last


def wall_seconds(trials: pd.DataFrame) -> "pd.Series[float]":
    """When each trial of one run finished: seconds since the run's first start.

    A trial that was repeated started, at the latest, its lost seconds before its last attempt did. What was known of an
    earlier experiment took no time: it is there when the first other trial starts.
    """
    starts = trials["started_at"] - pd.to_timedelta(trials[LOST_SECONDS].fillna(0.0), unit="s")
    trained = starts[trials["origin"] != WARM_START]
    first = starts.min() if trained.empty else trained.min()
    return (trials["finished_at"] - first).dt.total_seconds().clip(lower=0.0)


def is_full_result(trials: pd.DataFrame, budget: Budget) -> "pd.Series[bool]":
    """Which trials may be an incumbent: finished, at full fidelity, with a finite objective."""
    full = is_full(trials["epochs"].astype("int64"), budget.epochs_per_evaluation)
    return (trials["status"] == FINISHED) & np.isfinite(trials["objective"]) & full


def ledger_table(trials: pd.DataFrame, budget: Budget, pending: Sequence[Pending] = ()) -> pd.DataFrame:
    """A `LedgerRow` per run, columns LEDGER_COLUMNS, by optimizer and repeat. A run without any trial has no row.

    pending: trials that are not in the table because they have not ended.
    """
    ordered = trials.sort_values(["optimizer", "repeat", "run"], kind="stable")
    idle = idle_seconds(ordered)
    rows = []
    for name, run in ordered.groupby("run", sort=False):
        thought = [each.suggest_seconds for each in pending if each.run == name]
        rows.append(_run_row(run, budget, idle[str(name)], thought))
    return pd.DataFrame(rows, columns=list(LEDGER_COLUMNS))


def ledger_rows(ledger: pd.DataFrame) -> tuple[LedgerRow, ...]:
    """The rows of a `ledger_table` as records."""
    return tuple(LedgerRow(**{str(name): value for name, value in row.items()}) for row in ledger.to_dict("records"))


def _elapsed(trials: pd.DataFrame) -> "pd.Series[float]":
    """The seconds of each trial's last attempt, from start to finish."""
    return (trials["finished_at"] - trials["started_at"]).dt.total_seconds().clip(lower=0)


def _run_row(run: pd.DataFrame, budget: Budget, idle: float, pending: Sequence[float]) -> dict[str, object]:
    """Seconds are to the microsecond, as in the table of trials.

    idle: worker-seconds without those of the trials that are pending, whose suggestions took so long.
    """
    charged = run[run["status"].isin(CHARGED)]
    epochs = int(charged_epochs(run).sum())
    whole, cells = count_duplicates(charged[["epochs", *variable_columns(charged)]], beside_cell=("epochs",))
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
        "idle_seconds": round(idle + sum(pending), 6),
        "lost_seconds": round(float(lost_seconds(run).sum(skipna=False)), 6),
        **{f"share_{origin}": float((run["origin"] == origin).mean()) for origin in ORIGINS},
        "diverged": int(run["diverged"].sum()),
        **dict(zip(DUPLICATES, (whole.exact, whole.isomorphic, cells.exact, cells.isomorphic), strict=True)),
        "notes": int(((run["note"] != "") & (run["origin"] != WARM_START)).sum()),
    }


def idle_seconds(trials: pd.DataFrame) -> dict[str, float]:
    """run -> worker-seconds that its suggestions left idle, over all its trials."""
    idle: dict[str, float] = {}
    for _, together in trials.groupby(SOURCE, sort=False):
        finished = together[together["train_seconds"].notna()]
        heard = _seconds(finished["finished_at"])
        ended = np.minimum(_seconds(finished["started_at"]) + finished["train_seconds"].to_numpy(dtype=float), heard)
        known = ~(np.isnan(heard) | np.isnan(ended))
        for run, asked in together.groupby("run", sort=False):
            waited = _thought_before(asked, heard[known]) - _thought_before(asked, ended[known])
            idle[str(run)] = float(asked["suggest_seconds"].sum() + waited.sum())
    return idle


def _thought_before(asked: pd.DataFrame, moments: Floats) -> Floats:
    """How long one run's optimizer had thought at each moment: a suggestion ended when its trial was first started."""
    ends = _seconds(asked["started_at"]) - asked[LOST_SECONDS].fillna(0.0).to_numpy(dtype=float)
    took = asked["suggest_seconds"].fillna(0.0).to_numpy(dtype=float)
    order = np.argsort(ends)
    order = order[~np.isnan(ends[order])]
    if not len(order):
        return np.zeros(len(moments))
    ends, took = ends[order], took[order]
    # Clocks are written to the millisecond: two suggestions may seem to overlap by as much.
    times = np.maximum.accumulate(np.stack([ends - took, ends], axis=1).ravel())
    total = np.cumsum(took)
    return np.asarray(np.interp(moments, times, np.stack([total - took, total], axis=1).ravel()))


def _seconds(times: "pd.Series[pd.Timestamp]") -> Floats:
    """Since the epoch; NaN where there is none."""
    return np.asarray((times - pd.Timestamp(0, tz="UTC")).dt.total_seconds().to_numpy(dtype=float))
