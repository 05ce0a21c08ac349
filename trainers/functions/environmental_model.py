"""Calibration of a model of a chemical accident: two spills are inferred from measured concentrations.

| problem | continuous, each in [-1, 1] | ordered | minimum |
|---|---|---|---|
| environmental_model | x1, x2, x3 | h1 in 0..284 | 1.20198e-9 at h1 = 142, x next to 0 |
| environmental_model_correct | the same | the same | 1.01404e-9 at h1 = 142, x next to 0 |

A substance is spilled twice into a long narrow channel, at place 0 and time 0 and at place L and time tau:

| symbol | meaning | code | truth |
|---|---|---|---|
| M | mass of each spill | 7 + 3 (x1 + 1) | 10 |
| D | rate of diffusion | 0.02 + 0.05 (x2 + 1) | 0.07 |
| L | place of the second spill | 0.01 + 1.495 (x3 + 1) | 1.505 |
| tau | its time | 30.01 + h1 / 1000 | 30.1525 |
| s, t | place and time of a measurement | 0, 1, 2.5 and 15, 30, 45, 60 | |

    c(s, t) = M / sqrt(4 pi D t) E + [t > tau] M / sqrt(4 pi D (t - tau)) exp(-(s - L)^2 / (4 D (t - tau)))
    objective = sum over the 12 measurements of (c of the truth - c)^2, without noise

Diffusion gives E = exp(-s^2 / (4 D t)) (Bliznyuk et al. 2008): that is `environmental_model_correct`. The code of HyBO
and GEBO multiplies instead of dividing, E = exp(-(s^2 / 4) D t), and their published values have that form:
`environmental_model`. The two have the same truth and different values.

The true tau is between the values of h1 = 142 and 143, so 0 is not reached: both leave 2.23e-9 at x = 0, and the
minimum is 1e-9 lower, within 1e-5 of it. GEBO's paper prints 0.034 for 40 random points and then 60 seconds.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fmnas.search_spaces.variables import Floats
from fmnas.trainers.functions.synthetic import Function, function_problem, mixed_space

PLACES = np.array([[0.0], [1.0], [2.5]])  # [3, 1]
MEASUREMENT_TIMES = np.array([[15.0, 30.0, 45.0, 60.0]])  # [1, 4]


TRUTH = (10.0, 0.07, 1.505, 30.1525)
"""M, D, L and tau."""

Exponent = Callable[[float], Floats]
"""Maps D to the logarithm of E at each measurement [3, 4]."""


def diffusion(D: float) -> Floats:
    """-s^2 / (4 D t)."""
    return -(PLACES**2) / (4 * D * MEASUREMENT_TIMES)


def published_code(D: float) -> Floats:
    """-(s^2 / 4) D t, the error of the published code."""
    return -(PLACES**2) / 4 * D * MEASUREMENT_TIMES


def spills(configuration: Mapping[str, Any]) -> tuple[float, float, float, float]:
    """Decode M, D, L and tau."""
    u1, u2, u3 = (configuration[f"x{i}"] + 1.0 for i in range(1, 4))
    return 7 + 3 * u1, 0.02 + 0.05 * u2, 0.01 + 1.495 * u3, 30.01 + configuration["h1"] / 1000


def concentrations(M: float, D: float, L: float, tau: float, exponent: Exponent) -> Floats:
    """c at each place and time [3, 4]."""
    first = M / np.sqrt(4 * np.pi * D * MEASUREMENT_TIMES) * np.exp(exponent(D))
    after = np.where(tau < MEASUREMENT_TIMES, MEASUREMENT_TIMES - tau, np.inf)  # before tau it has not happened
    spread = 4 * D * after
    second = M / np.sqrt(np.pi * spread) * np.exp(-((PLACES - L) ** 2) / spread)
    return np.asarray(first + second)


def misfit(exponent: Exponent) -> Function:
    """The objective for this exponent."""
    measured = concentrations(*TRUTH, exponent)
    return lambda configuration: float(np.square(measured - concentrations(*spills(configuration), exponent)).sum())


SPACE = mixed_space(3, (285,), ordered=True)

ENVIRONMENTAL_MODEL = function_problem(SPACE, misfit(published_code), penalty=200.0, minimum=1.2019792409e-09)
ENVIRONMENTAL_MODEL_CORRECT = function_problem(SPACE, misfit(diffusion), penalty=200.0, minimum=1.0140438125e-09)
