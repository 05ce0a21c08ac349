"""The test functions: values computed with the published code, and known optima."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fmnas.platform.problems import PROBLEMS
from fmnas.search_spaces import Configuration, Integer, LinearConstraint, Real, Space
from fmnas.trainers import Problem

VALUES = {
    "ackley53c": [
        *(([0.0] * 3, [0] * 50, 0.0), ([1.0] * 3, [1] * 50, 20 - 20 * np.exp(-0.2))),
        ([0.0] * 3, [1] * 50, 3.53),
    ],
    **json.loads((Path(__file__).parent / "golden_functions.json").read_text()),
}
LINEAR = (([0.5] * 8, [0] * 8), ([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8], [0, 1, 0, 0, 0, 0, 1, 0]))
for weights, values in {"gaussian": (0.96752976, -0.91631659), "laplace": (-6.08747891, 25.96496675)}.items():
    points = [(x, h, value) for (x, h), value in zip(LINEAR, values, strict=True)]
    VALUES |= {f"mivabo_{weights}": points, f"mivabo_{weights}_at_most_2": points}
OPTIMA = {
    "func2c": ([0.04492, -0.35633], [1, 1]),
    "func3c": ([0.04492, -0.35633], [1, 1, 0]),
    "ackley5c": ([0.0], [8] * 5),
    "ackley53c": ([0.0] * 3, [0] * 50),
    "ackley53c_gebo": ([0.0] * 3, [0] * 50),
    "mivabo_gaussian": (
        [0.41944743757630903, 0.0, 0.3628580106550362, 0.5084052921737383, 0.0, 0.020672581172756666, 0.0, 0.0],
        [1, 1, 1, 1, 0, 0, 1, 1],
    ),
    "mivabo_gaussian_at_most_2": (
        [0.0, 0.9073758109054214, 0.30909924554286045, 0.0, 0.4795057474302086, 1.0, 1.0, 1.0],
        [0, 0, 1, 0, 0, 0, 0, 1],
    ),
    "mivabo_laplace": (
        [1.0, 0.0, 0.5373263125590663, 0.0, 0.0, 1.0, 0.6933648730125966, 0.0],
        [0, 1, 1, 1, 0, 0, 1, 1],
    ),
    "mivabo_laplace_at_most_2": (
        [0.3905418382503356, 0.0, 0.558919176470506, 0.0, 0.0, 0.30209932017223423, 1.0, 0.0],
        [0, 0, 0, 1, 0, 0, 1, 0],
    ),
    "pressure_vessel": ([-1.0] * 2, [0, 0]),
    "pressure_vessel_constrained": ([-0.559858194709572, -0.35149107227964344], [0, 0]),
    "speed_reducer": ([-1.0] * 6, [0]),
    "speed_reducer_constrained": (
        [0.8, -1.0, -1.0, -0.1693601770435013, -0.09957066780713679, 0.1466178599208892],
        [0],
    ),
    "environmental_model": ([7.797606868652417e-06, -5.468251996396563e-06, 3.2883460627452365e-06], [142]),
    "environmental_model_correct": ([6.5477927544967255e-06, -7.876527836076409e-06, 3.120457151152732e-06], [142]),
}
NOMINAL = {"func2c": (2, [3, 5]), "func3c": (2, [3, 5, 4]), "ackley5c": (1, [17] * 5)}
NOMINAL |= {"ackley53c": (3, [2] * 50), "ackley53c_gebo": (3, [2] * 50)}
SYNTHETIC: dict[str, Any] = {
    name: row.target
    for name, row in PROBLEMS.items()
    if isinstance(row.target, Problem) and row.target.function and "combinatorial" not in row.use
}
"""Those with continuous variables; test_combinatorial.py has the others."""
problems = pytest.mark.parametrize("name", SYNTHETIC)


def point(x: list[float], h: list[int]) -> Configuration:
    return {f"x{i}": v for i, v in enumerate(x, 1)} | {f"h{j}": v for j, v in enumerate(h, 1)}


@problems
def test_values_of_the_published_code(name: str) -> None:
    for x, h, expected in VALUES[name]:
        digits = len(str(expected).partition(".")[2])
        tolerance = 1e-12 if digits > 10 else 0.6 * 10.0**-digits
        assert SYNTHETIC[name].function(point(x, h)) == pytest.approx(expected, abs=tolerance)


@problems
def test_the_minimum_is_reached_at_the_optimum(name: str) -> None:
    problem, (x, h) = SYNTHETIC[name], OPTIMA[name]
    value = problem.function(point(x, h))
    assert value == pytest.approx(problem.minimum, abs=1e-9)
    if "func" in name:
        assert problem.function(point([-v for v in x], h)) == pytest.approx(value)


@problems
@given(seed=st.integers(0, 10**6))
@settings(deadline=None)
def test_nothing_is_below_the_minimum(name: str, seed: int) -> None:
    problem = SYNTHETIC[name]
    configuration = problem.space.sample(np.random.default_rng(seed))
    assert problem.function(configuration) >= problem.minimum - 1e-12


@pytest.mark.parametrize("name", NOMINAL)
def test_nominal_spaces(name: str) -> None:
    space = SYNTHETIC[name].space
    count, sizes = NOMINAL[name]
    assert [(v.low, v.high, v.log) for v in space.continuous] == [(-1.0, 1.0, False)] * count
    assert [v.vertices for v in space.discrete] == [tuple(range(n)) for n in sizes]
    for variable, n in zip(space.discrete, sizes, strict=True):
        assert variable.adjacency.sum() == n * (n - 1), "every value is adjacent to every other"


@pytest.mark.parametrize("weights", ["gaussian", "laplace"])
def test_mivabos_spaces(weights: str) -> None:
    """Eight reals in [0, 1] and eight binaries, of which at most two are 1 in the constrained form."""
    bits = [Integer(f"h{j}", 0, 1) for j in range(1, 9)]
    variables = [*(Real(f"x{i}", 0.0, 1.0) for i in range(1, 9)), *bits]
    at_most_2 = LinearConstraint({bit.name: 1.0 for bit in bits}, 2.0)
    assert PROBLEMS[f"mivabo_{weights}"].problem().space == Space(variables)
    assert PROBLEMS[f"mivabo_{weights}_at_most_2"].problem().space == Space(variables, [at_most_2])
