"""The kernel of BODi: a Matern-5/2 of the shares of variables in which a point equals each anchor of a dictionary.

| symbol | shape | meaning |
|---|---|---|
| A | | anchors |
| F | A + D | columns: the shares, then the continuous variables in the unit cube |
| K, M, B, n, m | | as in optimizers/gp/kernel.py |
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from fmnas.optimizers.gp.kernel import (
    ROOT_GUARD,
    ByParameters,
    ByPosition,
    ConditionedKernel,
    Kernel,
    Pairs,
    matern52,
    pair_indices,
)
from fmnas.optimizers.gp.parameters import Constant, Parameter, Values
from fmnas.optimizers.gp.points import Points, numbered_vertices
from fmnas.search_spaces import Space

START = math.log(2.0)
"""Every lengthscale begins at softplus(0)."""


def draw_anchors(sizes: Sequence[int], count: int, rng: np.random.Generator) -> Tensor:
    """Draw anchors [count, P] of discrete variables with these numbers of values.

    Three or more binary variables and no others: k of them are 1, k uniform from 1 to P - 2. Otherwise each anchor
    draws its values from its own distribution over value numbers, which is uniform on the simplex.
    """
    P, largest = len(sizes), max(sizes, default=1)
    if largest == 2 and P > 2:
        ones = rng.integers(1, P - 1, size=(count, 1))
        return torch.from_numpy((rng.random((count, P)).argsort(1) < ones).astype(np.int64))
    anchors = np.zeros((count, P), dtype=np.int64)
    for row in anchors:
        shares = rng.dirichlet(np.ones(largest))
        for p, size in enumerate(sizes):
            kept = shares if size == largest else rng.permutation(shares)[:size]
            row[p] = rng.choice(size, p=kept / kept.sum())
    return torch.from_numpy(anchors)


def draw_wavelet_anchors(P: int, count: int, rng: np.random.Generator) -> Tensor:
    """Draw anchors [at most count, P] of P binary variables: distinct columns of the wavelet matrix, in its order.

    An odd P has a variable before them that is 1 in every anchor.
    """
    W = wavelet_matrix(P - P % 2)
    columns = np.sort(rng.permutation(len(W))[:count])
    return torch.cat([torch.ones(len(columns), P % 2, dtype=torch.int64), W[:, columns].T], dim=1)


def wavelet_matrix(size: int) -> Tensor:
    """Return the binary wavelet matrix [size, size] for an even size (Swanson and Tewfik 1996).

    Its last two rows and columns alternate; the rest is 1, and the complement of the matrix of size - 4.
    """
    W = torch.ones(size, size, dtype=torch.int64)
    W[1::2, -2:], W[-2:, 1::2] = 0, 0
    W[-2:, -2:] = torch.tensor([[1, 1], [1, 0]])
    if size > 4:
        W[2:-2, 2:-2] = 1 - wavelet_matrix(size - 4)
    return W


class DictionaryKernel(Kernel):
    """The Matern-5/2 of embedded points. anchors: [A, P]."""

    def __init__(self, space: Space, anchors: Tensor) -> None:
        self.space, self.anchors = space, anchors
        variable, vertex = numbered_vertices(space)
        self.variable = variable
        share = 1.0 / max(1, len(space.discrete))
        columns = vertex[:, None] == anchors[:, variable].T if len(space.discrete) else torch.zeros(0, len(anchors))
        self.shares = share * columns.double()  # [K, A]: what each vertex adds
        first = torch.tensor([len(v.vertices) for v in space.discrete], dtype=torch.int64)
        self._first = first.cumsum(0) - first
        size = len(anchors) + len(space.continuous)
        self.parameters = (Parameter("theta", size, (5e-3, 1e3), Constant(START)),)

    def rows(self, V: Tensor) -> Tensor:
        """Return the number of each vertex V [m, P] among all K: [m, P]."""
        return V[:, : len(self._first)] + self._first

    def embed(self, V: Tensor) -> Tensor:
        """Return the share of variables in which V [m, P] equals each anchor: [m, A]."""
        return self.shares[self.rows(V)].sum(1)

    def features(self, points: Points) -> Tensor:
        """Return the columns of points [m, F]."""
        return torch.cat([self.embed(points.V), points.C], 1)

    def pairs(self, points: Points) -> "DictionaryPairs":
        i, j = pair_indices(len(points))
        X = self.features(points)
        return DictionaryPairs((X[i] - X[j]).square())

    def condition_on(self, values: Values, points: Points) -> "DictionaryConditioned":
        return DictionaryConditioned(self, values["theta"], points)


class DictionaryPairs(Pairs):
    """Pairs with squared differences [M, F] in each column."""

    def __init__(self, squared: Tensor) -> None:
        self._squared = squared

    def correlation(self, values: Values) -> Tensor:
        return matern52(values["theta"].square().reciprocal() @ self._squared.T)

    def with_pullback(self, values: Values) -> tuple[Tensor, ByParameters]:
        weights = values["theta"].square().reciprocal()  # [B, F]
        d2 = weights @ self._squared.T

        def pullback(by_r: Tensor) -> Tensor:
            return -2.0 * weights * ((by_r * matern52_slope(d2)) @ self._squared)

        return matern52(d2), pullback


class DictionaryConditioned(ConditionedKernel[Tensor]):
    """Correlations with n points under lengthscales theta [F]."""

    def __init__(self, kernel: DictionaryKernel, theta: Tensor, points: Points) -> None:
        self._kernel = kernel
        self._by_anchor, self._by_variable = theta.split([len(kernel.anchors), theta.numel() - len(kernel.anchors)])
        self._embedded = kernel.embed(points.V) / self._by_anchor
        self._C = points.C / self._by_variable

    def precompute(self, V: Tensor) -> Tensor:
        """Return the part of the squared distances that the vertices V contribute [m, n]."""
        return squared_distances(self._kernel.embed(V) / self._by_anchor, self._embedded)

    def correlate(self, points: Points) -> tuple[Tensor, Tensor]:
        d2 = self.precompute(points.V) + squared_distances(points.C / self._by_variable, self._C)
        return matern52(d2), _ones(len(d2))

    def with_pullback(self, C: Tensor, precomputed: Tensor) -> tuple[Tensor, Tensor, ByPosition]:
        scaled = C / self._by_variable
        d2 = precomputed + squared_distances(scaled, self._C)

        def pullback(by_r: Tensor, by_own: Tensor) -> Tensor:
            slopes = 2.0 * by_r * matern52_slope(d2)
            return (slopes.sum(1, keepdim=True) * scaled - slopes @ self._C) / self._by_variable

        return matern52(d2), _ones(len(C)), pullback

    def neighbours(self, points: Points) -> tuple[Tensor, Tensor]:
        kernel = self._kernel
        left = kernel.rows(points.V)[:, kernel.variable]  # [m, K]
        embedded = kernel.embed(points.V)[:, None] - kernel.shares[left] + kernel.shares  # [m, K, A]
        d2 = squared_distances(embedded / self._by_anchor, self._embedded)
        d2 = d2 + squared_distances(points.C / self._by_variable, self._C)[:, None]
        return matern52(d2), torch.ones(d2.shape[:2], dtype=torch.float64)


def squared_distances(X: Tensor, Y: Tensor) -> Tensor:
    """Return the squared distances of X [..., m, F] and Y [n, F]: [..., m, n]."""
    return torch.cdist(X, Y, compute_mode="donot_use_mm_for_euclid_dist").square_()


def matern52_slope(d2: Tensor) -> Tensor:
    """Return the derivative of `matern52` by d2."""
    d = (5.0 * d2 + ROOT_GUARD).sqrt()
    return (-5.0 / 6.0) * (1.0 + d) * torch.exp(-d)


def _ones(count: int) -> Tensor:
    return torch.ones(count, dtype=torch.float64)
