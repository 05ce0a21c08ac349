"""Error against FLOPs: the Pareto fronts of the optimizers, and their hypervolumes.

| symbol | shape | meaning |
|---|---|---|
| points | [n, 2] | full-fidelity results: FLOPs as a share of the largest network's, validation error |
| front | [m, 2] | the points that no other point dominates, by rising FLOPs |
| hypervolume | | the area of [0, 1] x [0, 1] that a run's points dominate, from 0 to 1: higher is better |

No optimizer searches for a front: each minimises one objective, in which FLOPs have a small weight.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from fmnas.comparison.analysis.costs import is_full_result
from fmnas.comparison.analysis.curves import mean_and_error
from fmnas.comparison.analysis.resampling import Floats
from fmnas.comparison.analysis.trials import Budget

REFERENCE_POINT = (1.0, 1.0)
"""The largest network, always wrong."""


@dataclass(frozen=True)
class Tradeoff:
    """One optimizer's hypervolumes by repeat, their mean and its standard error, and the front of all its repeats.

    A repeat without a full result has NaN, and then the mean is NaN, too.
    """

    optimizer: str
    mean: float
    standard_error: float
    values: Mapping[int, float]
    front: tuple[tuple[float, float], ...]


def tradeoffs(trials: pd.DataFrame, curves: pd.DataFrame, at: int, budget: Budget) -> list[Tradeoff]:
    """A row for every optimizer with full results that have FLOPs and an error, the highest mean hypervolume first.

    curves: the `anytime_curves` of the trials, which include every repeat. at: the epochs of the comparison.
    """
    full = results_within(trials, curves, at, budget)
    rows = []
    for name, mine in full.groupby("optimizer", sort=True):
        repeats = curves.loc[curves["optimizer"] == name, "repeat"].unique()
        values = dict.fromkeys(sorted(map(int, repeats)), float("nan"))
        values |= {int(run["repeat"].iloc[0]): hypervolume(_points(run)) for _, run in mine.groupby("repeat")}
        front = tuple((float(flops), float(error)) for flops, error in pareto_front(_points(mine)))
        rows.append(Tradeoff(str(name), *mean_and_error(values), values, front))
    return sorted(rows, key=lambda row: (np.isnan(row.mean), -row.mean, row.optimizer))


def results_within(trials: pd.DataFrame, curves: pd.DataFrame, at: int, budget: Budget) -> pd.DataFrame:
    """The full results with FLOPs and an error that each run had after this number of epochs."""
    known = pd.MultiIndex.from_frame(curves.loc[curves["epochs"] <= at, ["run", "trial"]])
    within = pd.MultiIndex.from_frame(trials[["run", "trial"]].astype({"trial": "int64"})).isin(known)
    return trials[within & is_full_result(trials, budget) & trials["flops_ratio"].notna() & trials["error"].notna()]


def pareto_front(points: Floats) -> Floats:
    """The points [m, 2] of [n, 2] that no other point dominates, by the first column."""
    ordered = points[np.lexsort((points[:, 1], points[:, 0]))]
    before = np.concatenate([[np.inf], np.minimum.accumulate(ordered[:, 1])[:-1]])
    return ordered[ordered[:, 1] < before]


def hypervolume(points: Floats) -> float:
    """The area between the points [n, 2] and REFERENCE_POINT; points beyond it add nothing."""
    front = pareto_front(points[(points < REFERENCE_POINT).all(axis=1)])
    flops, error = REFERENCE_POINT
    return float(((np.append(front[1:, 0], flops) - front[:, 0]) * (error - front[:, 1])).sum())


def _points(trials: pd.DataFrame) -> Floats:
    return trials[["flops_ratio", "error"]].to_numpy(dtype=np.float64)
