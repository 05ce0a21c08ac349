"""The Bayesian linear model of MiVaBO (Daxberger et al. 2019, Sec. 3.1 and 3.2).

Features of a point with bits x and continuous part c:

    phi_d = (1, x_i, x_i x_j for i < j)
    phi_c = sqrt(2 / F) cos(omega c + shift)          random Fourier features of a squared exponential kernel
    phi   = (phi_d, phi_c, all products of an entry of phi_d and one of phi_c)

With u = (1, phi_d) and v = (1, phi_c), w' phi = u' W v, where W [1 + M_d, 1 + F] holds the weights and W[0, 0] = 0: for
fixed c it is a quadratic function of the bits, for fixed bits a sum of cosines. The prior of each weight is
N(0, 1 / alpha), the noise N(0, 1 / beta). The posterior, which has M = M_d + F + M_d F weights, is sampled from the n
results alone (Matheron's rule; Doucet 2010): a draw from the prior is corrected by what it misses, with the n x n
matrix of (u u')(v v') - 1.

| symbol | shape | meaning |
|---|---|---|
| m, n | | points; results |
| b, M_d, F, D | | bits; entries of phi_d, 1 + b + b (b - 1) / 2; entries of phi_c; continuous variables |
| X, C, U, V | [m, b], [m, D], [m, 1 + M_d], [m, 1 + F] | bits, continuous parts and features of points |
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fmnas.baselines.binary_quadratic import BinaryQuadratic


@dataclass(frozen=True)
class Features:
    """The features of points. omega [F, D], shift [F]; F = 0 without continuous variables. bits: b."""

    bits: int
    omega: Tensor
    shift: Tensor

    @classmethod
    def draw(cls, rng: np.random.Generator, bits: int, dimensions: int, count: int, bandwidth: float) -> "Features":
        """Draw `count` Fourier features of the kernel exp(-d^2 / (2 bandwidth^2)); none without dimensions."""
        count = count if dimensions else 0
        omega = rng.standard_normal((count, dimensions)) / bandwidth
        return cls(bits, torch.from_numpy(omega), torch.from_numpy(rng.uniform(0.0, 2.0 * math.pi, count)))

    @property
    def pairs(self) -> Tensor:
        """The pairs i < j of bits [2, b (b - 1) / 2], ordered by i, then j."""
        return torch.triu_indices(self.bits, self.bits, 1)

    @property
    def scale(self) -> float:
        """The amplitude of a Fourier feature."""
        return math.sqrt(2.0 / max(len(self.shift), 1))

    @property
    def weights(self) -> int:
        """M, the number of weights."""
        return (2 + self.bits + self.pairs.shape[1]) * (1 + len(self.shift)) - 1

    def discrete(self, X: Tensor) -> Tensor:
        """Return U."""
        i, j = self.pairs
        ones = torch.ones(len(X), 2, dtype=torch.float64)
        return torch.cat([ones, X, X[:, i] * X[:, j]], 1)

    def continuous(self, C: Tensor) -> Tensor:
        """Return V."""
        waves = self.scale * torch.cos(C @ self.omega.T + self.shift)
        return torch.cat([torch.ones(len(C), 1, dtype=torch.float64), waves], 1)


@dataclass(frozen=True)
class LinearFunction:
    """The function u' W v. W [1 + M_d, 1 + F]."""

    features: Features
    W: Tensor

    def value(self, X: Tensor, C: Tensor) -> Tensor:
        """Return the values [m]."""
        return ((self.features.discrete(X) @ self.W) * self.features.continuous(C)).sum(-1)

    def quadratic(self, C: Tensor) -> BinaryQuadratic:
        """Return the functions of the bits at continuous parts C [S, D]."""
        b = self.features.bits
        a = self.features.continuous(C) @ self.W.T  # [S, 1 + M_d]
        i, j = self.features.pairs
        pairs = torch.zeros(len(C), b, b, dtype=torch.float64)
        pairs[:, i, j] = pairs[:, j, i] = a[:, 2 + b :]
        return BinaryQuadratic(a[:, 0] + a[:, 1], a[:, 2 : 2 + b], pairs)

    def waves(self, X: Tensor) -> Tensor:
        """Return the weights of v [m, 1 + F] at bits X: a constant, and one per Fourier feature."""
        return self.features.discrete(X) @ self.W

    def along(self, C: Tensor, waves: Tensor) -> tuple[Tensor, Tensor]:
        """Return the values [m] at C for given weights of v, and their gradients [m, D]."""
        phase = C @ self.features.omega.T + self.features.shift
        weights = self.features.scale * waves[:, 1:]
        return waves[:, 0] + (weights * phase.cos()).sum(-1), -(weights * phase.sin()) @ self.features.omega


@dataclass(frozen=True)
class Posterior:
    """The posterior of the weights given results y [n] at features U [n, 1 + M_d], V [n, 1 + F]."""

    features: Features
    U: Tensor
    V: Tensor
    y: Tensor
    alpha: float = 1.0
    beta: float = 1.0

    @property
    def prior_covariance(self) -> Tensor:
        """The prior covariance of the function at the results [n, n]."""
        return ((self.U @ self.U.T) * (self.V @ self.V.T) - 1.0) / self.alpha

    @property
    def prior_deviation(self) -> float:
        """The root of the sample variance that the prior expects of the function at two or more results."""
        covariance, n = self.prior_covariance, len(self.y)
        variance = float(covariance.diagonal().mean() - covariance.mean())
        return math.sqrt(n / (n - 1) * max(variance, 0.0))  # rounding makes that of equal points negative

    def correct(self, prior: Tensor, noise: Tensor) -> LinearFunction:
        """Return the draw that follows from a draw of the prior weights W and one of the noise [n]; 0s: the mean."""
        gram = self.prior_covariance
        missing = self.y - ((self.U @ prior) * self.V).sum(-1) - noise
        gram.diagonal().add_(1.0 / self.beta)
        solved = torch.cholesky_solve(missing[:, None], torch.linalg.cholesky(gram)) / self.alpha
        W = prior + self.U.T @ (solved * self.V)
        W[0, 0] = 0.0
        return LinearFunction(self.features, W)

    @property
    def mean(self) -> LinearFunction:
        """The posterior mean."""
        shape = self.U.shape[1], self.V.shape[1]
        return self.correct(torch.zeros(shape, dtype=torch.float64), torch.zeros(len(self.y), dtype=torch.float64))

    def draw(self, rng: np.random.Generator, scale: float = 1.0) -> LinearFunction:
        """Draw from the posterior with its covariance multiplied by `scale`."""
        prior = rng.standard_normal((self.U.shape[1], self.V.shape[1])) / math.sqrt(self.alpha)
        prior[0, 0] = 0.0
        noise = rng.standard_normal(len(self.y)) / math.sqrt(self.beta)
        draw, mean = self.correct(torch.from_numpy(prior), torch.from_numpy(noise)), self.mean
        return LinearFunction(self.features, mean.W + math.sqrt(scale) * (draw.W - mean.W))
