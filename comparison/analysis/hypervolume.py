"""Hypervolume: the area that results of two objectives dominate, up to a reference point; higher is better.

(Zitzler, Thiele 1998: "size of the space covered".) A result counts if it is below the reference in both objectives. Of
each run all full results count, whatever its optimizer minimises: one that minimises a single objective is measured by
what it evaluated on the way. Before a run's first full result the hypervolume is 0.

| symbol | shape | meaning |
|---|---|---|
| points | [n, 2] | objectives of results; both are minimised |
| reference | [2] | no better point counts beyond it |
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from fmnas.comparison.analysis.checkpoints import CheckpointRow, Values, checkpoint_rows, values_at
from fmnas.comparison.analysis.paired_tests import Comparisons, PairedTest, compare
from fmnas.comparison.analysis.resampling import Floats

OBJECTIVES = ("objective_1", "objective_2")
"""The columns of a problem whose evaluations are two numbers."""
NETWORK = ("error", "flops_ratio")
"""The columns of a network's objectives."""
HYPERVOLUME = "hypervolume"
"""The column of the curves."""


@dataclass(frozen=True)
class Hypervolumes:
    """The hypervolume of every optimizer's runs at the epochs at which all are compared.

    reference: the name of each objective and its value in the reference point. rows: the highest mean first; rank 1 is
    the highest in a repeat. tests: of differences in hypervolume, so a better first optimizer has a positive one.
    """

    reference: Mapping[str, float]
    rows: tuple[CheckpointRow, ...]
    tests: Comparisons


def objective_columns(trials: pd.DataFrame) -> list[str]:
    """The columns of the two objectives: those of the evaluations, or else error and FLOPs."""
    return list(OBJECTIVES if OBJECTIVES[0] in trials else NETWORK)


def pareto_front(points: Floats) -> Floats:
    """The points [m, 2] of [n, 2] that no other point dominates, by the first column."""
    ordered = points[np.lexsort((points[:, 1], points[:, 0]))]
    before = np.concatenate([[np.inf], np.minimum.accumulate(ordered[:, 1])[:-1]])
    return ordered[ordered[:, 1] < before]


def hypervolume(points: Floats, reference: Sequence[float]) -> float:
    """The area between the front of points [n, 2] and the reference; 0 without a point below it."""
    front = pareto_front(points[(points < reference).all(axis=1)])
    ends = np.append(front[1:, 0], reference[0])
    return float(((ends - front[:, 0]) * (reference[1] - front[:, 1])).sum())


def running_hypervolume(points: Floats, reference: Sequence[float]) -> Floats:
    """The hypervolume of the first 1, 2, ... n points [n, 2]; a point with a missing value does not count."""
    front, volume, volumes = np.empty((0, 2)), 0.0, np.empty(len(points))
    for i, point in enumerate(points):
        if np.isfinite(point).all() and not (front <= point).all(axis=1).any():
            front = pareto_front(np.vstack([front, point]))
            volume = hypervolume(front, reference)
        volumes[i] = volume
    return volumes


def add_hypervolume(curves: pd.DataFrame, trials: pd.DataFrame, objectives: Mapping[str, float]) -> pd.DataFrame:
    """The `anytime_curves` with a column HYPERVOLUME, after each trial; NaN for a run without a trial.

    objectives: their names and values in the reference point; empty: the curves are unchanged.
    """
    if not objectives:
        return curves
    known = trials.set_index(["run", "trial"])[objective_columns(trials)].astype(float)
    rows = pd.MultiIndex.from_frame(curves[["run", "trial"]])
    points = known[~known.index.duplicated(keep="last")].reindex(rows).to_numpy(copy=True)
    points[curves["objective"].isna().to_numpy()] = np.nan  # a short training, or none
    volumes = np.full(len(curves), np.nan)
    for places in curves.groupby("run", sort=False).indices.values():
        volumes[places] = running_hypervolume(points[places], tuple(objectives.values()))
    return curves.assign(**{HYPERVOLUME: np.where(curves["trial"] < 0, np.nan, volumes)})


def compare_hypervolumes(
    curves: pd.DataFrame, epochs: int, objectives: Mapping[str, float], hypotheses: str
) -> Hypervolumes | None:
    """Compare the runs after these epochs, repeat by repeat; None where the curves have no hypervolume.

    hypotheses: which pairs are tested, as `compare` takes them.
    """
    if HYPERVOLUME not in curves:
        return None
    negative = values_at(curves.assign(incumbent=-curves[HYPERVOLUME]), epochs)  # tests and ranks: lower is better
    rows = checkpoint_rows(negative)
    ordered: Values = {row.optimizer: negative[row.optimizer] for row in rows}
    tests = compare(ordered, hypotheses)
    pairs = tuple(map(_negate_test, tests.pairs))
    return Hypervolumes(dict(objectives), tuple(map(_negate_row, rows)), replace(tests, pairs=pairs))


def _negate_row(row: CheckpointRow) -> CheckpointRow:
    values = {repeat: -value for repeat, value in row.values.items()}
    return replace(row, mean=-row.mean, low=-row.high, high=-row.low, values=values)


def _negate_test(test: PairedTest) -> PairedTest:
    return replace(test, difference=-test.difference, low=-test.high, high=-test.low, effect=-test.effect)
