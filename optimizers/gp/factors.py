"""The discrete part of a kernel that does not depend on parameters: spectra of graphs and weights of pairs of points.

Equal eigenvalues of a graph are merged: sum_i U[v,i] f(lambda_i) U[v',i] = sum_e M_e[v, v'] f(mu_e), where M_e projects
onto the eigenspace of mu_e. A complete graph has two eigenvalues, 0 and V, and depends only on whether v = v'.
Variables with the same number of distinct eigenvalues are processed together.

| symbol | shape | meaning |
|---|---|---|
| M | | pairs of points |
| mu | [E] | distinct eigenvalues of a graph |
| M_e | [V, V] | projector onto the eigenspace of mu_e |
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from fmnas.search_spaces import Space
from fmnas.search_spaces.variables import Discrete, Floats

PairEntries = list[Tensor]
"""Weights of pairs per group of variables: [G, M], whether v = v'; or entries of projectors [G, E, M]."""


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


@dataclass(frozen=True)
class Group:
    """Variables with the same number of distinct eigenvalues.

    members: their positions among the P variables; rows: their positions in the order by group; mu [G, E];
    complete: number of vertices if all are complete graphs of one size, else 0.
    """

    members: list[int]
    rows: slice
    mu: Tensor
    complete: int


def _complete_size(variable: Discrete) -> int:
    V = len(variable.vertices)
    return V if int(variable.adjacency.sum()) == V * (V - 1) else 0


class Factors:
    """The discrete variables of a space.

    order [P]: the variables ordered by group. mu, share [P, E]: distinct eigenvalues, their shares of the dimensions;
    E is the largest, and padding has the share 0.
    """

    def __init__(self, space: Space) -> None:
        point = (np.zeros(1), np.ones((1, 1)))  # the graph with one vertex, if a space has no discrete variable
        self.spaces = [Eigenspaces(*spectrum) for spectrum in [v.spectrum for v in space.discrete] or [point]]
        complete = [_complete_size(variable) for variable in space.discrete] or [0]
        self.P = len(self.spaces)
        self.groups = self._group_variables(complete)
        self.order = torch.tensor([p for group in self.groups for p in group.members])
        self.terms = sum(len(group.members) * (1 if group.complete else group.mu.shape[1]) for group in self.groups)
        self.mu = pad_sequence([space.mu for space in self.spaces], batch_first=True)
        shares = [space.multiplicities / space.multiplicities.sum() for space in self.spaces]
        self.share = pad_sequence(shares, batch_first=True)

    def _group_variables(self, complete: list[int]) -> list[Group]:
        keys: dict[tuple[int, int], list[int]] = {}
        for p in range(self.P):
            keys.setdefault((len(self.spaces[p].mu), complete[p]), []).append(p)
        groups, start = [], 0
        for (_, size), members in keys.items():
            rows = slice(start, start := start + len(members))
            groups.append(Group(members, rows, torch.stack([self.spaces[p].mu for p in members]), size))
        return groups

    def pairs(self, v1: Tensor, v2: Tensor) -> PairEntries:
        """Return the weights of the pairs of vertices v1, v2 [M, P]."""
        return [
            (v1[:, group.members] == v2[:, group.members]).T.double()
            if group.complete
            else torch.stack([self.spaces[p].entries(v1[:, p], v2[:, p]) for p in group.members])
            for group in self.groups
        ]

    def rows(self, V: Tensor) -> PairEntries:
        """Return the weights between all vertices and the points V [n, P]: [G, vertices, n] or [G, E, vertices, n].

        Variables of a group may differ in their numbers of vertices: missing vertices have the weight 0.
        """
        tables = []
        for group in self.groups:
            sizes = [self.spaces[p].vertices for p in group.members]
            E = () if group.complete else (group.mu.shape[1],)
            table = torch.zeros(len(sizes), *E, max(sizes), len(V), dtype=torch.float64)
            for k, (p, size) in enumerate(zip(group.members, sizes, strict=True)):
                if group.complete:
                    table[k] = torch.arange(size)[:, None] == V[:, p]
                else:
                    table[k, :, :size] = self.spaces[p].columns(V[:, p])
            tables.append(table)
        return tables

    def pairs_with(self, rows: PairEntries, V: Tensor) -> PairEntries:
        """Return the weights of the m n pairs of points V [m, P] with the points of `rows`, ordered by m."""
        m = len(V)
        pairs = []
        for group, table in zip(self.groups, rows, strict=True):
            n = table.shape[-1]
            chosen = [table[k].index_select(-2, V[:, p]) for k, p in enumerate(group.members)]  # [(E,) m, n]
            pairs.append(torch.stack(chosen).reshape(*table.shape[:-2], m * n))
        return pairs
