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

from fmnas.optimizers.likelihood import Likelihood
from fmnas.optimizers.points import Points

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


class Posterior:
    """The process with the parameters eta, given the observations of a likelihood at `points`."""

    def __init__(self, likelihood: Likelihood, points: Points, eta: Tensor) -> None:
        self.likelihood, self.factors, self.points = likelihood, likelihood.factors, points
        self.structure = likelihood.kernel.structure
        theta, alpha, beta, w, g = (part[0] for part in likelihood.split(eta[None]))
        self.parameters = Parameters(theta, alpha, beta, w, float(g), 0.0, 1.0)
        self.N = self.factors.normaliser(beta[None])[0][0]  # [P]
        self._diagonals = [self.factors.diagonal(p, beta) / self.N[p] for p in range(self.factors.P)]
        R = self.correlation(points.C, points.V)
        L = torch.linalg.cholesky(R + g * torch.eye(len(points), dtype=R.dtype))
        self.inverse = torch.cholesky_inverse(L)
        y = likelihood.y
        mu = float((self.inverse @ y).sum() / self.inverse.sum())
        self.weights = self.inverse @ (y - mu)  # [n], A^-1 (y - mu)
        s2 = max(float(((y - mu) @ self.weights) / len(y)), 1e-300)
        self.parameters = replace(self.parameters, mu=mu, s2=s2)

    def squared_distance(self, C: Tensor) -> Tensor:
        """d2 [m, n] from continuous parts C [m, D] to the observations."""
        theta = self.parameters.theta
        return torch.cdist(C / theta, self.points.C / theta, compute_mode="donot_use_mm_for_euclid_dist").square()

    def factor_sums(self, V: Tensor, d2: Tensor, slopes: bool) -> tuple[Tensor, ...]:
        """S [P, m n], with `slopes` also S_a, of every point with vertices V [m, P] and every observation."""
        m, n = d2.shape
        i, j = torch.arange(m).repeat_interleave(n), torch.arange(n).repeat(m)
        weights = self.factors.pairs(V[i], self.points.V[j])
        a = self.likelihood.modulation(self.parameters.alpha[None], d2.reshape(1, -1))
        if not slopes:
            return (self.factors.values(weights, a, self.parameters.beta[None])[0],)
        S, S_a, _ = self.factors.sums(weights, a, self.parameters.beta[None])
        return S[0].clamp(min=1e-300), S_a[0]

    def correlation(self, C: Tensor, V: Tensor) -> Tensor:
        """r [m, n] between points and observations."""
        d2 = self.squared_distance(C)
        (S,) = self.factor_sums(V, d2, slopes=False)
        return self.structure.combine((S.prod(0) / self.N.prod()).reshape(d2.shape), d2, self.parameters.w)

    def correlation_and_slope(self, C: Tensor, V: Tensor) -> tuple[Tensor, Tensor]:
        """(r, d r / d d2), each [m, n]."""
        d2 = self.squared_distance(C)
        S, S_a = self.factor_sums(V, d2, slopes=True)
        q = (S.prod(0) / self.N.prod()).reshape(d2.shape)
        by_q, by_d2, _ = self.structure.slopes(q, d2, self.parameters.w)
        if self.structure.modulated:
            alpha = self.parameters.alpha[self.factors.order, None]
            by_d2 = by_d2 + by_q * q * (alpha * S_a / S).sum(0).reshape(d2.shape)
        return self.structure.combine(q, d2, self.parameters.w), by_d2

    def graph_tables(self, d2: Tensor) -> list[Tensor]:
        """For each discrete variable the normalised factor between every vertex and each observation: [m, V_p, n]."""
        a = self.likelihood.modulation(self.parameters.alpha[None], d2.reshape(1, -1))[0]
        rows = [a[p].reshape(d2.shape) if a.shape[-1] > 1 else a[p].expand(len(d2), 1) for p in range(self.factors.P)]
        V, beta = self.points.V, self.parameters.beta
        return [self.factors.table(p, V[:, p], rows[p], beta) / self.N[p] for p in range(self.factors.P)]

    def graph_prior(self, V: Tensor) -> Tensor:
        """The graph part q of a point with itself [m]."""
        return torch.stack([diagonal[V[:, p]] for p, diagonal in enumerate(self._diagonals)]).prod(0)

    def graph_priors_along(self, p: int, V: Tensor) -> Tensor:
        """The same [m, V_p] when variable p takes each of its values in turn."""
        return self.graph_prior(V)[:, None] * self._diagonals[p] / self._diagonals[p][V[:, p], None]

    def prior(self, q: Tensor) -> Tensor:
        """r of a point with itself, from its graph part."""
        return self.structure.combine(q, torch.zeros_like(q), self.parameters.w)

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
            mean, variance, _ = self.predict_from(self.correlation(c, v), self.prior(self.graph_prior(v)))
            means.append(mean)
            variances.append(variance)
        return torch.cat(means), torch.cat(variances)
