"""Parts of a space: complete and reduced configurations, what becomes of constraints, and what cannot be fixed."""

import numpy as np
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from fmnas.search_spaces import (
    Integer,
    LinearConstraint,
    Nominal,
    Ordinal,
    QuadraticConstraint,
    Real,
    Space,
    SpaceError,
    Subspace,
    joint_space,
)
from fmnas.search_spaces.subspace import fixed_value_errors

SPACE = Space([Real("x", 0.0, 2.0), Integer("k", 0, 3), Nominal("op", ["a", "b"]), Ordinal("flag", [False, True])])
NAMES = ("a", "b", "c", "d")
BITS = Space([Integer(name, -2, 3) for name in NAMES])
FACTORS = st.integers(-3, 3).map(float)


def test_free_and_fixed_make_the_whole_in_its_order() -> None:
    subspace = Subspace(SPACE, {"op": "b", "k": 2.0})
    assert subspace.free == Space([SPACE.variables[0], SPACE.variables[3]])
    assert list(subspace.fixed.items()) == [("k", 2), ("op", "b")]
    assert isinstance(subspace.fixed["k"], int), "as the variable has it"
    complete = subspace.add_fixed({"x": 0.5, "flag": True})
    assert list(complete.items()) == [("x", 0.5), ("k", 2), ("op", "b"), ("flag", True)]
    SPACE.validate(complete)
    assert subspace.reduce(complete) == {"x": 0.5, "flag": True}


@given(data=st.data())
def test_complete_and_reduce_are_inverse(data: st.DataObject) -> None:
    space, rng = joint_space(), np.random.default_rng(data.draw(st.integers(0, 2**32)))
    names = data.draw(st.lists(st.sampled_from(space.names), unique=True, max_size=len(space) - 1))
    whole = space.sample(rng)
    subspace = Subspace(space, {name: whole[name] for name in names})
    assert subspace.add_fixed(subspace.reduce(whole)) == whole
    free = subspace.free.sample(rng)
    space.validate(subspace.add_fixed(free))
    assert subspace.reduce(subspace.add_fixed(free)) == free


@given(data=st.data())
def test_a_constraint_holds_of_what_is_free_where_it_holds_of_the_whole(data: st.DataObject) -> None:
    coefficients = data.draw(st.dictionaries(st.sampled_from(NAMES), FACTORS, min_size=1))
    pairs = data.draw(st.dictionaries(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)), FACTORS))
    bound = data.draw(st.integers(-20, 20))
    constraint = QuadraticConstraint(coefficients, pairs, bound) if pairs else LinearConstraint(coefficients, bound)
    try:
        space = Space(BITS.variables, [constraint])
    except SpaceError:  # nothing meets it
        reject()
    values = st.integers(-2, 3)
    fixed = data.draw(st.dictionaries(st.sampled_from(NAMES), values, min_size=1, max_size=3))
    if fixed_value_errors(space, fixed):
        rng = np.random.default_rng(0)
        samples = [{**BITS.sample(rng), **fixed} for _ in range(20)]
        assert not any(space.meets_constraints(sample) for sample in samples)
        return
    subspace = Subspace(space, fixed)
    for _ in range(5):
        free = {name: data.draw(values) for name in subspace.free.names}
        assert subspace.free.meets_constraints(free) == space.meets_constraints(subspace.add_fixed(free))


def test_what_is_left_of_a_constraint() -> None:
    quadratic = QuadraticConstraint({"a": 2, "b": 1}, {("a", "b"): 3, ("b", "b"): 1, ("c", "d"): 5}, bound=10)
    space = Space(BITS.variables, [quadratic])
    assert Subspace(space, {"b": 2}).free.constraints == (QuadraticConstraint({"a": 8}, {("c", "d"): 5}, bound=4),)
    assert Subspace(space, {"b": 2, "c": 0}).free.constraints == (LinearConstraint({"a": 8}, bound=4),)
    assert Subspace(space, {"a": 0, "b": 0, "c": 0}).free.constraints == ()


def test_the_boundary_stays_feasible_whatever_rounding_does() -> None:
    tenths = [Real(name, 0.0, 1.0) for name in ("u", "v")]
    space = Space(tenths, [LinearConstraint({"u": 3, "v": 1}, bound=0.3)])
    assert 0.3 - 3 * 0.1 != 0.0
    free = Subspace(space, {"u": 0.1}).free
    assert free.constraints == (LinearConstraint({"v": 1}, bound=0.0),)
    assert free.meets_constraints({"v": 0.0})


@pytest.mark.parametrize(
    ("fixed", "named"),
    [
        ({"opp": "a"}, ["fixed.opp", "x, k, op, flag"]),
        ({"op": "c"}, ["fixed.op = 'c'", "['a', 'b']"]),
        ({"k": True}, ["fixed.k = True", "[0, 1, 2, 3]"]),
        ({"x": 2.5}, ["fixed.x = 2.5", "[0.0, 2.0]"]),
        ({"x": "1e-3"}, ["fixed.x = '1e-3'"]),
        ({"x": 1, "k": 1, "op": "a", "flag": True}, ["fixed:", "4 variables"]),
    ],
)
def test_invalid_fixed_values_are_named(fixed: dict[str, object], named: list[str]) -> None:
    (message,) = fixed_value_errors(SPACE, fixed)
    assert [part for part in named if part not in message] == []
    with pytest.raises(SpaceError) as raised:
        Subspace(SPACE, fixed)
    assert str(raised.value) == message


def test_infeasible_fixed_values_are_refused() -> None:
    space = Space(BITS.variables, [LinearConstraint({"a": 1, "b": 1}, bound=3)])
    (message,) = fixed_value_errors(space, {"a": 2, "b": 2})
    assert "a + b <= 3" in message
    assert fixed_value_errors(space, {"a": 2, "b": 1}) == []
