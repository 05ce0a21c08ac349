"""Mixed problems: functions of the field, part of whose variables are nominal.

A nominal value represents one of equally spaced numbers, shuffled, so that only trials show its meaning.
The shuffle is drawn once from a fixed seed. `sample_efficiency.py --problems mixed_levy` measures on the first, and
`fmnas` takes each by its name, as benchmarks/mixed_functions.py:levy.

| problem | real | nominal (values) | box | minimum |
|---|---|---|---|---|
| levy | 2 | 4 (9) | [-7, 9] | 0 at 1 |
| styblinski_tang | 2 | 4 (11) | [-5, 5] | about -39.17 a real variable, -39 a nominal one, both near -2.9 |
| rosenbrock | 2 | 3 (9) | [-2, 2] | 0 at 1 |
| rastrigin | 2 | 3 (11) | [-5, 5] | 0 at 0 |
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmnas.search_spaces import Nominal, Real
from fmnas.trainers import objective
from fmnas.trainers.problem import Problem

REALS = 2
Function = Callable[[NDArray[np.float64]], float]


def of_levy(z: NDArray[np.float64]) -> float:
    """Levy's function."""
    w = 1 + (z - 1) / 4
    middle = (w[:-1] - 1) ** 2 * (1 + 10 * np.sin(np.pi * w[:-1] + 1) ** 2)
    last = (w[-1] - 1) ** 2 * (1 + np.sin(2 * np.pi * w[-1]) ** 2)
    return float(np.sin(np.pi * w[0]) ** 2 + middle.sum() + last)


def of_styblinski_tang(z: NDArray[np.float64]) -> float:
    """Styblinski's and Tang's function."""
    return float((z**4 - 16 * z**2 + 5 * z).sum() / 2)


def of_rosenbrock(z: NDArray[np.float64]) -> float:
    """Rosenbrock's function: each variable interacts with its neighbours alone."""
    return float((100 * (z[1:] - z[:-1] ** 2) ** 2 + (z[:-1] - 1) ** 2).sum())


def of_rastrigin(z: NDArray[np.float64]) -> float:
    """Rastrigin's function."""
    return float((z**2 - 10 * np.cos(2 * math.pi * z) + 10).sum())


def mixed_problem(function: Function, low: float, high: float, nominal: int, values: int, seed: int) -> Problem:
    """Return the function of `REALS` real and `nominal` nominal variables, in a random order."""
    grid = np.linspace(low, high, values)
    rng = np.random.default_rng(seed)
    meant = [rng.permutation(grid) for _ in range(nominal)]
    order = rng.permutation(REALS + nominal)
    reals = [Real(f"x{i}", low, high) for i in range(REALS)]
    named = [Nominal(f"h{j}", tuple(range(values))) for j in range(nominal)]

    @objective([*reals, *named])
    def value(configuration: Mapping[str, Any]) -> float:
        x = [configuration[variable.name] for variable in reals]
        h = [meant[j][configuration[variable.name]] for j, variable in enumerate(named)]
        return function(np.array([*x, *h])[order])

    return value


levy = mixed_problem(of_levy, -7.0, 9.0, nominal=4, values=9, seed=1)
styblinski_tang = mixed_problem(of_styblinski_tang, -5.0, 5.0, nominal=4, values=11, seed=2)
rosenbrock = mixed_problem(of_rosenbrock, -2.0, 2.0, nominal=3, values=9, seed=3)
rastrigin = mixed_problem(of_rastrigin, -5.0, 5.0, nominal=3, values=11, seed=4)
