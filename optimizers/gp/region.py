"""Where a search may go: a box, variables that are held, a Hamming ball, and the constraints of the space.

| symbol | shape | meaning |
|---|---|---|
| C, V | [m, D], [m, P] | continuous parts and vertices of points |
| K | | vertices of all discrete variables together, variable by variable |
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
    """Vertices that differ from a centre [P] in `radius` variables at most."""

    centre: Tensor
    radius: int

    def distance(self, V: Tensor) -> Tensor:
        """In how many variables V [m, P] differ from the centre [m]."""
        return (self.centre != V).sum(-1)


class Region:
    """A part of a space.

    box: bounds of the continuous part; None: the unit cube. held: discrete variables (numbers from 0) and the vertex
    that each keeps. ball: as far as vertices may move.
    """

    def __init__(
        self,
        space: Space,
        *,
        box: Box | None = None,
        held: Mapping[int, int] | None = None,
        ball: HammingBall | None = None,
    ) -> None:
        self.space, self.held, self.ball = space, dict(held or {}), ball
        self._whole = box is None and not self.held and ball is None
        zeros = torch.zeros(len(space.continuous), dtype=torch.float64)
        self.box = box or Box(zeros, zeros + 1.0)
        self.variable, self.vertex = numbered_vertices(space)  # [K] each
        self._adjacency = [
            torch.tensor(variable.adjacency, dtype=torch.bool) & (p not in self.held)
            for p, variable in enumerate(space.discrete)
        ]

    @property
    def moves(self) -> bool:
        """Whether any vertex may move."""
        return len(self.held) < len(self._adjacency) and (self.ball is None or self.ball.radius > 0)

    def feasible(self, points: Points) -> Tensor:
        """Whether the space's constraints hold, as they must of a suggestion [m]."""
        if not self.space.constraints:
            return torch.ones(len(points), dtype=torch.bool)
        return torch.from_numpy(self.space.feasible(points.encoded(self.space), strictly=True))

    def contains(self, points: Points) -> Tensor:
        """Which points are in it [m]."""
        inside = ((self.box.lower <= points.C) & (self.box.upper >= points.C)).all(-1)
        for p, vertex in self.held.items():
            inside &= points.V[:, p] == vertex
        if self.ball is not None:
            inside &= self.ball.distance(points.V) <= self.ball.radius
        return inside & self.feasible(points)

    def neighbours(self, points: Points) -> Tensor:
        """Which of the K vertices of all variables [m, K] a point may move to: an edge away, and in the region."""
        edges = torch.cat([edge[points.V[:, p]] for p, edge in enumerate(self._adjacency)], 1)
        if self.ball is not None:
            centre = self.ball.centre
            here = (centre != points.V)[:, self.variable].long()
            there = (self.vertex != centre[self.variable]).long()  # once a variable has another vertex
            edges &= self.ball.distance(points.V)[:, None] - here + there <= self.ball.radius
        if self.space.constraints:
            start, k = edges.nonzero(as_tuple=True)
            V = points.V[start]
            V[torch.arange(len(k)), self.variable[k]] = self.vertex[k]
            edges[start, k] = self.feasible(Points(points.C[start], V))
        return edges

    def sample(self, rng: np.random.Generator, count: int) -> Points:
        """Random points [count], all in the region, uniform but for a ball: its centre, with 0 to `radius` variables
        drawn anew, their number uniform.

        Raises SpaceError where next to nothing of the region is feasible, as `Space.feasible_of`.
        """
        space = self.space
        if self._whole:
            return Points.of(space, space.sample_encoded(rng, count))
        return Points.of(space, space.feasible_of(lambda number: self._draw(rng, number).encoded(space), count))

    def _draw(self, rng: np.random.Generator, count: int) -> Points:
        """Points [count] in all of it but for the constraints."""
        u = torch.from_numpy(rng.random((count, len(self.space.continuous))))
        C = self.box.lower + u * (self.box.upper - self.box.lower)
        sizes = [len(variable.vertices) for variable in self.space.discrete]
        V = torch.from_numpy(np.stack([rng.integers(size, size=count) for size in sizes or [1]], axis=1))
        for p, vertex in self.held.items():
            V[:, p] = vertex
        if self.ball is not None:
            farthest = min(self.ball.radius, len(sizes))
            rank = torch.from_numpy(rng.random(V.shape)).argsort(1).argsort(1)
            moved = rank < torch.from_numpy(rng.integers(farthest + 1, size=(count, 1)))
            V = torch.where(moved, V, self.ball.centre)
        return Points(C, V)
