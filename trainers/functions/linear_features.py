"""MiVaBO's synthetic functions (Daxberger et al. 2019, App. A): its model with 8 binary, 8 continuous variables.

    f = w' (phi_d, phi_c, all products of an entry of phi_d and one of phi_c)
    phi_d = (1, h_i, h_i h_j for i < j)               37 entries
    phi_c = sqrt(2 / 16) cos(omega x + shift)         16 random Fourier features, bandwidth 1

| problem | weights w [645] | minimum |
|---|---|---|
| mivabo_gaussian | N(0, 1) | -25.349604 |
| mivabo_gaussian_at_most_2 | the same; at most two binaries are 1, a constraint of the space | -9.003580 |
| mivabo_laplace | Laplace of scale 10; those between -10 and 10 become 0 | -347.954160 |
| mivabo_laplace_at_most_2 | the same, with the constraint | -188.861162 |

The paper draws a function per run, publishes none, and plots values scaled to [0, 1] by those observed. Here omega,
shift and w come from RandomState(0). The minima are the least that `benchmarks/minima.py` finds: for each assignment of
the binaries, L-BFGS-B from the best 16 of 64 points. The paper prints the density exp(-|w| / 0.1); only exp(-0.1 |w|)
leaves weights above 10. x is in [0, 1], without noise.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from fmnas.search_spaces import Integer, LinearConstraint, Real, Space
from fmnas.search_spaces.variables import Floats, Variable
from fmnas.trainers.functions.synthetic import Function, function_problem

BINARIES, REALS, WAVES = 8, 8, 16
PRUNED_BELOW = 10.0


def features(h: Floats, x: Floats, omega: Floats, shift: Floats) -> Floats:
    """Return the features [M] at binaries h [b] and reals x [D]; omega [F, D], shift [F]."""
    i, j = np.triu_indices(len(h), 1)
    discrete = np.concatenate([[1.0], h, h[i] * h[j]])
    waves = math.sqrt(2.0 / len(shift)) * np.cos(omega @ x + shift)
    return np.concatenate([discrete, waves, np.outer(discrete, waves).ravel()])


def linear_function(omega: Floats, shift: Floats, w: Floats) -> Function:
    """Return the function with weights w [M]."""

    def function(configuration: Mapping[str, Any]) -> float:
        h = np.array([float(configuration[f"h{j}"]) for j in range(1, BINARIES + 1)])
        x = np.array([float(configuration[f"x{i}"]) for i in range(1, REALS + 1)])
        return float(w @ features(h, x, omega, shift))

    return function


def draw_parameters() -> tuple[Floats, Floats, Floats, Floats]:
    """Return omega, shift, the Gaussian weights and the Laplace weights of the problems."""
    rng = np.random.RandomState(0)  # its numbers are the same in every version of numpy
    omega, shift = rng.standard_normal((WAVES, REALS)), rng.uniform(0.0, 2.0 * math.pi, WAVES)
    count = len(features(np.zeros(BINARIES), np.zeros(REALS), omega, shift))
    gaussian, laplace = rng.standard_normal(count), rng.laplace(scale=10.0, size=count)
    return omega, shift, gaussian, np.where(np.abs(laplace) < PRUNED_BELOW, 0.0, laplace)


_BITS = [Integer(f"h{j}", 0, 1) for j in range(1, BINARIES + 1)]
_VARIABLES: list[Variable] = [*(Real(f"x{i}", 0.0, 1.0) for i in range(1, REALS + 1)), *_BITS]
FREE = Space(_VARIABLES)
AT_MOST_2 = Space(_VARIABLES, [LinearConstraint({bit.name: 1.0 for bit in _BITS}, bound=2)])
OMEGA, SHIFT, *_WEIGHTS = draw_parameters()
GAUSSIAN, LAPLACE = (linear_function(OMEGA, SHIFT, w) for w in _WEIGHTS)

MIVABO_GAUSSIAN = function_problem(FREE, GAUSSIAN, penalty=40.0, minimum=-25.34960362156106)
MIVABO_GAUSSIAN_AT_MOST_2 = function_problem(AT_MOST_2, GAUSSIAN, penalty=40.0, minimum=-9.00357984547728)
MIVABO_LAPLACE = function_problem(FREE, LAPLACE, penalty=500.0, minimum=-347.95415995417034)
MIVABO_LAPLACE_AT_MOST_2 = function_problem(AT_MOST_2, LAPLACE, penalty=500.0, minimum=-188.86116188194094)
