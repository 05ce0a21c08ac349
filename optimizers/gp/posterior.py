"""The Gaussian process given its observations: predictions at any point, in the units of y.

| symbol | shape | meaning |
|---|---|---|
| n, m | | observations; points to predict at |
| r | [m, n] | correlation of points with observations |
| A | [n, n] | R + g I, the observations' correlation with noise |
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fmnas.optimizers.gp.factors import Weights
from fmnas.optimizers.gp.graph_part import GraphPart, Traced
from fmnas.optimizers.gp.likelihood import Likelihood
from fmnas.optimizers.gp.points import Points

CHUNK = 128  # points predicted at once


@dataclass(frozen=True)
class Parameters:
    """Fitted parameters: theta [D], alpha [P], beta [P], share w, noise ratio g, mean mu, output scale s2."""

    theta: Tensor
    alpha: Tensor
    beta: Tensor
    w: Tensor
    g: float
    mu: float
    s2: float


@dataclass(frozen=True)
class VertexCache:
    """What is known of m points by their vertices alone, worth keeping while only their continuous parts change.

    weights: of their pairs with the observations (factors.py). prior [m]: r of each with itself.
    """

    weights: Weights
    prior: Tensor


class Posterior:
    """The process with the parameters eta, given the observations of a likelihood at `points`."""

    def __init__(self, likelihood: Likelihood, points: Points, eta: Tensor) -> None:
        self.likelihood, self.factors, self.points, self.eta = likelihood, likelihood.factors, points, eta
        self.combination = likelihood.kernel.combination
        theta, alpha, beta, w, g = (part[0] for part in likelihood.split(eta[None]))
        self.parameters = Parameters(theta, alpha, beta, w, float(g), 0.0, 1.0)
        self._graphs = GraphPart(self.factors, alpha[None], beta[None])
        self.N = self._graphs.N[0]  # [P]
        self._diagonals = [self.factors.diagonal(p, beta) / self.N[p] for p in range(self.factors.P)]
        self._rows = self.factors.rows(points.V)
        A = likelihood.correlation(eta)
        A.diagonal().add_(g)
        self.inverse = torch.cholesky_inverse(torch.linalg.cholesky(A))
        y = likelihood.y
        mu = float((self.inverse @ y).sum() / self.inverse.sum())
        self.weights = self.inverse @ (y - mu)  # [n], A^-1 (y - mu)
        s2 = max(float(((y - mu) @ self.weights) / len(y)), 1e-300)
        self.parameters = replace(self.parameters, mu=mu, s2=s2)

    def squared_distance(self, C: Tensor) -> Tensor:
        """d2 [m, n] from continuous parts C [m, D] to the observations."""
        theta = self.parameters.theta
        return torch.cdist(C / theta, self.points.C / theta, compute_mode="donot_use_mm_for_euclid_dist").square_()

    def on(self, V: Tensor) -> VertexCache:
        """What is known of points on the vertices V [m, P]."""
        return VertexCache(self.factors.against(self._rows, V), self._prior(V))

    def correlation(self, C: Tensor, here: VertexCache) -> Tensor:
        """r [m, n] between points with continuous parts C and the observations."""
        d2 = self.squared_distance(C)
        q, s = (part.reshape(d2.shape) for part in self._graphs.of(here.weights, d2.reshape(1, -1)))
        return self.combination.combine(q, s, d2, self.parameters.w)

    def correlation_and_slope(self, C: Tensor, here: VertexCache) -> tuple[Tensor, Tensor]:
        """(r, d r / d d2), each [m, n]."""
        d2, w = self.squared_distance(C), self.parameters.w
        traced = Traced(self._graphs, here.weights, d2.reshape(1, -1))
        q, s, q_slope, s_slope = (part.reshape(d2.shape) for part in (traced.q, traced.s, *traced.slopes()))
        by_q, by_s, by_d2, _ = self.combination.slopes(q, s, d2, w)
        return self.combination.combine(q, s, d2, w), by_d2 + by_q * q_slope + by_s * s_slope

    def graph_tables(self, d2: Tensor) -> list[Tensor]:
        """For each discrete variable the normalised factor between every vertex and each observation: [m, V_p, n]."""
        return self._graphs.tables(self._rows, d2)

    def _prior(self, V: Tensor) -> Tensor:
        own = torch.stack([diagonal[V[:, p]] for p, diagonal in enumerate(self._diagonals)])  # [P, m]
        return self._at_home(own.prod(0), own.mean(0))

    def priors_around(self, V: Tensor) -> Tensor:
        """The same [m, K] when each variable in turn takes each of its values: K values of all variables together."""
        own = torch.stack([diagonal[V[:, p]] for p, diagonal in enumerate(self._diagonals)])
        new = torch.cat([diagonal.expand(len(V), -1) for diagonal in self._diagonals], 1)  # [m, K]
        old = torch.cat([own[p, :, None].expand(-1, len(d)) for p, d in enumerate(self._diagonals)], 1)
        return self._at_home(own.prod(0)[:, None] * (new / old), own.mean(0)[:, None] + (new - old) / len(own))

    def _at_home(self, q: Tensor, s: Tensor) -> Tensor:
        return self.combination.combine(q, s, torch.zeros_like(q), self.parameters.w)

    def predict_from(self, r: Tensor, prior: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(mean [m], variance [m], A^-1 r [m, n]) from correlations r [m, n]; the variance is of f, without noise."""
        parameters = self.parameters
        solved = r @ self.inverse
        variance = parameters.s2 * (prior - (solved * r).sum(-1))
        return parameters.mu + r @ self.weights, variance.clamp(min=1e-12), solved

    def predict(self, C: Tensor, V: Tensor) -> tuple[Tensor, Tensor]:
        """(mean [m], variance [m]) at points; in chunks, so that memory stays small."""
        means, variances = [], []
        for c, v in zip(C.split(CHUNK), V.split(CHUNK), strict=True):
            here = self.on(v)
            mean, variance, _ = self.predict_from(self.correlation(c, here), here.prior)
            means.append(mean)
            variances.append(variance)
        return torch.cat(means), torch.cat(variances)
