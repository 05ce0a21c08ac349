"""The part of a space that is searched: a box, fixed variables, a Hamming ball, and the constraints of the space.

| symbol | shape | meaning |
|---|---|---|
| C, V | [m, D], [m, P] | continuous parts and vertices of points |
| K | | vertices of all discrete variables together, ordered by variable |
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fmnas.optimizers.gp.bfgs import Box
from fmnas.optimizers.gp.points import Points, numbered_vertices
from fmnas.search_spaces import Space


@dataclass(frozen=True)
class HammingBall:
    """Vertices that differ from a centre [P] in at most `radius` variables."""

    centre: Tensor
    radius: int

    def distance(self, V: Tensor) -> Tensor:
        """Return the number of variables in which V [m, P] differ from the centre [m]."""
        return (self.centre != V).sum(-1)


class Region:
    """A part of a space.

    box: bounds of the continuous part; None: the unit cube. fixed: vertices of discrete variables by variable number.
    ball: bound of the vertices; its centre has those of `fixed`.
    """

    def __init__(
        self,
        space: Space,
        *,
        box: Box | None = None,
        fixed: Mapping[int, int] | None = None,
        ball: HammingBall | None = None,
    ) -> None:
        self.space, self.fixed, self.ball = space, dict(fixed or {}), ball
        self._is_whole_space = box is None and not self.fixed and ball is None
        zeros = torch.zeros(len(space.continuous), dtype=torch.float64)
        self.box = box or Box(zeros, zeros + 1.0)
        self.variable, self.vertex = numbered_vertices(space)  # [K] each

    @property
    def has_moves(self) -> bool:
        """Whether any vertex can change."""
        return len(self.fixed) < len(self.space.discrete) and (self.ball is None or self.ball.radius > 0)

    def feasible(self, points: Points) -> Tensor:
        """Return whether the space's constraints hold [m], by the rule for suggestions."""
        if not self.space.constraints:
            return torch.ones(len(points), dtype=torch.bool)
        return torch.from_numpy(self.space.feasible(points.to_encoded(self.space), strictly=True))

    def contains(self, points: Points) -> Tensor:
        """Return which points are in the region [m]."""
        inside = ((self.box.lower <= points.C) & (self.box.upper >= points.C)).all(-1)
        for p, vertex in self.fixed.items():
            inside &= points.V[:, p] == vertex
        if self.ball is not None:
            inside &= self.ball.distance(points.V) <= self.ball.radius
        return inside & self.feasible(points)

    def neighbours(self, points: Points) -> Tensor:
        """Return to which of the K vertices a point can move [m, K]: an edge away, and in the region."""
        columns = enumerate(zip(self.space.discrete, points.V.T.numpy(), strict=True))
        edges = torch.from_numpy(np.hstack([v.adjacency[V] * (p not in self.fixed) for p, (v, V) in columns]) > 0.0)
        if self.ball is not None:
            centre = self.ball.centre
            old = (centre != points.V)[:, self.variable].long()
            new = (self.vertex != centre[self.variable]).long()  # after the move
            edges &= self.ball.distance(points.V)[:, None] - old + new <= self.ball.radius
        if self.space.constraints:
            start, k = edges.nonzero(as_tuple=True)
            V = points.V[start]
            V[torch.arange(len(k)), self.variable[k]] = self.vertex[k]
            edges[start, k] = self.feasible(Points(points.C[start], V))
        return edges

    def sample(self, rng: np.random.Generator, count: int) -> Points:
        """Draw points [count] in the region, uniform except in a ball: a uniform number of variables, 0 to `radius`, of
        its centre is drawn again.

        Raises SpaceError if almost nothing of the region is feasible, as `Space.reject_infeasible`.
        """
        space = self.space
        if self._is_whole_space:
            return Points.from_encoded(space, space.sample_encoded(rng, count))
        return Points.from_encoded(
            space, space.reject_infeasible(lambda number: self._draw(rng, number).to_encoded(space), count)
        )

    def _draw(self, rng: np.random.Generator, count: int) -> Points:
        """Draw points [count] in the region, without regard to constraints."""
        u = torch.from_numpy(rng.random((count, len(self.space.continuous))))
        C = self.box.lower + u * (self.box.upper - self.box.lower)
        sizes = [len(variable.vertices) for variable in self.space.discrete]
        V = torch.from_numpy(np.stack([rng.integers(size, size=count) for size in sizes or [1]], axis=1))
        for p, vertex in self.fixed.items():
            V[:, p] = vertex
        if self.ball is not None:
            farthest = min(self.ball.radius, len(sizes))
            rank = torch.from_numpy(rng.random(V.shape)).argsort(1).argsort(1)
            moved = rank < torch.from_numpy(rng.integers(farthest + 1, size=(count, 1)))
            V = torch.where(moved, V, self.ball.centre)
        return Points(C, V)
