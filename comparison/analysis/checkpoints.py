"""Optimizers at equal cost: at a quarter, half and all of the budget; the final table; evaluations to a target."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from fmnas.comparison.analysis.across_problems import rank_optimizers
from fmnas.comparison.analysis.curves import mean_and_error
from fmnas.comparison.analysis.float_ties import is_at_most
from fmnas.comparison.analysis.resampling import mean_interval
from fmnas.comparison.analysis.trials import Budget

CHECKPOINT_SHARES = (0.25, 0.5, 1.0)

Values = dict[str, dict[int, float]]
"""optimizer -> repeat -> the objective of its incumbent; NaN before its first full-fidelity result."""


@dataclass(frozen=True)
class CheckpointRow:
    """One optimizer at a checkpoint.

    values: repeat -> objective of its incumbent; NaN for a repeat without a full-fidelity result.
    mean, standard_error: over the repeats (ddof = 1); NaN when one has no value, the latter also with one repeat.
    low, high: 95% bootstrap interval of the mean. rank: mean over repeats of its rank within the repeat; ties share
    their ranks; only over repeats in which every optimizer has a value; NaN without such repeats.
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
    rows: tuple[CheckpointRow, ...]


@dataclass(frozen=True)
class FinalNumbers:
    """One optimizer at the epochs at which all are compared; mean, standard_error and values as in `CheckpointRow`.

    repeats: of the optimizer, including planned ones without a trial.
    best, best_error, best_run, best_trial: the lowest of the values, its validation error, where it was found.
    epochs, evaluations: spent by then, mean over repeats.
    model_share: share of all the optimizer's trials that a model suggested.
    duplicates, isomorphic_duplicates: sums over the optimizer's runs.
    """

    repeats: int
    mean: float
    standard_error: float
    values: Mapping[int, float]
    best: float
    best_error: float
    best_run: str | None
    best_trial: int | None
    epochs: float
    evaluations: float
    model_share: float
    duplicates: int
    isomorphic_duplicates: int


@dataclass(frozen=True)
class FinalTable:
    """Every optimizer by name, the lowest mean first.

    common_epochs: the epochs at which they are compared; 0 without any trial. budget: of each optimizer and repeat.
    """

    rows: Mapping[str, FinalNumbers]
    common_epochs: int
    budget: Budget


@dataclass(frozen=True)
class Reached:
    """When an optimizer's runs first were at or below a target.

    reached: how many repeats reached it. evaluations: mean over those, NaN for none. values: repeat -> evaluations.
    """

    optimizer: str
    reached: int
    repeats: int
    evaluations: float
    values: Mapping[int, float]


@dataclass(frozen=True)
class Target:
    """An objective to reach, a description of it, and a row per optimizer."""

    target: float
    source: str
    rows: tuple[Reached, ...]


def checkpoints(curves: pd.DataFrame, at: int, budget: Budget) -> list[Checkpoint]:
    """A checkpoint for each of CHECKPOINT_SHARES of `at` epochs, in whole epochs."""
    points = []
    for share in CHECKPOINT_SHARES:
        epochs = int(share * at)
        rows = tuple(checkpoint_rows(values_at(curves, epochs)))
        points.append(Checkpoint(share, epochs, epochs / budget.epochs_per_evaluation, rows))
    return points


def values_at(curves: pd.DataFrame, epochs: int) -> Values:
    """The incumbent of every run after this number of epochs."""
    return _by_repeat(curves, _last_rows(curves, epochs).set_index("run")["incumbent"])


def checkpoint_rows(values: Values) -> list[CheckpointRow]:
    """Every optimizer's statistics, the lowest mean first."""
    ranks = rank_within_repeats(values)
    rows = []
    for optimizer, mine in values.items():
        low, high = map(float, mean_interval(np.array(list(mine.values()))))
        rows.append(CheckpointRow(optimizer, *mean_and_error(mine), low, high, ranks.get(optimizer, np.nan), mine))
    return sorted(rows, key=lambda row: (np.isnan(row.mean), row.mean, row.optimizer))


def rank_within_repeats(values: Values) -> dict[str, float]:
    """The mean rank of each optimizer over the repeats that all have; empty while none has a value there.

    As `rank_optimizers`: one without a value is behind all that have one.
    """
    shared = sorted(set.intersection(*map(set, values.values()))) if values else []
    incumbents = np.array([[mine[repeat] for repeat in shared] for mine in values.values()], dtype=np.float64)
    if not np.isfinite(incumbents).any():
        return {}
    ranks = rank_optimizers(incumbents[..., None])[:, 0]
    return {optimizer: float(rank) for optimizer, rank in zip(values, ranks, strict=True)}


def targets(curves: pd.DataFrame, last: Checkpoint) -> list[Target]:
    """Targets: each optimizer's mean at the last checkpoint. When did each repeat of each first reach that mean?"""
    within, reached = curves[curves["epochs"] <= last.epochs], []
    for mean, name in ((row.mean, row.optimizer) for row in last.rows if not np.isnan(row.mean)):
        below = within[is_at_most(within["incumbent"].to_numpy(dtype=float), mean)]
        by_repeat = _by_repeat(curves, below.drop_duplicates("run").set_index("run")["evaluations"])
        rows = tuple(_count_in_time(row.optimizer, by_repeat[row.optimizer]) for row in last.rows)
        reached.append(Target(mean, f"{name}'s mean at {last.share:.0%}", rows))
    return reached


def common_epochs(ledger: pd.DataFrame, budget: Budget, finished: bool = False) -> int:
    """The epochs at which all runs can be compared: the budget, or less while a run is unfinished.

    A run has finished when it cannot pay for another full training, or its seconds are spent. All runs have when the
    experiment is `finished`. Otherwise all are compared at the least epochs that an unfinished run has spent.
    """
    if ledger.empty:
        return 0
    if finished:
        return budget.epochs
    through = ledger["epochs"] > budget.epochs - budget.epochs_per_evaluation
    if budget.seconds is not None:
        through |= ledger["train_seconds"] + ledger["suggest_seconds"] >= budget.seconds
    return budget.epochs if through.all() else int(ledger["epochs"][~through].min())


def final_table(curves: pd.DataFrame, ledger: pd.DataFrame, budget: Budget, finished: bool = False) -> FinalTable:
    """All optimizers at equal epochs: those of `common_epochs`, which explains `finished`."""
    at = common_epochs(ledger, budget, finished)
    ends = _last_rows(curves, at)
    rows = {
        name: _final_numbers(values, ends[ends["optimizer"] == name], ledger[ledger["optimizer"] == name], budget)
        for name, values in values_at(curves, at).items()
    }
    # Missing values come last.
    names = sorted(rows, key=lambda name: (*np.nan_to_num((rows[name].mean, rows[name].best), nan=np.inf), name))
    return FinalTable({name: rows[name] for name in names}, at, budget)


def _final_numbers(values: Mapping[int, float], ends: pd.DataFrame, runs: pd.DataFrame, budget: Budget) -> FinalNumbers:
    """ends: the last row of each of the optimizer's curves by then. runs: its rows of the ledger."""
    mean, error = mean_and_error(values)
    best, best_error, run, trial = np.nan, np.nan, None, None
    if ends["incumbent"].notna().any():
        first = ends.sort_values("incumbent", kind="stable").iloc[0]  # NaN comes last
        best, best_error = float(first["incumbent"]), float(first["incumbent_error"])
        run, trial = first["run"], int(first["incumbent_trial"])
    epochs = float(ends["epochs"].sum() / len(values))
    return FinalNumbers(
        repeats=len(values),
        mean=mean,
        standard_error=error,
        values=values,
        best=best,
        best_error=best_error,
        best_run=run,
        best_trial=trial,
        epochs=epochs,
        evaluations=epochs / budget.epochs_per_evaluation,
        model_share=float(np.average(runs["share_model"], weights=runs["trials"])),
        duplicates=int(runs["duplicates"].sum()),
        isomorphic_duplicates=int(runs["isomorphic_duplicates"].sum()),
    )


def _count_in_time(optimizer: str, values: Mapping[int, float]) -> Reached:
    in_time = [value for value in values.values() if not np.isnan(value)]
    return Reached(optimizer, len(in_time), len(values), float(np.mean(in_time)) if in_time else np.nan, values)


def _by_repeat(curves: pd.DataFrame, of_runs: "pd.Series[float]") -> Values:
    """A value per run, indexed by run, as optimizer -> repeat -> value; NaN for the other runs of the curves."""
    values: Values = {}
    for run, optimizer, repeat in curves.drop_duplicates("run")[["run", "optimizer", "repeat"]].itertuples(index=False):
        values.setdefault(str(optimizer), {})[int(repeat)] = float(of_runs.get(run, np.nan))
    return values


def _last_rows(curves: pd.DataFrame, epochs: int) -> pd.DataFrame:
    """The last row of every run's curve within these epochs; none if the run's first trial costs more."""
    return curves[curves["epochs"] <= epochs].drop_duplicates("run", keep="last")
