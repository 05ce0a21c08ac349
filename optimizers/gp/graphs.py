"""The graph of a discrete variable: its eigenspaces, or, of a long path, the closed form of its factor.

The factor of two vertices is S = sum_e M_e f(b mu_e, u) (frequency_modulation.py). For the regularised Laplacian,
f = 1 / (u + b mu), S is an entry of the inverse of u I + b L. On a path that matrix is tridiagonal, and of vertices
i >= j, from 0,

    S = x (1 + y)(1 + z) / (2 b sinh(t) (1 - exp(-2 V t))),    cosh t = 1 + u / 2b,
    x = exp(-t (i - j)),  y = exp(-t (2 (V - 1 - i) + 1)),  z = exp(-t (2 j + 1)).

It solves -b S_{i-1} + (u + 2b) S_i - b S_{i+1} = [i = j]; y and z are reflections at the ends. Its cost does not grow
with V.

| symbol | shape | meaning |
|---|---|---|
| V | | number of vertices |
| mu | [E] | distinct eigenvalues of the Laplacian L |
| M_e | [V, V] | projector onto the eigenspace of mu_e |
| lengths | [..., 3, ...] | of a pair of vertices of a path: the factors of -t in x, y and z |
| b, u | | scale of the Laplacian; 1 + alpha d2 |
"""

import numpy as np
import torch
from torch import Tensor

from fmnas.search_spaces.variables import Discrete, Floats

LONG = 16
"""Shorter paths are summed over their eigenvalues, which takes as long."""


class Eigenspaces:
    """A graph's distinct Laplacian eigenvalues mu [E] and the projectors M [E, V, V] onto their eigenspaces.

    If all eigenspaces have one dimension, as for a path, only the eigenvectors U [V, V] are kept: M would take V^3
    numbers. vertices: V. multiplicities: dimensions of the eigenspaces [E].
    """

    def __init__(self, eigenvalues: Floats, eigenvectors: Floats) -> None:
        """Eigenvalues closer than 1e-8 are merged."""
        first = np.concatenate([[True], np.diff(eigenvalues) > 1e-8])
        self.mu, self.vertices = torch.tensor(eigenvalues[first]), len(eigenvectors)
        self._U = torch.tensor(eigenvectors)
        self._M: Tensor | None = None
        if first.all():
            # Each trace is 1 up to the rounding error of a projector's trace, on which recorded suggestions depend. The
            # summand has the strides of a projector's diagonal, and thus the same order of summation.
            trace = torch.zeros_like(self._U).diagonal()
            self.multiplicities = torch.stack([trace.copy_(u * u).sum() for u in self._U.T])
        else:
            members = [eigenvectors[:, np.cumsum(first) - 1 == e] for e in range(len(self.mu))]
            self._M = torch.tensor(np.stack([U @ U.T for U in members]))
            self.multiplicities = torch.einsum("evv->e", self._M)

    def entries(self, v1: Tensor, v2: Tensor) -> Tensor:
        """Return M_e[v1, v2] of pairs of vertices [M]: [E, M]."""
        return (self._U[v1] * self._U[v2]).T if self._M is None else self._M[:, v1, v2]

    def columns(self, v: Tensor) -> Tensor:
        """Return M_e[:, v] of vertices v [n]: [E, V, n]."""
        return (self._U[:, None] * self._U[v]).permute(2, 0, 1) if self._M is None else self._M[:, :, v]

    def diagonal(self, f: Tensor) -> Tensor:
        """Return the sum over e of f_e M_e[v, v], f [E]: [V]."""
        if self._M is None:
            return torch.einsum("ve,e->v", self._U * self._U, f)
        return torch.einsum("evv,e->v", self._M, f)


def is_long_path(variable: Discrete) -> bool:
    """Whether the graph of a variable is a path of LONG vertices or more, in their order."""
    V = len(variable.vertices)
    return V >= LONG and np.array_equal(variable.adjacency, np.eye(V, k=1) + np.eye(V, k=-1))


class LongPath(Eigenspaces):
    """The graph of a long path; what is stored of a pair of vertices is its three lengths."""

    def entries(self, v1: Tensor, v2: Tensor) -> Tensor:
        """Return the lengths of pairs of vertices [M]: [3, M]."""
        first, last = torch.minimum(v1, v2), torch.maximum(v1, v2)
        return torch.stack([last - first, 2 * (self.vertices - last) - 1, 2 * first + 1]).double()

    def columns(self, v: Tensor) -> Tensor:
        """Return the lengths between all vertices and v [n]: [3, V, n]."""
        every = torch.arange(self.vertices)
        return self.entries(every[:, None].expand(-1, len(v)), v.expand(self.vertices, -1))


def path_factor(V: int, lengths: Tensor, b: Tensor, u: Tensor) -> Tensor:
    """Return S; lengths [..., 3, ...] along dimension 2, b and u broadcast to the rest."""
    t, sinh, _ = _angle(b, u)
    x, y, z = (lengths * -t.unsqueeze(2)).exp_().unbind(2)
    return x.mul_(y.add_(1.0)).mul_(z.add_(1.0)).div_(_denominator(V, b, t, sinh)).clamp_(min=1e-300)


def path_factor_and_decay(V: int, lengths: Tensor, b: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
    """Return S and -dS/du."""
    t, sinh, cosh = _angle(b, u)
    x, y, z = (lengths * -t.unsqueeze(2)).exp_().unbind(2)
    x_length, y_length, z_length = lengths.unbind(2)
    S = x * (1.0 + y) * (1.0 + z) / _denominator(V, b, t, sinh)
    reflections = y_length * y / (1.0 + y) + z_length * z / (1.0 + z) + 2 * V / torch.expm1(2 * V * t)
    by_t = x_length + reflections + cosh / sinh  # -d log S / dt
    return S, S * by_t / (2.0 * b * sinh)


def _angle(b: Tensor, u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return t, sinh t and cosh t."""
    above = u / (2.0 * b)  # cosh t - 1
    sinh = (above * (above + 2.0)).sqrt_()
    return torch.log1p(above + sinh), sinh, above + 1.0


def _denominator(V: int, b: Tensor, t: Tensor, sinh: Tensor) -> Tensor:
    return torch.expm1(-2 * V * t).mul_(sinh).mul_(-2.0 * b)
