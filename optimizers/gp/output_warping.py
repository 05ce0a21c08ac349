"""Output warping: the scale on which an objective is modelled, chosen by likelihood.

Additive effects of variables are learned from few observations, interactions from many, and how additive an objective
is depends on its scale. Of the variance of Ackley5C over points half of whose variables have the optimum's value, a sum
explains 71% on the logarithmic scale, 95% on the original scale, and 98% on the exponential of half the standardised
value; over uniform points 93%, 96% and 92%. For the support vectors of the diabetes table it is 43%, 71% and 86%
(uniform points; `python benchmarks/scales.py`). A long tail of bad values also hides the structure of good ones.
Therefore the objective is standardised, optionally with the values above its median compressed, and then bent by
Manly's transform

    g(u) = (exp(a u) - 1) / a,  and u itself for a = 0                                     (Manly 1976)

which stretches bad values for a > 0 and good ones for a < 0. All steps preserve the order. The log likelihood of y is
that of g plus the sum of log dg / dy. The bend does not change that sum: it adds a sum u, and u is standardised.

| symbol | shape | meaning |
|---|---|---|
| y | [n] | objectives |
| u | [n] | warped and standardised objectives |
| a | | the bend, one of BENDS |
| G | [n, K] | u after each of K warpings |
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from fmnas.optimizers.gp.parameters import DEVIATION
from fmnas.optimizers.gp.points import EQUAL, standardise
from fmnas.optimizers.gp.process import Posterior
from fmnas.search_spaces.variables import Floats

Warp = Callable[[Floats], tuple[Floats, float]]
"""Maps y [n] to u [n] and the sum of log du / dy."""

BENDS = tuple(DEVIATION * float(part) for part in np.arange(-4, 5) / 4.0)
"""Up to one deviation of their normal prior, which keeps them near 0 while there are few observations."""


def identity(y: Floats) -> tuple[Floats, float]:
    """Only standardise y."""
    return standardise(y), -len(y) * float(np.log(y.std(ddof=1)))


def log_above_median(y: Floats) -> tuple[Floats, float]:
    """Map y linearly below its median and logarithmically above, then standardise it.

    The unit of the logarithm is a distance of quantiles, which a huge penalty of some trials does not change.
    """
    median, quartile = np.quantile(y, [0.5, 0.25])
    worse = y[y > median]
    distances = (median - quartile, median - y.min(), np.median(worse) - median if len(worse) else 0.0)
    unit = next((distance for distance in distances if distance > EQUAL * np.ptp(y)), np.ptp(y))
    z = (y - median) / unit
    above = np.log1p(z.clip(min=0.0))
    u, log_slope = identity(np.where(z > 0.0, above, z))
    return u, log_slope - float(above.sum() + len(y) * np.log(unit))


@dataclass(frozen=True)
class Warping:
    """A warp followed by a bend."""

    warp: Warp = identity
    bend: float = 0.0

    def apply(self, y: Floats) -> Floats:
        """Warp y [n], not all equal, to mean 0 and standard deviation 1 (ddof 1)."""
        return standardise(self.bend_values(self.warp(y)[0]))

    def bend_values(self, u: Floats) -> Floats:
        """Apply the bend to u [n]."""
        return np.asarray(np.expm1(self.bend * u) / self.bend if self.bend else u)


WARPINGS = tuple(Warping(warp, bend) for bend in sorted(BENDS, key=abs) for warp in (log_above_median, identity))
"""Ordered by the size of the bend."""


def most_likely_warping(posterior: Posterior, y: Floats, warpings: Sequence[Warping]) -> Warping:
    """Return the warping of y [n] with the largest posterior density, given the correlations of a fitted process.

    Mean and output scale are maximised out per warping, as in `process.py`.
    """
    by_warp = {warp: warp(y) for warp in {warping.warp for warping in warpings}}
    values, log_slopes = zip(*(by_warp[warping.warp] for warping in warpings), strict=True)
    bent = [warping.bend_values(u) for warping, u in zip(warpings, values, strict=True)]
    G, inverse = torch.from_numpy(np.stack(bent, axis=1)), posterior.inverse
    residual = G - (inverse @ G).sum(0) / inverse.sum()
    s2 = (residual * (inverse @ residual)).sum(0).div(len(y)).clamp(min=1e-300).numpy()
    prior = -0.5 * np.square([warping.bend / DEVIATION for warping in warpings])
    return warpings[int((-0.5 * len(y) * np.log(s2) + log_slopes + prior).argmax())]
