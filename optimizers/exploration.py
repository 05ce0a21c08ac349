"""Looking where the model does not: every value of a nominal variable once, then where a model that stalls errs.

Expected improvement believes its model. With twenty points among 17^5 architectures the model is often sure of what it
has never seen: it polishes a local optimum, or combines the few values it knows. Every second ask therefore explores.
"""

import copy
import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fmnas.optimizers.posterior import Posterior
from fmnas.search_spaces import Nominal, Space

PROGRESS = 1e-3  # of the standard deviation of what the model sees: an improvement by less is none
PATIENCE = 4  # results without progress that double the doubt
JITTER = (0.3, 0.1, 0.01)  # standard deviations, in unit-cube lengths, around the incumbent


def stalled(y: NDArray[np.float64], initial: int) -> int:
    """How many of the last results y [n] came without progress; the first `initial` do not count."""
    before = np.minimum.accumulate(y)[:-1]
    progress = np.flatnonzero(y[1:] < before - PROGRESS)
    last = int(progress[-1]) + 1 if len(progress) else 0
    return max(len(y) - 1 - max(last, initial - 1), 0)


def doubt(stall: int, largest: float) -> float:
    """By what the model's standard deviations are multiplied: 1 at first, doubled by each PATIENCE results of a stall."""
    return 2.0 ** min(stall / PATIENCE, math.log2(largest))


def doubted(posterior: Posterior, factor: float) -> Posterior:
    """The same process with standard deviations `factor` times as large, and the same means."""
    other = copy.copy(posterior)
    other.parameters = replace(posterior.parameters, s2=posterior.parameters.s2 * factor**2)
    return other


def unseen(space: Space, known: NDArray[np.float64]) -> list[NDArray[np.int64]]:
    """For each discrete variable the vertices that no known point [m, D + P] has; none where order tells of them.

    A value of an ordered variable is told of by those beside it; of a nominal one nothing tells but a trial.
    """
    D = len(space.continuous)
    return [
        np.setdiff1d(np.arange(len(variable.vertices)), known[:, D + p])
        if isinstance(variable, Nominal)
        else np.empty(0, dtype=np.int64)
        for p, variable in enumerate(space.discrete)
    ]


def covering(
    space: Space, incumbent: NDArray[np.float64], values: list[NDArray[np.int64]], count: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Feasible points [at most count, D + P] near the incumbent x [D + P], each variable at one of its unseen values.

    values: what `unseen` gives; a variable without any keeps the incumbent's.
    """
    D = len(space.continuous)
    X = np.tile(incumbent, (count, 1))
    scale = rng.choice(JITTER, size=(count, 1))
    X[:, :D] = (X[:, :D] + scale * rng.standard_normal((count, D))).clip(0.0, 1.0)
    for p, vertices in enumerate(values):
        if len(vertices):
            X[:, D + p] = rng.choice(vertices, size=count)
    return X[space.feasible(X)]
