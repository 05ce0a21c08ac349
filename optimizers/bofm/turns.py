"""What an ask does beside maximising expected improvement over the whole space.

Expected improvement believes its model. With twenty points among 17^5 architectures the model is often sure of what it
has never seen: it combines the few values that it knows, or polishes a local optimum for ever; and once much is known,
a small improvement that is sure is worth less to it than a large one that is not. So asks take turns.

| turn | what |
|---|---|
| expect | maximises expected improvement |
| explore | the same, with the nominal value that the fewest trials had (rare_values.py) |
| refine | maximises expected improvement over the incumbent's continuous part |

Once nothing is gained, every second turn to refine explores. Where the number of evaluations is known, the last of them
explore no more: they refine, or expect where noise hides what could be refined.

Where no variable is nominal, asks that explore doubt the model: the more, the longer nothing was gained.
"""

import copy
import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from fmnas.optimizers.gp.points import NEAR, Points, around, new_among
from fmnas.optimizers.gp.process import Posterior
from fmnas.optimizers.gp.region import Region
from fmnas.optimizers.gp.search import SearchState, Surface, alternate, best_of
from fmnas.search_spaces import Space

Turn = Literal["expect", "explore", "refine"]

PROGRESS = 1e-3  # of the standard deviation of what the model sees: an improvement by less is none
DOUBLED_BY = 4  # results without progress: so many double the doubt
RESTS = 8  # results without any gain, two rounds of turns, after which refining rests every second time
ENDING_SHARE = 0.1  # of the asks after the design: the last ones
ENDING_MOST = 10  # of them
LEAST_PROMISE = 1e-4  # of the same standard deviation: refining that promises less waits


def turn_of(turns: Sequence[Turn], asked: int, y: NDArray[np.float64], initial: int) -> Turn:
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


def stalled(y: NDArray[np.float64], initial: int) -> int:
    """How many of the last results y [n] came without progress; the first `initial` do not count."""
    before = np.minimum.accumulate(y)[:-1]
    progress = np.flatnonzero(y[1:] < before - PROGRESS)
    last = int(progress[-1]) + 1 if len(progress) else 0
    return max(len(y) - 1 - max(last, initial - 1), 0)


def without_gain(y: NDArray[np.float64], initial: int) -> bool:
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
