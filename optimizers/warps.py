"""Monotone transforms of the objective before it is modelled: what the process sees.

A Gaussian process on raw values spends its output scale on the worst of them: with outliers of 20 above an optimum of
-0.7 it cannot tell good from better. A warp keeps the order, and what is good apart.

| name | y becomes | good at |
|---|---|---|
| plain | y | far views: nothing is bent |
| soft | linear below the median, logarithmic above (in units of median - lower quartile) | the details among the good |
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Warp = Callable[[Floats], Floats]


def standardised(y: Floats) -> Floats:
    """y [n] with mean 0 and standard deviation 1 (ddof 1)."""
    return np.asarray((y - y.mean()) / y.std(ddof=1))


def plain(y: Floats) -> Floats:
    """y [n], standardised."""
    return standardised(y)


def soft(y: Floats) -> Floats:
    """y [n], linear below its median and logarithmic above, standardised."""
    median, quartile = np.quantile(y, [0.5, 0.25])
    unit = median - quartile if median > quartile else np.ptp(y)
    z = (y - median) / unit
    return standardised(np.where(z > 0.0, np.log1p(z.clip(min=0.0)), z))


WARPS: dict[str, Warp] = {"plain": plain, "soft": soft}
