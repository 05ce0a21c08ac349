"""How the optimizers stand at equal cost: at a quarter, at half and at all of the budget; and the final table."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from fmnas.comparison.numbers.curves import standard_error
from fmnas.comparison.numbers.ledger import DUPLICATES, MODEL_SHARE
from fmnas.comparison.numbers.resampling import mean_interval
from fmnas.comparison.numbers.rounding import settled
from fmnas.comparison.numbers.trials import Budget

CHECKPOINT_SHARES = (0.25, 0.5, 1.0)

Values = dict[str, dict[int, float]]
"""optimizer -> repeat -> the objective of its incumbent; NaN before its first full-fidelity result."""
FINAL_COLUMNS = (
    "optimizer",
    "repeats",
    "mean",
    "standard_error",
    "values",
    "best",
    "best_error",
    "best_run",
    "best_trial",
    "epochs",
    "evaluations",
    "model_share",
    *DUPLICATES,
    "common_epochs",
    "budget_epochs",
)


@dataclass(frozen=True)
class Standing:
    """One optimizer at a checkpoint.

    mean, standard_error: over its repeats; NaN when one has no value, the latter also with one repeat.
    low, high: 95% bootstrap interval of the mean. rank: mean over repeats of its rank within the repeat, where ties
    share; only over repeats in which every optimizer has a value, NaN without any.
    """

    optimizer: str
    mean: float
    standard_error: float
    low: float
    high: float
    rank: float
    values: Mapping[int, float]


@dataclass(frozen=True)
class Checkpoint:
    """All optimizers after the same epochs, the lowest mean first. share: of the epochs at which all are compared."""

    share: float
    epochs: int
    evaluations: float
    rows: tuple[Standing, ...]


def checkpoints(curves: pd.DataFrame, at: int, budget: Budget) -> list[Checkpoint]:
    """One for each of CHECKPOINT_SHARES of `at` epochs, in whole epochs."""
    found = []
    for share in CHECKPOINT_SHARES:
        epochs = int(share * at)
        rows = tuple(standings(values_at(curves, epochs)))
        found.append(Checkpoint(share, epochs, epochs / budget.epochs_per_evaluation, rows))
    return found


def values_at(curves: pd.DataFrame, epochs: int) -> Values:
    """The incumbent of every run after so many epochs."""
    runs = curves.drop_duplicates("run")[["run", "optimizer", "repeat"]]
    ends = curves[curves["epochs"] <= epochs].drop_duplicates("run", keep="last").set_index("run")["incumbent"]
    values: Values = {}
    for run, optimizer, repeat in runs.itertuples(index=False):
        values.setdefault(str(optimizer), {})[int(repeat)] = float(ends.get(run, np.nan))
    return values


def standings(values: Values) -> list[Standing]:
    """Every optimizer's statistics, the lowest mean first."""
    ranks = mean_ranks(values)
    rows = []
    for optimizer, mine in values.items():
        given = np.array(list(mine.values()))
        (low, high), error = mean_interval(given), standard_error(given)
        rows.append(
            Standing(
                optimizer=optimizer,
                mean=float(given.mean()),
                standard_error=float(error),
                low=float(low),
                high=float(high),
                rank=ranks.get(optimizer, np.nan),
                values=mine,
            )
        )
    return sorted(rows, key=lambda row: (np.isnan(row.mean), row.mean, row.optimizer))


def mean_ranks(values: Values) -> dict[str, float]:
    """The mean rank of each optimizer over the repeats in which all have a value; empty without any."""
    if not values:
        return {}
    known = [{repeat for repeat, value in mine.items() if np.isfinite(value)} for mine in values.values()]
    shared = sorted(set.intersection(*known))
    if not shared:
        return {}
    by_repeat = [settled(np.array([mine[repeat] for mine in values.values()])) for repeat in shared]
    ranks = pd.DataFrame(by_repeat).rank(axis=1).mean(axis=0)
    return {optimizer: float(rank) for optimizer, rank in zip(values, ranks, strict=True)}


def common_epochs(ledger: pd.DataFrame, budget: Budget, finished: bool = False) -> int:
    """The epochs at which all runs can be compared: the budget, or less while a run is still on its way.

    A run is through when it cannot pay another full training, or its seconds are spent; all are when the experiment is
    finished. While one is not, all are compared at what that which spent least of these has spent.
    """
    if finished:
        return budget.epochs
    if ledger.empty:
        return 0
    through = ledger["epochs"] > budget.epochs - budget.epochs_per_evaluation
    if budget.seconds is not None:
        through |= ledger["train_seconds"] + ledger["suggest_seconds"] >= budget.seconds
    return budget.epochs if through.all() else int(ledger["epochs"][~through].min())


def final_table(curves: pd.DataFrame, ledger: pd.DataFrame, budget: Budget, finished: bool = False) -> pd.DataFrame:
    """One row per optimizer at equal epochs (`common_epochs`), the lowest mean first; columns FINAL_COLUMNS.

    repeats: of the optimizer, with those that have no trial yet where the curves know of them.
    values: repeat -> objective of its incumbent; NaN for a repeat without a full-fidelity result.
    mean, standard_error: over the repeats (ddof = 1); NaN when one has no value, the latter also with one repeat.
    best, best_error, best_run, best_trial: the lowest of the values, its validation error, where it was found.
    epochs, evaluations: spent by then, mean over repeats.
    model_share: share of all the optimizer's trials that a model suggested.
    duplicates and the other DUPLICATES of `ledger_table`: of all the optimizer's runs together.
    common_epochs, budget_epochs: the same in every row: where the comparison is made, and where it is to be made.
    """
    at = common_epochs(ledger, budget, finished)
    rows = []
    for optimizer, runs in ledger.groupby("optimizer", sort=True):
        mine = curves[curves["optimizer"] == optimizer]
        spent = mine[mine["epochs"] <= at].groupby("run")["epochs"].max()
        repeats = mine["repeat"].nunique()
        epochs = float(spent.sum() / repeats)
        rows.append(
            {
                "optimizer": optimizer,
                "repeats": repeats,
                **_objectives(mine, at),
                "epochs": epochs,
                "evaluations": epochs / budget.epochs_per_evaluation,
                "model_share": float(np.average(runs[MODEL_SHARE], weights=runs["trials"])),
                **{name: int(runs[name].sum()) for name in DUPLICATES},
                "common_epochs": at,
                "budget_epochs": budget.epochs,
            }
        )
    table = pd.DataFrame(rows, columns=list(FINAL_COLUMNS))
    return table.sort_values(["mean", "best", "optimizer"], ignore_index=True)


def _objectives(curves: pd.DataFrame, at: int) -> dict[str, object]:
    """The incumbents of one optimizer's runs after `at` epochs, and the best of them."""
    ends = curves[curves["epochs"] <= at].groupby("run", sort=False).tail(1)
    known = zip(ends["repeat"], ends["incumbent"], strict=True)
    values = {int(repeat): float("nan") for repeat in curves["repeat"]} | {int(r): float(value) for r, value in known}
    given = np.array(list(values.values()))
    result = {"mean": float(given.mean()), "standard_error": float(standard_error(given)), "values": values}
    if ends["incumbent"].isna().all():
        return {**result, "best": np.nan, "best_error": np.nan, "best_run": None, "best_trial": None}
    best = ends.sort_values("incumbent", kind="stable").iloc[0]  # NaN comes last
    where = {"best_run": best["run"], "best_trial": int(best["incumbent_trial"])}
    return {**result, "best": float(best["incumbent"]), "best_error": float(best["incumbent_error"]), **where}
