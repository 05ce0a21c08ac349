"""Data of a model: encoded configurations, split into a continuous part and vertices, and objectives."""

from dataclasses import dataclass

import numpy as np
import torch
from scipy.spatial.distance import cdist
from torch import Tensor

from fmnas.search_spaces import Space
from fmnas.search_spaces.variables import Floats

DUPLICATE_TOLERANCE = 1e-9  # encoded points closer than this in every column are equal
EQUAL = 1e-12  # largest range of equal objectives; relative to the largest objective if all are below 1
SPRAY_SCALES = (0.1, 0.01, 0.001)  # standard deviations around the incumbent, in unit-cube lengths


@dataclass(frozen=True)
class Points:
    """Encoded configurations split into C [n, D] and V [n, max(P, 1)]."""

    C: Tensor
    V: Tensor

    @classmethod
    def from_encoded(cls, space: Space, X: Floats) -> "Points":
        """Split an encoding X [n, D + P]; without discrete variables every point has the vertex 0."""
        D = len(space.continuous)
        vertices = X[:, D:] if space.discrete else np.zeros((len(X), 1))
        return cls(torch.from_numpy(np.ascontiguousarray(X[:, :D])), torch.from_numpy(vertices.astype(np.int64)))

    def to_encoded(self, space: Space) -> Floats:
        """Return the encoding X [n, D + P]."""
        vertices = self.V.numpy() if space.discrete else np.empty((len(self), 0))
        return np.concatenate([self.C.numpy(), vertices], axis=1)

    def select(self, rows: Tensor | slice) -> "Points":
        """Return a subset of the points by indices or a mask."""
        return Points(self.C[rows], self.V[rows])

    def concat(self, more: "Points") -> "Points":
        """Return these points, followed by more points."""
        return Points(torch.cat([self.C, more.C]), torch.cat([self.V, more.V]))

    def __len__(self) -> int:
        return len(self.C)


def numbered_vertices(space: Space) -> tuple[Tensor, Tensor]:
    """Return (variable [K], vertex [K]) of all vertices of a space, ordered by variable."""
    sizes = [len(variable.vertices) for variable in space.discrete]
    pairs = [(p, vertex) for p, size in enumerate(sizes) for vertex in range(size)]
    variable, vertex = torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).T.contiguous()
    return variable, vertex


def is_new(X: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Return which points X [m, D + P] differ from all known points [n, D + P]: booleans [m]."""
    distance = cdist(X, known.reshape(-1, X.shape[1]), "chebyshev")  # an array of all differences may take gigabytes
    return np.asarray(distance.min(axis=1, initial=np.inf) > DUPLICATE_TOLERANCE)


def sample_new(space: Space, known: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw a random point [D + P] that differs from all known points [n, D + P]; any point after 100 draws."""
    for _ in range(100):
        x = space.sample_encoded(rng, 1)[0]
        if is_new(x[None], known).all():
            break
    return x


def sample_near(space: Space, incumbent: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Draw points [count, D + P] around the incumbent.

    The continuous part is jittered by a normal whose scale is drawn per point; every second point also moves along one
    edge of one graph.
    """
    D = len(space.continuous)
    X = np.tile(incumbent, (count, 1))
    scale = rng.choice(SPRAY_SCALES, size=(count, 1))
    X[:, :D] = (X[:, :D] + scale * rng.standard_normal((count, D))).clip(0.0, 1.0)
    for row in X[::2] if space.discrete else ():
        p = int(rng.integers(len(space.discrete)))
        row[D + p] = rng.choice(space.discrete[p].neighbours[int(row[D + p])])
    return X


def unfittable_reason(y: Floats) -> str:
    """Return why no model can be fitted to y [n]; empty if one can."""
    if len(y) < 2:
        return "fewer than two results to model"
    if np.ptp(y) <= EQUAL * min(1.0, np.abs(y).max()):
        return "all results are equal: nothing to model"
    return ""


def standardise(y: Floats) -> Floats:
    """Return y [n] with mean 0 and standard deviation 1 (ddof 1)."""
    return np.asarray((y - y.mean()) / y.std(ddof=1))
