"""How fast an optimizer improves: the area under its curve, and the evaluations that it takes to reach a target.

Everything is measured on step curves over evaluations, up to the evaluations at which all optimizers are compared.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import nan

import numpy as np
import pandas as pd

from fmnas.comparison.analysis.checkpoints import Checkpoint
from fmnas.comparison.analysis.curves import mean_and_error
from fmnas.comparison.analysis.float_ties import is_at_most
from fmnas.comparison.analysis.resampling import Floats

AREA_FROM = 1.0
"""The area under a curve is measured from this number of evaluations on."""


@dataclass(frozen=True)
class Area:
    """The mean height of an optimizer's curves. values: repeat -> height, NaN without an incumbent."""

    optimizer: str
    mean: float
    standard_error: float
    values: Mapping[int, float]


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


def areas(curves: pd.DataFrame, end: float) -> list[Area]:
    """The mean height of every step curve, the lowest first.

    The limits are the same whichever optimizers take part: from AREA_FROM, the cost of a first full training, to `end`.
    A run whose first full result comes later, as after short trainings, gets the value of that result from AREA_FROM
    on, which flatters it. A run without a full result by `end` has no height, and its optimizer no mean.
    """
    heights: dict[str, dict[int, float]] = {}
    for path in _paths(curves, end):
        heights.setdefault(path.optimizer, {})[path.repeat] = path.height(AREA_FROM, end)
    rows = [Area(name, *mean_and_error(values), values) for name, values in heights.items()]
    return sorted(rows, key=lambda row: (np.isnan(row.mean), row.mean, row.optimizer))


def targets(curves: pd.DataFrame, last: Checkpoint) -> list[Target]:
    """Targets: each optimizer's mean at the last checkpoint. When did each repeat of each reach that mean?"""
    paths = _paths(curves, last.evaluations)
    return [
        Target(
            row.mean,
            f"{row.optimizer}'s mean at {last.share:.0%}",
            tuple(_first_reached(other.optimizer, row.mean, paths) for other in last.rows),
        )
        for row in last.rows
        if not np.isnan(row.mean)
    ]


@dataclass(frozen=True)
class _Path:
    """A step curve: from x[i] on its value is y[i]; before x[0] it has none. x, y: [n], only where y changes."""

    optimizer: str
    repeat: int
    x: Floats
    y: Floats

    def height(self, begin: float, end: float) -> float:
        """The mean value between begin and end; before x[0] it counts as y[0]. NaN for an empty range or curve."""
        if not len(self.x) or not begin < end:
            return nan
        edges = np.clip(np.append(self.x, end), begin, end)
        edges[0] = begin
        return float((np.diff(edges) * self.y).sum() / (end - begin))

    def first_at(self, target: float) -> float:
        """The evaluations after which the curve first is at or below the target; NaN for never."""
        below = np.flatnonzero(is_at_most(self.y, target))
        return float(self.x[below[0]]) if len(below) else nan


def _paths(curves: pd.DataFrame, end: float) -> list[_Path]:
    """The path of every run, up to `end`."""
    paths = []
    for _, run in curves.groupby("run", sort=False):
        x, y = (run[name].to_numpy(dtype=float) for name in ("evaluations", "incumbent"))
        # The last of several results at the same cost counts; a repeated value is not a step.
        kept = ~np.isnan(y) & np.append(x[1:] > x[:-1], True) & (x <= end)
        x, y = x[kept], y[kept]
        steps = np.insert(y[1:] < y[:-1], 0, True)[: len(y)]
        paths.append(_Path(str(run["optimizer"].iloc[0]), int(run["repeat"].iloc[0]), x[steps], y[steps]))
    return paths


def _first_reached(optimizer: str, target: float, paths: list[_Path]) -> Reached:
    values = {path.repeat: path.first_at(target) for path in paths if path.optimizer == optimizer}
    in_time = [value for value in values.values() if not np.isnan(value)]
    mean = float(np.mean(in_time)) if in_time else nan
    return Reached(optimizer, len(in_time), len(values), mean, values)
