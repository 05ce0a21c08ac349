"""Minimization of a drawn function u' W v over a mixed space: the two oracles of MiVaBO (Daxberger et al. 2019).

Alternation (Sec. 3.3): the discrete part by an integer quadratic program, the continuous part by BFGS, in turns from
each start until neither gains.

Dual decomposition (App. D, E): dual_bound.py proposes points, which are further starts, and bounds the minimum from
below.

| symbol | shape | meaning |
|---|---|---|
| S | | starts |
| N, V, C | | as in binary_codes.py and linear_model.py |
"""

import torch
from torch import Tensor

from fmnas.baselines.binary_codes import BinaryCodes
from fmnas.baselines.binary_quadratic import DiscreteOracle
from fmnas.baselines.dual_bound import DualProblem
from fmnas.baselines.linear_model import LinearFunction
from fmnas.optimizers.gp.bfgs import minimise
from fmnas.optimizers.gp.points import Points
from fmnas.optimizers.gp.region import Region

ROUNDS = 50
GAIN = 1e-9
BFGS_STEPS = 100


class MixedSearch:
    """The oracles for a space."""

    def __init__(self, codes: BinaryCodes) -> None:
        self.codes, self.region, self._oracle = codes, Region(codes.space), DiscreteOracle(codes)

    def alternate(self, f: LinearFunction, starts: Points, known: Tensor) -> tuple[Points, Tensor]:
        """Return local minima from feasible starts, best first, and their values [S].

        Vertices in known [k, P] are avoided if there are others.
        """
        points, value = starts, torch.full((len(starts),), torch.inf, dtype=torch.float64)
        for _ in range(ROUNDS):
            V, lowest = self._oracle.minimise(f.quadratic(points.C), points, known)
            points = Points(points.C, V)
            if points.C.shape[1]:
                C, lowest = self._descend(f, points)
                points = Points(C, V)
            gained, value = (lowest < value - GAIN).any(), lowest
            if not gained:
                break
        order = value.argsort(dim=0, stable=True)
        return points.select(order), value[order]

    def _descend(self, f: LinearFunction, points: Points) -> tuple[Tensor, Tensor]:
        """Return (C [S, D], values [S]) after BFGS at fixed vertices."""
        waves = f.waves(self.codes.encode(points.V))

        def objective(C: Tensor, which: Tensor) -> tuple[Tensor, Tensor]:
            value, gradient = f.along(C, waves[which])
            return torch.where(self.region.feasible(Points(C, points.V[which])), value, torch.inf), gradient

        return minimise(objective, points.C, self.region.box, iterations=BFGS_STEPS)

    def decompose(self, f: LinearFunction, starts: Points, known: Tensor) -> tuple[Points, Tensor, float]:
        """Return what `alternate` does, from more starts, and a lower bound of the function over the space.

        There must be a list of all combinations of discrete values.
        """
        points, value = self.alternate(f, starts, known)
        bound, proposed = DualProblem(f, self.codes).maximise(float(value[0]))
        proposed = proposed.select(self.region.feasible(proposed))
        if len(proposed):
            values = f.value(self.codes.encode(proposed.V), proposed.C)
            more, more_value = self.alternate(
                f, proposed.select(values.argsort(dim=0, stable=True)[: len(starts)]), known
            )
            points, value = points.concat(more), torch.cat([value, more_value])
        order = value.argsort(dim=0, stable=True)
        return points.select(order), value[order], bound
