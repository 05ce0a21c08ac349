"""What a model is given: encoded configurations, the continuous part and the vertices apart, and their objectives."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fmnas.search_spaces import Space
from fmnas.search_spaces.variables import Floats

SAME_POINT = 1e-9  # encoded points nearer than this in every column are one
EQUAL = 1e-12  # objectives that span less are equal; where all are below 1, less than this share of the largest
NEAR = (0.1, 0.01, 0.001)  # jitter around the incumbent, in unit-cube lengths


@dataclass(frozen=True)
class Points:
    """Encoded configurations split into C [n, D] and V [n, max(P, 1)]."""

    C: Tensor
    V: Tensor

    @classmethod
    def of(cls, space: Space, X: Floats) -> "Points":
        """Split an encoding X [n, D + P]; without discrete variables every point is on the one vertex of a point."""
        D = len(space.continuous)
        vertices = X[:, D:] if space.discrete else np.zeros((len(X), 1))
        return cls(torch.from_numpy(np.ascontiguousarray(X[:, :D])), torch.from_numpy(vertices.astype(np.int64)))

    def encoded(self, space: Space) -> Floats:
        """The inverse of `of`: X [n, D + P]."""
        vertices = self.V.numpy() if space.discrete else np.empty((len(self), 0))
        return np.concatenate([self.C.numpy(), vertices], axis=1)

    def at(self, rows: Tensor | slice) -> "Points":
        """Some of the points, by number or by a mask."""
        return Points(self.C[rows], self.V[rows])

    def and_then(self, others: "Points") -> "Points":
        """These points, followed by others."""
        return Points(torch.cat([self.C, others.C]), torch.cat([self.V, others.V]))

    def __len__(self) -> int:
        return len(self.C)


def numbered_vertices(space: Space) -> tuple[Tensor, Tensor]:
    """(variable [K], vertex [K]) of all vertices of a space, one discrete variable after the other."""
    sizes = [len(variable.vertices) for variable in space.discrete]
    every = [(p, vertex) for p, size in enumerate(sizes) for vertex in range(size)]
    variable, vertex = torch.tensor(every, dtype=torch.int64).reshape(-1, 2).T.contiguous()
    return variable, vertex


def new_among(X: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Which of the points X [m, D + P] are none of the known ones [n, D + P]: booleans [m]."""
    distance = np.abs(X[:, None] - known[None]).max(axis=2, initial=0.0)
    return np.asarray(distance.min(axis=1, initial=np.inf) > SAME_POINT)


def spray(space: Space, incumbent: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Points [count, D + P] around the incumbent.

    Its continuous part is jittered; every second point also moves along one edge of one graph.
    """
    X = around(space, incumbent, count, NEAR, rng)
    D = len(space.continuous)
    for row in X[::2] if space.discrete else ():
        p = int(rng.integers(len(space.discrete)))
        row[D + p] = rng.choice(space.discrete[p].neighbours[int(row[D + p])])
    return X


def around(
    space: Space, incumbent: np.ndarray, count: int, jitter: tuple[float, ...], rng: np.random.Generator
) -> np.ndarray:
    """Points [count, D + P] with the incumbent's vertices and, jittered, its continuous part.

    jitter: standard deviations of a normal, one chosen for each point.
    """
    D = len(space.continuous)
    X = np.tile(incumbent, (count, 1))
    scale = rng.choice(jitter, size=(count, 1))
    X[:, :D] = (X[:, :D] + scale * rng.standard_normal((count, D))).clip(0.0, 1.0)
    return X


def nothing_to_model(y: Floats) -> str:
    """Why no model can be made of y [n]; empty where one can."""
    if len(y) < 2:
        return "fewer than two results to model"
    if np.ptp(y) <= EQUAL * min(1.0, np.abs(y).max()):
        return "all results are equal: nothing to model"
    return ""


def standardised(y: Floats) -> Floats:
    """y [n] with mean 0 and standard deviation 1 (ddof 1)."""
    return np.asarray((y - y.mean()) / y.std(ddof=1))
