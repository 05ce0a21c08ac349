"""The discrete side of a kernel on many pairs of points at once: the fast path of kernels.py.

Equal eigenvalues of a graph are merged: sum_i U[v,i] f(lambda_i) U[v',i] = sum_e M_e[v, v'] f(mu_e), where M_e projects
onto the eigenspace of mu_e. A complete graph has two eigenvalues, 0 and V, and needs only to know whether v = v'.
Variables with the same number of distinct eigenvalues are computed together.

| symbol | shape | meaning |
|---|---|---|
| B, M | | parameter sets evaluated together; pairs of points |
| d2 | [B, M] | squared continuous distance of each pair |
| alpha, beta | [B, P] | parameters of each discrete variable |
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

    def values(self, weights: list[Tensor], d2: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
        """S [B, P, M], the variables in the order of `order`."""
        spectral = (self._spectral(group, d2, alpha, beta)[2] for group in self.groups)
        return torch.cat(
            [_contract(group, W, f) for group, W, f in zip(self.groups, weights, spectral, strict=True)], 1
        )

    def sums(self, weights: list[Tensor], d2: Tensor, alpha: Tensor, beta: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(S, S_a, S_b), each [B, P, M], the variables in the order of `order`."""
        values, slopes_a, slopes_b = [], [], []
        for group, W in zip(self.groups, weights, strict=True):
            b, a, f = self._spectral(group, d2, alpha, beta)
            f_b, f_a = self.spectral.partials(b, a, f)
            values.append(_contract(group, W, f))
            slopes_a.append(_contract(group, W, f_a))
            slopes_b.append(_contract(group, W, f_b * group.mu[:, :, None]))
        return torch.cat(values, 1), torch.cat(slopes_a, 1), torch.cat(slopes_b, 1)

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

    def table(self, p: int, vertices: Tensor, d2: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
        """Factor of variable p between every vertex and each of n points: [S, V, n].

        vertices [n] are the points' values of the variable, d2 [S, n], alpha and beta [P].
        """
        space = self.spaces[p]
        f = self.spectral.value((beta[p] * space.mu)[:, None, None], alpha[p] * d2)  # [E, S, n]
        return torch.einsum("evn,esn->svn", space.projectors[:, :, vertices], f)

    def diagonal(self, p: int, beta: Tensor) -> Tensor:
        """Factor of variable p between each vertex and itself at d = 0: [V], beta [P]."""
        space = self.spaces[p]
        f = self.spectral.value(beta[p] * space.mu, beta.new_zeros(1))
        return torch.einsum("evv,e->v", space.projectors, f)

    def _spectral(self, group: _Group, d2: Tensor, alpha: Tensor, beta: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(b [B, G, E, 1], a [B, G, 1, M], f [B, G, E, M])."""
        members = list(group.members)
        b = (beta[:, members, None] * group.mu)[..., None]
        a = alpha[:, members, None, None] * d2[:, None, None, :]
        return b, a, self.spectral.value(b, a)


def _contract(group: _Group, W: Tensor, f: Tensor) -> Tensor:
    """sum_e M_e f_e: [B, G, M]. On a complete graph M_0 = 1/V and M_1 = [v = v'] - 1/V."""
    if group.complete:
        return (f[:, :, 0] - f[:, :, 1]) / group.complete + W * f[:, :, 1]
    return (W * f).sum(2)
