"""Kernels of two numbers of a pair: how far apart its continuous parts are, and how much its vertices have in common.

    class Mine(PairKernel):
        parameters = (Parameter("theta", 1, (1e-2, 1e2), Uniform(0.1, 1.0)),)

        def r(self, x2, a, values):
            return (matern52(x2 / values["theta"].square()) + a) / 2.0

    Mine(overlap_tables(space))

are those with one length scale for all continuous variables, and none for a discrete one. Both numbers of a pair are
worked out once, whatever the parameters, and torch differentiates the formula between numbers alone: that costs a fit
far less than an `AutogradKernel` of the same formula.

| symbol | shape | meaning |
|---|---|---|
| x2 | [M] or [m, n] | squared distance of the continuous parts, in unit-cube lengths |
| a | as x2 | what the vertices have in common: over all discrete variables, the sum of its table's T[v, v'] |
| T | [K, K] | the tables of all discrete variables, along its diagonal |
| n, m, K, M, B | | as in kernel.py |
"""

from abc import abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from fmnas.optimizers.gp.autograd_kernel import DifferentiatedPairs
from fmnas.optimizers.gp.kernel import ByPosition, Correlation, Kernel, VertexCache, pair_indices, slopes_of
from fmnas.optimizers.gp.parameters import Values
from fmnas.optimizers.gp.points import Points
from fmnas.search_spaces import Space


class PairKernel(Kernel):
    """A kernel on the space of its tables; a subclass has `parameters`, each of size 1, and `r`.

    tables: of each discrete variable [V_p, V_p], symmetric. None: every point is on the same vertex,
    and a is 0.
    """

    def __init__(self, tables: Sequence[Tensor]) -> None:
        tables = list(tables) or [torch.zeros(1, 1, dtype=torch.float64)]
        sizes = torch.tensor([len(table) for table in tables])
        self.T = torch.block_diag(*tables)
        self.variable = torch.arange(len(sizes)).repeat_interleave(sizes)  # [K]
        self._first = sizes.cumsum(0) - sizes

    @abstractmethod
    def r(self, x2: Tensor, a: Tensor, values: Values) -> Tensor:
        """Correlations of pairs, number by number; values: name -> [B, 1] or [1], to be broadcast with x2 and a."""

    def rows(self, V: Tensor) -> Tensor:
        """Which rows of T the vertices V [m, P] are [m, P]."""
        return V + self._first

    def one_hot(self, V: Tensor) -> Tensor:
        """1 in each row of T that is one of the vertices V [m, P], 0 in the others [m, K]."""
        return torch.zeros(len(V), len(self.T), dtype=torch.float64).scatter_(1, self.rows(V), 1.0)

    def pairs(self, points: Points) -> "PairKernelPairs":
        return PairKernelPairs(self, points)

    def given(self, values: Values, points: Points) -> "PairCorrelation":
        return PairCorrelation(self, values, points)


class PairKernelPairs(DifferentiatedPairs):
    """The pairs of some points: x2 [M] and a [M]."""

    def __init__(self, kernel: PairKernel, points: Points) -> None:
        super().__init__(kernel)
        self._kernel = kernel
        i, j = pair_indices(len(points))
        self._x2 = (points.C[i] - points.C[j]).square().sum(-1)
        H = kernel.one_hot(points.V)
        self._a = (H @ kernel.T @ H.T)[i, j]

    def _of(self, values: Values) -> Tensor:
        B = len(next(iter(values.values())))
        return self._kernel.r(self._x2, self._a, values).expand(B, len(self._x2))


class PairCorrelation(Correlation):
    """Correlations with n points under one set of parameters."""

    def __init__(self, kernel: PairKernel, values: Values, points: Points) -> None:
        self.kernel, self.values, self.points = kernel, values, points
        self._TH = kernel.T @ kernel.one_hot(points.V).T  # [K, n]

    def on(self, V: Tensor) -> "PairVertexCache":
        H = self.kernel.one_hot(V)
        return PairVertexCache(self, H @ self._TH, self.own(H @ self.kernel.T.diagonal()))

    def neighbours(self, points: Points) -> tuple[Tensor, Tensor]:
        kernel, H, diagonal = self.kernel, self.kernel.one_hot(points.V), self.kernel.T.diagonal()
        left = kernel.rows(points.V)[:, kernel.variable]  # [m, K]
        a = (H @ self._TH)[:, None] - self._TH[left] + self._TH
        own = (H @ diagonal)[:, None] - diagonal[left] + diagonal
        with torch.no_grad():
            r = kernel.r(self.squared_distance(points.C)[:, None], a, self.values)
        return r, self.own(own)

    def squared_distance(self, C: Tensor) -> Tensor:
        """x2 [m, n] from continuous parts C [m, D]."""
        return torch.cdist(C, self.points.C, compute_mode="donot_use_mm_for_euclid_dist").square_()

    def own(self, a: Tensor) -> Tensor:
        """r [...] of points with themselves."""
        with torch.no_grad():
            return self.kernel.r(torch.zeros_like(a), a, self.values)


class PairVertexCache(VertexCache):
    """Points on given vertices: a [m, n], and their own r [m], which does not depend on C."""

    def __init__(self, given: PairCorrelation, a: Tensor, own: Tensor) -> None:
        self._given, self._a, self._own = given, a, own

    def correlation(self, C: Tensor) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            return self._of(self._given.squared_distance(C)), self._own

    def with_pullback(self, C: Tensor) -> tuple[Tensor, Tensor, ByPosition]:
        given = self._given
        with torch.enable_grad():
            x2 = given.squared_distance(C).requires_grad_()
            r = self._of(x2)

        def pullback(by_r: Tensor, by_own: Tensor) -> Tensor:
            (pulled,) = slopes_of(r, by_r, [x2])  # [m, n], number by number
            return 2.0 * (pulled.sum(-1, keepdim=True) * C - pulled @ given.points.C)

        return r.detach(), self._own, pullback

    def _of(self, x2: Tensor) -> Tensor:
        return self._given.kernel.r(x2, self._a, self._given.values)


def overlap_tables(space: Space) -> list[Tensor]:
    """The tables of which a is the share of discrete variables in which two points agree."""
    P = len(space.discrete)
    return [torch.eye(len(variable.vertices), dtype=torch.float64) / P for variable in space.discrete]
