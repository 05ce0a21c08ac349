"""The engineering designs: constraints, and the optima of the constrained forms."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

from fmnas.platform.problems import problem
from fmnas.search_spaces import Configuration
from fmnas.trainers.functions.engineering import (
    REDUCER_RHO,
    VESSEL_RHO,
    pressure_vessel,
    reducer_violations,
    speed_reducer,
    vessel,
    vessel_violations,
)

FORMS = {
    "pressure_vessel": (pressure_vessel, vessel_violations, VESSEL_RHO),
    "speed_reducer": (speed_reducer, reducer_violations, REDUCER_RHO),
}
BEST = {
    "pressure_vessel": ([-0.559858194709572, -0.35149107227964344], [0, 0]),
    "speed_reducer": ([0.8, -1.0, -1.0, -0.1693601770435013, -0.09957066780713679, 0.1466178599208892], [0]),
}
designs = pytest.mark.parametrize("name", FORMS)


def point(x: np.ndarray, h: tuple[int, ...]) -> Configuration:
    return {f"x{i}": float(v) for i, v in enumerate(x, 1)} | {f"h{j}": v for j, v in enumerate(h, 1)}


def constrained_objective(name: str) -> Callable[[Configuration], float]:
    function = problem(f"{name}_constrained").function
    assert function is not None
    return function


def test_quantities_of_the_vessel() -> None:
    assert vessel({"x1": -1.0, "x2": 1.0, "h1": 0, "h2": 99}) == pytest.approx((1, 100, 10, 240))
    thin = {"x1": 1.0, "x2": -1.0, "h1": 1, "h2": 0}
    shell, head, volume = vessel_violations(thin)
    assert shell == pytest.approx(0.0193 * 200 / 2 - 1)
    assert head == pytest.approx(0.00954 * 200 - 1)
    assert volume == pytest.approx(1 - (math.pi * 200**2 * 10 + 4 / 3 * math.pi * 200**3) / 1_296_000)
    assert constrained_objective("pressure_vessel")(thin) == pytest.approx(pressure_vessel(thin) + 0.1 * (shell + head))


def test_the_best_vessel_has_the_thinnest_feasible_shell() -> None:
    """The shell limits the radius, and the volume determines the length."""
    R = 1 / 0.0193
    L = (1_296_000 - 4 / 3 * math.pi * R**3) / (math.pi * R**2)
    cost = (0.6224 * R * L + 1.7781 * R**2 + 3.1661 * L + 19.84 * R) / 1e6
    assert problem("pressure_vessel_constrained").minimum == pytest.approx(cost, rel=1e-12)


def test_the_best_speed_reducer_has_every_quantity_at_a_limit() -> None:
    m, z, b, l1 = 0.7, 17, 3.5, 7.3
    d1 = (math.sqrt((745 * l1 / (m * z)) ** 2 + 16.9e6) / 110) ** (1 / 3)
    d2 = brentq(lambda d: math.sqrt((745 * (1.1 * d + 1.9) / (m * z)) ** 2 + 157.5e6) - 85 * d**3, 5, 5.5, xtol=1e-15)
    lengths = {"x3": 2 * (l1 - 7.3) - 1, "x4": 2 * (1.1 * d2 + 1.9 - 7.3) - 1}
    place = {"x1": 2 * (b - 2.6) - 1, "x2": -1.0, **lengths, "x5": 2 * (d1 - 2.9) - 1, "x6": 4 * (d2 - 5) - 1, "h1": 0}
    assert max(reducer_violations(place)) < 1e-12
    published = [-0.0739, -0.1980, -0.4992, -0.9046, 0, 0, -0.7025, 0, -0.5833, -0.0513, 0]
    assert reducer_violations(place) == pytest.approx(published, abs=5.1e-5)
    assert problem("speed_reducer_constrained").minimum == pytest.approx(speed_reducer(place), rel=1e-12)


@designs
@given(seed=st.integers(0, 10**6))
@settings(deadline=None)
def test_the_penalty_is_zero_for_feasible_designs_only(name: str, seed: int) -> None:
    function, violations, rho = FORMS[name]
    configuration = problem(name).space.sample(np.random.default_rng(seed))
    penalty = constrained_objective(name)(configuration) - function(configuration)
    assert penalty == pytest.approx(rho * sum(g for g in violations(configuration) if g > 0), abs=1e-12)
    assert (penalty > 0) == (max(violations(configuration)) > 0)
