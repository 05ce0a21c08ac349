"""Objectives as a model takes them: what it cannot make anything of, and the scale on which it sees the rest.

| symbol | shape | meaning |
|---|---|---|
| y | [n] | objectives, or their logarithms |
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

EQUAL = 1e-12
"""Objectives that span less are equal; where all are below 1, less than this share of the largest."""


def nothing_to_model(y: Floats) -> str:
    """Why no model can be made of y [n]; empty where one can."""
    if len(y) < 2:
        return "fewer than two results to model"
    if np.ptp(y) <= EQUAL * min(1.0, np.abs(y).max()):
        return "all results are equal: nothing to model"
    return ""


def standardised(y: Floats) -> Floats:
    """y [n] with mean 0 and standard deviation 1 (ddof 1)."""
    return np.asarray((y - y.mean()) / y.std(ddof=1))
