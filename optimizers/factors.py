"""The discrete side of a kernel on many pairs of points at once: the fast path of kernels.py.

Equal eigenvalues of a graph are merged: sum_i U[v,i] f(lambda_i) U[v',i] = sum_e M_e[v, v'] f(mu_e), where M_e projects
onto the eigenspace of mu_e. A complete graph has two eigenvalues, 0 and V, and needs only to know whether v = v'.
Variables with the same number of distinct eigenvalues are computed together, and pairs a few thousand at a time, so
that intermediate results stay in the processor's cache.

| symbol | shape | meaning |
|---|---|---|
| B, M | | parameter sets evaluated together; pairs of points |
| d2 | [B, M] | squared continuous distance of each pair |
| alpha, beta | [B, P] | modulation by d2 (zero: none) and frequency scale of each discrete variable |
| u | [B, P, M] | 1 + alpha d2 |
| mu | [E] | distinct eigenvalues of a graph |
| S | [B, P, M] | sum_e M_e f(beta mu_e, u): the factor of each variable, before it is normalised |
| N | [B, P] | normaliser: the factor at d = 0 averaged over vertices |
| q, s | [B, M] | prod_p S_p / N_p: the graph part; mean_p S_p / N_p |
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fmnas.optimizers.spectral import SpectralFunction
from fmnas.search_spaces import Space
from fmnas.search_spaces.variables import Discrete

CACHE = 1 << 17  # numbers that one intermediate result may have: a megabyte

Weights = list[Tensor]
"""What each group of variables needs to know of pairs: [G, M], whether v = v'; or projectors' entries [G, E, M]."""


@dataclass(frozen=True)
class Eigenspaces:
    """A graph's distinct Laplacian eigenvalues mu [E] and the projectors M [E, V, V] onto their eigenspaces."""

    mu: Tensor
    projectors: Tensor

    @classmethod
    def of(cls, variable: Discrete) -> "Eigenspaces":
        """Eigenvalues closer than 1e-8 count as one."""
        eigenvalues, U = variable.spectrum
        first = np.concatenate([[True], np.diff(eigenvalues) > 1e-8])
        group = np.cumsum(first) - 1
        projectors = np.stack([U[:, group == e] @ U[:, group == e].T for e in range(group[-1] + 1)])
        return cls(torch.tensor(eigenvalues[first]), torch.tensor(projectors))

    @property
    def multiplicities(self) -> Tensor:
        """Dimension of each eigenspace [E]."""
        return torch.einsum("evv->e", self.projectors)


@dataclass(frozen=True)
class Group:
    """Variables with the same number of distinct eigenvalues.

    members: their positions among the P, and the same as a tensor [G]; mu [G, E]; complete: number of vertices when
    all are complete graphs of one size, else 0.
    """

    members: list[int]
    index: Tensor
    mu: Tensor
    complete: int


_POINT = Eigenspaces(torch.zeros(1, dtype=torch.float64), torch.ones(1, 1, 1, dtype=torch.float64))
"""A graph of one vertex: stands in where a space has no discrete variable, so that d alone modulates."""


def _complete_size(variable: Discrete) -> int:
    V = len(variable.vertices)
    return V if int(variable.adjacency.sum()) == V * (V - 1) else 0


class Factors:
    """Factors of the discrete variables of one space under one spectral function.

    additive: whether s is wanted; without, q stands in its place.
    """

    def __init__(self, space: Space, spectral: SpectralFunction, additive: bool = False) -> None:
        self.spectral, self.additive = spectral, additive
        self.spaces = [Eigenspaces.of(variable) for variable in space.discrete] or [_POINT]
        complete = [_complete_size(variable) for variable in space.discrete] or [0]
        self.P = len(self.spaces)
        self.groups = self._grouped(complete)
        self.terms = sum(len(group.members) * (1 if group.complete else group.mu.shape[1]) for group in self.groups)
        self._mu, self._share = self._padded()

    def _grouped(self, complete: list[int]) -> list[Group]:
        keys: dict[tuple[int, int], list[int]] = {}
        for p in range(self.P):
            keys.setdefault((len(self.spaces[p].mu), complete[p]), []).append(p)
        return [
            Group(members, torch.tensor(members), torch.stack([self.spaces[p].mu for p in members]), size)
            for (_, size), members in keys.items()
        ]

    def _padded(self) -> tuple[Tensor, Tensor]:
        """Eigenvalues and their shares of the vertices, [P, E] with the largest E: what is padded has no share."""
        E = max(len(space.mu) for space in self.spaces)
        mu, share = torch.zeros(self.P, E, dtype=torch.float64), torch.zeros(self.P, E, dtype=torch.float64)
        for p, space in enumerate(self.spaces):
            mu[p, : len(space.mu)] = space.mu
            share[p, : len(space.mu)] = space.multiplicities / space.multiplicities.sum()
        return mu, share

    def pairs(self, v1: Tensor, v2: Tensor) -> Weights:
        """Weights of the pairs of vertices v1, v2 [M, P]."""
        return [
            (v1[:, group.members] == v2[:, group.members]).T.double()
            if group.complete
            else torch.stack([self.spaces[p].projectors[:, v1[:, p], v2[:, p]] for p in group.members])
            for group in self.groups
        ]

    def rows(self, V: Tensor) -> Weights:
        """Weights between every vertex and each point of V [n, P]: [G, vertices, n] or [G, E, vertices, n].

        Variables of a group may differ in their numbers of vertices: what is missing is zero.
        """
        found = []
        for group in self.groups:
            sizes = [self.spaces[p].projectors.shape[1] for p in group.members]
            E = () if group.complete else (group.mu.shape[1],)
            table = torch.zeros(len(sizes), *E, max(sizes), len(V), dtype=torch.float64)
            for k, (p, size) in enumerate(zip(group.members, sizes, strict=True)):
                if group.complete:
                    table[k] = torch.arange(size)[:, None] == V[:, p]
                else:
                    table[k, :, :size] = self.spaces[p].projectors[:, :, V[:, p]]
            found.append(table)
        return found

    def against(self, rows: Weights, V: Tensor) -> Weights:
        """Weights of the m n pairs of points V [m, P] with the points of `rows`, point by point."""
        m = len(V)
        found = []
        for group, table in zip(self.groups, rows, strict=True):
            n = table.shape[-1]
            chosen = [table[k].index_select(-2, V[:, p]) for k, p in enumerate(group.members)]  # [(E,) m, n]
            found.append(torch.stack(chosen).reshape(*table.shape[:-2], m * n))
        return found

    def graph_part(self, weights: Weights, alpha: Tensor, beta: Tensor, d2: Tensor) -> tuple[Tensor, Tensor]:
        """(q, s), each [B, M]."""
        q = torch.ones_like(d2)
        s = torch.zeros_like(d2) if self.additive else q
        scaled = self.scaled(weights, alpha, beta)
        for part in self.parts(d2):
            for group in scaled:
                S = _factor(self.spectral, group, part, d2[:, part])
                q[:, part] *= S.prod(1)
                if self.additive:
                    s[:, part] += (group.share @ S)[:, 0]
        return q.div_(self.normaliser(beta)[0].prod(1)[:, None]), s

    def normaliser(self, beta: Tensor) -> tuple[Tensor, Tensor]:
        """N and d log N / d log beta, each [B, P]."""
        one = beta.new_ones(1)
        b = beta[..., None] * self._mu
        f = self.spectral.value(b, one)
        N = (self._share * f).sum(-1)
        along = (self._share * self.spectral.slope(b, f)).sum(-1) / N
        return N, self.spectral.offset + self.spectral.sign * along

    def diagonal(self, p: int, beta: Tensor) -> Tensor:
        """Factor of variable p between each vertex and itself at d = 0: [V], beta [P]."""
        space = self.spaces[p]
        f = self.spectral.value(beta[p] * space.mu, beta.new_ones(1))
        return torch.einsum("evv,e->v", space.projectors, f)

    def tables(self, rows: Weights, alpha: Tensor, beta: Tensor, d2: Tensor) -> list[Tensor]:
        """For each variable its factor between every vertex and each of n points: P times [S, V_p, n].

        rows: of the n points; d2 [S, n]: distances of S points to them; alpha, beta [P].
        """
        found: list[Tensor] = [d2] * self.P
        for group, table in zip(self.groups, rows, strict=True):
            for k, p in enumerate(group.members):
                V = self.spaces[p].projectors.shape[1]
                W = table[k, ..., :V, :][None, None]  # [1, 1, (E,) V, n]
                b = (beta[p] * group.mu[k])[None, None, :, None, None]  # [1, 1, E, 1, 1]
                u = (1.0 + alpha[p] * d2)[:, None, None]  # [S, 1, 1, n]
                found[p] = _sum(self.spectral, group.complete, W, b, u)[:, 0]
        return found

    def scaled(self, weights: Weights, alpha: Tensor, beta: Tensor) -> "list[ScaledGroup]":
        """The groups under parameters alpha, beta [B, P]."""
        share = 1.0 / (self.P * self.normaliser(beta)[0])
        return [
            ScaledGroup(
                group.index,
                group.complete,
                W,
                alpha[:, group.index, None],
                (beta[:, group.index, None] * group.mu)[..., None],
                share[:, None, group.index],
            )
            for group, W in zip(self.groups, weights, strict=True)
        ]

    def parts(self, d2: Tensor) -> Iterator[slice]:
        """Slices of the pairs, so that an intermediate result stays in the cache."""
        B, M = d2.shape
        step = max(256, CACHE // (B * self.terms))
        return (slice(start, start + step) for start in range(0, M, step))


@dataclass(frozen=True)
class ScaledGroup:
    """A group under given parameters: weights of the pairs, alpha [B, G, 1], b = beta mu [B, G, E, 1].

    share: 1 / (P N) [B, 1, G], what a factor is multiplied by in s.
    """

    index: Tensor
    complete: int
    weights: Tensor
    alpha: Tensor
    b: Tensor
    share: Tensor


def _factor(spectral: SpectralFunction, group: ScaledGroup, part: slice, d2: Tensor) -> Tensor:
    """S [B, G, m] of a group's variables for some of the pairs, d2 [B, m]."""
    u = (group.alpha * d2[:, None]).add_(1.0)
    return _sum(spectral, group.complete, group.weights[..., part], group.b, u)


def _sum(spectral: SpectralFunction, complete: int, W: Tensor, b: Tensor, u: Tensor) -> Tensor:
    """sum_e M_e f(b_e, u): [B, G, ...]; W [(B,) G, (E,) ...], b [B, G, E, ...], u [B, G, ...].

    On a complete graph of V vertices M_0 = 1 / V, M_1 = [v = v'] - 1 / V, and mu_0 = 0.
    """
    if complete:
        f0, f1 = spectral.value(b[:, :, 0], u), spectral.value(b[:, :, 1], u)
        return f0.sub_(f1).div_(complete).add(W * f1)
    return (spectral.value(b, u[:, :, None]) * W).sum(2).clamp_(min=1e-300)


def factor_and_slope(spectral: SpectralFunction, group: ScaledGroup, part: slice, d2: Tensor) -> tuple[Tensor, Tensor]:
    """(S, d log S / du), each [B, G, m]."""
    u, b, W = (group.alpha * d2[:, None]).add_(1.0), group.b, group.weights[..., part]
    if not group.complete:
        f = spectral.value(b, u[:, :, None])
        S = (f * W).sum(2).clamp_(min=1e-300)
        return S, (spectral.slope(b, f).mul_(W)).sum(2).div_(S)
    b0, b1, share = b[:, :, 0], b[:, :, 1], W - 1.0 / group.complete
    f0, f1 = spectral.value(b0, u), spectral.value(b1, u)
    slope = spectral.slope(b0, f0).div_(group.complete).add_(spectral.slope(b1, f1).mul_(share))
    S = f0.div_(group.complete).add_(f1.mul_(share)).clamp_(min=1e-300)
    return S, slope.div_(S)
