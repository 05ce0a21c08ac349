"""The table of results at a quarter, at half and at all of the budget."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import rankdata

from fmnas.comparison.curves import standard_error
from fmnas.comparison.resampling import mean_interval
from fmnas.comparison.trials import Budget

SHARES = (0.25, 0.5, 1.0)

Values = dict[str, dict[int, float]]
"""optimizer -> repeat -> the objective of its incumbent; NaN before its first full-fidelity result."""


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
    """One for each of SHARES of `at` epochs, in whole epochs."""
    found = []
    for share in SHARES:
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
                optimizer,
                float(given.mean()),
                float(error),
                float(low),
                float(high),
                ranks.get(optimizer, np.nan),
                mine,
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
    table: NDArray[np.float64] = np.array([[mine[repeat] for repeat in shared] for mine in values.values()])
    ranks = rankdata(table, axis=0).mean(axis=1)
    return {optimizer: float(rank) for optimizer, rank in zip(values, ranks, strict=True)}
