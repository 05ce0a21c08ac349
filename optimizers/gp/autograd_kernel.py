"""A kernel from its formula alone: torch differentiates it, and neighbouring vertices are enumerated.

    class Matern(AutogradKernel):
        parameters = (Parameter("theta", 1, (1e-2, 1e2), Uniform(0.1, 1.0), LogNormal(0.5, 1.0)),)

        def r(self, a, b, values):
            return matern52(squared_distance(a.C, b.C, values["theta"]))

It costs some ten times what an analytic kernel costs (fm_kernel.py), and gives the same numbers.

Kernels with one length scale for all continuous variables, and none for a discrete one, need two numbers of a pair
alone: how far apart its continuous parts are, and how much its vertices have in common.

    class Mine(PairKernel):
        parameters = (Parameter("theta", 1, (1e-2, 1e2), Uniform(0.1, 1.0)),)

        def r(self, x2, a, values):
            return (matern52(x2 / values["theta"].square()) + a) / 2.0

    Mine(overlap_tables(space))

Both are worked out once, whatever the parameters, and torch differentiates the formula between numbers: that costs a
fit far less than an `AutogradKernel` of the same formula.

| symbol | shape | meaning |
|---|---|---|
| a, b | [..., D], [..., P] | points whose leading dimensions broadcast |
| x2 | [M] or [m, n] | squared distance of the continuous parts, in unit-cube lengths |
| a of a PairKernel | as x2 | what the vertices have in common: over all discrete variables, the sum of T[v, v'] |
| T | [K, K] | the tables of all discrete variables, along its diagonal |
| n, m, K, M, B | | as in kernel.py |
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from fmnas.optimizers.gp.kernel import ByParameters, ByPosition, Correlation, Kernel, Pairs, pair_indices, slopes_of
from fmnas.optimizers.gp.parameters import Values
from fmnas.optimizers.gp.points import Points, numbered_vertices
from fmnas.search_spaces import Space


class AutogradKernel(Kernel):
    """A kernel on a space; a subclass has `parameters` and `r`."""

    def __init__(self, space: Space) -> None:
        self.space = space

    @abstractmethod
    def r(self, a: Points, b: Points, values: Values) -> Tensor:
        """Correlations [...] of the points a with the points b, element by element; values: name -> [size].

        Without discrete variables every point is on the one vertex 0 of a graph of one vertex.
        """

    def matrix(self, a: Points, b: Points, values: Values) -> Tensor:
        """r [m, n] of each of m points with each of n."""
        return self.r(Points(a.C[:, None], a.V[:, None]), Points(b.C[None], b.V[None]), values)

    def pairs(self, points: Points) -> "DifferentiatedPairs":
        i, j = pair_indices(len(points))

        def r(values: Values) -> Tensor:  # one parameter set after the other
            each = [{name: value[b] for name, value in values.items()} for b in range(batch(values))]
            return torch.stack([self.matrix(points, points, one)[i, j] for one in each])

        return DifferentiatedPairs(self, r)

    def given(self, values: Values, points: Points) -> "AutogradCorrelation":
        return AutogradCorrelation(self, values, points)


class DifferentiatedPairs(Pairs):
    """Pairs with a formula r(values) [B, M] that torch differentiates."""

    def __init__(self, kernel: Kernel, r: Callable[[Values], Tensor]) -> None:
        self._names, self._r = [parameter.name for parameter in kernel.parameters], r

    def correlation(self, values: Values) -> Tensor:
        with torch.no_grad():
            return self._r(values)

    def with_pullback(self, values: Values) -> tuple[Tensor, ByParameters]:
        with torch.enable_grad():
            own = {name: value.detach().requires_grad_() for name, value in values.items()}
            r = self._r(own)

        def pullback(by_r: Tensor) -> Tensor:
            slopes = slopes_of(r, by_r, [own[name] for name in self._names])
            logs = [slope * values[name] for name, slope in zip(self._names, slopes, strict=True)]
            return torch.cat([by_r.new_empty(len(by_r), 0), *logs], -1)

        return r.detach(), pullback


def batch(values: Values) -> int:
    """B: how many parameter sets these are."""
    return len(next(iter(values.values())))


class AutogradCorrelation(Correlation[Tensor]):
    """Correlations with n points under one set of parameters."""

    def __init__(self, kernel: AutogradKernel, values: Values, points: Points) -> None:
        self.kernel, self.values, self.points = kernel, values, points

    def on(self, V: Tensor) -> Tensor:
        """V itself: nothing is worked out before."""
        return V

    def at(self, C: Tensor, known: Tensor) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            return self._of(Points(C, known))

    def with_pullback(self, C: Tensor, known: Tensor) -> tuple[Tensor, Tensor, ByPosition]:
        with torch.enable_grad():
            variable = C.detach().requires_grad_()
            found = self._of(Points(variable, known))

        def pullback(by_r: Tensor, by_own: Tensor) -> Tensor:
            together = [(part, slope) for part, slope in zip(found, (by_r, by_own), strict=True) if part.requires_grad]
            if not together:
                return torch.zeros_like(C)
            parts, slopes = zip(*together, strict=True)
            (gradient,) = torch.autograd.grad(parts, variable, slopes, allow_unused=True, materialize_grads=True)
            return gradient

        return found[0].detach(), found[1].detach(), pullback

    def _of(self, points: Points) -> tuple[Tensor, Tensor]:
        return self.kernel.matrix(points, self.points, self.values), self.kernel.r(points, points, self.values)

    def neighbours(self, points: Points) -> tuple[Tensor, Tensor]:
        variable, vertex = numbered_vertices(self.kernel.space)
        m, K = len(points), len(vertex)
        V = points.V[:, None].repeat(1, K, 1)
        V[:, torch.arange(K), variable] = vertex
        every = Points(points.C.repeat_interleave(K, 0), V.reshape(m * K, -1))
        r, own = self.of(every)
        return r.reshape(m, K, -1), own.reshape(m, K)


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

    def pairs(self, points: Points) -> DifferentiatedPairs:
        i, j = pair_indices(len(points))
        H = self.one_hot(points.V)
        x2, a = (points.C[i] - points.C[j]).square().sum(-1), (H @ self.T @ H.T)[i, j]
        return DifferentiatedPairs(self, lambda values: self.r(x2, a, values).expand(batch(values), len(x2)))

    def given(self, values: Values, points: Points) -> "PairCorrelation":
        return PairCorrelation(self, values, points)


class PairCorrelation(Correlation[tuple[Tensor, Tensor]]):
    """Correlations with n points under one set of parameters."""

    def __init__(self, kernel: PairKernel, values: Values, points: Points) -> None:
        self.kernel, self.values, self.points = kernel, values, points
        self._TH = kernel.T @ kernel.one_hot(points.V).T  # [K, n]

    def on(self, V: Tensor) -> tuple[Tensor, Tensor]:
        """a [m, n], and their own r [m]: no C changes it."""
        H = self.kernel.one_hot(V)
        return H @ self._TH, self.own(H @ self.kernel.T.diagonal())

    def at(self, C: Tensor, known: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        a, own = known
        with torch.no_grad():
            return self.kernel.r(self.squared_distance(C), a, self.values), own

    def with_pullback(self, C: Tensor, known: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor, ByPosition]:
        a, own = known
        with torch.enable_grad():
            x2 = self.squared_distance(C).requires_grad_()
            r = self.kernel.r(x2, a, self.values)

        def pullback(by_r: Tensor, by_own: Tensor) -> Tensor:
            (pulled,) = slopes_of(r, by_r, [x2])  # [m, n], number by number
            return 2.0 * (pulled.sum(-1, keepdim=True) * C - pulled @ self.points.C)

        return r.detach(), own, pullback

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


def overlap_tables(space: Space) -> list[Tensor]:
    """The tables of which a is the share of discrete variables in which two points agree."""
    P = len(space.discrete)
    return [torch.eye(len(variable.vertices), dtype=torch.float64) / P for variable in space.discrete]


def squared_distance(C1: Tensor, C2: Tensor, theta: Tensor) -> Tensor:
    """sum_d (c_d - c'_d)^2 / theta_d^2 [...] of continuous parts [..., D]; theta [D] or [1]."""
    return ((C1 - C2) / theta).square().sum(-1)


def overlap(V1: Tensor, V2: Tensor) -> Tensor:
    """The share of variables in which vertices [..., P] agree [...]."""
    return (V1 == V2).double().mean(-1)
