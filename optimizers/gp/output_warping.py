"""Output warping: the scale on which an objective is modelled, of some the one that makes the data likeliest.

What each variable does by itself is learned from few observations, what they do together from many. How much of an
objective is a sum over variables depends on its scale. Of the variance of Ackley5C over points half of whose variables
have the optimum's value, a sum explains 71% on the logarithm's scale, 95% on its own, 98% on the exponential of half
the standardised value; over uniform points 93%, 96% and 92%: far from the optimum the scale as it is does best. Of the
support vectors for the diabetes table it is 43%, 71% and 86% (uniform points; `python benchmarks/scales.py`). And an
objective with a long tail of bad values hides what its good ones have in common. So it is first seen plainly or softly,
with what is above its median compressed, and then bent by Manly's transform

    g(u) = (exp(a u) - 1) / a,  and u itself for a = 0                                     (Manly 1976)

which stretches what is bad for a > 0 and what is good for a < 0. All of it keeps the order. The log likelihood of y is
that of g plus the sum of log dg / dy. The bend adds nothing to that sum: it would be a sum u, and u is standardised.

| symbol | shape | meaning |
|---|---|---|
| y | [n] | objectives |
| u | [n] | the same, warped and standardised |
| a | | the bend, one of BENDS |
| G | [n, K] | u bent, on each of K scales |
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from fmnas.optimizers.gp.points import standardised
from fmnas.optimizers.gp.process import Posterior
from fmnas.search_spaces.variables import Floats

Warp = Callable[[Floats], tuple[Floats, float]]
"""y [n] to u [n] and the sum of log du / dy."""

BENDS = tuple(float(bend) for bend in np.arange(-4, 9) / 4.0)
"""-1 to 2; a standard normal prior holds them near 0 while there are few observations."""


MOSTLY_EQUAL = 1e-6  # of the range: where median and quartile are nearer, most values are the same


def plain(y: Floats) -> tuple[Floats, float]:
    """y as it is."""
    return standardised(y), -len(y) * float(np.log(y.std(ddof=1)))


def soft(y: Floats) -> tuple[Floats, float]:
    """y linear below its median and logarithmic above."""
    median, quartile = np.quantile(y, [0.5, 0.25])
    unit = median - quartile if median - quartile > MOSTLY_EQUAL * np.ptp(y) else np.ptp(y)
    z = (y - median) / unit
    above = np.log1p(z.clip(min=0.0))
    u, log_slope = plain(np.where(z > 0.0, above, z))
    return u, log_slope - float(above.sum() + len(y) * np.log(unit))


WARPS: dict[str, Warp] = {"plain": plain, "soft": soft}


@dataclass(frozen=True)
class Warping:
    """A scale: a warp, one of WARPS, and then a bend."""

    warp: Literal["plain", "soft"] = "plain"
    bend: float = 0.0

    def of(self, y: Floats) -> Floats:
        """y [n], which are not all equal, on this scale: mean 0 and standard deviation 1 (ddof 1)."""
        return standardised(self.bent(WARPS[self.warp](y)[0]))

    def bent(self, u: Floats) -> Floats:
        """u [n] after the bend."""
        return np.asarray(np.expm1(self.bend * u) / self.bend if self.bend else u)


WARPINGS = tuple(Warping(warp, bend) for bend in sorted(BENDS, key=abs) for warp in ("soft", "plain"))
"""The nearest to doing nothing first."""


def likeliest(posterior: Posterior, y: Floats, warpings: Sequence[Warping]) -> Warping:
    """The warping of y [n] with the largest posterior density, at the correlations of a fitted process.

    Mean and output scale are maximised out for each, as in `process.py`.
    """
    warped = {name: warp(y) for name, warp in WARPS.items()}
    seen = [warped[warping.warp] for warping in warpings]
    G = torch.from_numpy(np.stack([warping.bent(u) for warping, (u, _) in zip(warpings, seen, strict=True)], axis=1))
    inverse = posterior.inverse
    mu = (inverse @ G).sum(0) / inverse.sum()
    residual = G - mu
    s2 = (residual * (inverse @ residual)).sum(0).div(len(y)).clamp(min=1e-300).numpy()
    log_slopes = [log_slope for _, log_slope in seen]
    prior = -0.5 * np.square([warping.bend for warping in warpings])
    return warpings[int((-0.5 * len(y) * np.log(s2) + log_slopes + prior).argmax())]
