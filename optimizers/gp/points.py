"""Encoded configurations as tensors: the continuous part and the vertices apart."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fmnas.search_spaces import Space


@dataclass(frozen=True)
class Points:
    """Encoded configurations split into C [n, D] and V [n, max(P, 1)]."""

    C: Tensor
    V: Tensor

    @classmethod
    def of(cls, space: Space, X: NDArray[np.float64]) -> "Points":
        """Split an encoding X [n, D + P]; without discrete variables every point is on the one vertex of a point."""
        D = len(space.continuous)
        vertices = X[:, D:] if space.discrete else np.zeros((len(X), 1))
        return cls(torch.from_numpy(np.ascontiguousarray(X[:, :D])), torch.from_numpy(vertices.astype(np.int64)))

    def encoded(self, space: Space) -> NDArray[np.float64]:
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
