"""How fast an optimizer gets there: the area under its curve, the evaluations to a target, who matches whom when.

All of it is on the axis of evaluations, up to the evaluations at which all are compared, and on step curves.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import ceil, nan

import numpy as np
import pandas as pd

from fmnas.comparison.analysis.checkpoints import Checkpoint
from fmnas.comparison.analysis.curves import mean_and_error
from fmnas.comparison.analysis.float_ties import reaches
from fmnas.comparison.analysis.resampling import Floats, tail, weights

AREA_FROM = 1.0
"""Evaluations from which on the area under a curve counts."""


@dataclass(frozen=True)
class Area:
    """The mean height of an optimizer's curves; values: repeat -> height, NaN without an incumbent."""

    optimizer: str
    mean: float
    standard_error: float
    values: Mapping[int, float]


@dataclass(frozen=True)
class Reached:
    """When an optimizer's runs first were at or below a target.

    reached: how many of its repeats were. evaluations: mean over those, NaN for none. values: repeat -> evaluations.
    """

    optimizer: str
    reached: int
    repeats: int
    evaluations: float
    values: Mapping[int, float]


@dataclass(frozen=True)
class Target:
    """An objective to reach, and where it comes from in words."""

    target: float
    source: str
    rows: tuple[Reached, ...]


@dataclass(frozen=True)
class Equivalent:
    """What `optimizer` has on average `at` so many evaluations, `other` has after `evaluations`; NaN: not in time.

    low, high: the 95% bootstrap interval of that number over the repeats of `other`, while `value` stands as it is. NaN
    with one repeat, and where an end lies among the resamples in which it is not in time. late: the share of those.
    """

    optimizer: str
    at: float
    value: float
    other: str
    evaluations: float
    low: float
    high: float
    late: float


def areas(curves: pd.DataFrame, end: float) -> list[Area]:
    """The mean height of every step curve, the lowest first.

    Between the same evaluations for all, whoever takes part: from AREA_FROM, where a first full training is paid for,
    to `end`. A run whose first full result comes later, as one that begins with short trainings, is charged the value
    of that result from AREA_FROM on, which flatters it. A run without any by `end` has no height, and its optimizer no
    mean.
    """
    heights: dict[str, dict[int, float]] = {}
    for path in _paths(curves, end):
        heights.setdefault(path.optimizer, {})[path.repeat] = path.height(AREA_FROM, end)
    rows = [Area(name, *mean_and_error(values), values) for name, values in heights.items()]
    return sorted(rows, key=lambda row: (np.isnan(row.mean), row.mean, row.optimizer))


def targets(curves: pd.DataFrame, last: Checkpoint) -> list[Target]:
    """For every optimizer with a mean at the last checkpoint: when did each repeat of each reach that mean?"""
    paths = _paths(curves, last.evaluations)
    return [
        Target(
            row.mean,
            f"{row.optimizer}'s mean at {last.share:.0%}",
            tuple(_reached(each.optimizer, row.mean, paths) for each in last.rows),
        )
        for row in last.rows
        if not np.isnan(row.mean)
    ]


def equivalents(curves: pd.DataFrame, points: list[Checkpoint]) -> list[Equivalent]:
    """For every optimizer's mean at every checkpoint: from when on every other's mean was at or below it."""
    if not points:
        return []
    end = points[-1].evaluations
    means = {str(name): _Means(_paths(mine, end)) for name, mine in curves.groupby("optimizer", sort=False)}
    return [
        Equivalent(row.optimizer, point.evaluations, row.mean, name, *other.reach(row.mean))
        for point in points
        for row in point.rows
        for name, other in means.items()
        if name != row.optimizer and not np.isnan(row.mean)
    ]


@dataclass(frozen=True)
class _Path:
    """A step curve: from x[i] on its value is y[i]; before x[0] it has none. x, y: [n], only where y changes."""

    optimizer: str
    repeat: int
    x: Floats
    y: Floats

    def height(self, begin: float, end: float) -> float:
        """The mean value between two places; NaN where they are none apart, or it has no value.

        Before x[0] it counts as y[0].
        """
        if not len(self.x) or not begin < end:
            return nan
        edges = np.clip(np.append(self.x, end), begin, end)
        edges[0] = begin
        return float((np.diff(edges) * self.y).sum() / (end - begin))


def _paths(curves: pd.DataFrame, end: float) -> list[_Path]:
    """That of every run, up to `end`."""
    paths = []
    for _, run in curves.groupby("run", sort=False):
        x, y = (run[name].to_numpy(dtype=float) for name in ("evaluations", "incumbent"))
        # The last of several results at the same cost counts; a repeated value is no step.
        kept = ~np.isnan(y) & np.append(x[1:] > x[:-1], True) & (x <= end)
        x, y = x[kept], y[kept]
        steps = np.insert(y[1:] < y[:-1], 0, True)[: len(y)]
        paths.append(_Path(str(run["optimizer"].iloc[0]), int(run["repeat"].iloc[0]), x[steps], y[steps]))
    return paths


def _first_at(x: Floats, y: Floats, target: float) -> float:
    """Where a step curve first is at or below a value; NaN where it never is."""
    below = np.flatnonzero(reaches(y, target))
    return float(x[below[0]]) if len(below) else nan


class _Means:
    """The mean curve of an optimizer's runs, and those of its resampled repeats.

    A mean has a value from where each of its runs has an incumbent. x: [G] where any of them steps.
    """

    def __init__(self, paths: list[_Path]) -> None:
        self._x = np.unique(np.concatenate([path.x for path in paths]))
        rows = [np.append(np.nan, path.y)[np.searchsorted(path.x, self._x, side="right")] for path in paths]
        self._heights = np.stack(rows)  # [repeats, G]

    def reach(self, target: float) -> tuple[float, float, float, float]:
        """evaluations, low, high and late of an `Equivalent`."""
        repeats, evaluations = len(self._heights), _first_at(self._x, self._heights.mean(axis=0), target)
        if repeats < 2:
            return evaluations, nan, nan, nan
        above = ~reaches(self._resampled, target)
        first = np.append(self._x, np.inf)[above.sum(axis=1)]  # curves never rise: above the target, then no more
        ordered, last = np.sort(first), len(first) - 1  # no interpolation: half of infinity is no number
        ends = ordered[int(tail(repeats) * last)], ordered[ceil((1 - tail(repeats)) * last)]
        low, high = (float(end) if np.isfinite(end) else nan for end in ends)
        return evaluations, low, high, float(np.isinf(first).mean())

    @cached_property
    def _resampled(self) -> Floats:
        """[RESAMPLES, G]: the mean curves; infinite before each run that counts has an incumbent."""
        drawn, missing = weights(len(self._heights)), np.isnan(self._heights)
        means = drawn @ np.where(missing, 0.0, self._heights)
        return np.asarray(np.where(drawn @ missing > 0, np.inf, means))


def _reached(optimizer: str, target: float, paths: list[_Path]) -> Reached:
    values = {path.repeat: _first_at(path.x, path.y, target) for path in paths if path.optimizer == optimizer}
    in_time = [value for value in values.values() if not np.isnan(value)]
    mean = float(np.mean(in_time)) if in_time else nan
    return Reached(optimizer, len(in_time), len(values), mean, values)
