"""The Gaussian process given its observations: predictions at any point, in the units of y.

| symbol | shape | meaning |
|---|---|---|
| n, m | | observations; points to predict at |
| r | [m, n] | correlation of points with observations |
| own | [m] | correlation of each point with itself |
| A | [n, n] | R + g I, the observations' correlation with noise |
| mu, s2, g | | constant mean, output scale, and noise variance over output scale |

A^-1 is formed, where a factor would do for a single prediction: a search predicts thousands of times, and a product
with a matrix is several times as fast as two triangular solves. It is safe here: r is about 1 at most and g at least
1e-6, so A's condition is at most n / g, and of 16 digits some 7 are left with a thousand observations.
"""

import torch
from torch import Tensor

from fmnas.optimizers.gp.kernel import Correlation
from fmnas.optimizers.gp.likelihood import Likelihood
from fmnas.optimizers.gp.parameters import Values
from fmnas.optimizers.gp.points import Points

CHUNK = 128  # points predicted at once


class Posterior:
    """The process with the parameters eta [d], given the observations of a likelihood.

    parameters: the kernel's, by name, each [size]. correlation: of any point with the observations.
    """

    def __init__(self, likelihood: Likelihood, eta: Tensor) -> None:
        self.likelihood, self.eta = likelihood, eta
        values = {name: value[0] for name, value in likelihood.parameters.values(eta[None]).items()}
        g = values.pop("noise")
        self.parameters: Values = values
        self.correlation: Correlation = likelihood.kernel.given(values, likelihood.points)
        A = likelihood.correlation(eta)
        A.diagonal().add_(g)
        self.inverse = torch.cholesky_inverse(torch.linalg.cholesky(A))
        y = likelihood.y
        self.g = float(g)
        self.mu = float((self.inverse @ y).sum() / self.inverse.sum())
        self.weights = self.inverse @ (y - self.mu)  # [n], A^-1 (y - mu)
        self.s2 = max(float(((y - self.mu) @ self.weights) / len(y)), 1e-300)

    def predict_from(self, r: Tensor, own: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(mean [m], variance [m], A^-1 r [m, n]) from correlations r [m, n]; the variance is of f, without noise."""
        solved = r @ self.inverse
        variance = self.s2 * (own - (solved * r).sum(-1))
        return self.mu + r @ self.weights, variance.clamp(min=1e-12), solved

    def predict(self, points: Points) -> tuple[Tensor, Tensor]:
        """(mean [m], variance [m]) at points; in chunks, so that memory stays small."""
        means, variances = [], []
        for C, V in zip(points.C.split(CHUNK), points.V.split(CHUNK), strict=True):
            mean, variance, _ = self.predict_from(*self.correlation.on(V).correlation(C))
            means.append(mean)
            variances.append(variance)
        return torch.cat(means), torch.cat(variances)

    def with_observations(self, points: Points, y: Tensor) -> "Posterior":
        """The process under the same parameters and output scale, given m more observations y [m]."""
        likelihood = self.likelihood
        every, values = likelihood.points.and_then(points), torch.cat([likelihood.y, y])
        more = Posterior(Likelihood(likelihood.kernel, every, values, likelihood.prior), self.eta)
        more.s2 = self.s2  # values that it predicted itself fit, and say nothing of the scale
        return more
