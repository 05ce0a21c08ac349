"""Minimization of a quadratic function of bits over the feasible values of discrete variables.

    f(x) = constant + linear x + x' pairs x / 2

It is MiVaBO's integer quadratic program (Daxberger et al. 2019, Sec. 3.3; Gurobi there). With at most
`binary_codes.LARGEST_LIST` feasible combinations it is solved exactly, by evaluating all. Otherwise a tabu search
(Glover 1989) runs from each start: each step makes the best change of one group, even for the worse, but not of a group
that has just changed, unless the result is the best so far.

| symbol | shape | meaning |
|---|---|---|
| S | | problems, or starts |
| P, b, G, K, N, V | | as in binary_codes.py |
| constant, linear, pairs | [S], [S, b], [S, b, b] | coefficients; pairs are symmetric with a zero diagonal |
| level | [S, K] | f without the terms of other groups alone, for each value of a group, the rest unchanged |
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fmnas.baselines.binary_codes import BinaryCodes
from fmnas.optimizers.gp.points import Points

TABU_STEPS, PATIENCE = 300, 100
"""Largest number of steps, and of those in a row that find no better values."""
LONGEST_TENURE = 10
"""Largest number of steps for which a changed group stays, and at most two thirds of the groups: a random number, so
that no cycle lasts."""
GAIN = 1e-9


@dataclass(frozen=True)
class BinaryQuadratic:
    """The functions of S problems."""

    constant: Tensor
    linear: Tensor
    pairs: Tensor

    def value(self, X: Tensor) -> Tensor:
        """Return f [S] of one x per problem, X [S, b]."""
        return self.constant + ((self.linear + 0.5 * (self.pairs @ X[..., None])[..., 0]) * X).sum(-1)

    def values(self, X: Tensor) -> Tensor:
        """Return f [S, N] of the same x for all problems, X [N, b]."""
        rows = [X @ a + 0.5 * ((X @ Q) * X).sum(-1) for a, Q in zip(self.linear, self.pairs, strict=True)]
        return self.constant[:, None] + torch.stack(rows)


class DiscreteOracle:
    """The minimum of quadratic functions over the feasible vertices of a space. codes: those of the space."""

    def __init__(self, codes: BinaryCodes) -> None:
        self.codes = codes
        self._listed = None if codes.vertices is None else codes.encode(codes.vertices)
        listed = () if codes.vertices is None else codes.vertices.numpy()
        self._places = {row.tobytes(): n for n, row in enumerate(listed)}  # finds known ones at once

    def minimise(self, f: BinaryQuadratic, starts: Points, known: Tensor) -> tuple[Tensor, Tensor]:
        """Return the best vertices [S, P] for the continuous parts of the starts, and their values [S].

        The starts must be feasible. Vertices in known [k, P] are avoided if there are others.
        """
        return self._enumerate(f, starts, known) if self._listed is not None else self._search(f, starts, known)

    def _enumerate(self, f: BinaryQuadratic, starts: Points, known: Tensor) -> tuple[Tensor, Tensor]:
        listed, bits = self.codes.vertices, self._listed
        assert listed is not None
        assert bits is not None
        values = f.values(bits)
        for C, row in zip(starts.C, values, strict=True):
            row[~self.codes.feasible(C.expand(len(listed), -1), listed)] = torch.inf
        taken = {self._places[row] for row in map(np.ndarray.tobytes, known.numpy()) if row in self._places}
        if len(taken) < len(listed):
            values[:, list(taken)] = torch.inf
        best, n = values.min(1)
        return listed[n], best

    def _search(self, f: BinaryQuadratic, starts: Points, known: Tensor) -> tuple[Tensor, Tensor]:
        codes, rows = self.codes, torch.arange(len(starts))
        T, group = codes.group_bits, codes.group
        within = f.pairs * codes.same_group
        own = f.linear @ T.T + 0.5 * ((T @ within) * T).sum(-1)  # [S, K]
        across = f.pairs - within
        k = codes.locate(starts.V)  # [S, G]
        X, until = T[k].sum(1), torch.zeros_like(k)
        value = f.value(X)
        best_V, best = starts.V.clone(), torch.where(_is_among(starts.V, known), torch.inf, value)
        lowest, last = value.clone(), 0
        longest = min(LONGEST_TENURE, 2 * k.shape[1] // 3)
        tenures = torch.from_numpy(np.random.default_rng(0).integers(longest + 1, size=(TABU_STEPS, len(rows))))
        for step in range(TABU_STEPS):
            level = own + (across @ X[..., None])[..., 0] @ T.T
            change = level - level.gather(1, k)[:, group]
            recent = (until > step)[:, group] & (value[:, None] + change >= lowest[:, None] - GAIN)
            change = change.masked_fill(recent, torch.inf).scatter(1, k, torch.inf)
            gain, move = self._mask_infeasible(change, starts.C, k).min(1)
            moved = rows[torch.isfinite(gain)]
            changed = group[move[moved]]
            k[moved, changed], until[moved, changed] = move[moved], step + 1 + tenures[step, moved]
            value[moved] += gain[moved]
            X, V = T[k].sum(1), codes.group_vertices[k].sum(1)
            lowest = torch.minimum(lowest, value)
            better = (value < best - GAIN) & ~_is_among(V, known)
            best_V[better], best[better] = V[better], value[better]
            last = step if better.any() else last
            if step - last == PATIENCE:
                break
        return best_V, torch.where(torch.isfinite(best), best, f.value(codes.encode(best_V)))

    def _mask_infeasible(self, change: Tensor, C: Tensor, k: Tensor) -> Tensor:
        """Return the changes [S, K] with inf for those that violate a loose constraint."""
        codes = self.codes
        if not codes.loose:
            return change
        s, value = torch.isfinite(change).nonzero(as_tuple=True)
        V = codes.group_vertices[k].sum(1)[s]
        moved = k[s, codes.group[value]]
        V += codes.group_vertices[value] - codes.group_vertices[moved]
        bad = ~codes.feasible(C[s], V)
        change[s[bad], value[bad]] = torch.inf
        return change


def _is_among(V: Tensor, known: Tensor) -> Tensor:
    """Return which vertices V [m, P] are rows of known [k, P]: booleans [m]."""
    return (V[:, None] == known).all(-1).any(1)
