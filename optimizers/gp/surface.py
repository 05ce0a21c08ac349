"""What a search climbs: an acquisition over a Gaussian process, or over several that are averaged.

Several are for parameters that are drawn rather than fitted: the acquisition is then the mean over the draws.

| symbol | shape | meaning |
|---|---|---|
| S, n | | starts; observations |
| k | | processes |
| K | | vertices of all discrete variables together (region.py) |
"""

from collections.abc import Sequence
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

    posteriors: tuple[Posterior, ...]
    acquisition: Acquisition

    @classmethod
    def of(cls, posteriors: Posterior | Sequence[Posterior], acquisition: Acquisition) -> "Surface":
        """The surface of one process, or of the mean of several."""
        several = (posteriors,) if isinstance(posteriors, Posterior) else tuple(posteriors)
        return cls(several, acquisition)

    @property
    def posterior(self) -> Posterior:
        """The process; of several, the first."""
        return self.posteriors[0]

    def value(self, points: Points) -> Tensor:
        """The acquisition [m]."""
        predictions = (posterior.predict(points) for posterior in self.posteriors)
        return self._together([self.acquisition.value(mean, variance.sqrt()) for mean, variance in predictions])[0]

    def best_neighbours(self, points: Points, region: Region) -> tuple[Tensor, Tensor]:
        """(vertices [S, P] of each start's best neighbour in the region, its value [S]); -inf where there is none."""
        if not region.moves:
            return points.V, torch.full((len(points),), -torch.inf, dtype=torch.float64)
        each = []
        for posterior in self.posteriors:
            mean, variance, _ = posterior.predict_from(*posterior.correlation.neighbours(points))
            each.append(self.acquisition.value(mean, variance.sqrt()))  # [S, K]
        value, _ = self._together(each)
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
            caches = all_of_them if len(which) == len(V) else self.on(vertices)
            value, gradient = self.with_gradient(C, caches)
            return torch.where(region.feasible(Points(C, vertices)), -value, torch.inf), -gradient

        C, negative = minimise(objective, points.C, region.box, iterations=steps, tolerance=tolerance)
        return C, -negative

    def on(self, V: Tensor) -> list[VertexCache]:
        """What each process knows of points by their vertices V [S, P] alone."""
        return [posterior.correlation.on(V) for posterior in self.posteriors]

    def with_gradient(self, C: Tensor, caches: Sequence[VertexCache]) -> tuple[Tensor, Tensor]:
        """(the acquisition [S], its gradient over C [S, D]) of points whose vertices are those of the caches."""
        each = [self._of_one(p, C, cache) for p, cache in zip(self.posteriors, caches, strict=True)]
        value, share = self._together([value for value, _ in each])
        if len(each) == 1:
            return each[0]
        return value, sum((share[k, :, None] * slope for k, (_, slope) in enumerate(each)), torch.zeros_like(C))

    def _of_one(self, posterior: Posterior, C: Tensor, cache: VertexCache) -> tuple[Tensor, Tensor]:
        r, own, pullback = cache.with_pullback(C)
        mean, variance, solved = posterior.predict_from(r, own)
        deviation = variance.sqrt()
        value, by_mean, by_deviation = self.acquisition.slopes(mean, deviation)
        by_variance = by_deviation * posterior.s2 / deviation  # twice its slope along own - r A^-1 r'
        by_r = by_mean[:, None] * posterior.weights - by_variance[:, None] * solved
        return value, pullback(by_r, 0.5 * by_variance)

    def _together(self, values: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """(the value of all processes together [...], how it moves with each of them [k, ...])."""
        if len(values) == 1:
            return values[0], torch.ones_like(values[0])[None]
        return self.acquisition.average(torch.stack(list(values)))
