"""How the objective is bent before it is modelled: by as much as makes the data likeliest.

What each variable does by itself is learned from few observations, what they do together from many. How much of an
objective is a sum over variables depends on its scale: over points far from and near to its optimum, of the logarithm
of Ackley's function 63% of the variance, of itself 95%, of its exponential (at half the scale) 99%. Manly's transform

    g(u) = (exp(a u) - 1) / a,  and u itself for a = 0                                     (Manly 1976)

stretches what is bad for a > 0 and what is good for a < 0, and keeps the order. Its log likelihood is that of g less
sum log |dg/du| = a sum u.

| symbol | shape | meaning |
|---|---|---|
| u | [n] | observations, standardised |
| a | | the bend, one of BENDS |
| G | [n, K] | u bent by each of K bends |
"""

import numpy as np
import torch
from numpy.typing import NDArray

from fmnas.optimizers.posterior import Posterior
from fmnas.optimizers.warps import standardised

Floats = NDArray[np.float64]

BENDS = np.arange(-4, 9) / 4.0
"""-1 to 2; a standard normal prior holds them near 0 while there are few observations."""


def bent(u: Floats, bend: float) -> Floats:
    """u [n] bent and standardised."""
    return standardised(_manly(u, bend))


def likeliest_bend(posterior: Posterior, u: Floats) -> float:
    """The bend of u [n] with the largest posterior density, at the correlations of a fitted process.

    Mean and output scale are maximised out for each bend, as in `likelihood.py`.
    """
    G = torch.from_numpy(np.stack([_manly(u, bend) for bend in BENDS], axis=1))
    inverse = posterior.inverse
    mu = (inverse @ G).sum(0) / inverse.sum()
    residual = G - mu
    s2 = (residual * (inverse @ residual)).sum(0).div(len(u)).clamp(min=1e-300)
    bends = torch.from_numpy(BENDS)
    density = -0.5 * len(u) * s2.log() + bends * float(u.sum()) - 0.5 * bends.square()
    return float(BENDS[int(density.argmax())])


def _manly(u: Floats, bend: float) -> Floats:
    return np.asarray(np.expm1(bend * u) / bend) if bend else u
