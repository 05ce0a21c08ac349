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

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from fmnas.optimizers.gp.graphs import Eigenspaces, LongPath, is_long_path
from fmnas.search_spaces import Space
from fmnas.search_spaces.variables import Discrete

PairEntries = list[Tensor]
"""Weights of pairs per group of variables: [G, M], whether v = v'; entries of projectors [G, E, M]; or, of long paths,
lengths [G, 3, M] (graphs.py)."""


@dataclass(frozen=True)
class Group:
    """Variables with the same number of distinct eigenvalues.

    members: their positions among the P variables; rows: their positions in the order by group; mu [G, E], 1 for
    paths in closed form; complete, path: number of vertices if all are complete graphs, or paths in closed form, of one
    size, else 0.
    """

    members: list[int]
    rows: slice
    mu: Tensor
    complete: int
    path: int

    @property
    def entries(self) -> tuple[int, ...]:
        """The dimension of a pair's entries: () if it is one number."""
        return () if self.complete else (3 if self.path else self.mu.shape[1],)


def _complete_size(variable: Discrete) -> int:
    V = len(variable.vertices)
    return V if int(variable.adjacency.sum()) == V * (V - 1) else 0


class Factors:
    """The discrete variables of a space.

    order [P]: the variables ordered by group. mu, share [P, E]: distinct eigenvalues, their shares of the dimensions;
    E is the largest, and padding has the share 0.
    """

    def __init__(self, space: Space, *, closed_paths: bool = False) -> None:
        """closed_paths: whether f is 1 / (u + b), so that long paths have a closed form (graphs.py)."""
        point = Eigenspaces(np.zeros(1), np.ones((1, 1)))  # one vertex, if a space has no discrete variable
        self.spaces = [
            (LongPath if closed_paths and is_long_path(v) else Eigenspaces)(*v.spectrum) for v in space.discrete
        ] or [point]
        complete = [_complete_size(variable) for variable in space.discrete] or [0]
        self.P = len(self.spaces)
        self.groups = self._group_variables(complete)
        self.order = torch.tensor([p for group in self.groups for p in group.members])
        self.terms = sum(len(group.members) * math.prod(group.entries) for group in self.groups)
        self.mu = pad_sequence([space.mu for space in self.spaces], batch_first=True)
        shares = [space.multiplicities / space.multiplicities.sum() for space in self.spaces]
        self.share = pad_sequence(shares, batch_first=True)

    def _group_variables(self, complete: list[int]) -> list[Group]:
        keys: dict[tuple[int, int, int], list[int]] = {}
        for p, space in enumerate(self.spaces):
            path = space.vertices if isinstance(space, LongPath) else 0
            keys.setdefault((len(space.mu), complete[p], path), []).append(p)
        groups, start = [], 0
        for (_, size, path), members in keys.items():
            rows = slice(start, start := start + len(members))
            mu = torch.stack([self.spaces[p].mu for p in members])
            groups.append(Group(members, rows, torch.ones_like(mu[:, :1]) if path else mu, size, path))
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
        """Return the weights between all vertices and the points V [n, P]: [G, (E,) vertices, n].

        Variables of a group may differ in their numbers of vertices: missing vertices have the weight 0.
        """
        tables = []
        for group in self.groups:
            sizes = [self.spaces[p].vertices for p in group.members]
            table = torch.zeros(len(sizes), *group.entries, max(sizes), len(V), dtype=torch.float64)
            for k, (p, size) in enumerate(zip(group.members, sizes, strict=True)):
                if group.complete:
                    table[k] = torch.arange(size)[:, None] == V[:, p]
                else:
                    table[k, :, :size] = self.spaces[p].columns(V[:, p])
            tables.append(table)
        return tables

    def pairs_with(self, rows: PairEntries, V: Tensor) -> PairEntries:
        """Return the weights of the m n pairs of points V [m, P] with the points of `rows`, ordered by m."""
        pairs = []
        for group, table in zip(self.groups, rows, strict=True):
            *outer, vertices, n = table.shape  # outer: G, (E)
            first = torch.arange(0, math.prod(outer) * vertices, vertices).reshape(len(group.members), -1, 1)
            chosen = first + V.T[group.members, None]  # [G, E, m]: rows of all tables below each other
            pairs.append(table.reshape(-1, n).index_select(0, chosen.flatten()).reshape(*outer, len(V) * n))
        return pairs
