"""The marginal likelihood of an exact Gaussian process, with its analytic gradient, for many parameter sets at once.

| symbol | shape | meaning |
|---|---|---|
| n, D, P | | observations; continuous and discrete variables |
| M | n (n + 1) / 2 | pairs of observations, each with itself too |
| C, V | [n, D], [n, P] | observed configurations: unit cube, vertex indices |
| y | [n] | observations, standardised |
| q, r | [B, M] | graph part and correlation of each pair (structures.py); 1 for a pair of equals on average |
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

from fmnas.optimizers.factors import Factors
from fmnas.optimizers.lbfgs import Box
from fmnas.optimizers.points import Points
from fmnas.optimizers.structures import FastKernel
from fmnas.search_spaces import Space

# Bounds of theta (in unit-cube lengths), alpha, beta, w / (1 - w) and g: wide enough that a bound means "no influence".
THETA, ALPHA, BETA, ODDS, NOISE = (1e-2, 1e2), (1e-4, 1e3), (1e-4, 1e3), (1e-3, 1e3), (1e-6, 1e1)
UNIT_DEVIATION = 12**-0.5  # standard deviation of the uniform distribution: the starts are in standardised units
CACHE = 2_000_000  # bytes that one intermediate result may take before a batch is split


@dataclass(frozen=True)
class Prior:
    """Log-normal priors: (median, standard deviation of the logarithm) of each kind of parameter.

    theta is in unit-cube lengths, alpha is for D P = 1 (it is divided by that, as its starts are). They are proper and
    weak: they hold a parameter that the data say nothing about, and give way to some ten observations.
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
        self.factors = Factors(space, kernel.spectral)
        self.D, self.P, self.n = points.C.shape[1], self.factors.P, len(points)
        self.y = y
        self._has_graphs = bool(space.discrete)
        self._i, self._j = torch.triu_indices(self.n, self.n)
        self._twice = torch.where(self._i == self._j, 1.0, 2.0).double()  # a pair stands for two entries of R
        self._weights = self.factors.pairs(points.V[self._i], points.V[self._j])
        self._squares = (points.C[self._i] - points.C[self._j]).square()  # [M, D]
        terms = sum(space.mu.numel() for space in self.factors.spaces)
        self._together = max(1, CACHE // (8 * len(self._i) * terms))
        self._prior = None if prior is None else self._normal(prior)

    def _normal(self, prior: Prior) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of eta, each [D + 2P + 2]."""
        median, deviation = prior.alpha
        alpha = (median / (max(self.D, 1) * self.P), deviation)
        rows = [prior.theta] * self.D + [alpha] * self.P + [prior.beta] * self.P + [prior.odds, prior.g]
        medians, deviations = torch.tensor(rows, dtype=torch.float64).T
        return medians.log(), deviations

    def box(self) -> Box:
        """Bounds of eta; what the kernel does not have is held at 1.

        Without discrete variables alpha too: theta alone scales the distance.
        """
        structure = self.kernel.structure
        alpha = ALPHA if structure.modulated and self._has_graphs else (1.0, 1.0)
        odds = ODDS if structure.weighted else (1.0, 1.0)
        bounds = [THETA] * self.D + [alpha] * self.P + [BETA] * self.P + [odds, NOISE]
        lower, upper = torch.tensor(bounds, dtype=torch.float64).log().T
        return Box(lower, upper)

    def starts(self, rng: np.random.Generator, count: int) -> Tensor:
        """Random starts [count, D + 2P + 2].

        theta ~ U(0.25, 2) in standardised units, beta ~ U(0, 2), g ~ exp U(-4, -2), w = 1/2, alpha ~ U(0, 2) / (D P):
        alpha d2 adds up over D dimensions and P factors, and from alphas of order 1 every start falls into white noise.
        """
        theta = UNIT_DEVIATION * rng.uniform(0.25, 2.0, (count, self.D))
        alpha = rng.uniform(0.0, 2.0, (count, self.P)) / (max(self.D, 1) * self.P)
        beta = rng.uniform(0.0, 2.0, (count, self.P))
        odds = np.ones((count, 1))
        g = np.exp(rng.uniform(-4.0, -2.0, (count, 1)))
        parts = [theta, alpha.clip(ALPHA[0]), beta.clip(BETA[0]), odds, g]
        return self.box().clip(torch.from_numpy(np.log(np.concatenate(parts, axis=1))))

    def split(self, eta: Tensor) -> tuple[Tensor, ...]:
        """(theta [B, D], alpha [B, P], beta [B, P], w [B], g [B])."""
        theta, alpha, beta, odds, g = eta.exp().split([self.D, self.P, self.P, 1, 1], dim=-1)
        return theta, alpha, beta, (odds / (1.0 + odds))[:, 0], g[:, 0]

    def modulation(self, alpha: Tensor, d2: Tensor) -> Tensor:
        """a [B, P, M] = alpha d2, or zero [B, P, 1] for a kernel whose graph part does not depend on the distance."""
        if self.kernel.structure.modulated:
            return alpha[..., None] * d2[:, None]
        return torch.zeros_like(alpha)[..., None]

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

    def _evaluate(self, eta: Tensor) -> tuple[Tensor, Tensor]:
        theta, alpha, beta, w, g = self.split(eta)
        structure, order = self.kernel.structure, self.factors.order
        d2 = theta.pow(-2) @ self._squares.T  # [B, M]
        S, S_a, S_b = self.factors.sums(self._weights, self.modulation(alpha, d2), beta)
        N, N_slope = self.factors.normaliser(beta)
        S = S.clamp(min=1e-300)
        q = S.prod(dim=1) / N.prod(dim=1, keepdim=True)  # [B, M]
        value, G, g_slope = self._from_correlation(self._symmetric(structure.combine(q, d2, w[:, None])), g)
        by_r = G[:, self._i, self._j] * self._twice
        by_q, by_d2, by_w = (by_r * slope for slope in structure.slopes(q, d2, w[:, None]))
        pulls = (by_q * q)[:, None] / S  # [B, P, M]: d nll / d S
        d_alpha, d_beta = torch.zeros_like(alpha), torch.empty_like(beta)
        d_beta[:, order] = beta[:, order] * (pulls * S_b).sum(-1)
        d_beta -= N_slope * (by_q * q).sum(-1, keepdim=True)
        if structure.modulated:
            by_a = pulls * S_a
            d_alpha[:, order] = alpha[:, order] * (by_a @ d2[..., None])[..., 0]
            by_d2 = by_d2 + (alpha[:, None, order] @ by_a)[:, 0]
        d_theta = -2.0 * theta.pow(-2) * (by_d2 @ self._squares)
        d_odds = w * (1.0 - w) * by_w.sum(-1)
        gradient = torch.cat([d_theta, d_alpha, d_beta, d_odds[:, None], g_slope[:, None]], dim=-1) / self.n
        return value / self.n, gradient

    def _symmetric(self, r: Tensor) -> Tensor:
        R = r.new_empty(len(r), self.n, self.n)
        R[:, self._i, self._j] = r
        R[:, self._j, self._i] = r
        return R

    def _from_correlation(self, R: Tensor, g: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(nll [B], d nll / d R [B, n, n], d nll / d log g [B])."""
        A = R + g[:, None, None] * torch.eye(self.n, dtype=R.dtype)
        L, failed = torch.linalg.cholesky_ex(A)
        failed = failed > 0
        L = torch.where(failed[:, None, None], torch.eye(self.n, dtype=R.dtype), L)
        inverse = torch.cholesky_inverse(L)
        mu = (inverse @ self.y).sum(-1) / inverse.sum((-1, -2))
        residual = self.y - mu[:, None]
        a = (inverse @ residual[..., None])[..., 0]
        s2 = (residual * a).sum(-1).div(self.n).clamp(min=1e-300)
        logdet = 2.0 * L.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        value = 0.5 * (self.n * (math.log(2 * math.pi) + 1.0 + s2.log()) + logdet)
        G = 0.5 * (inverse - a[:, :, None] * a[:, None, :] / s2[:, None, None])
        g_slope = g * G.diagonal(dim1=-2, dim2=-1).sum(-1)
        return torch.where(failed, torch.inf, value), G, g_slope
