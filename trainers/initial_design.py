"""The ten random points that the BO-FM paper's runs start from, for comparisons paired with its published runs.

Their recipe, for run number `seed`: one seed per variable from RandomState(seed), continuous variables first, discrete
ones in the order of the space; then each variable is drawn by itself, uniformly (a log-scaled one on its logarithm),
and rounded to float32. It reproduces their designs of func2c, func3c, ackley5c and the joint problem.
"""

import math

import numpy as np
from numpy.typing import NDArray

from fmnas.search_spaces import Configuration, Real, Space, joint_space
from fmnas.search_spaces.variables import Value
from fmnas.trainers.errors import TrainerError
from fmnas.trainers.synthetic import SYNTHETIC_PROBLEMS

SIZE = 10
JOINT = "joint"
KNOWN = (JOINT, "func2c", "func3c", "ackley5c")
"""The problems for which the authors' points are known, and met exactly."""


def authors_initial_design(problem: str, seed: int, count: int = SIZE) -> list[Configuration]:
    """The authors' initial points of one of `KNOWN`; their runs have the seeds 0, 1, 2, ... and 10 points each.

    More points continue the list, fewer are its beginning.
    Raises TrainerError for another problem, or a count below 1.
    """
    if problem not in KNOWN:
        raise TrainerError(f"problem {problem!r}: the authors' initial design is known for {list(KNOWN)}")
    if count < 1:
        raise TrainerError(f"count = {count}: an initial design needs at least 1 point")
    space = joint_space() if problem == JOINT else SYNTHETIC_PROBLEMS[problem].space
    return _design(space, seed, count)


def _design(space: Space, seed: int, count: int) -> list[Configuration]:
    names = [v.name for v in space.continuous] + [v.name for v in space.discrete]
    seeds = np.random.RandomState(seed).randint(0, 2**31 - 2, size=len(names))
    rngs = {name: np.random.RandomState(own) for name, own in zip(names, seeds, strict=True)}
    columns: dict[str, list[Value]] = {v.name: _reals(v, rngs[v.name], count) for v in space.continuous}
    for variable in space.discrete:
        numbers = rngs[variable.name].randint(0, len(variable.vertices), size=count)
        columns[variable.name] = [variable.vertices[int(i)] for i in numbers]
    return [{name: columns[name][i] for name in space.names} for i in range(count)]


def _reals(variable: Real, rng: np.random.RandomState, count: int) -> list[Value]:
    """`count` draws; rounding to float32 may leave the bounds, so they are clipped."""
    low, high = (math.log(variable.low), math.log(variable.high)) if variable.log else (variable.low, variable.high)
    drawn: NDArray[np.float32] = rng.uniform(low, high, count).astype(np.float32)
    values = [math.exp(value) if variable.log else value for value in drawn.tolist()]
    return [min(max(value, variable.low), variable.high) for value in values]
