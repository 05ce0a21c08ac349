"""Cheap test functions from papers on mixed spaces: Func2C, Func3C, Ackley5C, Ackley53C.

| problem | continuous, each in [-1, 1] | nominal (number of values) | minimum |
|---|---|---|---|
| func2c | x1, x2 | h1 (3), h2 (5) | -0.206326 at h = (1, 1), x = +-(0.04492, -0.35633) |
| func3c | x1, x2 | h1 (3), h2 (5), h3 (4) | -0.722140 at h = (1, 1, 0), the same x |
| ackley5c | x1 | h1..h5 (17 each) | 0 at x = 0, h = (8, 8, 8, 8, 8) |
| ackley53c | x1..x3 | h1..h50 (2 each) | 0 at x = 0, h = 0 |
| ackley53c_gebo | x1..x3 | h1..h50 (2 each) | 1.177026 at x = 0, h = 0 |

Func2C, Func3C and Ackley5C are those of the BO-FM and CoCaBO papers (Casmopolitan's Func3C has fewer categories);
Ackley53C is that of Casmopolitan and BODi. In GEBO's form of it the binaries are -1 and -0.875 instead of 0 and 1, and
the value is divided by 3: values of the two forms cannot be compared. GEBO's paper prints 1.231 (standard deviation
0.005 over 10 runs) for 40 random points and then 60 seconds of its method. Epochs are counted, but have no effect.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fmnas.search_spaces import Integer, Nominal, Real, Space
from fmnas.search_spaces.variables import Floats
from fmnas.trainers.functions.objective import FunctionTrainer
from fmnas.trainers.problem import Problem

Function = Callable[[Mapping[str, Any]], float]
"""Maps a configuration to the objective."""

PUBLISHED_NOISE = 1e-6
"""Width of the one-sided noise in the published code."""


def mixed_space(continuous: int, sizes: tuple[int, ...], ordered: bool = False) -> Space:
    """Variables x1, x2, ... in [-1, 1], then h1, h2, ... with values 0, 1, ..., sizes[j] - 1, nominal or ordered."""
    reals = [Real(f"x{i}", -1.0, 1.0) for i in range(1, continuous + 1)]
    if ordered:
        return Space([*reals, *(Integer(f"h{j}", 0, n - 1) for j, n in enumerate(sizes, start=1))])
    return Space([*reals, *(Nominal(f"h{j}", tuple(range(n))) for j, n in enumerate(sizes, start=1))])


def rosenbrock(u1: float, u2: float) -> float:
    """Rosenbrock's function / 300; u in [-2, 2]^2."""
    return (100 * (u2 - u1**2) ** 2 + (u1 - 1) ** 2) / 300


def camel(u1: float, u2: float) -> float:
    """The six-hump camel function / 10; u in [-2, 2]^2."""
    return ((4 - 2.1 * u1**2 + u1**4 / 3) * u1**2 + u1 * u2 + (-4 + 4 * u2**2) * u2**2) / 10


def beale(u1: float, u2: float) -> float:
    """Beale's function / 50; u in [-2, 2]^2."""
    return ((1.5 - u1 + u1 * u2) ** 2 + (2.25 - u1 + u1 * u2**2) ** 2 + (2.625 - u1 + u1 * u2**3) ** 2) / 50


def ackley(z: Floats) -> float:
    """Ackley's function with a = 20, b = 0.2, c = 2 pi; 0 at z = 0."""
    ripple = np.exp(np.mean(np.cos(2 * np.pi * z)))
    return float(-20 * np.exp(-0.2 * np.sqrt(np.mean(z**2))) - ripple + 20 + math.e)


def func2c(configuration: Mapping[str, Any]) -> float:
    """F[h1](2x) + F[h2](2x), F = Rosenbrock, camel, Beale, Beale, Beale."""
    u = 2 * configuration["x1"], 2 * configuration["x2"]
    first = (rosenbrock, camel, beale)[int(configuration["h1"])]
    second = (rosenbrock, camel, beale, beale, beale)[int(configuration["h2"])]
    return float(first(*u) + second(*u))


def func3c(configuration: Mapping[str, Any]) -> float:
    """Func2C and, by h3, 5 x camel, 2 x Rosenbrock, 2 x Beale or 3 x Beale at 2x."""
    u = 2 * configuration["x1"], 2 * configuration["x2"]
    weight, third = ((5, camel), (2, rosenbrock), (2, beale), (3, beale))[int(configuration["h3"])]
    return float(func2c(configuration) + weight * third(*u))


def ackley5c(configuration: Mapping[str, Any]) -> float:
    """Ackley at (x1, h1/8 - 1, ..., h5/8 - 1)."""
    return ackley(np.array([configuration["x1"], *(0.125 * configuration[f"h{j}"] - 1 for j in range(1, 6))]))


def ackley53c(configuration: Mapping[str, Any]) -> float:
    """Ackley at (h1, ..., h50, x1, x2, x3)."""
    binaries = [float(configuration[f"h{j}"]) for j in range(1, 51)]
    return ackley(np.array(binaries + [configuration[f"x{i}"] for i in range(1, 4)]))


def ackley53c_gebo(configuration: Mapping[str, Any]) -> float:
    """Ackley at (x1, x2, x3, h1/8 - 1, ..., h50/8 - 1), divided by 3."""
    coded = [0.125 * configuration[f"h{j}"] - 1 for j in range(1, 51)]
    return ackley(np.array([configuration[f"x{i}"] for i in range(1, 4)] + coded)) / 3


def function_problem(
    space: Space,
    function: Function,
    *,
    penalty: float,
    minimum: float | None,
    noise: float = 0.0,
    authors: bool = False,
) -> Problem:
    """A function as a problem. authors: whether the BO-FM paper's runs started at its `authors_points`."""
    return Problem(
        space=space,
        penalty=penalty,
        minimum=minimum,
        function=function,
        build=lambda data, hardware: FunctionTrainer(space, function, noise),
        has_authors_points=authors,
    )


FUNC2C = function_problem(
    mixed_space(2, (3, 5)), func2c, penalty=100.0, minimum=-0.2063256906979755, noise=PUBLISHED_NOISE, authors=True
)
FUNC3C = function_problem(
    mixed_space(2, (3, 5, 4)), func3c, penalty=100.0, minimum=-0.7221399174429142, noise=PUBLISHED_NOISE, authors=True
)
ACKLEY5C = function_problem(
    mixed_space(1, (17,) * 5), ackley5c, penalty=10.0, minimum=0.0, noise=PUBLISHED_NOISE, authors=True
)
ACKLEY53C = function_problem(mixed_space(3, (2,) * 50), ackley53c, penalty=10.0, minimum=0.0, noise=PUBLISHED_NOISE)
ACKLEY53C_GEBO = function_problem(
    mixed_space(3, (2,) * 50), ackley53c_gebo, penalty=2.0, minimum=1.1770259375681262, noise=PUBLISHED_NOISE / 3
)
