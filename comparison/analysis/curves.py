"""Anytime curves: the best full-fidelity objective so far, as a step function of what was spent.

| symbol | meaning |
|---|---|
| incumbent | the best objective among the finished full-fidelity trials so far; the first of equals stays |
| axis | the currency: one of AXES |
| grid | [G] ascending amounts of that currency |

A short training costs its epochs and is never an incumbent. Curves are never interpolated: between two results the
incumbent is constant.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from fmnas.comparison.analysis.costs import is_full_result, spent_epochs, wall_seconds, worker_seconds
from fmnas.comparison.analysis.float_ties import is_at_most
from fmnas.comparison.analysis.resampling import Floats, mean_interval
from fmnas.comparison.analysis.trials import Budget, PlannedRun

AXES = ("evaluations", "epochs", "seconds", "train_seconds", "wall_seconds")
"""Full trainings' worth of epochs; epochs; training plus suggestion time; training time; time since the run's start."""
STATISTICS = ("mean", "standard_error", "low", "high")
"""Of a mean curve, over repeats."""

NO_TRIAL = -1
"""The trial number in the row of a run without any trial."""


def anytime_curves(trials: pd.DataFrame, budget: Budget, runs: Sequence[PlannedRun] = ()) -> pd.DataFrame:
    """One row per trial, in the order in which its run received the results.

    Columns run, optimizer, repeat, trial, AXES, objective, incumbent, incumbent_trial, incumbent_error.

    trials: as `read_trials` gives them. Within a run they are ordered by finish time, then by number.
    objective: the trial's result if it is a full-fidelity one, else NaN.
    incumbent, incumbent_trial, incumbent_error: after this trial; NaN before the first full-fidelity result.
    runs: all runs of the experiment. A run without a trial, of an optimizer that has others, gets a row NO_TRIAL
        without an incumbent: means over that optimizer's repeats must not skip it.
    """
    ordered = trials.sort_values(["optimizer", "repeat", "run", "finished_at", "trial", "attempt"])
    curves = [_run_curve(run, budget) for _, run in ordered.groupby("run", sort=False)]
    if not curves:
        return _run_curve(ordered, budget)
    begun, optimizers = set(ordered["run"]), set(ordered["optimizer"])
    waiting = [run for run in runs if run.run not in begun and run.optimizer in optimizers]
    nothing: dict[Any, Any] = {**dict.fromkeys(curves[0], np.nan), **dict.fromkeys(AXES, 0.0), "trial": NO_TRIAL}
    rows = [pd.DataFrame([nothing | run._asdict()]).astype(curves[0].dtypes) for run in waiting]
    return pd.concat([*curves, *rows], ignore_index=True)


def incumbent_at(curve: pd.DataFrame, axis: str, grid: Sequence[float] | Floats) -> Floats:
    """The incumbent of one run's curve after spending grid[i]: [G], NaN before its first full-fidelity result.

    A result that costs exactly grid[i] counts.
    """
    last = np.searchsorted(curve[axis].to_numpy(dtype=float), np.asarray(grid, dtype=float), side="right")
    values = np.concatenate([[np.nan], curve["incumbent"].to_numpy(dtype=float)])
    return np.asarray(values[last], dtype=np.float64)


def mean_curve(curves: pd.DataFrame, axis: str, grid: Sequence[float] | Floats) -> pd.DataFrame:
    """The mean over repeats of each optimizer's curve on a common grid.

    Columns optimizer, `axis`, STATISTICS, repeats.

    standard_error: ddof = 1; NaN with one repeat. low, high: the 95% bootstrap interval of `mean_interval`.
    repeats: how many the optimizer has.
    All statistics are NaN until every repeat has an incumbent: a mean over the fast ones would be biased.
    A run that ended keeps its last incumbent.
    """
    tables = []
    for optimizer, mine in curves.groupby("optimizer", sort=True):
        values = np.stack([incumbent_at(run, axis, grid) for _, run in mine.groupby("run", sort=False)])  # [repeats, G]
        low, high = mean_interval(values)
        over = (values.mean(axis=0), standard_error(values), low, high)
        complete = ~np.isnan(values).any(axis=0)
        statistics = {name: np.where(complete, of, np.nan) for name, of in zip(STATISTICS, over, strict=True)}
        tables.append(pd.DataFrame({"optimizer": optimizer, axis: grid, **statistics, "repeats": len(values)}))
    if not tables:
        return pd.DataFrame(columns=["optimizer", axis, *STATISTICS, "repeats"])
    return pd.concat(tables, ignore_index=True)


def standard_error(values: Floats) -> Floats:
    """Standard error of the mean over the first axis, ddof = 1; NaN for one value, 0 for equal values."""
    repeats = len(values)
    if repeats < 2:
        return np.full(values.shape[1:], np.nan)
    differ = ~is_at_most(values.max(axis=0), values.min(axis=0))
    scale = np.frexp(np.abs(values).max(axis=0))[1]  # a power of two is exact, and no square overflows
    return np.asarray(differ * np.ldexp(np.ldexp(values, -scale).std(axis=0, ddof=1), scale) / np.sqrt(repeats))


def mean_and_error(values: Mapping[int, float]) -> tuple[float, float]:
    """The mean of the values of repeats and its standard error; both NaN if a repeat has no value."""
    of_repeats = np.array(list(values.values()))
    return float(of_repeats.mean()), float(standard_error(of_repeats))


def _run_curve(run: pd.DataFrame, budget: Budget) -> pd.DataFrame:
    epochs, seconds = spent_epochs(run), worker_seconds(run)
    objective = run["objective"].where(is_full_result(run, budget)).astype("float64")
    so_far = np.fmin.accumulate(objective.to_numpy())  # fmin skips NaN
    improved = objective.lt(pd.Series(so_far, index=run.index).shift().fillna(np.inf))
    last = np.maximum.accumulate(np.where(improved, np.arange(len(run)), -1))
    incumbents = np.where(last[:, None] >= 0, run[["trial", "error"]].to_numpy(dtype=float)[last], np.nan)
    return pd.DataFrame(
        {
            "run": run["run"],
            "optimizer": run["optimizer"],
            "repeat": run["repeat"].astype("int64"),
            "trial": run["trial"].astype("int64"),
            "evaluations": epochs / budget.epochs_per_evaluation,
            "epochs": epochs,
            "seconds": (seconds + run["suggest_seconds"].fillna(0.0)).cumsum(),
            "train_seconds": seconds.cumsum(),
            "wall_seconds": wall_seconds(run),
            "objective": objective,
            "incumbent": so_far,
            "incumbent_trial": incumbents[:, 0],
            "incumbent_error": incumbents[:, 1],
        }
    )
