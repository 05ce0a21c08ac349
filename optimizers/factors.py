"""The discrete side of a kernel on many pairs of points at once: the fast path of kernels.py.

Equal eigenvalues of a graph are merged: sum_i U[v,i] f(lambda_i) U[v',i] = sum_e M_e[v, v'] f(mu_e), where M_e projects
onto the eigenspace of mu_e. A complete graph has two eigenvalues, 0 and V, and needs only to know whether v = v'.
Variables with the same number of distinct eigenvalues are computed together.

| symbol | shape | meaning |
|---|---|---|
| B, M | | parameter sets evaluated together; pairs of points |
| a | [B, P, M] | modulation alpha d2 of each pair; [B, P, 1] where it is the same for all |
| beta | [B, P] | frequency scale of each discrete variable |
| mu | [E] | distinct eigenvalues of a graph |
| S | [B, P, M] | sum_e M_e f: the factor of each variable, before it is normalised |
| S_a, S_b | [B, P, M] | sum_e M_e df/da, sum_e mu_e M_e df/db |
| N | [B, P] | normaliser: the factor at d = 0 averaged over vertices |
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fmnas.optimizers.spectral import SpectralFunction
from fmnas.search_spaces import Space
from fmnas.search_spaces.variables import Discrete


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
class _Group:
    """Variables with the same number of distinct eigenvalues.

    members: their positions among the P; mu [G, E]; complete: number of vertices when all are complete graphs
    of one size, else 0.
    """

    members: tuple[int, ...]
    mu: Tensor
    complete: int


_POINT = Eigenspaces(torch.zeros(1, dtype=torch.float64), torch.ones(1, 1, 1, dtype=torch.float64))
"""A graph of one vertex: stands in where a space has no discrete variable, so that d alone modulates."""


def _complete_size(variable: Discrete) -> int:
    V = len(variable.vertices)
    return V if int(variable.adjacency.sum()) == V * (V - 1) else 0


class Factors:
    """Factors of the discrete variables of one space under one spectral function."""

    def __init__(self, space: Space, spectral: SpectralFunction) -> None:
        self.spectral = spectral
        self.spaces = [Eigenspaces.of(variable) for variable in space.discrete] or [_POINT]
        complete = [_complete_size(variable) for variable in space.discrete] or [0]
        self.P = len(self.spaces)
        self.groups = self._grouped(complete)
        self.order = torch.tensor([p for group in self.groups for p in group.members])

    def _grouped(self, complete: list[int]) -> list[_Group]:
        keys: dict[tuple[int, int], list[int]] = {}
        for p in range(self.P):
            keys.setdefault((len(self.spaces[p].mu), complete[p]), []).append(p)
        return [
            _Group(tuple(members), torch.stack([self.spaces[p].mu for p in members]), size)
            for (_, size), members in keys.items()
        ]

    def pairs(self, v1: Tensor, v2: Tensor) -> list[Tensor]:
        """What each group needs to know of pairs of vertices v1, v2 [M, P]: [G, M] or projector entries [G, E, M]."""
        weights = []
        for group in self.groups:
            if group.complete:
                columns = list(group.members)
                weights.append((v1[:, columns] == v2[:, columns]).T.double())
            else:
                weights.append(torch.stack([self.spaces[p].projectors[:, v1[:, p], v2[:, p]] for p in group.members]))
        return weights

    def values(self, weights: list[Tensor], a: Tensor, beta: Tensor) -> Tensor:
        """S [B, P, M], the variables in the order of `order`."""
        return torch.cat([self._group(g, W, a, beta, False)[0] for g, W in zip(self.groups, weights, strict=True)], 1)

    def sums(self, weights: list[Tensor], a: Tensor, beta: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(S, S_a, S_b), each [B, P, M], the variables in the order of `order`."""
        parts = [self._group(g, W, a, beta, True) for g, W in zip(self.groups, weights, strict=True)]
        S, S_a, S_b = (torch.cat(columns, 1) for columns in zip(*parts, strict=True))
        return S, S_a, S_b

    def normaliser(self, beta: Tensor) -> tuple[Tensor, Tensor]:
        """N and d log N / d log beta, each [B, P]."""
        N, slope = torch.ones_like(beta), torch.zeros_like(beta)
        zero = beta.new_zeros(1)
        for p, space in enumerate(self.spaces):
            share = space.multiplicities / space.multiplicities.sum()  # [E]
            b = beta[:, p, None] * space.mu
            f = self.spectral.value(b, zero)
            N[:, p] = (share * f).sum(-1)
            slope[:, p] = (share * self.spectral.partials(b, zero, f)[0] * b).sum(-1) / N[:, p]
        return N, slope

    def table(self, p: int, vertices: Tensor, a: Tensor, beta: Tensor) -> Tensor:
        """Factor of variable p between every vertex and each of n points: [S, V, n].

        vertices [n] are the points' values of the variable, a [S, n] (or [S, 1]), beta [P].
        """
        space = self.spaces[p]
        f = self.spectral.value((beta[p] * space.mu)[:, None, None], a)  # [E, S, n]
        M = space.projectors[:, :, vertices]  # [E, V, n]
        table = M[0] * f[0, :, None]
        for e in range(1, len(M)):
            table = table + M[e] * f[e, :, None]
        return table

    def diagonal(self, p: int, beta: Tensor) -> Tensor:
        """Factor of variable p between each vertex and itself at d = 0: [V], beta [P]."""
        space = self.spaces[p]
        f = self.spectral.value(beta[p] * space.mu, beta.new_zeros(1))
        return torch.einsum("evv,e->v", space.projectors, f)

    def _group(self, group: _Group, W: Tensor, a: Tensor, beta: Tensor, slopes: bool) -> tuple[Tensor, ...]:
        """(S,) or (S, S_a, S_b) of a group's variables, each [B, G, M]."""
        members = list(group.members)
        a = a[:, members]  # [B, G, M]
        b = (beta[:, members, None] * group.mu)[..., None]  # [B, G, E, 1]
        of = self._complete if group.complete else self._projected
        return of(group, W, a, b, slopes)

    def _complete(self, group: _Group, W: Tensor, a: Tensor, b: Tensor, slopes: bool) -> tuple[Tensor, ...]:
        """On a complete graph of V vertices M_0 = 1 / V, M_1 = [v = v'] - 1 / V, and mu_0 = 0."""
        V = group.complete
        W = W - 1.0 / V
        f0, f1 = self.spectral.value(b[:, :, 0], a), self.spectral.value(b[:, :, 1], a)
        S = f0 / V + W * f1
        if not slopes:
            return (S,)
        (_, f0_a), (f1_b, f1_a) = self.spectral.partials(b[:, :, 0], a, f0), self.spectral.partials(b[:, :, 1], a, f1)
        return S, f0_a / V + W * f1_a, V * W * f1_b

    def _projected(self, group: _Group, W: Tensor, a: Tensor, b: Tensor, slopes: bool) -> tuple[Tensor, ...]:
        """sum_e M_e f_e for any graph; W [G, E, M] holds the projectors' entries."""
        a = a[:, :, None]
        f = self.spectral.value(b, a)  # [B, G, E, M]
        S = (W * f).sum(2)
        if not slopes:
            return (S,)
        f_b, f_a = self.spectral.partials(b, a, f)
        return S, (W * f_a).sum(2), (W * group.mu[:, :, None] * f_b).sum(2)
