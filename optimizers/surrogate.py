"""The exact Gaussian process: fitted by marginal likelihood from many starts at once, with analytic gradients.

| symbol | shape | meaning |
|---|---|---|
| n, D, P | | observations; continuous and discrete variables |
| C, V | [n, D], [n, P] | observed configurations: unit cube, vertex indices |
| y | [n] | observations, standardised |
| R | [n, n] | correlation: prod_p S_p / N_p, 1 on the diagonal on average |
| g | | noise variance divided by the output scale s2 |
| mu, s2 | | constant mean and output scale, both in closed form given the rest |
| eta | [B, D + 2P + 1] | what is searched: log theta, log alpha, log beta, log g |

With A = R + g I: mu = 1'A^-1 y / 1'A^-1 1, s2 = (y - mu)'A^-1 (y - mu) / n, and the negative log likelihood is
n/2 (log 2 pi + 1 + log s2) + 1/2 log det A (Rasmussen & Williams 2006, Eq. 5.8, with s2 and mu maximised out).
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fmnas.optimizers.factors import Factors
from fmnas.optimizers.lbfgs import Box, minimise
from fmnas.optimizers.spectral import SpectralFunction
from fmnas.search_spaces import Space

# Bounds of theta (in unit-cube lengths), alpha, beta and g: wide enough that a bound means "no influence".
THETA, ALPHA, BETA, NOISE = (1e-2, 1e2), (1e-4, 1e3), (1e-4, 1e3), (1e-6, 1e1)
UNIT_DEVIATION = 12**-0.5  # standard deviation of the uniform distribution: the starts are in standardised units
CACHE = 2_000_000  # bytes that one intermediate result may take before a batch is split


class FitError(RuntimeError):
    """No start of a fit gave a positive definite matrix. Never reaches a user: the optimizer falls back and says so."""


@dataclass(frozen=True)
class Points:
    """Encoded configurations split into C [n, D] and V [n, max(P, 1)]."""

    C: Tensor
    V: Tensor

    @classmethod
    def of(cls, space: Space, X: NDArray[np.float64]) -> "Points":
        """Split an encoding X [n, D + P]; without discrete variables every point is on the one vertex of a point."""
        D = len(space.continuous)
        vertices = X[:, D:] if space.discrete else np.zeros((len(X), 1))
        return cls(torch.from_numpy(np.ascontiguousarray(X[:, :D])), torch.from_numpy(vertices.astype(np.int64)))

    def __len__(self) -> int:
        return len(self.C)


@dataclass(frozen=True)
class Parameters:
    """One set of fitted parameters: theta [D], alpha [P], beta [P], noise ratio g, mean mu, output scale s2."""

    theta: Tensor
    alpha: Tensor
    beta: Tensor
    g: float
    mu: float
    s2: float


class Likelihood:
    """The negative log likelihood per observation of a data set, with its gradient, for a batch of eta."""

    def __init__(self, space: Space, spectral: SpectralFunction, points: Points, y: Tensor) -> None:
        self.factors = Factors(space, spectral)
        self.D, self.P, self.n = points.C.shape[1], self.factors.P, len(points)
        self.y = y
        self.free_alpha = bool(space.discrete)
        self._i, self._j = torch.triu_indices(self.n, self.n)
        self._weights = self.factors.pairs(points.V[self._i], points.V[self._j])
        self._squares = (points.C[self._i] - points.C[self._j]).square()  # [M, D]
        terms = sum(space.mu.numel() for space in self.factors.spaces)
        self._together = max(1, CACHE // (8 * len(self._i) * terms))

    def box(self) -> Box:
        """Bounds of eta. Without discrete variables alpha is held at 1: theta alone scales the distance."""
        alpha = ALPHA if self.free_alpha else (1.0, 1.0)
        bounds = [THETA] * self.D + [alpha] * self.P + [BETA] * self.P + [NOISE]
        lower, upper = torch.tensor(bounds, dtype=torch.float64).log().T
        return Box(lower, upper)

    def starts(self, rng: np.random.Generator, count: int) -> Tensor:
        """Random starts [count, D + 2P + 1].

        theta ~ U(0.25, 2) in standardised units, beta ~ U(0, 2), g ~ exp U(-4, -2), alpha ~ U(0, 2) / (D P): alpha d^2
        adds up over D dimensions and P factors, and from alphas of order 1 every start falls into white noise.
        """
        theta = UNIT_DEVIATION * rng.uniform(0.25, 2.0, (count, self.D))
        alpha = rng.uniform(0.0, 2.0, (count, self.P)) / (max(self.D, 1) * self.P)
        beta = rng.uniform(0.0, 2.0, (count, self.P))
        g = np.exp(rng.uniform(-4.0, -2.0, (count, 1)))
        return torch.from_numpy(np.log(np.concatenate([theta, alpha.clip(ALPHA[0]), beta.clip(BETA[0]), g], axis=1)))

    def split(self, eta: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """(theta [B, D], alpha [B, P], beta [B, P], g [B])."""
        theta, alpha, beta, g = eta.exp().split([self.D, self.P, self.P, 1], dim=-1)
        return theta, alpha, beta, g[:, 0]

    def __call__(self, eta: Tensor, which: Tensor) -> tuple[Tensor, Tensor]:
        """(nll / n [B], gradient [B, D + 2P + 1]); inf where A is not positive definite.

        Evaluated a few at a time: a batch that outgrows the processor's cache is slower than a loop.
        """
        parts = [self._evaluate(part) for part in eta.split(self._together)]
        return torch.cat([value for value, _ in parts]), torch.cat([gradient for _, gradient in parts])

    def _evaluate(self, eta: Tensor) -> tuple[Tensor, Tensor]:
        theta, alpha, beta, g = self.split(eta)
        d2 = theta.pow(-2) @ self._squares.T  # [B, M]
        S, S_a, S_b = self.factors.sums(self._weights, d2, alpha, beta)
        N, N_slope = self.factors.normaliser(beta)
        order = self.factors.order
        S = S.clamp(min=1e-300)
        r = S.prod(dim=1) / N.prod(dim=1, keepdim=True)  # [B, M], the upper triangle of R
        value, G, g_slope = self._from_correlation(self._symmetric(r), g)
        pull = self._fold(G) * r  # [B, M]: d nll / d log of each factor, summed over the pair's two entries
        pulls = pull[:, None] / S  # [B, P, M]
        d_alpha, d_beta = torch.empty_like(alpha), torch.empty_like(beta)
        d_alpha[:, order] = alpha[:, order] * (pulls * S_a * d2[:, None]).sum(-1)
        d_beta[:, order] = beta[:, order] * (pulls * S_b).sum(-1)
        d_beta -= N_slope * pull.sum(-1, keepdim=True)
        d_theta = -2.0 * theta.pow(-2) * ((pulls * S_a * alpha[:, order, None]).sum(1) @ self._squares)
        gradient = torch.cat([d_theta, d_alpha, d_beta, g_slope[:, None]], dim=-1) / self.n
        return value / self.n, gradient

    def _symmetric(self, r: Tensor) -> Tensor:
        R = r.new_empty(len(r), self.n, self.n)
        R[:, self._i, self._j] = r
        R[:, self._j, self._i] = r
        return R

    def _fold(self, G: Tensor) -> Tensor:
        """The upper triangle [B, M] of a symmetric G, off-diagonal entries counted twice."""
        return G[:, self._i, self._j] * torch.where(self._i == self._j, 1.0, 2.0)

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


class Posterior:
    """The process given its observations. Predictions are in the units of y as given."""

    def __init__(self, likelihood: Likelihood, points: Points, eta: Tensor) -> None:
        self.factors, self.points = likelihood.factors, points
        theta, alpha, beta, g = (part[0] for part in likelihood.split(eta[None]))
        self.N = self.factors.normaliser(beta[None])[0][0]  # [P]
        R = self._correlation(points, theta, alpha, beta)
        self.L = torch.linalg.cholesky(R + g * torch.eye(len(points), dtype=R.dtype))
        self.inverse = torch.cholesky_inverse(self.L)
        y = likelihood.y
        mu = float((self.inverse @ y).sum() / self.inverse.sum())
        self.weights = self.inverse @ (y - mu)  # [n], A^-1 (y - mu)
        s2 = float(((y - mu) @ self.weights) / len(y))
        self.parameters = Parameters(theta, alpha, beta, float(g), mu, max(s2, 1e-300))
        self.diagonals = [self.factors.diagonal(p, beta) / self.N[p] for p in range(self.factors.P)]

    def _correlation(self, points: Points, theta: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
        n = len(points)
        i, j = (index.reshape(-1) for index in torch.meshgrid(torch.arange(n), torch.arange(n), indexing="ij"))
        weights = self.factors.pairs(points.V[i], points.V[j])
        d2 = ((points.C[i] - points.C[j]).square() @ theta.pow(-2))[None]
        S = self.factors.values(weights, d2, alpha[None], beta[None])[0]
        return (S.prod(0) / self.N.prod()).reshape(n, n)

    def squared_distance(self, C: Tensor) -> Tensor:
        """d2 [m, n] from continuous parts C [m, D] to the observations."""
        theta = self.parameters.theta
        return torch.cdist(C / theta, self.points.C / theta, compute_mode="donot_use_mm_for_euclid_dist").square()

    def prior(self, V: Tensor) -> Tensor:
        """r(x, x) [m]: depends on the vertices alone."""
        return torch.stack([diagonal[V[:, p]] for p, diagonal in enumerate(self.diagonals)]).prod(0)

    def predict_from(self, r: Tensor, prior: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(mean [m], variance [m], A^-1 r [m, n]) from correlations r [m, n]; the variance is of f, without noise."""
        parameters = self.parameters
        solved = r @ self.inverse
        variance = parameters.s2 * (prior - (solved * r).sum(-1))
        return parameters.mu + r @ self.weights, variance.clamp(min=1e-12), solved

    def correlation(self, C: Tensor, V: Tensor) -> Tensor:
        """r [m, n] between points and observations."""
        m, n = len(C), len(self.points)
        i, j = (index.reshape(-1) for index in torch.meshgrid(torch.arange(m), torch.arange(n), indexing="ij"))
        weights = self.factors.pairs(V[i], self.points.V[j])
        d2 = self.squared_distance(C).reshape(1, -1)
        S = self.factors.values(weights, d2, self.parameters.alpha[None], self.parameters.beta[None])[0]
        return (S.prod(0) / self.N.prod()).reshape(m, n)

    def predict(self, C: Tensor, V: Tensor) -> tuple[Tensor, Tensor]:
        """(mean [m], variance [m]) at points; in chunks, so that memory stays small."""
        means, variances = [], []
        for c, v in zip(C.split(512), V.split(512), strict=True):
            mean, variance, _ = self.predict_from(self.correlation(c, v), self.prior(v))
            means.append(mean)
            variances.append(variance)
        return torch.cat(means), torch.cat(variances)


@dataclass(frozen=True)
class Fit:
    """A fitted process, its eta, and the negative log likelihood per observation: of the best and of all finalists."""

    posterior: Posterior
    eta: Tensor
    nll: float
    nll_of_finalists: tuple[float, ...]


@dataclass(frozen=True)
class FitSettings:
    """How hard to search for the maximum likelihood.

    starts: random starts. screening: iterations that all of them get. finalists: how many then go on to convergence.
    """

    starts: int = 10
    screening: int = 20
    finalists: int = 3


PAPER_FIT = FitSettings(starts=10, screening=0, finalists=10)
"""Every start to convergence, as in the paper."""


def fit(likelihood: Likelihood, points: Points, settings: FitSettings, rng: np.random.Generator) -> Fit:
    """Maximise the likelihood from random starts; the best wins.

    Raises FitError when no start gives a positive definite matrix.
    """
    box = likelihood.box()
    eta, nll = minimise(likelihood, likelihood.starts(rng, settings.starts), box, iterations=settings.screening)
    finalists = nll.argsort()[: settings.finalists]
    eta, nll = minimise(likelihood, eta[finalists], box, iterations=200, tolerance=1e-7)
    best = int(nll.argmin())
    if not math.isfinite(float(nll[best])):
        raise FitError(f"no start of {settings.starts} gave a positive definite matrix for {len(points)} observations")
    return Fit(Posterior(likelihood, points, eta[best]), eta[best], float(nll[best]), tuple(nll.tolist()))
