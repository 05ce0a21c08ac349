"""Each kind of variable: its scale or its graph, and what it refuses."""

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fmnas.search_spaces import FmnasError, Graph, Integer, Nominal, Ordinal, Real, Space, SpaceError


@pytest.mark.parametrize(
    ("variable", "value", "unit"),
    [
        (Real("x", 2.0, 4.0), 2.0, 0.0),
        (Real("x", 2.0, 4.0), 2.5, 0.25),
        (Real("x", -3.0, 1.0), 0.0, 0.75),
        (Real("x", 1e-3, 1e-1, log=True), 1e-2, 0.5),
        (Real("x", 1.0, 16.0, log=True), 2.0, 0.25),
        (Real("x", 0, 10), 5, 0.5),
        (Real("x", 0, 2.5), 0.5, 0.2),
    ],
)
def test_real_maps_to_the_unit_interval(variable: Real, value: float, unit: float) -> None:
    assert variable.to_unit(value) == pytest.approx(unit, abs=1e-12)
    assert variable.from_unit(unit) == pytest.approx(value, rel=1e-12)


@given(unit=st.floats(-2.0, 3.0), log=st.booleans())
def test_real_never_leaves_its_bounds(unit: float, log: bool) -> None:
    variable = Real("x", 0.3, 7.7, log=log)
    value = variable.from_unit(unit)
    assert 0.3 <= value <= 7.7
    variable.check(value)


@pytest.mark.parametrize(
    ("variable", "vertices", "neighbours"),
    [
        (Integer("n", -1, 2), (-1, 0, 1, 2), [{1}, {0, 2}, {1, 3}, {2}]),
        (Ordinal("o", ["low", "mid", "high"]), ("low", "mid", "high"), [{1}, {0, 2}, {1}]),
        (Ordinal("o", [8, 64, 32]), (8, 64, 32), [{1}, {0, 2}, {1}]),
        (Nominal("n", ["a", True, 1.5]), ("a", True, 1.5), [{1, 2}, {0, 2}, {0, 1}]),
        (Graph("g", ("a", "b", "c"), (("c", "a"), ("b", "a"))), ("a", "b", "c"), [{1, 2}, {0}, {0}]),
        (Graph("g", ("a", "b"), (("a", "b"), ("b", "a"))), ("a", "b"), [{1}, {0}]),
    ],
)
def test_discrete_variable_is_its_graph(variable: Any, vertices: tuple[Any, ...], neighbours: list[set[int]]) -> None:
    assert variable.vertices == vertices
    assert [set(result) for result in variable.neighbours] == neighbours
    assert [variable.index(value) for value in vertices] == list(range(len(vertices)))
    np.testing.assert_array_equal(variable.adjacency.sum(axis=1), [len(result) for result in neighbours])


def test_a_whole_float_is_its_integer_and_a_boolean_is_not() -> None:
    variable = Nominal("n", [1, True, "1", 0])
    assert [variable.index(value) for value in (1, 1.0, True, "1", 0.0)] == [0, 0, 1, 2, 3]


BAD_DEFINITIONS: list[Any] = [
    (lambda: Real("rate", 1.0, 0.0), ["'rate'", "[1.0, 0.0]", "low < high"]),
    (lambda: Real("rate", math.nan, 1.0), ["'rate'", "nan", "finite"]),
    (lambda: Real("rate", 0.0, math.inf), ["'rate'", "inf", "finite"]),
    (lambda: Real("rate", 0.0, 1.0, log=True), ["'rate'", "low = 0.0", "log", "above 0"]),
    (lambda: Real("learning rate", 0.0, 1.0), ["'learning rate'", "identifier"]),
    (lambda: Nominal("", ["a", "b"]), ["''", "identifier"]),
    (lambda: Integer("depth", 3, 3), ["'depth'", "[3, 3]", "low below high"]),
    (lambda: Nominal("op", []), ["op", "0 value", "at least two"]),
    (lambda: Nominal("op", ["a", "b", "a"]), ["op", "['a', 'b', 'a']", "not distinct"]),
    (lambda: Ordinal("size", [1, 2, 1.0]), ["size", "[1, 2, 1.0]", "not distinct"]),
    (lambda: Ordinal("size", [1, None]), ["size", "None", "NoneType", "string, finite number or boolean"]),
    (lambda: Nominal("op", ["a\udcff", "b"]), ["op", r"a\udcff"]),
    (lambda: Nominal("op", [[1], [2]]), ["op", "[1]", "list", "string, finite number or boolean"]),
    (lambda: Graph("in2", ((-1, 0), (0, 1)), ()), ["in2", "(-1, 0)", "tuple", "string"]),
    (lambda: Graph("in2", ("a", "b", "c"), (("a", "b"),)), ["'in2'", "not connected", "'a'"]),
    (lambda: Graph("in2", ("a", "b"), (("a", "a"), ("a", "b"))), ["'in2'", "('a', 'a')", "different"]),
    (lambda: Graph("in2", ("a", "b"), (("a", "c"),)), ["in2", "'c'", "['a', 'b']"]),
    (lambda: Integer("depth", 0.5, 3), ["depth", "0.5"]),
    (lambda: Ordinal("size", [math.nan, 1.0]), ["size", "nan"]),
    (lambda: Graph("in2", ("a", "b"), (("a", "b", "b"),)), ["in2", "('a', 'b', 'b')"]),
    (lambda: Real("rate", -1.5e308, 1.5e308), ["rate"]),
    (lambda: Nominal("op", "abc"), ["op", "'abc'"]),
    (lambda: Nominal("op", 5), ["op", "values = 5", "list"]),
    (lambda: Ordinal("size", None), ["size", "values = None", "list"]),
    (lambda: Graph("in2", None), ["in2", "vertices = None", "list"]),
    (lambda: Graph("in2", ("a", "b"), 3), ["in2", "edges = 3", "('a', 'b')"]),
    (lambda: Graph("in2", ("a", "b"), (3,)), ["in2", "edge = 3", "('a', 'b')"]),
    (lambda: Real("rate", "1e-3", 1), ["'rate'", "'1e-3'", "numbers"]),
    (lambda: Real("rate", None, 1), ["'rate'", "None", "numbers"]),
    (lambda: Real("rate", False, True), ["'rate'", "False", "numbers"]),
    (lambda: Real("rate", 0, [1]), ["'rate'", "[1]", "numbers"]),
    (lambda: Real("rate", 1, 2, log="yes"), ["'rate'", "log = 'yes'", "True or False"]),
    (lambda: Integer("depth", "0", 3), ["'depth'", "'0'", "integers"]),
    (lambda: Integer("depth", np.float64(0), 3), ["'depth'", "0.0", "integers"]),
    (lambda: Integer("k", 0, 10**6), ["k", "1000001", "1000000"]),
]


@pytest.mark.parametrize(("build", "parts"), BAD_DEFINITIONS)
def test_bad_definition_is_explained(build: Callable[[], Any], parts: list[str]) -> None:
    with pytest.raises(SpaceError) as caught:
        build()
    assert isinstance(caught.value, FmnasError)
    assert isinstance(caught.value, ValueError)
    assert [part for part in parts if part not in str(caught.value)] == []


@pytest.mark.parametrize(
    ("build", "plain"),
    [
        (lambda: Real("x", np.float32(0.1), np.float64(1.0)), Real("x", float(np.float32(0.1)), 1.0)),
        (lambda: Real("x", np.int64(1), 2, log=np.True_), Real("x", 1, 2, log=True)),
        (lambda: Integer("x", np.int64(0), np.int32(3)), Integer("x", 0, 3)),
        (lambda: Ordinal("x", np.arange(3)), Ordinal("x", [0, 1, 2])),
        (lambda: Graph("x", np.array(["a", "b"]), np.array([["a", "b"]])), Graph("x", ("a", "b"), (("a", "b"),))),
    ],
)
def test_numbers_of_numpy_are_pythons(build: Callable[[], Any], plain: Any) -> None:
    space = Space([build()])
    assert space == Space([plain])
    assert json.dumps(space.to_dict()) == json.dumps(Space([plain]).to_dict())
    for seed in range(10):
        space.validate(space.sample(np.random.default_rng(seed)))
    for end in (space.decode([0.0]), space.decode([1.0])):
        assert space.encode(json.loads(json.dumps(end))) == space.encode(end)


RATE, OP, DEPTH = Real("rate", 0.0, 2.0), Nominal("op", ["conv", "pool"]), Integer("depth", 1, 3)


@pytest.mark.parametrize(
    ("variable", "value", "allowed"),
    [
        (RATE, 2.5, "[0.0, 2.0]"),
        (RATE, math.nan, "[0.0, 2.0]"),
        (RATE, True, "[0.0, 2.0]"),
        (RATE, "1.0", "[0.0, 2.0]"),
        (RATE, None, "[0.0, 2.0]"),
        (OP, 0, "['conv', 'pool']"),
        (OP, ["conv"], "['conv', 'pool']"),
        (DEPTH, 4, "[1, 2, 3]"),
        (DEPTH, True, "[1, 2, 3]"),
        (DEPTH, math.nan, "[1, 2, 3]"),
        pytest.param(DEPTH, 10**400, "[1, 2, 3]", id="beyond a float"),
    ],
)
def test_bad_value_is_explained(variable: Any, value: Any, allowed: str) -> None:
    with pytest.raises(SpaceError) as caught:
        variable.check(value)
    for part in (variable.name, repr(value), allowed):
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("variable", "value", "encoded"),
    [
        (RATE, 0, 0.0),
        (RATE, 2, 1.0),
        (RATE, np.float64(1.5), 0.75),
        (OP, "pool", 1.0),
        (DEPTH, 3, 2.0),
        (DEPTH, 3.0, 2.0),
    ],
)
def test_good_value_is_encoded(variable: Any, value: Any, encoded: float) -> None:
    assert Space([variable]).encode({variable.name: value}).tolist() == [encoded]
