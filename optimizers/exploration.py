"""What an ask does beside maximising expected improvement over the whole space.

Expected improvement believes its model. With twenty points among 17^5 architectures the model is often sure of what it
has never seen: it combines the few values that it knows, or polishes a local optimum for ever; and once much is known,
a small improvement that is sure is worth less to it than a large one that is not. So asks take turns.

| turn | what |
|---|---|
| expect | maximises expected improvement |
| explore | tries values of nominal variables that no trial had; then doubts the model, the more the longer it stalls |
| rethink | the same, and the parameters are doubted, too: they are back at the medians of the prior |
| refine | maximises expected improvement over the incumbent's continuous part, while that promises anything |
"""

import copy
import math
from dataclasses import replace
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from fmnas.optimizers.points import Points
from fmnas.optimizers.posterior import Posterior
from fmnas.optimizers.search import SAME, Acquisition, SearchSettings, alternate
from fmnas.search_spaces import Nominal, Space

Turn = Literal["expect", "explore", "refine", "rethink"]

PROGRESS = 1e-3  # of the standard deviation of what the model sees: an improvement by less is none
PATIENCE = 4  # results without progress that double the doubt
WORTH = 1e-4  # of the same standard deviation: refining that promises less waits
FAR, NEAR = (0.3, 0.1, 0.01), (0.1, 0.01, 0.001)  # jitter around the incumbent, in unit-cube lengths


def stalled(y: NDArray[np.float64], initial: int) -> int:
    """How many of the last results y [n] came without progress; the first `initial` do not count."""
    before = np.minimum.accumulate(y)[:-1]
    progress = np.flatnonzero(y[1:] < before - PROGRESS)
    last = int(progress[-1]) + 1 if len(progress) else 0
    return max(len(y) - 1 - max(last, initial - 1), 0)


def doubt(stall: int, largest: float) -> float:
    """By what standard deviations are multiplied: 1 at first, doubled by each PATIENCE results of a stall."""
    return 2.0 ** min(stall / PATIENCE, math.log2(largest))


def doubted(posterior: Posterior, factor: float) -> Posterior:
    """The same process with standard deviations `factor` times as large, and the same means."""
    other = copy.copy(posterior)
    other.parameters = replace(posterior.parameters, s2=posterior.parameters.s2 * factor**2)
    return other


def unlearned(posterior: Posterior) -> Posterior:
    """The process given the same observations with parameters that the data did not choose, their noise apart."""
    return Posterior(posterior.likelihood, posterior.points, posterior.likelihood.unlearned(posterior.eta))


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
    acquisition: Acquisition,
    incumbent: NDArray[np.float64],
    known: NDArray[np.float64],
    settings: SearchSettings,
    rng: np.random.Generator,
) -> Points:
    """Feasible points near the incumbent x [D + P] in which every variable with unseen values has one; best EI first.

    None where no value is unseen. Far from the incumbent in many variables at once, one trial tells of them all.
    """
    space, D = acquisition.space, len(acquisition.space.continuous)
    values = unseen(space, known)
    if not any(len(vertices) for vertices in values):
        return Points.of(space, np.empty((0, len(space))))
    X = _around(space, incumbent, settings.random_points, FAR, rng)
    for p, vertices in enumerate(values):
        if len(vertices):
            X[:, D + p] = rng.choice(vertices, size=len(X))
    points = Points.of(space, X[space.feasible(X)])
    return points.at(acquisition(points).argsort(descending=True, stable=True)) if len(points) else points


def refined(
    acquisition: Acquisition,
    incumbent: NDArray[np.float64],
    known: NDArray[np.float64],
    settings: SearchSettings,
    rng: np.random.Generator,
) -> Points:
    """New points with the incumbent's vertices whose EI is WORTH trying, the best first; there may be none."""
    space, D = acquisition.space, len(acquisition.space.continuous)
    if D == 0:
        return Points.of(space, np.empty((0, len(space))))
    anywhere = np.tile(incumbent, (settings.random_points // 2, 1))
    anywhere[:, :D] = rng.random((len(anywhere), D))
    X = np.concatenate([_around(space, incumbent, settings.spray_points, NEAR, rng), anywhere])
    points = Points.of(space, X[space.feasible(X)])
    fixed = Acquisition(space, acquisition.posterior, acquisition.best, moves=False)
    starts = points.at(fixed(points).topk(min(settings.starts, len(points))).indices)
    found, value = alternate(fixed, starts, settings)
    new = np.abs(found.encoded(space)[:, None] - known[None]).max(axis=2).min(axis=1) > SAME
    return found.at((value > math.log(WORTH)) & torch.from_numpy(new))


def _around(
    space: Space, incumbent: NDArray[np.float64], count: int, jitter: tuple[float, ...], rng: np.random.Generator
) -> NDArray[np.float64]:
    """Points [count, D + P] with the incumbent's vertices, their continuous parts jittered."""
    D = len(space.continuous)
    X = np.tile(incumbent, (count, 1))
    scale = rng.choice(jitter, size=(count, 1))
    X[:, :D] = (X[:, :D] + scale * rng.standard_normal((count, D))).clip(0.0, 1.0)
    return X
