"""Rare values: every one of a nominal variable has its turn, and every part of a continuous one.

Nothing but a trial tells of a nominal value, and one that did badly beside others may be the best beside these.
Expected improvement leaves it alone for ever once the model is sure of it. So exploring asks first try the values that
no trial had, all variables at once; then, one at a time, the value that the fewest trials had, with all the rest as
expected improvement likes it best. Now and then they do the same with fifths of the continuous variables.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from fmnas.optimizers.gp.points import Points, around, new_among, spray
from fmnas.optimizers.gp.region import Region, unit_cube
from fmnas.optimizers.gp.search import SearchState, alternate
from fmnas.optimizers.gp.surface import Surface
from fmnas.search_spaces import Nominal, Space

JITTER = (0.3, 0.1, 0.01)  # around the incumbent, in unit-cube lengths


@dataclass(frozen=True)
class Part:
    """What lies from `lowest` to `highest` in a column of encoded points: of a nominal variable a single value."""

    column: int
    lowest: float
    highest: float

    def holds(self, X: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Which of the points [m, D + P] lie in it."""
        return np.asarray((X[:, self.column] >= self.lowest) & (X[:, self.column] <= self.highest))

    def region(self, space: Space) -> Region:
        """What of the space lies in it."""
        D, box = len(space.continuous), unit_cube(space)
        if self.column >= D:
            return Region(space, held={self.column - D: int(self.lowest)})
        box.lower[self.column], box.upper[self.column] = self.lowest, self.highest
        return Region(space, box=box)


def values(space: Space) -> list[Part]:
    """Each value of each nominal variable. Those of an ordered one are told of by those beside them."""
    D = len(space.continuous)
    return [
        Part(D + p, vertex, vertex)
        for p, variable in enumerate(space.discrete)
        if isinstance(variable, Nominal)
        for vertex in range(len(variable.vertices))
    ]


def fifths(space: Space) -> list[Part]:
    """Each fifth of each continuous variable."""
    return [Part(d, k / 5, (k + 1) / 5) for d in range(len(space.continuous)) for k in range(5)]


def untried_values(space: Space, surface: Surface, state: SearchState) -> Points:
    """Feasible points near the incumbent in which every variable with untried values has one; best EI first.

    None where no value is untried. Far from the incumbent in many variables at once, one trial tells of them all.
    """
    rng = state.rng
    untried = [part for part in values(space) if not part.holds(state.known).any()]
    if not untried:
        return Points.of(space, np.empty((0, len(space))))
    X = around(space, state.incumbent, state.settings.random_points, JITTER, rng)
    for column in sorted({part.column for part in untried}):
        X[:, column] = rng.choice([part.lowest for part in untried if part.column == column], size=len(X))
    points = Points.of(space, X[space.feasible(X)])
    return points.at(surface.value(points).argsort(descending=True, stable=True)) if len(points) else points


def rarest_value(parts: Sequence[Part], space: Space, surface: Surface, state: SearchState) -> Points:
    """New points in that of the parts which holds the fewest of the known points, the best EI first.

    Of several such parts, in the one with the best point among many; feasible points. There may be none.
    """
    settings = state.settings
    held = [int(part.holds(state.known).sum()) for part in parts]
    X, chosen, rare = np.empty((0, len(space))), np.empty(0, dtype=np.int64), list(parts)
    for count in sorted(set(held)):  # beyond the first only where the constraints rule out all that is rarer
        rare = [part for part, others in zip(parts, held, strict=True) if others == count]
        X, chosen = _in_one_of(rare, space, state)
        if len(X):
            break
    points = Points.of(space, X)
    if not len(points):
        return points
    value = surface.value(points)
    best = chosen[int(value.argmax())]
    same = torch.from_numpy(np.flatnonzero(chosen == best))
    starts = points.at(same[value[same].topk(min(settings.starts, len(same))).indices])
    found, _ = alternate(surface, rare[best].region(space), starts, settings)
    new = new_among(found.encoded(space), state.known)
    return found.at(torch.from_numpy(new))


def _in_one_of(
    parts: Sequence[Part], space: Space, state: SearchState
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Feasible points, as many near the incumbent as anywhere, each moved into a part [m, D + P]; into which [m]."""
    count, rng = state.settings.random_points, state.rng
    X = np.concatenate([spray(space, state.incumbent, count, rng), space.sample_encoded(rng, count)])
    chosen = rng.integers(len(parts), size=len(X))
    column = np.array([part.column for part in parts])[chosen]
    lowest, highest = np.array([(part.lowest, part.highest) for part in parts])[chosen].T
    X[np.arange(len(X)), column] = lowest + (highest - lowest) * rng.random(len(X))
    feasible = space.feasible(X)
    return X[feasible], chosen[feasible]
