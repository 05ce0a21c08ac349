"""The feasible region of a space: against plain sums and counts in closed form."""

import itertools
import json
import math
import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fmnas.search_spaces import (
    Configuration,
    Integer,
    LinearConstraint,
    Nominal,
    Ordinal,
    QuadraticConstraint,
    Real,
    Space,
    SpaceError,
)
from fmnas.search_spaces.constraints import Constraint

WEIGHTS = st.floats(1e-3, 10) | st.floats(-10, -1e-3)


def left_side(constraint: Constraint, configuration: Configuration) -> float:
    """The definition, term by term."""
    terms = [a * float(configuration[name]) for name, a in constraint.coefficients.items()]
    if isinstance(constraint, QuadraticConstraint):
        terms += [q * float(configuration[i]) * float(configuration[j]) for (i, j), q in constraint.pairs.items()]
    return math.fsum(terms)


def clearance(space: Space, configuration: Configuration) -> float:
    """How far inside the region (above 0) or outside it (below 0) a configuration is, relative to the terms' bounds."""
    largest = {
        v.name: max(abs(float(x)) for x in ((v.low, v.high) if isinstance(v, Real) else v.vertices))
        for v in numeric(space)
    }
    result = []
    for constraint in space.constraints:
        size = abs(constraint.bound) + sum(abs(a) * largest[name] for name, a in constraint.coefficients.items())
        if isinstance(constraint, QuadraticConstraint):
            size += sum(abs(q) * largest[i] * largest[j] for (i, j), q in constraint.pairs.items())
        result.append((constraint.bound - left_side(constraint, configuration)) / (size or 1.0))
    return min(result)


def numeric(space: Space) -> list[Any]:
    """The variables that a constraint may name, but for those with values so small that products of them underflow."""

    def fits(value: Any) -> bool:
        return not isinstance(value, str) and (value == 0 or abs(value) > 1e-100)

    return [v for v in space.variables if isinstance(v, Real) or all(map(fits, v.vertices))]


def add_constraints(data: st.DataObject, space: Space) -> Space:
    """The space with one or two constraints, each of which about half of it meets."""
    names = [v.name for v in numeric(space)]
    assume(names)
    constraints: list[Constraint] = []
    X = space.sample_encoded(np.random.default_rng(data.draw(st.integers(0, 99))), 41)
    for _ in range(data.draw(st.integers(1, 2))):
        linear = data.draw(st.dictionaries(st.sampled_from(names), WEIGHTS, min_size=1, max_size=3))
        made: Constraint = LinearConstraint(linear, 0.0)
        if data.draw(st.booleans()):
            pair = st.tuples(st.sampled_from(names), st.sampled_from(names))
            made = QuadraticConstraint(linear, data.draw(st.dictionaries(pair, WEIGHTS, min_size=1, max_size=3)), 0.0)
        bound = float(np.median([left_side(made, space.decode(x)) for x in X]))
        constraints.append(
            QuadraticConstraint(made.coefficients, made.pairs, bound)
            if isinstance(made, QuadraticConstraint)
            else LinearConstraint(made.coefficients, bound)
        )
    made_space = Space(space.variables, constraints)
    fresh = space.sample_encoded(np.random.default_rng(7), 200)
    # Two halves may not meet, or only on an edge, where no suggestion with Reals lies.
    assume(made_space.feasible(fresh, strictly=True).mean() > 0.05)
    return made_space


@given(data=st.data(), seed=st.integers(0, 2**32))
@settings(max_examples=25)
def test_every_sample_is_feasible(data: st.DataObject, spaces: Any, seed: int) -> None:
    space = add_constraints(data, data.draw(spaces))
    X = space.sample_encoded(np.random.default_rng(seed), 20)
    assert X.shape == (20, len(space))
    assert space.feasible(X).all()
    for x in X:
        configuration = space.decode(x)
        space.validate(configuration)
        assert clearance(space, configuration) > -1.1e-9
    np.testing.assert_array_equal(X, space.sample_encoded(np.random.default_rng(seed), 20))
    space.validate(space.sample(np.random.default_rng(seed)))


@given(data=st.data(), seed=st.integers(0, 2**32))
@settings(max_examples=25)
def test_feasible_is_the_definition(data: st.DataObject, spaces: Any, seed: int) -> None:
    space = add_constraints(data, data.draw(spaces))
    X = Space(space.variables).sample_encoded(np.random.default_rng(seed), 30)
    for x, feasible in zip(X, space.feasible(X), strict=True):
        configuration = space.decode(x)
        slack = clearance(space, configuration)
        if abs(slack) > 1.1e-9:
            assert feasible == (slack > 0)
        assert space.meets_constraints(configuration) == feasible
        if not feasible:
            with pytest.raises(SpaceError, match="infeasible"):
                space.encode(configuration)


@given(data=st.data())
@settings(max_examples=25)
def test_a_point_on_the_boundary_is_feasible(data: st.DataObject, configured_spaces: Any) -> None:
    space, configuration = data.draw(configured_spaces)
    names = [v.name for v in numeric(space)]
    assume(names)
    linear = data.draw(st.dictionaries(st.sampled_from(names), WEIGHTS, min_size=1))
    pairs = data.draw(st.dictionaries(st.tuples(st.sampled_from(names), st.sampled_from(names)), WEIGHTS, min_size=1))
    made = [LinearConstraint(linear, 0.0), QuadraticConstraint(linear, pairs, 0.0)]
    bounds = [left_side(constraint, configuration) for constraint in made]
    tight = Space(space.variables, [LinearConstraint(linear, bounds[0]), QuadraticConstraint(linear, pairs, bounds[1])])
    tight.validate(configuration)
    assert tight.feasible(tight.encode_all([configuration])).tolist() == [True]


@given(data=st.data())
@settings(max_examples=25)
def test_a_constrained_space_survives_json_and_pickle(data: st.DataObject, spaces: Any) -> None:
    space = add_constraints(data, data.draw(spaces))
    plain = json.loads(json.dumps(space.to_dict()))
    for back in (Space.from_dict(plain), pickle.loads(pickle.dumps(space))):
        assert back == space
        assert hash(back) == hash(space)
        assert back.to_dict() == space.to_dict()
    assert plain[: len(space)] == json.loads(json.dumps(Space(space.variables).to_dict()))
    assert Space(space.variables) != space


def test_values_are_in_the_users_units() -> None:
    """0.01 is the middle of a log scale from 1e-4 to 1; booleans count as 0 and 1; categories by their numbers."""
    space = Space(
        [Real("rate", 1e-4, 1.0, log=True), Nominal("nesterov", [False, True]), Ordinal("width", [64, 16])],
        [LinearConstraint({"rate": 1}, 0.01), LinearConstraint({"nesterov": 1, "width": 1}, 64)],
    )
    X = space.sample_encoded(np.random.default_rng(0), 600)
    assert X[:, 0].max() <= 0.5 + 1e-6
    assert X[:, 0].max() > 0.48
    assert {(n, w) for n, w in X[:, 1:].astype(int).tolist()} == {(0, 0), (0, 1), (1, 1)}


@pytest.mark.parametrize(
    ("variables", "constraint", "inside", "outside"),
    [
        ([Real("x", 0, 1), Real("y", 0, 1)], LinearConstraint({"x": 1, "y": 1}, 0.3), [0.1, 0.2], [0.1, 0.2 + 1e-7]),
        ([Real("x", -0.7, 1.3)], LinearConstraint({"x": 1}, 0), [0.0], [1e-7]),
        ([Real("x", 1e-9, 1e3, log=True)], LinearConstraint({"x": 1}, 1e-6), [1e-6], [1.001e-6]),
        ([Integer("n", 1, 99_999)], QuadraticConstraint({}, {("n", "n"): 1}, 4), [2], [3]),
    ],
    ids=["0.1 + 0.2", "zero inside a range", "small on a log scale", "small square of a large variable"],
)
def test_boundaries(variables: list[Any], constraint: Constraint, inside: list[float], outside: list[float]) -> None:
    space, free = Space(variables, [constraint]), Space(variables)
    for values, feasible in ((inside, True), (outside, False)):
        configuration = dict(zip(space.names, values, strict=True))
        assert space.meets_constraints(configuration) == feasible
        assert space.feasible(free.encode_all([configuration])).tolist() == [feasible]
        assert space.meets_constraints(free.decode(free.encode(configuration))) == feasible


@given(data=st.data(), seed=st.integers(0, 2**32), count=st.integers(0, 9))
def test_without_constraints_draws_are_plain(data: st.DataObject, spaces: Any, seed: int, count: int) -> None:
    """One call for the reals, one for each discrete variable: recorded experiments depend on it."""
    space = data.draw(spaces)
    ours, plain = np.random.default_rng(seed), np.random.default_rng(seed)
    X = space.sample_encoded(ours, count)
    D = len(space.continuous)
    np.testing.assert_array_equal(X[:, :D], plain.random((count, D)))
    for p, variable in enumerate(space.discrete):
        np.testing.assert_array_equal(X[:, D + p], plain.integers(len(variable.vertices), size=count))
    assert ours.bit_generator.state == plain.bit_generator.state
    assert space.feasible(X).tolist() == [True] * count


def test_what_cannot_be_met_together_is_given_up() -> None:
    space = Space([Real("x", 0, 1)], [LinearConstraint({"x": 1}, 0.4), LinearConstraint({"x": -1}, -0.6)])
    with pytest.raises(SpaceError, match=r"0 of 10\d{5} .* 2 constraint"):
        space.sample(np.random.default_rng(0))


@pytest.mark.parametrize(
    ("constraint", "least"),
    [
        (LinearConstraint({"x": 1}, -1.5), -1),
        (LinearConstraint({"x": -2, "k": 1}, -7), -6),
        (QuadraticConstraint({"k": 1}, {("x", "x"): 1}, -0.1), 0),
        (QuadraticConstraint({}, {("x", "k"): 1}, -4.5), -4),
        (QuadraticConstraint({}, {("k", "k"): -1}, -17), -16),
    ],
)
def test_a_constraint_that_nothing_meets_is_refused_at_once(constraint: Constraint, least: float) -> None:
    variables = [Real("x", -1.0, 3.0), Integer("k", 0, 4)]
    with pytest.raises(SpaceError, match=rf"cannot be met: its left side is at least {least}"):
        Space(variables, [constraint])
    looser = replace(constraint, bound=least)
    assert Space(variables, [looser]).constraints == (looser,)


@given(data=st.data())
@settings(max_examples=50)
def test_what_suggestions_meet_they_meet_in_floats_in_any_order(data: st.DataObject) -> None:
    """Points on the boundary and a few roundings from it."""
    variables = [Real("x", -1.0, 2.0), Real("rate", 1e-4, 1.0, log=True), Integer("k", 0, 4)]
    factors = {name: data.draw(WEIGHTS) for name in ("x", "rate", "k")}
    pairs = data.draw(st.dictionaries(st.sampled_from([("x", "x"), ("x", "k"), ("rate", "k")]), WEIGHTS, max_size=2))
    free = Space(variables)
    configuration = free.sample(np.random.default_rng(data.draw(st.integers(0, 2**32))))
    made = QuadraticConstraint(factors, pairs, 0.0) if pairs else LinearConstraint(factors, 0.0)
    constraint = replace(made, bound=left_side(made, configuration))
    space = Space(variables, [constraint])
    close = [{**configuration, "x": float(configuration["x"]) * (1 + step)} for step in (0, 1e-9, -1e-9, 1e-15, -1e-15)]
    close = [item for item in close if -1.0 <= item["x"] <= 2.0]
    X = free.encode_all(close)
    strictly = space.feasible(X, strictly=True)
    assert strictly.tolist() == [space.meets_constraints(free.decode(x), strictly=True) for x in X]
    assert all(space.feasible(X)[strictly])
    assert not space.meets_constraints(configuration, strictly=True)
    for x in X[strictly]:
        c: Any = free.decode(x)
        terms = [a * c[name] for name, a in factors.items()] + [q * c[i] * c[j] for (i, j), q in pairs.items()]
        for order in itertools.permutations(terms):
            assert sum(order) <= constraint.bound
            slack = constraint.bound
            for term in order:
                slack -= term
            assert slack >= 0


def test_the_boundary_of_discrete_values_is_suggested() -> None:
    """0.1 + 0.2 is above 0.3 in floating point, and there is nothing between."""
    variables = [Ordinal("a", [0.1, 0.4]), Ordinal("b", [0.2, 0.4]), Real("x", 0.0, 1.0)]
    space = Space(variables, [QuadraticConstraint({"a": 1, "b": 1}, {("x", "x"): 0}, 0.3)])
    assert space.sample(np.random.default_rng(0))["a"] == 0.1
    assert space.meets_constraints({"a": 0.1, "b": 0.2, "x": 0.5}, strictly=True)
