"""The search for the configuration with the largest expected improvement (BO-FM paper, Supp. D.1).

From each start, alternate until neither helps: one hill-climbing step to the best graph neighbour, then L-BFGS-B on the
continuous part with the analytic gradient. All starts advance together as one batch.

| symbol | shape | meaning |
|---|---|---|
| S, n | | starts; observations of the posterior |
| C, V | [S, D], [S, P] | continuous part and vertices of each start |
| r | [S, n] | correlation between starts and observations |
"""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fmnas.optimizers.gp.acquisition import log_expected_improvement, log_expected_improvement_slopes
from fmnas.optimizers.gp.bfgs import Box, Objective, minimise
from fmnas.optimizers.gp.points import Points
from fmnas.optimizers.gp.posterior import Posterior, VertexCache
from fmnas.search_spaces import Space

SAME = 1e-9  # encoded points nearer than this in every column are one
NEAR = (0.1, 0.01, 0.001)  # jitter around the incumbent, in unit-cube lengths
MEETING = 1e-3  # in unit-cube lengths: starts as near as this climb the same hill


@dataclass(frozen=True)
class SearchSettings:
    """How hard to search.

    random_points, spray_points: candidates drawn over the space and around the incumbent.
    starts: how many of the best candidates are improved. rounds: most alternations.
    gain: a start is done when no neighbour is better and an alternation raises its log EI by less; the best of all
    goes on until it gains less than `last_gain`.
    steps: L-BFGS-B iterations in each; they end earlier when one gains less than a tenth of the gain.
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


class Acquisition:
    """log EI of a posterior below `best`, on points, on all graph neighbours, and with its continuous gradient.

    held: the discrete variables (numbers from 0) whose vertices stay; with all of them, no point has neighbours.
    box: where the continuous part may move to; None: the unit cube.
    """

    def __init__(
        self,
        space: Space,
        posterior: Posterior,
        best: float,
        held: Collection[int] = (),
        box: Box | None = None,
    ) -> None:
        self.space, self.posterior, self.best = space, posterior, best
        self.box = box or unit_cube(space)
        sizes = [len(variable.vertices) for variable in space.discrete]
        self._variable = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes, dtype=torch.int64))  # [K]
        self._vertex = torch.cat([torch.arange(size) for size in sizes]) if sizes else self._variable
        self._adjacency = [
            torch.tensor(v.adjacency, dtype=torch.bool) & (p not in held) for p, v in enumerate(space.discrete)
        ]
        self.moves = any(p not in held for p in range(len(sizes)))

    def __call__(self, points: Points) -> Tensor:
        """log EI [m]."""
        mean, variance = self.posterior.predict(points.C, points.V)
        return log_expected_improvement(mean, variance.sqrt(), self.best)

    def feasible(self, C: Tensor, V: Tensor) -> Tensor:
        """Whether the space's constraints hold [m], for continuous parts C [m, D] and vertices V [m, P]."""
        if not self.space.constraints:
            return torch.ones(len(C), dtype=torch.bool)
        return torch.from_numpy(self.space.feasible(Points(C, V).encoded(self.space)))

    def best_neighbours(self, points: Points) -> tuple[Tensor, Tensor]:
        """(vertices [S, P] of each start's best feasible graph neighbour, its log EI [S]); -inf where there is none."""
        posterior, starts = self.posterior, torch.arange(len(points))
        if not self.moves:
            return points.V, torch.full((len(points),), -torch.inf, dtype=torch.float64)
        d2 = posterior.squared_distance(points.C)
        tables = posterior.graph_tables(d2)  # P times [S, V_p, n]
        own = torch.stack([table[starts, points.V[:, p]] for p, table in enumerate(tables)])  # [P, S, n]
        product, total = _products_of_others(own), own.sum(0)
        q = torch.cat([table * product[p, :, None] for p, table in enumerate(tables)], 1)  # [S, K, n]
        s = q
        if posterior.combination.additive:
            s = torch.cat([table + (total - own[p])[:, None] for p, table in enumerate(tables)], 1) / len(own)
        r = posterior.combination.combine(q, s, d2[:, None], posterior.parameters.w)
        mean, variance, _ = posterior.predict_from(r, posterior.priors_around(points.V))
        value = log_expected_improvement(mean, variance.sqrt(), self.best)  # [S, K]
        best, k = value.masked_fill(~self._edges(points), -torch.inf).max(dim=1)
        vertices = points.V.clone()
        vertices[starts, self._variable[k]] = self._vertex[k]
        return vertices, best

    def _edges(self, points: Points) -> Tensor:
        """Which of the K vertices of all variables [S, K] a start may move to: an edge away, and feasible."""
        edges = torch.cat([edge[points.V[:, p]] for p, edge in enumerate(self._adjacency)], 1)
        if self.space.constraints:
            start, k = edges.nonzero(as_tuple=True)
            V = points.V[start]
            V[torch.arange(len(k)), self._variable[k]] = self._vertex[k]
            edges[start, k] = self.feasible(points.C[start], V)
        return edges

    def with_gradient(self, C: Tensor, here: VertexCache) -> tuple[Tensor, Tensor]:
        """(log EI [S], its gradient over C [S, D]) of points whose vertices are `here`."""
        posterior, parameters = self.posterior, self.posterior.parameters
        r, r_slope = posterior.correlation_and_slope(C, here)
        mean, variance, solved = posterior.predict_from(r, here.prior)
        deviation = variance.sqrt()
        value, by_mean, by_deviation = log_expected_improvement_slopes(mean, deviation, self.best)
        # d log EI / d r, by the mean and by the variance s2 (prior - r A^-1 r')
        pull = by_mean[:, None] * posterior.weights - (by_deviation * parameters.s2 / deviation)[:, None] * solved
        by_d2 = pull * r_slope  # [S, n]
        gradient = by_d2.sum(-1, keepdim=True) * C - by_d2 @ posterior.points.C
        return value, 2.0 * gradient / parameters.theta.square()


def new_among(X: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Which of the points X [m, D + P] are none of the known ones [n, D + P]: booleans [m]."""
    distance = np.abs(X[:, None] - known[None]).max(axis=2, initial=0.0)
    return np.asarray(distance.min(axis=1, initial=np.inf) > SAME)


def unit_cube(space: Space) -> Box:
    """Bounds of the continuous part."""
    zeros = torch.zeros(len(space.continuous), dtype=torch.float64)
    return Box(zeros, zeros + 1.0)


def _products_of_others(own: Tensor) -> Tensor:
    """[P, S, n]: at p the product of all but the p-th."""
    one = torch.ones_like(own[:1])
    before = torch.cat([one, own[:-1]]).cumprod(0)
    after = torch.cat([one, own[1:].flip(0)]).cumprod(0).flip(0)
    return before * after


def start_points(acquisition: Acquisition, state: SearchState) -> Points:
    """The best `settings.starts` of random points and of spray points around the incumbent.

    They are distinct, and none is one of the known points unless there is no other.
    """
    space, settings, known, rng = acquisition.space, state.settings, state.known, state.rng
    sprayed = spray(space, state.incumbent, settings.spray_points, rng)
    sprayed = sprayed[space.feasible(sprayed)]
    X = np.concatenate([sprayed, space.sample_encoded(rng, settings.random_points)])
    X = np.unique(X, axis=0)
    points = Points.of(space, X)
    top = acquisition(points).topk(min(settings.starts + len(known), len(X))).indices
    fresh = new_among(X[top.numpy()], known)
    top = top[torch.from_numpy(fresh)] if fresh.any() else top
    return points.at(top[: settings.starts])


def spray(space: Space, incumbent: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Points [count, D + P] around the incumbent.

    Its continuous part is jittered; every second point also moves along one edge of one graph.
    """
    X = around(space, incumbent, count, NEAR, rng)
    D = len(space.continuous)
    for row in X[::2] if space.discrete else ():
        p = int(rng.integers(len(space.discrete)))
        row[D + p] = rng.choice(space.discrete[p].neighbours[int(row[D + p])])
    return X


def around(
    space: Space, incumbent: np.ndarray, count: int, jitter: tuple[float, ...], rng: np.random.Generator
) -> np.ndarray:
    """Points [count, D + P] with the incumbent's vertices and, jittered, its continuous part.

    jitter: standard deviations of a normal, one chosen for each point.
    """
    D = len(space.continuous)
    X = np.tile(incumbent, (count, 1))
    scale = rng.choice(jitter, size=(count, 1))
    X[:, :D] = (X[:, :D] + scale * rng.standard_normal((count, D))).clip(0.0, 1.0)
    return X


def alternate(acquisition: Acquisition, starts: Points, settings: SearchSettings) -> tuple[Points, Tensor]:
    """Improve every start until neither a neighbour nor a continuous step helps; (points, log EI [S]), best first."""
    C, V, value = starts.C.clone(), starts.V.clone(), acquisition(starts)
    active, gain = torch.arange(len(starts)), settings.gain
    for _ in range(settings.rounds):
        before = value[active].clone()
        moved = _alternate_once(acquisition, C, V, value, active, settings.steps, gain / 10.0)
        active = active[moved | (value[active] > before + gain)]
        active = active[_apart(Points(C, V).at(active), value[active])]
        if len(active) == 0 and gain > settings.last_gain:
            active, gain = value.argmax()[None], settings.last_gain
        elif len(active) == 0:
            break
    order = value.argsort(descending=True, stable=True)
    return Points(C, V).at(order), value[order]


def _alternate_once(
    acquisition: Acquisition, C: Tensor, V: Tensor, value: Tensor, active: Tensor, steps: int, tolerance: float
) -> Tensor:
    """Move the active starts to their best neighbours, then along the gradient, in place; which changed vertices."""
    vertices, neighbour_value = acquisition.best_neighbours(Points(C, V).at(active))
    moved = neighbour_value > value[active] + 1e-9
    V[active[moved]], value[active[moved]] = vertices[moved], neighbour_value[moved]
    if C.shape[1]:
        objective = _continuous(acquisition, V[active])
        C[active], negative = minimise(objective, C[active], acquisition.box, iterations=steps, tolerance=tolerance)
        value[active] = torch.maximum(value[active], -negative)
    return moved


def _apart(points: Points, value: Tensor) -> Tensor:
    """Which points [S] go on: where several have met, on the same vertices and within MEETING, the best of them."""
    distance = (points.C[:, None] - points.C[None]).abs().amax(-1) if points.C.shape[1] else torch.zeros(1)
    met = (distance < MEETING) & (points.V[:, None] == points.V[None]).all(-1)
    order = torch.arange(len(value))
    better = (value[None] > value[:, None]) | ((value[None] == value[:, None]) & (order[None] < order[:, None]))
    return ~(met & better).any(1)


def _continuous(acquisition: Acquisition, V: Tensor) -> Objective:
    """Minus the log EI as a function of the continuous part, at fixed vertices V [S, P]; inf where not feasible."""
    posterior = acquisition.posterior
    all_of_them = posterior.on(V)

    def objective(x: Tensor, which: Tensor) -> tuple[Tensor, Tensor]:
        vertices = V[which]
        here = all_of_them if len(which) == len(V) else posterior.on(vertices)
        log_ei, gradient = acquisition.with_gradient(x, here)
        return torch.where(acquisition.feasible(x, vertices), -log_ei, torch.inf), -gradient

    return objective
