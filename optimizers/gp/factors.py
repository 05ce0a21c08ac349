"""The discrete side of a kernel, as far as no parameter changes it: spectra, and what pairs of points need of them.

Equal eigenvalues of a graph are merged: sum_i U[v,i] f(lambda_i) U[v',i] = sum_e M_e[v, v'] f(mu_e), where M_e projects
onto the eigenspace of mu_e. A complete graph has two eigenvalues, 0 and V, and needs only to know whether v = v'.
Variables with the same number of distinct eigenvalues are computed together.

| symbol | shape | meaning |
|---|---|---|
| B, M | | parameter sets evaluated together; pairs of points |
| beta | [B, P] | frequency scale of each discrete variable |
| mu | [E] | distinct eigenvalues of a graph |
| M_e | [V, V] | projector onto the eigenspace of mu_e |
| N | [B, P] | normaliser: the factor of graph_part.py at d = 0 averaged over vertices |
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from fmnas.optimizers.gp.frequency_modulation import FrequencyModulation
from fmnas.search_spaces import Space
from fmnas.search_spaces.variables import Discrete

PairEntries = list[Tensor]
"""What each group of variables needs to know of pairs: [G, M], whether v = v'; or projectors' entries [G, E, M]."""


class Eigenspaces(ABC):
    """A graph's distinct Laplacian eigenvalues mu [E] and the projectors M [E, V, V] onto their eigenspaces.

    vertices: V. multiplicities: the dimension of each eigenspace [E].
    """

    def __init__(self, mu: Tensor, vertices: int, multiplicities: Tensor) -> None:
        self.mu, self.vertices, self.multiplicities = mu, vertices, multiplicities

    @staticmethod
    def of(variable: Discrete) -> "Eigenspaces":
        """Eigenvalues closer than 1e-8 count as one."""
        eigenvalues, U = variable.spectrum
        first = np.concatenate([[True], np.diff(eigenvalues) > 1e-8])
        mu = torch.tensor(eigenvalues[first])
        if first.all():
            return _SimpleSpectrum(mu, torch.tensor(U))
        group = np.cumsum(first) - 1
        return _RepeatedEigenvalues(
            mu, torch.tensor(np.stack([U[:, group == e] @ U[:, group == e].T for e in range(len(mu))]))
        )

    @abstractmethod
    def entries(self, v1: Tensor, v2: Tensor) -> Tensor:
        """M_e[v1, v2] of pairs of vertices [M]: [E, M]."""

    @abstractmethod
    def columns(self, v: Tensor) -> Tensor:
        """M_e[:, v] of vertices v [n]: [E, V, n]."""

    @abstractmethod
    def diagonal(self, f: Tensor) -> Tensor:
        """The sum over e of f_e M_e[v, v], f [E]: [V]."""


class _SimpleSpectrum(Eigenspaces):
    """All of one dimension, as of a path: what is kept is U [V, V], as V^3 numbers are too many for long ones."""

    def __init__(self, mu: Tensor, U: Tensor) -> None:
        # Each is 1, but for the rounding that the traces of projectors have: recorded suggestions depend on it. What is
        # summed up has the strides of a projector's diagonal, and so the order of its sum, without the projector.
        trace = torch.zeros_like(U).diagonal()
        super().__init__(mu, len(U), torch.stack([trace.copy_(u * u).sum() for u in U.T]))
        self._U = U

    def entries(self, v1: Tensor, v2: Tensor) -> Tensor:
        return (self._U[v1] * self._U[v2]).T

    def columns(self, v: Tensor) -> Tensor:
        return (self._U[:, None] * self._U[v]).permute(2, 0, 1)

    def diagonal(self, f: Tensor) -> Tensor:
        return torch.einsum("ve,e->v", self._U * self._U, f)


class _RepeatedEigenvalues(Eigenspaces):
    """Some of several dimensions: the projectors are kept."""

    def __init__(self, mu: Tensor, projectors: Tensor) -> None:
        super().__init__(mu, projectors.shape[1], torch.einsum("evv->e", projectors))
        self._projectors = projectors

    def entries(self, v1: Tensor, v2: Tensor) -> Tensor:
        return self._projectors[:, v1, v2]

    def columns(self, v: Tensor) -> Tensor:
        return self._projectors[:, :, v]

    def diagonal(self, f: Tensor) -> Tensor:
        return torch.einsum("evv,e->v", self._projectors, f)


@dataclass(frozen=True)
class Group:
    """Variables with the same number of distinct eigenvalues.

    members: their positions among the P; rows: where they stand when the variables stand group by group; mu [G, E];
    complete: number of vertices when all are complete graphs of one size, else 0.
    """

    members: list[int]
    rows: slice
    mu: Tensor
    complete: int


_POINT = _SimpleSpectrum(torch.zeros(1, dtype=torch.float64), torch.ones(1, 1, dtype=torch.float64))
"""A graph of one vertex: stands in where a space has no discrete variable, so that d alone modulates."""


def _complete_size(variable: Discrete) -> int:
    V = len(variable.vertices)
    return V if int(variable.adjacency.sum()) == V * (V - 1) else 0


class Factors:
    """The discrete variables of one space under one modulating function.

    additive: whether s (graph_part.py) is wanted; without, q stands in its place. order [P]: the variables, group by
    group.
    """

    def __init__(self, space: Space, modulation: FrequencyModulation, additive: bool = False) -> None:
        self.modulation, self.additive = modulation, additive
        self.spaces: list[Eigenspaces] = [Eigenspaces.of(variable) for variable in space.discrete] or [_POINT]
        complete = [_complete_size(variable) for variable in space.discrete] or [0]
        self.P = len(self.spaces)
        self.groups = self._grouped(complete)
        self.order = torch.tensor([p for group in self.groups for p in group.members])  # group by group
        self.terms = sum(len(group.members) * (1 if group.complete else group.mu.shape[1]) for group in self.groups)
        # Eigenvalues and their shares of the vertices [P, E], with the largest E: what is padded has no share.
        self._mu = pad_sequence([space.mu for space in self.spaces], batch_first=True)
        shares = [space.multiplicities / space.multiplicities.sum() for space in self.spaces]
        self._share = pad_sequence(shares, batch_first=True)

    def _grouped(self, complete: list[int]) -> list[Group]:
        keys: dict[tuple[int, int], list[int]] = {}
        for p in range(self.P):
            keys.setdefault((len(self.spaces[p].mu), complete[p]), []).append(p)
        groups, start = [], 0
        for (_, size), members in keys.items():
            rows = slice(start, start := start + len(members))
            groups.append(Group(members, rows, torch.stack([self.spaces[p].mu for p in members]), size))
        return groups

    def pairs(self, v1: Tensor, v2: Tensor) -> PairEntries:
        """Weights of the pairs of vertices v1, v2 [M, P]."""
        return [
            (v1[:, group.members] == v2[:, group.members]).T.double()
            if group.complete
            else torch.stack([self.spaces[p].entries(v1[:, p], v2[:, p]) for p in group.members])
            for group in self.groups
        ]

    def rows(self, V: Tensor) -> PairEntries:
        """Weights between every vertex and each point of V [n, P]: [G, vertices, n] or [G, E, vertices, n].

        Variables of a group may differ in their numbers of vertices: what is missing is zero.
        """
        found = []
        for group in self.groups:
            sizes = [self.spaces[p].vertices for p in group.members]
            E = () if group.complete else (group.mu.shape[1],)
            table = torch.zeros(len(sizes), *E, max(sizes), len(V), dtype=torch.float64)
            for k, (p, size) in enumerate(zip(group.members, sizes, strict=True)):
                if group.complete:
                    table[k] = torch.arange(size)[:, None] == V[:, p]
                else:
                    table[k, :, :size] = self.spaces[p].columns(V[:, p])
            found.append(table)
        return found

    def pairs_with(self, rows: PairEntries, V: Tensor) -> PairEntries:
        """Weights of the m n pairs of points V [m, P] with the points of `rows`, point by point."""
        m = len(V)
        found = []
        for group, table in zip(self.groups, rows, strict=True):
            n = table.shape[-1]
            chosen = [table[k].index_select(-2, V[:, p]) for k, p in enumerate(group.members)]  # [(E,) m, n]
            found.append(torch.stack(chosen).reshape(*table.shape[:-2], m * n))
        return found

    def normaliser(self, beta: Tensor) -> tuple[Tensor, Tensor]:
        """N and d log N / d log beta, each [B, P]."""
        one = beta.new_ones(1)
        b = beta[..., None] * self._mu
        f = self.modulation.value(b, one)
        N = (self._share * f).sum(-1)
        fall = (self._share * f * self.modulation.fall(b, f)).sum(-1) / N
        return N, self.modulation.offset - self.modulation.sign * fall

    def diagonal(self, p: int, beta: Tensor) -> Tensor:
        """Factor of variable p between each vertex and itself at d = 0: [V], beta [P]."""
        space = self.spaces[p]
        return space.diagonal(self.modulation.value(beta[p] * space.mu, beta.new_ones(1)))
