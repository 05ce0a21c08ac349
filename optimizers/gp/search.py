"""Maximization of the acquisition function by alternating search (BO-FM paper, Supp. D.1).

From each start, two steps alternate until neither improves: a hill-climbing step to the best graph neighbour, and some
steps of projected BFGS on the continuous part with the analytic gradient. All starts advance as one batch.

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
from fmnas.optimizers.gp.points import Points, is_new, sample_near
from fmnas.optimizers.gp.process import Posterior
from fmnas.optimizers.gp.region import Region

MERGE_DISTANCE = 1e-3  # in unit-cube lengths: closer starts are merged


@dataclass(frozen=True)
class SearchSettings:
    """Settings of the search.

    random_points, spray_points: candidates drawn over the space and around the incumbent.
    starts: number of best candidates that are improved. rounds: maximum number of alternations.
    gain: a start is finished if no neighbour is better and an alternation gains less; the best start continues until it
    gains less than `last_gain`.
    steps: BFGS iterations per alternation; they end early if one gains less than a tenth of `gain`, relative to
    max(|acquisition|, 1).
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
    """The state of a search.

    incumbent: x [D + P]. known: all finished and pending configurations [m, D + P].
    """

    incumbent: np.ndarray
    known: np.ndarray
    settings: SearchSettings
    rng: np.random.Generator


@dataclass(frozen=True)
class Surface:
    """An acquisition function of points, of their graph neighbours, and with its continuous gradient."""

    posterior: Posterior
    acquisition: Acquisition

    def value(self, points: Points) -> Tensor:
        """Return the acquisition [m]."""
        mean, variance = self.posterior.predict(points)
        return self.acquisition.value(mean, variance.sqrt())

    def best_neighbours(self, points: Points, region: Region) -> tuple[Tensor, Tensor]:
        """Return (vertices [S, P] of the best neighbour in the region, its value [S]); -inf without one."""
        if not region.has_moves:
            return points.V, torch.full((len(points),), -torch.inf, dtype=torch.float64)
        mean, variance, _ = self.posterior.predict_from(*self.posterior.conditioned.neighbours(points))
        value = self.acquisition.value(mean, variance.sqrt())  # [S, K]
        best, k = value.masked_fill(~region.neighbours(points), -torch.inf).max(dim=1)
        vertices = points.V.clone()
        vertices[torch.arange(len(points)), region.variable[k]] = region.vertex[k]
        return vertices, best

    def climb(self, points: Points, region: Region, steps: int, tolerance: float) -> tuple[Tensor, Tensor]:
        """Return (C [S, D], value [S]) after `steps` quasi-Newton steps at fixed vertices.

        A start ends early if a step gains less than `tolerance` relative to max(|value|, 1).
        """
        V, precompute = points.V, self.posterior.conditioned.precompute
        precomputed = precompute(V)

        def objective(C: Tensor, which: Tensor) -> tuple[Tensor, Tensor]:
            vertices = V[which]
            value, gradient = self.with_gradient(C, precomputed if len(which) == len(V) else precompute(vertices))
            return torch.where(region.feasible(Points(C, vertices)), -value, torch.inf), -gradient

        C, negative = minimise(objective, points.C, region.box, iterations=steps, tolerance=tolerance)
        return C, -negative

    def with_gradient(self, C: Tensor, precomputed: Any) -> tuple[Tensor, Tensor]:
        """Return (acquisition [S], gradient by C [S, D]); precomputed: from the correlation's `precompute(V)`."""
        posterior = self.posterior
        r, own, pullback = posterior.conditioned.with_pullback(C, precomputed)
        mean, variance, weights = posterior.predict_from(r, own)
        deviation = variance.sqrt()
        value, by_mean, by_deviation = self.acquisition.slopes(mean, deviation)
        by_variance = by_deviation * posterior.s2 / deviation  # twice the derivative by variance / s2
        by_r = by_mean[:, None] * posterior.mean_by_r - by_variance[:, None] * weights
        return value, pullback(by_r, 0.5 * by_variance)


def best_of(points: Points, value: Tensor, count: int) -> Points:
    """Return the `count` points of the largest value [m], best first; all if there are fewer."""
    return points.select(value.topk(min(count, len(points))).indices)


def start_points(surface: Surface, region: Region, state: SearchState) -> Points:
    """Return the best `settings.starts` of random points and points near the incumbent.

    They are distinct, and new unless all are known.
    """
    space, settings, known, rng = region.space, state.settings, state.known, state.rng
    near = sample_near(space, state.incumbent, settings.spray_points, rng)
    near = near[region.contains(Points.from_encoded(space, near)).numpy()]
    X = np.concatenate([near, region.sample(rng, settings.random_points).to_encoded(space)])
    X = np.unique(X, axis=0)
    points = Points.from_encoded(space, X)
    top = surface.value(points).topk(min(settings.starts + len(known), len(X))).indices
    new = is_new(X[top.numpy()], known)
    top = top[torch.from_numpy(new)] if new.any() else top
    return points.select(top[: settings.starts])


def alternating_search(
    surface: Surface, region: Region, starts: Points, settings: SearchSettings
) -> tuple[Points, Tensor]:
    """Improve all starts until neither kind of step gains; return (points, values [S]), best first."""
    C, V, value = starts.C.clone(), starts.V.clone(), surface.value(starts)
    active, gain = torch.arange(len(starts)), settings.gain
    for _ in range(settings.rounds):
        before, points = value[active].clone(), Points(C, V).select(active)
        vertices, neighbour_value = surface.best_neighbours(points, region)
        moved = neighbour_value > value[active] + 1e-9
        V[active[moved]], value[active[moved]] = vertices[moved], neighbour_value[moved]
        if C.shape[1]:
            C[active], climbed = surface.climb(Points(C, V).select(active), region, settings.steps, gain / 10.0)
            value[active] = torch.maximum(value[active], climbed)
        active = active[moved | (value[active] > before + gain)]
        active = active[_is_distinct(Points(C, V).select(active), value[active])]
        if len(active) == 0 and gain > settings.last_gain:
            active, gain = value.argmax()[None], settings.last_gain
        elif len(active) == 0:
            break
    order = value.argsort(descending=True, stable=True)
    return Points(C, V).select(order), value[order]


def _is_distinct(points: Points, value: Tensor) -> Tensor:
    """Return which points [S] to keep: the best of those with equal vertices within MERGE_DISTANCE."""
    distance = (points.C[:, None] - points.C[None]).abs().amax(-1) if points.C.shape[1] else torch.zeros(1)
    close = (distance < MERGE_DISTANCE) & (points.V[:, None] == points.V[None]).all(-1)
    order = torch.arange(len(value))
    better = (value[None] > value[:, None]) | ((value[None] == value[:, None]) & (order[None] < order[:, None]))
    return ~(close & better).any(1)
