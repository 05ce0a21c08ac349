"""Differential evolution (Storn and Price 1997) on the unit cube, rand1 and binomial, as DEHB's authors have it.

| symbol | shape | meaning |
|---|---|---|
| u | [D + P] | a point of the cube: D scaled reals, then P discrete variables with equal bins, in order |
| F, CR | | mutation factor, crossover probability |
"""

import numpy as np

from fmnas.search_spaces import Configuration, Space
from fmnas.search_spaces.variables import Floats

Point = tuple[float, ...]

PARENTS = 3
"""Points that a mutant is made of."""
BIN = 1.0 - 1e-9
"""Share of a bin that points are drawn in, so that rounding leaves them in it."""


class DifferentialEvolution:
    """Draws, mutates and crosses points of a space's unit cube."""

    def __init__(self, space: Space, mutation_factor: float, crossover_prob: float) -> None:
        self.space, self.F, self.CR = space, mutation_factor, crossover_prob
        self._reals = len(space.continuous)
        self._vertices = np.array([len(variable.vertices) for variable in space.discrete])

    def draw(self, count: int, rng: np.random.Generator) -> Floats:
        """Return uniform points [count, D + P] whose configurations are feasible."""
        X = self.space.sample_encoded(rng, count)
        vertices = X[:, self._reals :]
        X[:, self._reals :] = (vertices + BIN * rng.random(vertices.shape)) / self._vertices
        return X

    def decode(self, u: Point) -> Configuration:
        """Return the configuration of a point: vertex floor(n u) of a discrete variable with n of them."""
        vertices = np.minimum(np.floor(self._vertices * u[self._reals :]), self._vertices - 1)
        return self.space.decode([*u[: self._reals], *vertices])

    def mutate(self, pool: Floats, target: Point, rng: np.random.Generator) -> Floats:
        """Return a + F (b - c) [D + P] for three points of the pool [m, D + P] other than the target.

        Of a smaller pool, the missing ones are random.
        """
        if len(pool) > 1:
            same = np.flatnonzero((pool == target).all(axis=1))
            pool = np.delete(pool, same[:1], axis=0)
        if len(pool) < PARENTS:
            pool = np.concatenate([pool, self.draw(PARENTS - len(pool), rng)])
        a, b, c = rng.choice(pool, PARENTS, replace=False)
        return np.asarray(a + self.F * (b - c))

    def cross(self, target: Point, mutant: Floats, rng: np.random.Generator) -> Point:
        """Return the target with each coordinate of the mutant with probability CR, and one at least.

        Coordinates outside of the cube are drawn again.
        """
        crossed = rng.random(len(mutant)) < self.CR
        if not crossed.any():
            crossed[rng.integers(len(mutant))] = True
        child = np.where(crossed, mutant, target)
        outside = (child < 0.0) | (child > 1.0)
        child[outside] = rng.random(int(outside.sum()))
        return tuple(child.tolist())
