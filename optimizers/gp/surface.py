"""What a search climbs: an acquisition over a Gaussian process.

| symbol | shape | meaning |
|---|---|---|
| S, n | | starts; observations |
| K | | vertices of all discrete variables together (region.py) |
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from fmnas.optimizers.gp.acquisition import Acquisition
from fmnas.optimizers.gp.bfgs import minimise
from fmnas.optimizers.gp.kernel import VertexCache
from fmnas.optimizers.gp.points import Points
from fmnas.optimizers.gp.posterior import Posterior
from fmnas.optimizers.gp.region import Region


@dataclass(frozen=True)
class Surface:
    """An acquisition on points, on all graph neighbours, and along its continuous gradient."""

    posterior: Posterior
    acquisition: Acquisition

    def value(self, points: Points) -> Tensor:
        """The acquisition [m]."""
        mean, variance = self.posterior.predict(points)
        return self.acquisition.value(mean, variance.sqrt())

    def best_neighbours(self, points: Points, region: Region) -> tuple[Tensor, Tensor]:
        """(vertices [S, P] of each start's best neighbour in the region, its value [S]); -inf where there is none."""
        if not region.moves:
            return points.V, torch.full((len(points),), -torch.inf, dtype=torch.float64)
        mean, variance, _ = self.posterior.predict_from(*self.posterior.correlation.neighbours(points))
        value = self.acquisition.value(mean, variance.sqrt())  # [S, K]
        best, k = value.masked_fill(~region.neighbours(points), -torch.inf).max(dim=1)
        vertices = points.V.clone()
        vertices[torch.arange(len(points)), region.variable[k]] = region.vertex[k]
        return vertices, best

    def climb(self, points: Points, region: Region, steps: int, tolerance: float) -> tuple[Tensor, Tensor]:
        """(C [S, D], value [S]) after so many quasi-Newton steps at fixed vertices, or fewer where one gains less than
        `tolerance` relative to the value.
        """
        V = points.V
        all_of_them = self.on(V)

        def objective(C: Tensor, which: Tensor) -> tuple[Tensor, Tensor]:
            vertices = V[which]
            cache = all_of_them if len(which) == len(V) else self.on(vertices)
            value, gradient = self.with_gradient(C, cache)
            return torch.where(region.feasible(Points(C, vertices)), -value, torch.inf), -gradient

        C, negative = minimise(objective, points.C, region.box, iterations=steps, tolerance=tolerance)
        return C, -negative

    def on(self, V: Tensor) -> VertexCache:
        """What the process knows of points by their vertices V [S, P] alone."""
        return self.posterior.correlation.on(V)

    def with_gradient(self, C: Tensor, cache: VertexCache) -> tuple[Tensor, Tensor]:
        """(the acquisition [S], its gradient over C [S, D]) of points whose vertices are those of the cache."""
        posterior = self.posterior
        r, own, pullback = cache.with_pullback(C)
        mean, variance, solved = posterior.predict_from(r, own)
        deviation = variance.sqrt()
        value, by_mean, by_deviation = self.acquisition.slopes(mean, deviation)
        by_variance = by_deviation * posterior.s2 / deviation  # twice its slope along own - r A^-1 r'
        by_r = by_mean[:, None] * posterior.weights - by_variance[:, None] * solved
        return value, pullback(by_r, 0.5 * by_variance)
