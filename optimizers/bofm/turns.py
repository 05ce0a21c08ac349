"""What an ask does beside maximising expected improvement over the whole space.

Expected improvement believes its model. With twenty points among 17^5 architectures the model is often sure of what it
has never seen: it combines the few values that it knows, or polishes a local optimum for ever; and once much is known,
a small improvement that is sure is worth less to it than a large one that is not. So asks take turns.

| turn | what |
|---|---|
| expect | maximises expected improvement |
| explore | the same, with a nominal value that few trials had |
| refine | maximises expected improvement over the incumbent's continuous part |

Once nothing is gained, every second turn to refine explores. Where the number of evaluations is known, the last of them
explore no more: they refine, or expect where noise hides what could be refined.

Every value of a nominal variable has its turn. Nothing but a trial tells of it, and one that did badly beside others
may be the best beside these; expected improvement leaves it alone for ever once the model is sure of it. So exploring
asks first try the values that no trial had, all variables at once; then, one at a time, the value that the fewest
trials had, with all the rest as expected improvement likes it best. Where no variable is nominal, they doubt the model:
the more, the longer nothing was gained.
"""

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from fmnas.optimizers.gp.points import NEAR, Points, around, new_among, spray
from fmnas.optimizers.gp.process import Posterior
from fmnas.optimizers.gp.region import Region
from fmnas.optimizers.gp.search import SearchState, Surface, alternate, best_of
from fmnas.search_spaces import Nominal, Space
from fmnas.search_spaces.variables import Floats

Turn = Literal["expect", "explore", "refine"]

PROGRESS = 1e-3  # of the standard deviation of what the model sees: an improvement by less is none
DOUBLED_BY = 4  # results without progress: so many double the doubt
RESTS = 8  # results without any gain, two rounds of turns, after which refining rests every second time
ENDING_SHARE = 0.1  # of the asks after the design: the last ones
ENDING_MOST = 10  # of them
LEAST_PROMISE = 1e-4  # of the same standard deviation: refining that promises less waits
JITTER = (0.3, 0.1, 0.01)  # around the incumbent, of untried values, in unit-cube lengths


def turn_of(turns: Sequence[Turn], asked: int, y: Floats, initial: int) -> Turn:
    """What the ask after `asked` others does; y [n]: the objectives, of which the first `initial` do not count."""
    turn, odd = turns[asked % len(turns)], asked // len(turns) % 2 == 1
    if turn == "refine" and odd and without_gain(y, initial):
        return "explore" if "explore" in turns else "expect"
    return turn


def is_exploitation_phase(committed: int, initial: int, evaluations: int | None) -> bool:
    """Whether exploring can no longer pay: of all `evaluations`, `initial` for the design, so many are committed."""
    if evaluations is None:
        return False
    last = min(ENDING_SHARE * (evaluations - initial), ENDING_MOST)
    return evaluations - last <= committed < evaluations


def stalled(y: Floats, initial: int) -> int:
    """How many of the last results y [n] came without progress; the first `initial` do not count."""
    before = np.minimum.accumulate(y)[:-1]
    progress = np.flatnonzero(y[1:] < before - PROGRESS)
    last = int(progress[-1]) + 1 if len(progress) else 0
    return max(len(y) - 1 - max(last, initial - 1), 0)


def without_gain(y: Floats, initial: int) -> bool:
    """Whether the last RESTS of the results y [n] brought nothing better at all; the first `initial` do not count."""
    return len(y) - 1 - max(int(y.argmin()), initial - 1) >= RESTS


def doubt(stall: int, largest: float) -> float:
    """By what standard deviations are multiplied: 1 at first, doubled by every DOUBLED_BY results of a stall."""
    return 2.0 ** min(stall / DOUBLED_BY, math.log2(largest))


def with_inflated_variance(posterior: Posterior, factor: float) -> Posterior:
    """The same process with standard deviations `factor` times as large, and the same means."""
    other = copy.copy(posterior)
    other.s2 = posterior.s2 * factor**2
    return other


def doubted(surface: Surface, results: int, initial: int, largest: float) -> Surface:
    """The same over a model that is doubted, as its observations tell; the first of these are the results."""
    seen = surface.posterior.likelihood.y[:results].numpy()  # pending trials come after them
    factor = doubt(stalled(seen, initial), largest)
    return Surface(with_inflated_variance(surface.posterior, factor), surface.acquisition)


def refined(space: Space, surface: Surface, state: SearchState) -> Points:
    """New points with the incumbent's vertices whose log EI is worth trying, the best first; there may be none."""
    D = len(space.continuous)
    if D == 0:
        return Points.of(space, np.empty((0, len(space))))
    incumbent, settings, rng = state.incumbent, state.settings, state.rng
    anywhere = np.tile(incumbent, (settings.random_points // 2, 1))
    anywhere[:, :D] = rng.random((len(anywhere), D))
    X = np.concatenate([around(space, incumbent, settings.spray_points, NEAR, rng), anywhere])
    points = Points.of(space, X[space.feasible(X, strictly=True)])
    if not len(points):
        return points
    fixed = Region(space, held={p: int(vertex) for p, vertex in enumerate(incumbent[D:])})
    starts = best_of(points, surface.value(points), settings.starts)
    found, value = alternate(surface, fixed, starts, settings)
    new = new_among(found.encoded(space), state.known)
    return found.at((value > math.log(LEAST_PROMISE)) & torch.from_numpy(new))


@dataclass(frozen=True)
class NominalValue:
    """One value of a nominal variable: the column of encoded points [., D + P] that holds it, and its vertex there."""

    column: int
    vertex: int

    def tried(self, X: Floats) -> int:
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


def _with_one_of(values: Sequence[NominalValue], space: Space, state: SearchState) -> tuple[Floats, NDArray[np.int64]]:
    """Feasible points, as many near the incumbent as anywhere, each given a value [m, D + P]; which one [m]."""
    count, rng = state.settings.random_points, state.rng
    X = np.concatenate([spray(space, state.incumbent, count, rng), space.sample_encoded(rng, count)])
    chosen = rng.integers(len(values), size=len(X))
    column, vertex = np.array([(value.column, value.vertex) for value in values])[chosen].T
    X[np.arange(len(X)), column] = vertex
    feasible = space.feasible(X, strictly=True)
    return X[feasible], chosen[feasible]
