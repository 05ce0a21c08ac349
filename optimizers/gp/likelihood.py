"""The marginal likelihood of an exact Gaussian process, with its analytic gradient, for many parameter sets at once.

| symbol | shape | meaning |
|---|---|---|
| n, D, P | | observations; continuous and discrete variables |
| M | n (n + 1) / 2 | pairs of observations, each with itself too |
| C, V | [n, D], [n, P] | observed configurations: unit cube, vertex indices |
| y | [n] | observations, standardised |
| q, s, r | [B, M] | graph parts and correlation of each pair; 1 on average for a point with itself |
| g | [B] | noise variance divided by the output scale s2 |
| mu, s2 | [B] | constant mean and output scale, both in closed form given the rest |
| eta | [B, D + 2P + 2] | what is searched: log theta, log alpha, log beta, log w / (1 - w), log g |

With A = R + g I: mu = 1'A^-1 y / 1'A^-1 1, s2 = (y - mu)'A^-1 (y - mu) / n, and the negative log likelihood is
n/2 (log 2 pi + 1 + log s2) + 1/2 log det A (Rasmussen & Williams 2006, Eq. 5.8, with s2 and mu maximised out).
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fmnas.optimizers.gp.bfgs import Box
from fmnas.optimizers.gp.factors import Factors
from fmnas.optimizers.gp.frequency_modulation import FastKernel
from fmnas.optimizers.gp.graph_part import GraphPart, Traced
from fmnas.optimizers.gp.points import Points
from fmnas.search_spaces import Space

# Bounds of theta (in unit-cube lengths), alpha, beta, w / (1 - w) and g: wide enough that a bound means "no influence".
THETA, ALPHA, BETA, ODDS, NOISE = (1e-2, 1e2), (1e-4, 1e3), (1e-4, 1e3), (1e-3, 1e3), (1e-6, 1e1)
UNIT_DEVIATION = 12**-0.5  # standard deviation of the uniform distribution: the starts are in standardised units
TOGETHER = 1 << 20  # entries of the matrices that are decomposed at once: more spare nothing and take memory


@dataclass(frozen=True)
class Prior:
    """Log-normal priors: (median, standard deviation of the logarithm) of each kind of parameter.

    theta is in unit-cube lengths. alpha is for D P = 1, beta for P = 1: alpha is divided by D P, as its starts are, and
    beta multiplied by P, so that two random points are as much alike in a large space as in a small one. They are
    proper and weak: they hold a parameter that the data say nothing about, and give way to some ten observations.
    """

    theta: tuple[float, float] = (0.5, 1.0)
    alpha: tuple[float, float] = (1.0, 1.5)
    beta: tuple[float, float] = (0.5, 1.5)
    odds: tuple[float, float] = (1.0, 1.5)
    g: tuple[float, float] = (1e-3, 2.5)


class Likelihood:
    """The negative log likelihood per observation of a data set, with its gradient, for a batch of eta.

    prior: adds the negative log density of eta to it (maximum a posteriori); None leaves maximum likelihood.
    """

    def __init__(self, space: Space, kernel: FastKernel, points: Points, y: Tensor, prior: Prior | None = None) -> None:
        self.kernel = kernel
        self.factors = Factors(space, kernel.modulation, kernel.combination.additive)
        self.D, self.P, self.n = points.C.shape[1], self.factors.P, len(points)
        self.y = y
        self._has_graphs = bool(space.discrete)
        self._i, self._j = torch.triu_indices(self.n, self.n)
        self._flat = self._j * self.n + self._i  # places in the lower triangle of R
        self._twice = torch.where(self._i == self._j, 1.0, 2.0).double()  # a pair stands for two entries of R
        self._weights = self.factors.pairs(points.V[self._i], points.V[self._j])
        self._squares = (points.C.T[:, self._i] - points.C.T[:, self._j]).square_()  # [D, M]
        self._together = max(1, TOGETHER // self.n**2)
        self._prior = None if prior is None else self._normal(prior)

    def _normal(self, prior: Prior) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of eta, each [D + 2P + 2]."""
        median, deviation = prior.alpha
        alpha = (median / (max(self.D, 1) * self.P), deviation)
        beta = (prior.beta[0] * self.P, prior.beta[1])
        rows = [prior.theta] * self.D + [alpha] * self.P + [beta] * self.P + [prior.odds, prior.g]
        medians, deviations = torch.tensor(rows, dtype=torch.float64).T
        return medians.log(), deviations

    def box(self) -> Box:
        """Bounds of eta; what the kernel does not have is held at 1.

        Without discrete variables alpha too: theta alone scales the distance.
        """
        combination = self.kernel.combination
        alpha = ALPHA if combination.modulated and self._has_graphs else (1.0, 1.0)
        odds = ODDS if combination.weighted else (1.0, 1.0)
        bounds = [THETA] * self.D + [alpha] * self.P + [BETA] * self.P + [odds, NOISE]
        lower, upper = torch.tensor(bounds, dtype=torch.float64).log().T
        return Box(lower, upper)

    def at_prior_medians(self, eta: Tensor) -> Tensor:
        """eta [D + 2P + 2] with all but its noise at the prior's medians; eta itself without a prior."""
        if self._prior is None:
            return eta
        typical = self.box().clip(self._prior[0])
        return torch.cat([typical[:-1], eta[-1:]])

    def starts(self, rng: np.random.Generator, count: int, smooth: bool = False) -> Tensor:
        """Random starts [count, D + 2P + 2].

        theta ~ U(0.25, 2) in standardised units, beta ~ U(0, 2), g ~ exp U(-4, -2), w = 1/2, alpha ~ U(0, 2) / (D P):
        alpha d2 adds up over D dimensions and P factors, and from alphas of order 1 every start falls into white noise.
        smooth: every second start has beta P times as large, for the same reason: P factors of 1/2 are nothing, too.
        """
        theta = UNIT_DEVIATION * rng.uniform(0.25, 2.0, (count, self.D))
        alpha = rng.uniform(0.0, 2.0, (count, self.P)) / (max(self.D, 1) * self.P)
        beta = rng.uniform(0.0, 2.0, (count, self.P))
        if smooth:
            beta[::2] *= self.P
        odds = np.ones((count, 1))
        g = np.exp(rng.uniform(-4.0, -2.0, (count, 1)))
        parts = [theta, alpha.clip(ALPHA[0]), beta.clip(BETA[0]), odds, g]
        return self.box().clip(torch.from_numpy(np.log(np.concatenate(parts, axis=1))))

    def split(self, eta: Tensor) -> tuple[Tensor, ...]:
        """(theta [B, D], alpha [B, P], beta [B, P], w [B], g [B]); alpha is 0 where d2 does not modulate the graphs."""
        theta, alpha, beta, odds, g = eta.exp().split([self.D, self.P, self.P, 1, 1], dim=-1)
        if not self.kernel.combination.modulated:
            alpha = torch.zeros_like(alpha)
        return theta, alpha, beta, (odds / (1.0 + odds))[:, 0], g[:, 0]

    def __call__(self, eta: Tensor, which: Tensor) -> tuple[Tensor, Tensor]:
        """(nll / n [B], gradient [B, D + 2P + 2]); inf where A is not positive definite.

        Evaluated a few at a time: a batch that outgrows the processor's cache is slower than a loop.
        """
        parts = [self._evaluate(part) for part in eta.split(self._together)]
        value, gradient = torch.cat([value for value, _ in parts]), torch.cat([gradient for _, gradient in parts])
        if self._prior is None:
            return value, gradient
        mean, deviation = self._prior
        away = (eta - mean) / deviation
        return value + 0.5 * away.square().sum(-1) / self.n, gradient + away / deviation / self.n

    def correlation(self, eta: Tensor) -> Tensor:
        """R [n, n] under one eta: its lower triangle and diagonal; zeros above."""
        theta, alpha, beta, w, _ = self.split(eta[None])
        d2 = theta.pow(-2) @ self._squares
        q, s = GraphPart(self.factors, alpha, beta).of(self._weights, d2)
        return self._lower(self.kernel.combination.combine(q, s, d2, w[:, None]))[0]

    def _evaluate(self, eta: Tensor) -> tuple[Tensor, Tensor]:
        theta, alpha, beta, w, g = self.split(eta)
        d2, combination = theta.pow(-2) @ self._squares, self.kernel.combination
        graphs = Traced(GraphPart(self.factors, alpha, beta), self._weights, d2)
        q, s = graphs.q, graphs.s
        value, by_r, by_g = self._from_correlation(combination.combine(q, s, d2, w[:, None]), g)
        by_q, by_s, by_d2, by_w = (by_r * slope for slope in combination.slopes(q, s, d2, w[:, None]))
        by_alpha, by_beta, by_graph = graphs.pull(by_q * q, by_s)
        by_theta = -2.0 * theta.pow(-2) * ((by_d2 + by_graph) @ self._squares.T)
        by_odds = w * (1.0 - w) * by_w.sum(-1)
        gradient = torch.cat([by_theta, by_alpha, by_beta, by_odds[:, None], by_g[:, None]], dim=-1)
        return value / self.n, gradient / self.n

    def _lower(self, r: Tensor) -> Tensor:
        """Pairs [B, M] as lower triangles [B, n, n]: all that a Cholesky decomposition reads."""
        R = r.new_zeros(len(r), self.n * self.n)
        return R.index_copy_(1, self._flat, r).view(-1, self.n, self.n)

    def _from_correlation(self, r: Tensor, g: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(nll [B], d nll / d r of each pair [B, M], d nll / d log g [B])."""
        A = self._lower(r)
        A.diagonal(dim1=-2, dim2=-1).add_(g[:, None])
        L, info = torch.linalg.cholesky_ex(A)
        failed = info > 0
        L[failed] = torch.eye(self.n, dtype=r.dtype)
        inverse = torch.cholesky_inverse(L)
        mu = (inverse @ self.y).sum(-1) / inverse.sum((-1, -2))
        residual = self.y - mu[:, None]
        a = (inverse @ residual[..., None])[..., 0]
        s2 = (residual * a).sum(-1).div(self.n).clamp(min=1e-300)
        logdet = 2.0 * L.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        value = 0.5 * (self.n * (math.log(2 * math.pi) + 1.0 + s2.log()) + logdet)
        scaled = a / s2.sqrt()[:, None]
        pairs = inverse.mT.reshape(len(r), -1).index_select(1, self._flat)
        pairs -= scaled[:, self._i] * scaled[:, self._j]
        by_g = 0.5 * g * (inverse.diagonal(dim1=-2, dim2=-1) - scaled.square()).sum(-1)
        return torch.where(failed, torch.inf, value), pairs.mul_(0.5 * self._twice), by_g
