"""What each run spent, and on what: trials, epochs, seconds, and how honest its optimizer was.

The unit of cost is the epoch. A trial that failed or timed out is charged for all its epochs: its configuration brought
it about. A trial that was lost with its worker, or cancelled, is not.
"""

import numpy as np
import pandas as pd

from fmnas.comparison.duplicates import duplicates, has_cell
from fmnas.comparison.trials import CHARGED, STATUSES, Budget, configuration_of, variable_columns
from fmnas.search_spaces.cell import CELL_NAMES
from fmnas.search_spaces.records import MODEL, ORIGINS

SHARES = tuple(f"share_{origin}" for origin in ORIGINS)
MODEL_SHARE = f"share_{MODEL}"
DUPLICATES = ("duplicates", "isomorphic_duplicates", "known_cells", "isomorphic_cells")
LEDGER_COLUMNS = (
    "run",
    "optimizer",
    "repeat",
    "trials",
    *STATUSES,
    "full_evaluations",
    "epochs",
    "evaluations",
    "train_seconds",
    "suggest_seconds",
    *SHARES,
    "diverged",
    *DUPLICATES,
    "notes",
)


def charged_epochs(trials: pd.DataFrame) -> "pd.Series[int]":
    """The epochs that each trial costs: its fidelity if its status is in CHARGED, else 0."""
    epochs = trials["epochs"].astype("int64")
    return epochs.where(trials["status"].isin(CHARGED), 0)


def worker_seconds(trials: pd.DataFrame) -> "pd.Series[float]":
    """The seconds that each trial cost its worker; 0 if it is not charged.

    A trial that failed measured nothing: for it, the time from start to finish.
    """
    elapsed = (trials["finished_at"] - trials["started_at"]).dt.total_seconds().clip(lower=0)
    seconds = trials["train_seconds"].fillna(elapsed).fillna(0.0)
    return seconds.where(trials["status"].isin(CHARGED), 0.0).astype("float64")


def is_full_result(trials: pd.DataFrame, budget: Budget) -> "pd.Series[bool]":
    """Which trials may be an incumbent: finished, at full fidelity, with a finite objective."""
    full = trials["epochs"].astype("int64") >= budget.epochs_per_evaluation
    return (trials["status"] == "finished") & full & np.isfinite(trials["objective"])


def ledger_table(trials: pd.DataFrame, budget: Budget) -> pd.DataFrame:
    """One row per run, columns LEDGER_COLUMNS, by optimizer and repeat.

    evaluations: the epochs in full trainings' worth. full_evaluations: finished trials at full fidelity.
    share_*: share of the run's trials of each origin; they sum to 1.
    duplicates: charged trials that repeat an earlier configuration of the run at the same epochs.
    isomorphic_duplicates: those that do so in another encoding of the cell.
    known_cells, isomorphic_cells: the same of cells alone, whatever the other variables; 0 without a cell.
    notes: trials whose optimizer had something to say, e.g. that a model failed and chance chose.
    """
    ordered = trials.sort_values(["optimizer", "repeat", "run"], kind="stable")
    rows = [_run_row(run, budget) for _, run in ordered.groupby("run", sort=False)]
    return pd.DataFrame(rows, columns=list(LEDGER_COLUMNS))


def _run_row(run: pd.DataFrame, budget: Budget) -> dict[str, object]:
    charged = run[run["status"].isin(CHARGED)]
    epochs = int(charged_epochs(run).sum())
    return {
        "run": run["run"].iloc[0],
        "optimizer": run["optimizer"].iloc[0],
        "repeat": int(run["repeat"].iloc[0]),
        "trials": len(run),
        **{status: int((run["status"] == status).sum()) for status in STATUSES},
        "full_evaluations": int(is_full_result(run, budget).sum()),
        "epochs": epochs,
        "evaluations": epochs / budget.epochs_per_evaluation,
        "train_seconds": float(worker_seconds(run).sum()),
        "suggest_seconds": float(run["suggest_seconds"].sum()),
        **{f"share_{origin}": float((run["origin"] == origin).mean()) for origin in ORIGINS},
        "diverged": int(run["diverged"].sum()),
        **_duplicates(charged),
        "notes": int((run["note"] != "").sum()),
    }


def _duplicates(charged: pd.DataFrame) -> dict[str, int]:
    """The counts DUPLICATES of a run's charged trials."""
    variables = variable_columns(charged)
    given = [configuration_of(row, ["epochs", *variables]) for _, row in charged.iterrows()]
    whole = duplicates(given)
    cells = duplicates([{name: c[name] for name in ("epochs", *CELL_NAMES)} for c in given if has_cell(variables)])
    return dict(zip(DUPLICATES, (whole.exact, whole.isomorphic, cells.exact, cells.isomorphic), strict=True))
