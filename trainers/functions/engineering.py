"""Engineering designs from HyBO and GEBO: a pressure vessel and a speed reducer.

| problem | continuous, each in [-1, 1] | ordered | minimum |
|---|---|---|---|
| pressure_vessel | x1, x2 | h1, h2 in 0..99 | 0.000470111 at the lower corner |
| pressure_vessel_constrained | the same | the same | 0.008796862 at x = (-0.559858, -0.351491), h = (0, 0) |
| speed_reducer | x1..x6 | h1 in 0..11 | 1.176181 at the lower corner |
| speed_reducer_constrained | the same | the same | 1.497177 at the point below, h1 = 0 |

The variables encode the quantities of the designs, as in the published code:

| vessel | | | speed reducer | | |
|---|---|---|---|---|---|
| t | thickness of the shell | h1 + 1 | b | face width | 2.6 + (x1 + 1) / 2 |
| T | thickness of the head | h2 + 1 | m | module of the teeth | 0.7 + (x2 + 1) / 20 |
| R | inner radius | 10 + 95 (x1 + 1) | z | teeth of the pinion | h1 + 17 |
| L | length of the cylinder | 10 + 115 (x2 + 1) | l1, l2 | lengths of shafts | 7.3 + (x3 + 1) / 2, 7.3 + (x4 + 1) / 2 |
| | | | d1, d2 | their diameters | 2.9 + (x5 + 1) / 2, 5 + (x6 + 1) / 4 |

Sources: Kannan and Kramer 1994 and Golinski 1973; in this form, without noise, HyBO (Deshwal et al. 2021) and GEBO.
Their code computes the constraints but does not use them, so that the optimum is the smallest value of each variable:
`pressure_vessel` and `speed_reducer`. A thickness is an integer here, not a multiple of 1/16 as in the engineering
literature, whose optimum, 6059.7, is for a different space. The vessel's cost is divided by 1e6, as published; the
reducer's weight by 2000, as in GEBO (not in HyBO). GEBO's paper prints 0.027 and 1.178 for the two.

The constrained forms add an exact penalty (Nocedal and Wright 2006, section 17.2), rho times the sum of the relative
violations max(0, g), with g below. rho, 0.1 and 2, is above the largest multiplier of the constraints (0.0055 and 0.69)
and above the gain per unit of violation of any design (0.0084 and 0.69), so the minimum is the constrained optimum; for
the reducer at x = (0.8, -1, -1, -0.169360, -0.099571, 0.146618), with weight 2994.354.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

from fmnas.trainers.functions.synthetic import Function, function_problem, mixed_space

VESSEL_RHO = 0.1
REDUCER_RHO = 2.0
VOLUME = 1_296_000.0
"""The least volume of the vessel."""

Violations = Callable[[Mapping[str, Any]], tuple[float, ...]]
"""Maps a configuration to the relative violations g of its constraints, which are satisfied if at most 0."""


def vessel(configuration: Mapping[str, Any]) -> tuple[float, float, float, float]:
    """Decode t, T, R, L."""
    x1, x2 = float(configuration["x1"]), float(configuration["x2"])
    return configuration["h1"] + 1.0, configuration["h2"] + 1.0, 10 + 95 * (x1 + 1), 10 + 115 * (x2 + 1)


def pressure_vessel(configuration: Mapping[str, Any]) -> float:
    """Cost / 1e6 of material, forming and welding."""
    t, T, R, L = vessel(configuration)
    return (0.6224 * t * R * L + 1.7781 * T * R**2 + 3.1661 * t**2 * L + 19.84 * t**2 * R) / 1e6


def vessel_violations(configuration: Mapping[str, Any]) -> tuple[float, ...]:
    """Violations of the least thickness of the shell, that of the head, and the least volume."""
    t, T, R, L = vessel(configuration)
    volume = math.pi * R**2 * L + 4 / 3 * math.pi * R**3
    return 0.0193 * R / t - 1, 0.00954 * R / T - 1, 1 - volume / VOLUME


def reducer(configuration: Mapping[str, Any]) -> tuple[float, ...]:
    """Decode b, m, z, l1, l2, d1, d2."""
    u1, u2, u3, u4, u5, u6 = (configuration[f"x{i}"] + 1.0 for i in range(1, 7))
    return 2.6 + u1 / 2, 0.7 + u2 / 20, configuration["h1"] + 17.0, 7.3 + u3 / 2, 7.3 + u4 / 2, 2.9 + u5 / 2, 5 + u6 / 4


def speed_reducer(configuration: Mapping[str, Any]) -> float:
    """Weight / 2000."""
    b, m, z, l1, l2, d1, d2 = reducer(configuration)
    wheels = 0.7854 * b * m**2 * (3.333 * z**2 + 14.9334 * z - 43.0934) - 1.508 * b * (d1**2 + d2**2)
    shafts = 7.4777 * (d1**3 + d2**3) + 0.7854 * (l1 * d1**2 + l2 * d2**2)
    return (wheels + shafts) / 2000


def reducer_violations(configuration: Mapping[str, Any]) -> tuple[float, ...]:
    """Violations of bending and contact stress, of each shaft's deflection and stress, and five of shape."""
    b, m, z, l1, l2, d1, d2 = reducer(configuration)
    ratios = (
        27 / (b * m**2 * z),
        397.5 / (b * m**2 * z**2),
        1.93 * l1**3 / (m * z * d1**4),
        1.93 * l2**3 / (m * z * d2**4),
        math.sqrt((745 * l1 / (m * z)) ** 2 + 16.9e6) / (110 * d1**3),
        math.sqrt((745 * l2 / (m * z)) ** 2 + 157.5e6) / (85 * d2**3),
        m * z / 40,
        5 * m / b,
        b / (12 * m),
        (1.5 * d1 + 1.9) / l1,
        (1.1 * d2 + 1.9) / l2,
    )
    return tuple(ratio - 1 for ratio in ratios)


def add_penalty(function: Function, violations: Violations, rho: float) -> Function:
    """function + rho x the sum of max(0, g)."""
    return lambda configuration: function(configuration) + rho * sum(max(0.0, g) for g in violations(configuration))


VESSEL_SPACE = mixed_space(2, (100, 100), ordered=True)
REDUCER_SPACE = mixed_space(6, (12,), ordered=True)

PRESSURE_VESSEL = function_problem(VESSEL_SPACE, pressure_vessel, penalty=60.0, minimum=0.000470111)
PRESSURE_VESSEL_CONSTRAINED = function_problem(
    VESSEL_SPACE, add_penalty(pressure_vessel, vessel_violations, VESSEL_RHO), penalty=60.0, minimum=0.0087968622437748
)
SPEED_REDUCER = function_problem(REDUCER_SPACE, speed_reducer, penalty=4.0, minimum=1.17618054836772)
SPEED_REDUCER_CONSTRAINED = function_problem(
    REDUCER_SPACE, add_penalty(speed_reducer, reducer_violations, REDUCER_RHO), penalty=8.0, minimum=1.4971771423140576
)
