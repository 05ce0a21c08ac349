"""The synthetic functions: values computed with the published code, minima, landmarks."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fmnas.platform.problems import PROBLEMS
from fmnas.search_spaces import Configuration
from fmnas.trainers import Problem

VALUES = {
    "func2c": [
        ([-0.639461, -0.96105], [1, 4], 8.415715523853903),
        ([-0.025257, 0.883613], [0, 4], 1.2911214450876198),
        ([0.473672, 0.34502], [1, 3], 0.3492699187558025),
        ([0.977158, 0.556206], [0, 0], 4.891084060539031),
        ([-0.178175, -0.620595], [2, 1], 0.8834495247750254),
    ],
    "func3c": [
        ([-0.332251, 0.476505], [1, 3, 3], 1.246117464028035),
        ([-0.807673, 0.9477], [1, 2, 1], 4.999736436702865),
        ([-0.221412, -0.143362], [1, 2, 0], 0.7351033559832367),
        ([-0.181328, 0.848066], [0, 4, 2], 1.152366408057977),
    ],
    "ackley5c": [
        ([-0.999655], [11, 16, 0, 1, 11], 4.282074353546406),
        ([-0.185061], [7, 7, 5, 16, 9], 2.8466206662319036),
        ([0.0], [8, 8, 8, 8, 7], 0.3326),
        ([0.0], [8, 9, 8, 8, 7], 0.5394),
        ([0.01], [8] * 5, 0.01722),
        ([1e-4], [8] * 5, 0.000163),
    ],
    "ackley53c": [([0.0] * 3, [0] * 50, 0.0), ([1.0] * 3, [1] * 50, 20 - 20 * np.exp(-0.2))],
}
VALUES |= {
    name: values
    for name, values in json.loads((Path(__file__).parent / "golden_functions.json").read_text()).items()
    if name != "note"
}
MINIMISERS = {
    "func2c": ([0.04492, -0.35633], [1, 1]),
    "func3c": ([0.04492, -0.35633], [1, 1, 0]),
    "ackley5c": ([0.0], [8] * 5),
    "ackley53c": ([0.0] * 3, [0] * 50),
    "ackley53c_gebo": ([0.0] * 3, [0] * 50),
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
SIZES = {
    "func2c": (2, [3, 5]),
    "func3c": (2, [3, 5, 4]),
    "ackley5c": (1, [17] * 5),
    "ackley53c": (3, [2] * 50),
    "ackley53c_gebo": (3, [2] * 50),
}
SYNTHETIC = {
    name: row.target for name, row in PROBLEMS.items() if isinstance(row.target, Problem) and row.target.function
}
problems = pytest.mark.parametrize("name", SYNTHETIC)


def known(table: dict[str, Any], name: str, what: str) -> Any:
    if name not in table:
        pytest.fail(f"{__file__} knows no {what} of {name!r}: add it, from elsewhere than this implementation")
    return table[name]


def point(x: list[float], h: list[int]) -> Configuration:
    return {f"x{i}": v for i, v in enumerate(x, 1)} | {f"h{j}": v for j, v in enumerate(h, 1)}


@problems
def test_values_of_the_published_code(name: str) -> None:
    for x, h, expected in known(VALUES, name, "VALUES"):
        digits = len(str(expected).partition(".")[2])
        tolerance = 1e-12 if digits > 10 else 0.6 * 10.0**-digits
        assert SYNTHETIC[name].function(point(x, h)) == pytest.approx(expected, abs=tolerance)


def test_ackley53c_of_all_ones_on_the_binaries() -> None:
    assert SYNTHETIC["ackley53c"].function(point([0.0] * 3, [1] * 50)) == pytest.approx(3.53, abs=0.005)


@problems
def test_the_minimum_is_reached_at_the_known_place(name: str) -> None:
    problem = SYNTHETIC[name]
    x, h = known(MINIMISERS, name, "MINIMISERS")
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


@pytest.mark.parametrize("name", SIZES)
def test_the_space(name: str) -> None:
    space = SYNTHETIC[name].space
    count, categories = SIZES[name]
    assert [(v.low, v.high, v.log) for v in space.continuous] == [(-1.0, 1.0, False)] * count
    assert [v.vertices for v in space.discrete] == [tuple(range(n)) for n in categories]
    for variable in space.discrete:
        n = len(variable.vertices)
        assert variable.adjacency.sum() == n * (n - 1), "nominal: every value beside every other"


def test_the_third_to_fifth_value_of_h2_are_the_same_function() -> None:
    function = SYNTHETIC["func2c"].function
    assert len({function(point([0.3, -0.7], [0, h2])) for h2 in (2, 3, 4)}) == 1
    assert len({function(point([0.3, -0.7], [0, h2])) for h2 in range(5)}) == 3
