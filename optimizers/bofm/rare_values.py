"""Rare values: every one of a nominal variable has its turn.

Nothing but a trial tells of a nominal value, and one that did badly beside others may be the best beside these.
Expected improvement leaves it alone for ever once the model is sure of it. So exploring asks first try the values that
no trial had, all variables at once; then, one at a time, the value that the fewest trials had, with all the rest as
expected improvement likes it best.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from fmnas.optimizers.gp.points import Points, around, new_among, spray
from fmnas.optimizers.gp.region import Region
from fmnas.optimizers.gp.search import SearchState, Surface, alternate, best_of
from fmnas.search_spaces import Nominal, Space

JITTER = (0.3, 0.1, 0.01)  # around the incumbent, in unit-cube lengths


@dataclass(frozen=True)
class NominalValue:
    """One value of a nominal variable: the column of encoded points [., D + P] that holds it, and its vertex there."""

    column: int
    vertex: int

    def tried(self, X: NDArray[np.float64]) -> int:
        """How many of the points [m, D + P] have it."""
        return int((X[:, self.column] == self.vertex).sum())


def nominal_values(space: Space) -> list[NominalValue]:
    """Each value of each nominal variable. Those of an ordered one are told of by those beside them."""
    D = len(space.continuous)
    return [
        NominalValue(D + p, vertex)
        for p, variable in enumerate(space.discrete)
        if isinstance(variable, Nominal)
        for vertex in range(len(variable.vertices))
    ]


def untried_values(space: Space, surface: Surface, state: SearchState) -> Points:
    """Feasible points near the incumbent in which every variable with untried values has one; best EI first.

    None where no value is untried. Far from the incumbent in many variables at once, one trial tells of them all.
    """
    rng = state.rng
    untried = [value for value in nominal_values(space) if not value.tried(state.known)]
    if not untried:
        return Points.of(space, np.empty((0, len(space))))
    X = around(space, state.incumbent, state.settings.random_points, JITTER, rng)
    for column in sorted({value.column for value in untried}):
        X[:, column] = rng.choice([value.vertex for value in untried if value.column == column], size=len(X))
    points = Points.of(space, X[space.feasible(X, strictly=True)])
    return points.at(surface.value(points).argsort(descending=True, stable=True)) if len(points) else points


def rarest_value(space: Space, surface: Surface, state: SearchState) -> Points:
    """New points with that nominal value which the fewest of the known points have, the best EI first.

    Of several such values, with the one of the best point among many; feasible points. There may be none.
    """
    settings, values = state.settings, nominal_values(space)
    tried = [value.tried(state.known) for value in values]
    X, chosen, rare = np.empty((0, len(space))), np.empty(0, dtype=np.int64), values
    for count in sorted(set(tried)):  # beyond the first only where the constraints rule out all that is rarer
        rare = [value for value, trials in zip(values, tried, strict=True) if trials == count]
        X, chosen = _with_one_of(rare, space, state)
        if len(X):
            break
    points = Points.of(space, X)
    if not len(points):
        return points
    log_ei = surface.value(points)
    best = chosen[int(log_ei.argmax())]
    same = torch.from_numpy(chosen == best)
    starts = best_of(points.at(same), log_ei[same], settings.starts)
    having_it = Region(space, held={rare[best].column - len(space.continuous): rare[best].vertex})
    found, _ = alternate(surface, having_it, starts, settings)
    new = new_among(found.encoded(space), state.known)
    return found.at(torch.from_numpy(new))


def _with_one_of(
    values: Sequence[NominalValue], space: Space, state: SearchState
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Feasible points, as many near the incumbent as anywhere, each given a value [m, D + P]; which one [m]."""
    count, rng = state.settings.random_points, state.rng
    X = np.concatenate([spray(space, state.incumbent, count, rng), space.sample_encoded(rng, count)])
    chosen = rng.integers(len(values), size=len(X))
    column, vertex = np.array([(value.column, value.vertex) for value in values])[chosen].T
    X[np.arange(len(X)), column] = vertex
    feasible = space.feasible(X, strictly=True)
    return X[feasible], chosen[feasible]
