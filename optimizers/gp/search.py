"""The search for the configuration with the largest acquisition (BO-FM paper, Supp. D.1).

From each start, alternate until neither helps: one hill-climbing step to the best graph neighbour, then some steps
along the continuous part, a projected BFGS with the analytic gradient. All starts advance together as one batch.

| symbol | shape | meaning |
|---|---|---|
| S, n | | starts; observations |
| K | | vertices of all discrete variables together (region.py) |
| C, V | [S, D], [S, P] | continuous part and vertices of each start |
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fmnas.optimizers.gp.acquisition import Acquisition
from fmnas.optimizers.gp.bfgs import minimise
from fmnas.optimizers.gp.points import Points, new_among, spray
from fmnas.optimizers.gp.process import Posterior
from fmnas.optimizers.gp.region import Region

MEETING = 1e-3  # in unit-cube lengths: starts as near as this climb the same hill


@dataclass(frozen=True)
class SearchSettings:
    """How hard to search.

    random_points, spray_points: candidates drawn over the space and around the incumbent.
    starts: how many of the best candidates are improved. rounds: most alternations.
    gain: a start is done when no neighbour is better and an alternation raises its value by less; the best of all
    goes on until it gains less than `last_gain`.
    steps: iterations of BFGS in each; they end earlier when one gains less than a tenth of the gain.
    """

    random_points: int = 500
    spray_points: int = 100
    starts: int = 6
    rounds: int = 20
    steps: int = 5
    gain: float = 1e-3
    last_gain: float = 1e-6


PAPER_SEARCH = SearchSettings(random_points=100_000, spray_points=50, starts=40, rounds=500, steps=1, gain=1e-6)
"""The paper's numbers."""


@dataclass(frozen=True)
class SearchState:
    """From where an ask searches, and how.

    incumbent: x [D + P]. known: all that was tried or is being tried [m, D + P]. settings: how hard. rng: its draws.
    """

    incumbent: np.ndarray
    known: np.ndarray
    settings: SearchSettings
    rng: np.random.Generator


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
        V, on = points.V, self.posterior.correlation.on
        all_of_them = on(V)

        def objective(C: Tensor, which: Tensor) -> tuple[Tensor, Tensor]:
            vertices = V[which]
            value, gradient = self.with_gradient(C, all_of_them if len(which) == len(V) else on(vertices))
            return torch.where(region.feasible(Points(C, vertices)), -value, torch.inf), -gradient

        C, negative = minimise(objective, points.C, region.box, iterations=steps, tolerance=tolerance)
        return C, -negative

    def with_gradient(self, C: Tensor, known: Any) -> tuple[Tensor, Tensor]:
        """(the acquisition [S], its gradient over C [S, D]); known: what a correlation's `on` says of the vertices."""
        posterior = self.posterior
        r, own, pullback = posterior.correlation.with_pullback(C, known)
        mean, variance, weights = posterior.predict_from(r, own)
        deviation = variance.sqrt()
        value, by_mean, by_deviation = self.acquisition.slopes(mean, deviation)
        by_variance = by_deviation * posterior.s2 / deviation  # twice the slope along variance / s2
        by_r = by_mean[:, None] * posterior.weights - by_variance[:, None] * weights
        return value, pullback(by_r, 0.5 * by_variance)


def best_of(points: Points, value: Tensor, count: int) -> Points:
    """The `count` points of the largest value [m], the best first; all where there are fewer."""
    return points.at(value.topk(min(count, len(points))).indices)


def start_points(surface: Surface, region: Region, state: SearchState) -> Points:
    """The best `settings.starts` of random points and of spray points around the incumbent.

    They are distinct, and none is one of the known points unless there is no other.
    """
    space, settings, known, rng = region.space, state.settings, state.known, state.rng
    sprayed = spray(space, state.incumbent, settings.spray_points, rng)
    sprayed = sprayed[region.contains(Points.of(space, sprayed)).numpy()]
    X = np.concatenate([sprayed, region.sample(rng, settings.random_points).encoded(space)])
    X = np.unique(X, axis=0)
    points = Points.of(space, X)
    top = surface.value(points).topk(min(settings.starts + len(known), len(X))).indices
    fresh = new_among(X[top.numpy()], known)
    top = top[torch.from_numpy(fresh)] if fresh.any() else top
    return points.at(top[: settings.starts])


def alternate(surface: Surface, region: Region, starts: Points, settings: SearchSettings) -> tuple[Points, Tensor]:
    """Improve every start until neither a neighbour nor a continuous step helps; (points, values [S]), best first."""
    C, V, value = starts.C.clone(), starts.V.clone(), surface.value(starts)
    active, gain = torch.arange(len(starts)), settings.gain
    for _ in range(settings.rounds):
        before, points = value[active].clone(), Points(C, V).at(active)
        vertices, neighbour_value = surface.best_neighbours(points, region)
        moved = neighbour_value > value[active] + 1e-9
        V[active[moved]], value[active[moved]] = vertices[moved], neighbour_value[moved]
        if C.shape[1]:
            C[active], climbed = surface.climb(Points(C, V).at(active), region, settings.steps, gain / 10.0)
            value[active] = torch.maximum(value[active], climbed)
        active = active[moved | (value[active] > before + gain)]
        active = active[_apart(Points(C, V).at(active), value[active])]
        if len(active) == 0 and gain > settings.last_gain:
            active, gain = value.argmax()[None], settings.last_gain
        elif len(active) == 0:
            break
    order = value.argsort(descending=True, stable=True)
    return Points(C, V).at(order), value[order]


def _apart(points: Points, value: Tensor) -> Tensor:
    """Which points [S] go on: where several have met, on the same vertices and within MEETING, the best of them."""
    distance = (points.C[:, None] - points.C[None]).abs().amax(-1) if points.C.shape[1] else torch.zeros(1)
    met = (distance < MEETING) & (points.V[:, None] == points.V[None]).all(-1)
    order = torch.arange(len(value))
    better = (value[None] > value[:, None]) | ((value[None] == value[:, None]) & (order[None] < order[:, None]))
    return ~(met & better).any(1)
