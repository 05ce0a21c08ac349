"""Binary codes of discrete variables, and the lists of their feasible values (MiVaBO; Daxberger et al. 2019, Sec. 2).

A variable with n values has ceil(log2 n) bits: the number of the value, its highest bit first. Codes without a value
cannot occur, because values are searched, not bits: that is the exact form of the linear cuts of the paper.

Variables that constraints tie together form a group, whose feasible values are listed. A constraint with a Real, or one
whose group would have more than LARGEST_LIST values, is loose: its variables stay single, and each point is checked.

| symbol | shape | meaning |
|---|---|---|
| P, b, G, K | | variables; their bits; groups; values of all groups together, ordered by group |
| V, X | [m, P], [m, b] | vertices and bits of points; without discrete variables, V is 0 [m, 1] and X is [m, 0] |
| N | | feasible combinations of values, if listed |
"""

import math
from collections.abc import Sequence
from itertools import product

import numpy as np
import torch
from torch import Tensor

from fmnas.search_spaces import Space
from fmnas.search_spaces.constraints import Constraint, FeasibleRegion
from fmnas.search_spaces.variables import Discrete

LARGEST_LIST = 2**16


def code_table(variable: Discrete) -> Tensor:
    """Return the code of each value [n, bits], 0 or 1."""
    n = len(variable.vertices)
    bits = math.ceil(math.log2(n))
    return (torch.arange(n)[:, None] >> torch.arange(bits - 1, -1, -1) & 1).double()


class BinaryCodes:
    """The codes of a space.

    bits: b. group [K], group_bits [K, b], group_vertices [K, P]: the group of each value, its bits and its vertices,
    which are 0 outside the group. same_group [b, b]: whether two bits are of one group, 1 or 0. vertices [N, P]: all
    combinations that meet every constraint that is not loose; None if there are more than LARGEST_LIST.
    """

    def __init__(self, space: Space) -> None:
        self.space, self._tables = space, [code_table(variable) for variable in space.discrete]
        self.bits = sum(table.shape[1] for table in self._tables)
        groups, self.loose = _groups(space)
        lists = [_feasible_values(space, members, constraints) for members, constraints in groups]
        sizes = [len(values) for values in lists]
        self.group = torch.arange(len(groups)).repeat_interleave(torch.tensor(sizes, dtype=torch.int64))
        self.group_vertices = torch.zeros(sum(sizes), max(len(space.discrete), 1), dtype=torch.int64)
        owner = torch.zeros(len(space.discrete), dtype=torch.int64)  # the group of a variable
        for g, ((members, _), values) in enumerate(zip(groups, lists, strict=True)):
            self.group_vertices[(self.group == g).nonzero(), torch.tensor(members)] = values
            owner[members] = g
        self._member = owner[None] == self.group[:, None]  # [K, P]
        of_bit = owner.repeat_interleave(torch.tensor([table.shape[1] for table in self._tables], dtype=torch.int64))
        self.same_group = (of_bit[:, None] == of_bit).double()
        self.group_bits = self.encode(self.group_vertices) * (of_bit[None] == self.group[:, None])
        self.vertices = self._combine(lists, groups) if math.prod(sizes) <= LARGEST_LIST else None

    def encode(self, V: Tensor) -> Tensor:
        """Return the bits [m, b] of vertices V [m, P]."""
        columns = [table[V[:, p]] for p, table in enumerate(self._tables)]
        return torch.cat(columns, 1) if columns else torch.zeros(len(V), 0, dtype=torch.float64)

    def locate(self, V: Tensor) -> Tensor:
        """Return which value [m, G] each group of vertices V [m, P] has, numbered within all K."""
        agree = ((V[:, None] == self.group_vertices) | ~self._member).all(-1)  # [m, K]
        return torch.stack([(agree & (self.group == g)).int().argmax(1) for g in range(int(self.group.max()) + 1)], 1)

    def feasible(self, C: Tensor, V: Tensor) -> Tensor:
        """Return which points with continuous parts C [m, D] and listed vertices V [m, P] meet all constraints [m]."""
        if not self.loose:
            return torch.ones(len(V), dtype=torch.bool)
        X = torch.cat([C, V.double()], 1).numpy()
        return torch.from_numpy(self.space.feasible(X, strictly=True))

    def _combine(self, lists: Sequence[Tensor], groups: Sequence[tuple[list[int], list[Constraint]]]) -> Tensor:
        """Return all combinations [N, P] of the values of the groups."""
        numbers = torch.cartesian_prod(*(torch.arange(len(values)) for values in lists)) if lists else torch.zeros(1)
        numbers = numbers.reshape(-1, max(len(lists), 1))
        V = torch.zeros(len(numbers), max(len(self.space.discrete), 1), dtype=torch.int64)
        for g, ((members, _), values) in enumerate(zip(groups, lists, strict=True)):
            V[:, members] = values[numbers[:, g]]
        return V


def _groups(space: Space) -> tuple[list[tuple[list[int], list[Constraint]]], list[Constraint]]:
    """Return the groups, each as its variable numbers with its constraints, and the loose constraints."""
    place = {variable.name: p for p, variable in enumerate(space.discrete)}
    groups: list[tuple[list[int], list[Constraint]]] = [([p], []) for p in place.values()]
    loose = [constraint for constraint in space.constraints if not set(constraint.names) <= set(place)]
    for constraint in space.constraints:
        if constraint in loose:
            continue
        tied = [group for group in groups if {place[name] for name in constraint.names} & set(group[0])]
        members = sorted(p for group in tied for p in group[0])
        joint = (members, [constraint, *(one for group in tied for one in group[1])])
        if math.prod(len(space.discrete[p].vertices) for p in members) > LARGEST_LIST:
            loose.append(constraint)
        else:
            groups = [joint, *(group for group in groups if group not in tied)]
    return sorted(groups, key=lambda group: group[0]), loose


def _feasible_values(space: Space, members: Sequence[int], constraints: Sequence[Constraint]) -> Tensor:
    """Return the vertices [n, members] of a group's variables that meet its constraints."""
    variables = [space.discrete[p] for p in members]
    values = np.array(list(product(*(range(len(variable.vertices)) for variable in variables))), dtype=float)
    inside = FeasibleRegion(variables, constraints).contains(values, strictly=True)
    return torch.from_numpy(values[inside].astype(np.int64))
