"""Kernels defined by a formula: torch differentiates it, and neighbouring vertices are enumerated.

    class Matern(AutogradKernel):
        parameters = (Parameter("theta", 1, (1e-2, 1e2), Uniform(0.1, 1.0), LogNormal(0.5, 1.0)),)

        def r(self, a, b, values):
            return matern52(squared_distance(a.C, b.C, values["theta"]))

It takes about ten times as long as an analytic kernel (fm_kernel.py).

A kernel with one lengthscale for all continuous variables and none for a discrete one needs only two numbers per pair:
the distance of the continuous parts, and the similarity of the vertices.

    class Mine(PairKernel):
        parameters = (Parameter("theta", 1, (1e-2, 1e2), Uniform(0.1, 1.0)),)

        def r(self, x2, a, values):
            return (matern52(x2 / values["theta"].square()) + a) / 2.0

    Mine(overlap_tables(space))

Both are computed once for all parameters, and torch differentiates an elementwise formula: a fit is much faster than
with an `AutogradKernel` of the same formula.

| symbol | shape | meaning |
|---|---|---|
| a, b | [..., D], [..., P] | points whose leading dimensions broadcast |
| x2 | [M] or [m, n] | squared distance of the continuous parts, in unit-cube lengths |
| a of a PairKernel | as x2 | similarity of the vertices: the sum of T[v, v'] over all discrete variables |
| T | [K, K] | the tables of all discrete variables, along its diagonal |
| n, m, K, M, B | | as in kernel.py |
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from fmnas.optimizers.gp.kernel import (
    ByParameters,
    ByPosition,
    ConditionedKernel,
    Kernel,
    Pairs,
    pair_indices,
    pull_back,
)
from fmnas.optimizers.gp.parameters import Values
from fmnas.optimizers.gp.points import Points, numbered_vertices
from fmnas.search_spaces import Space


class AutogradKernel(Kernel):
    """A kernel on a space; subclasses define `parameters` and `r`."""

    def __init__(self, space: Space) -> None:
        self.space = space

    @abstractmethod
    def r(self, a: Points, b: Points, values: Values) -> Tensor:
        """Return the correlations [...] of the points a with the points b, elementwise; values: name -> [size].

        Without discrete variables, every point has the vertex 0 of a graph with one vertex.
        """

    def matrix(self, a: Points, b: Points, values: Values) -> Tensor:
        """Return r [m, n] of m points with n points."""
        return self.r(Points(a.C[:, None], a.V[:, None]), Points(b.C[None], b.V[None]), values)

    def pairs(self, points: Points) -> "AutogradPairs":
        i, j = pair_indices(len(points))

        def r(values: Values) -> Tensor:  # parameter sets in sequence
            sets = [{name: value[b] for name, value in values.items()} for b in range(batch_size(values))]
            return torch.stack([self.matrix(points, points, one)[i, j] for one in sets])

        return AutogradPairs(self, r)

    def condition_on(self, values: Values, points: Points) -> "AutogradConditioned":
        return AutogradConditioned(self, values, points)


class AutogradPairs(Pairs):
    """Pairs with a differentiable formula r(values) [B, M]."""

    def __init__(self, kernel: Kernel, r: Callable[[Values], Tensor]) -> None:
        self._names, self._r = [parameter.name for parameter in kernel.parameters], r

    def correlation(self, values: Values) -> Tensor:
        with torch.no_grad():
            return self._r(values)

    def with_pullback(self, values: Values) -> tuple[Tensor, ByParameters]:
        with torch.enable_grad():
            variables = {name: value.detach().requires_grad_() for name, value in values.items()}
            r = self._r(variables)

        def pullback(by_r: Tensor) -> Tensor:
            slopes = pull_back(r, by_r, [variables[name] for name in self._names])
            logs = [slope * values[name] for name, slope in zip(self._names, slopes, strict=True)]
            return torch.cat([by_r.new_empty(len(by_r), 0), *logs], -1)

        return r.detach(), pullback


def batch_size(values: Values) -> int:
    """Return B, the number of parameter sets."""
    return len(next(iter(values.values())))


class AutogradConditioned(ConditionedKernel[Tensor]):
    """Correlations with n points under one set of parameters."""

    def __init__(self, kernel: AutogradKernel, values: Values, points: Points) -> None:
        self.kernel, self.values, self.points = kernel, values, points

    def precompute(self, V: Tensor) -> Tensor:
        """Return V: nothing is precomputed."""
        return V

    def correlate(self, points: Points) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            return self._correlate(points)

    def with_pullback(self, C: Tensor, precomputed: Tensor) -> tuple[Tensor, Tensor, ByPosition]:
        with torch.enable_grad():
            variable = C.detach().requires_grad_()
            correlations = self._correlate(Points(variable, precomputed))

        def pullback(by_r: Tensor, by_own: Tensor) -> Tensor:
            terms = [t for t in zip(correlations, (by_r, by_own), strict=True) if t[0].requires_grad]
            if not terms:
                return torch.zeros_like(C)
            loss = torch.stack([(part * slope).sum() for part, slope in terms]).sum()  # as in `pull_back`
            (gradient,) = torch.autograd.grad(loss, variable, allow_unused=True, materialize_grads=True)
            return gradient

        return correlations[0].detach(), correlations[1].detach(), pullback

    def _correlate(self, points: Points) -> tuple[Tensor, Tensor]:
        return self.kernel.matrix(points, self.points, self.values), self.kernel.r(points, points, self.values)

    def neighbours(self, points: Points) -> tuple[Tensor, Tensor]:
        r, own = self.correlate(neighbouring_points(self.kernel.space, points))
        return r.reshape(len(points), -1, r.shape[1]), own.reshape(len(points), -1)


def neighbouring_points(space: Space, points: Points) -> Points:
    """Return the points [m K] after one variable is set to one of its vertices, for all K, ordered by point."""
    variable, vertex = numbered_vertices(space)
    K = len(vertex)
    V = points.V[:, None].repeat(1, K, 1)
    V[:, torch.arange(K), variable] = vertex
    return Points(points.C.repeat_interleave(K, 0), V.flatten(0, 1))


class PairKernel(Kernel):
    """A kernel on the space of its tables; subclasses define `parameters`, each of size 1, and `r`.

    tables: a symmetric table [V_p, V_p] per discrete variable. Without tables, a is 0.
    """

    def __init__(self, tables: Sequence[Tensor]) -> None:
        tables = list(tables) or [torch.zeros(1, 1, dtype=torch.float64)]
        sizes = torch.tensor([len(table) for table in tables])
        self.T = torch.block_diag(*tables)
        self.variable = torch.arange(len(sizes)).repeat_interleave(sizes)  # [K]
        self._first = sizes.cumsum(0) - sizes

    @abstractmethod
    def r(self, x2: Tensor, a: Tensor, values: Values) -> Tensor:
        """Return the correlations elementwise; values: name -> [B, 1] or [1], to broadcast with x2 and a."""

    def rows(self, V: Tensor) -> Tensor:
        """Return the rows of T that belong to the vertices V [m, P]: [m, P]."""
        return V + self._first

    def one_hot(self, V: Tensor) -> Tensor:
        """Encode the vertices V [m, P] as indicators of the rows of T [m, K]."""
        return torch.zeros(len(V), len(self.T), dtype=torch.float64).scatter_(1, self.rows(V), 1.0)

    def pairs(self, points: Points) -> AutogradPairs:
        i, j = pair_indices(len(points))
        H = self.one_hot(points.V)
        x2, a = (points.C[i] - points.C[j]).square().sum(-1), (H @ self.T @ H.T)[i, j]
        return AutogradPairs(self, lambda values: self.r(x2, a, values).expand(batch_size(values), len(x2)))

    def condition_on(self, values: Values, points: Points) -> "PairConditioned":
        return PairConditioned(self, values, points)


class PairConditioned(ConditionedKernel[tuple[Tensor, Tensor]]):
    """Correlations with n points under one set of parameters."""

    def __init__(self, kernel: PairKernel, values: Values, points: Points) -> None:
        self.kernel, self.values, self.points = kernel, values, points
        self._TH = kernel.T @ kernel.one_hot(points.V).T  # [K, n]

    def precompute(self, V: Tensor) -> tuple[Tensor, Tensor]:
        """Return a [m, n] and own [m]; neither depends on C."""
        H = self.kernel.one_hot(V)
        return H @ self._TH, self._own(H @ self.kernel.T.diagonal())

    def correlate(self, points: Points) -> tuple[Tensor, Tensor]:
        a, own = self.precompute(points.V)
        with torch.no_grad():
            return self.kernel.r(self.squared_distance(points.C), a, self.values), own

    def with_pullback(self, C: Tensor, precomputed: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor, ByPosition]:
        a, own = precomputed
        with torch.enable_grad():
            x2 = self.squared_distance(C).requires_grad_()
            r = self.kernel.r(x2, a, self.values)

        def pullback(by_r: Tensor, by_own: Tensor) -> Tensor:
            (pulled,) = pull_back(r, by_r, [x2])  # [m, n]
            return 2.0 * (pulled.sum(-1, keepdim=True) * C - pulled @ self.points.C)

        return r.detach(), own, pullback

    def neighbours(self, points: Points) -> tuple[Tensor, Tensor]:
        kernel, H, diagonal = self.kernel, self.kernel.one_hot(points.V), self.kernel.T.diagonal()
        left = kernel.rows(points.V)[:, kernel.variable]  # [m, K]
        a = (H @ self._TH)[:, None] - self._TH[left] + self._TH
        own = (H @ diagonal)[:, None] - diagonal[left] + diagonal
        with torch.no_grad():
            r = kernel.r(self.squared_distance(points.C)[:, None], a, self.values)
        return r, self._own(own)

    def squared_distance(self, C: Tensor) -> Tensor:
        """Return x2 [m, n] of continuous parts C [m, D]."""
        return torch.cdist(C, self.points.C, compute_mode="donot_use_mm_for_euclid_dist").square_()

    def _own(self, a: Tensor) -> Tensor:
        """Return r [...] of points with themselves."""
        with torch.no_grad():
            return self.kernel.r(torch.zeros_like(a), a, self.values)


def overlap_tables(space: Space) -> list[Tensor]:
    """Return tables for which a is the share of discrete variables in which two points agree."""
    P = len(space.discrete)
    return [torch.eye(len(variable.vertices), dtype=torch.float64) / P for variable in space.discrete]


def squared_distance(C1: Tensor, C2: Tensor, theta: Tensor) -> Tensor:
    """Return sum_d (c_d - c'_d)^2 / theta_d^2 [...] of continuous parts [..., D]; theta [D] or [1]."""
    return ((C1 - C2) / theta).square().sum(-1)
