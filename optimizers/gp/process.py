"""An exact Gaussian process: its marginal likelihood with the analytic gradient for a batch of parameter sets, and its
predictions under one of them.

| symbol | shape | meaning |
|---|---|---|
| n, m | | observations; points to predict at |
| M | n (n + 1) / 2 | pairs of observations (kernel.py) |
| y | [n] | observations, standardised |
| r | [B, M] or [m, n] | correlations of pairs, or of points with observations; of order 1 on the diagonal |
| own | [m] | correlation of each point with itself |
| g | [B] | noise variance divided by the output scale s2 |
| mu, s2 | [B] | constant mean and output scale, in closed form given the others; a kernel may fix s2 |
| eta | [B, d] | the logarithms of the kernel's parameters, followed by log g |

With A = R + g I: mu = 1'A^-1 y / 1'A^-1 1, s2 = (y - mu)'A^-1 (y - mu) / n, and the negative log likelihood is
n/2 (log 2 pi + 1 + log s2) + 1/2 log det A (Rasmussen & Williams 2006, Eq. 5.8, with s2 and mu maximised out).

Predictions are those of ordinary kriging (Santner et al. 2018, Sec. 3.3): the weights of the observations are
k = A^-1 r + (1 - 1'A^-1 r) A^-1 1 / 1'A^-1 1, which sum to 1, and the variance of f is
s2 (own - r'A^-1 r + (1 - 1'A^-1 r)^2 / 1'A^-1 1). The last term is due to the estimated mean; s2 is here divided by
n - 1 because of the estimated mean. A plug-in prediction treats mu and s2 as known: no last term, and n.

A^-1 is computed, because a search predicts thousands of times, and a matrix product is several times as fast as two
triangular solves. This is accurate enough: r is of order 1 and g at least 1e-6, so the condition number of A is of the
order of n / g at most, and about 7 of 16 digits are left with a thousand observations.
"""

import math
from typing import Any

import torch
from torch import Tensor

from fmnas.optimizers.gp.kernel import ConditionedKernel, Kernel, pair_indices
from fmnas.optimizers.gp.parameters import ParameterVector, Values
from fmnas.optimizers.gp.points import Points

MAX_BATCH_ELEMENTS = 1 << 20  # elements of the matrices that are decomposed at once: more would only take memory
CHUNK = 128  # points predicted at once

# glibc keeps freed memory for reuse up to twice the size of the largest buffer that was freed, at most 64 MB. Without
# this one, to which nothing is written, an evaluation of the likelihood requests its memory from the system again.
torch.empty(31 * 2**20, dtype=torch.uint8)


class FitError(RuntimeError):
    """The matrix of a process is not positive definite. Optimizers catch it and fall back to a random suggestion."""


class Likelihood:
    """The negative log likelihood per observation of a data set, with its gradient, for a batch of eta.

    prior: whether to add the negative log density of the parameters' priors (maximum a posteriori).
    plug_in: whether predictions treat the estimated mean and output scale as known.
    """

    def __init__(self, kernel: Kernel, points: Points, y: Tensor, prior: bool = False, plug_in: bool = False) -> None:
        self.kernel, self.points, self.y, self.prior, self.plug_in = kernel, points, y, prior, plug_in
        self.n = len(points)
        self.parameters = ParameterVector([*kernel.parameters, kernel.noise])
        self._pairs = kernel.pairs(points)
        i, j = pair_indices(self.n)
        self._flat = j * self.n + i  # positions in the lower triangle of R
        self._twice = torch.where(i == j, 1.0, 2.0).double()  # a pair has two entries in R
        self._max_batch = max(1, MAX_BATCH_ELEMENTS // self.n**2)

    def with_data(self, points: Points, y: Tensor, kernel: Kernel | None = None) -> "Likelihood":
        """Return the likelihood of other observations with the same settings."""
        return Likelihood(kernel or self.kernel, points, y, self.prior, self.plug_in)

    def __call__(self, eta: Tensor, which: Tensor) -> tuple[Tensor, Tensor]:
        """Return (nll / n [B], gradient [B, d]); inf where A is not positive definite.

        A large batch is split: once it exceeds the processor's cache, a loop is faster.
        """
        parts = [self._evaluate(part) for part in eta.split(self._max_batch)]
        value, gradient = torch.cat([value for value, _ in parts]), torch.cat([gradient for _, gradient in parts])
        if not self.prior:
            return value, gradient
        prior, prior_gradient = self.parameters.minus_log_prior(eta)
        return value + prior / self.n, gradient + prior_gradient / self.n

    def correlation(self, eta: Tensor) -> Tensor:
        """Return the lower triangle of R [n, n] under one eta."""
        return self._lower(self._pairs.correlation(self.parameters.values(eta[None])))[0]

    def _evaluate(self, eta: Tensor) -> tuple[Tensor, Tensor]:
        values = self.parameters.values(eta)
        r, pullback = self._pairs.with_pullback(values)
        value, by_r, by_g = self._from_correlation(r, values["noise"][:, 0])
        return value / self.n, torch.cat([pullback(by_r), by_g[:, None]], dim=-1) / self.n

    def _lower(self, r: Tensor) -> Tensor:
        """Arrange pairs [B, M] as lower triangles [B, n, n], the part that a Cholesky decomposition reads."""
        return r.new_zeros(len(r), self.n**2).scatter_(1, self._flat.expand_as(r), r).view(-1, self.n, self.n)

    def _from_correlation(self, r: Tensor, g: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return (nll [B], d nll / d r per pair [B, M], d nll / d log g [B])."""
        A = self._lower(r)
        A.diagonal(dim1=-2, dim2=-1).add_(g[:, None])
        L, info = torch.linalg.cholesky_ex(A)
        failed = info > 0
        L[failed] = torch.eye(self.n, dtype=r.dtype)
        inverse = torch.cholesky_inverse(L)
        mu = (inverse @ self.y).sum(-1) / inverse.sum((-1, -2))
        residual = self.y - mu[:, None]
        a = (inverse @ residual[..., None])[..., 0]
        square, scale = (residual * a).sum(-1), self.kernel.output_scale
        s2 = square.div(self.n).clamp(min=1e-300) if scale is None else torch.full_like(square, scale)
        logdet = 2.0 * L.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        value = 0.5 * (self.n * (math.log(2 * math.pi) + 1.0 + s2.log()) + logdet)
        value = value if scale is None else value + 0.5 * (square / scale - self.n)
        scaled = a / s2.sqrt()[:, None]
        by_A = inverse.mT - scaled[:, :, None] * scaled[:, None]
        pairs = by_A.reshape(len(r), -1).gather(1, self._flat.expand_as(r))
        by_g = 0.5 * g * (inverse.diagonal(dim1=-2, dim2=-1) - scaled.square()).sum(-1)
        return torch.where(failed, torch.inf, value), pairs.mul_(0.5 * self._twice), by_g


class Posterior:
    """The process with the parameters eta [d], conditioned on the observations of a likelihood.

    parameters: those of the kernel by name, each [size]. conditioned: the kernel given the observations. mean_by_r [n]:
    slopes of the mean by the correlations r of a point with them.
    Raises FitError if the matrix A is not positive definite.
    """

    def __init__(self, likelihood: Likelihood, eta: Tensor) -> None:
        self.likelihood, self.eta = likelihood, eta
        values = {name: value[0] for name, value in likelihood.parameters.values(eta[None]).items()}
        g = values.pop("noise")
        self.parameters: Values = values
        self.conditioned: ConditionedKernel[Any] = likelihood.kernel.condition_on(values, likelihood.points)
        A = likelihood.correlation(eta)
        A.diagonal().add_(g)
        L, info = torch.linalg.cholesky_ex(A)
        if info > 0:
            raise FitError(f"the matrix of {len(A)} observations is not positive definite")
        self.inverse = torch.cholesky_inverse(L)
        y, self.g = likelihood.y, float(g)
        self._ones = self.inverse.sum(-1)  # [n], A^-1 1
        self._precision = float(self._ones.sum())  # 1'A^-1 1: precision of the mean in units of 1 / s2
        self.mu = float((self._ones @ y) / self._precision)
        self.mean_by_r = self.inverse @ (y - self.mu)  # A^-1 (y - mu)
        degrees = len(y) if likelihood.plug_in else max(len(y) - 1, 1)
        self.s2 = likelihood.kernel.output_scale or max(float(((y - self.mu) @ self.mean_by_r) / degrees), 1e-300)

    def predict_from(self, r: Tensor, own: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return (mean [m], variance [m], weights [m, n]) from correlations r [m, n].

        The variance is that of f, without noise; its derivative by r is -2 s2 times the weights.
        """
        mean, weights = self.mu + r @ self.mean_by_r, r @ self.inverse
        if self.likelihood.plug_in:
            return mean, (self.s2 * (own - (weights * r).sum(-1))).clamp(min=1e-12), weights
        missing = 1.0 - weights.sum(-1)  # the weight of the mean
        weights = weights + (missing / self._precision)[..., None] * self._ones
        variance = self.s2 * (own - (weights * r).sum(-1) + missing / self._precision)
        return mean, variance.clamp(min=1e-12), weights

    def predict(self, points: Points) -> tuple[Tensor, Tensor]:
        """Return (mean [m], variance [m]) at points, computed in chunks to save memory."""
        chunks = zip(points.C.split(CHUNK), points.V.split(CHUNK), strict=True)
        parts = [self.predict_from(*self.conditioned.correlate(Points(C, V)))[:2] for C, V in chunks]
        mean, variance = (torch.cat(part) for part in zip(*parts, strict=True))
        return mean, variance

    def with_observations(self, points: Points, y: Tensor) -> "Posterior":
        """Return the process with m more observations y [m], under the same parameters and output scale."""
        likelihood = self.likelihood
        extended = likelihood.with_data(likelihood.points.concat(points), torch.cat([likelihood.y, y]))
        posterior = Posterior(extended, self.eta)
        posterior.s2 = self.s2  # predicted values carry no information about the scale
        return posterior
