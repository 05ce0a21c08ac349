"""Constraints as records: how they read, what data they make, and how wrong ones are explained."""

import math
from typing import Any

import numpy as np
import pytest

from fmnas.search_spaces import (
    Integer,
    LinearConstraint,
    Nominal,
    QuadraticConstraint,
    Real,
    Space,
    SpaceError,
)
from fmnas.search_spaces.constraints import Constraint


@pytest.mark.parametrize(
    ("constraint", "text"),
    [
        (LinearConstraint({"x": 1, "y": -1}, 0), "x - y <= 0"),
        (LinearConstraint({"x": -2.5}, -1), "- 2.5*x <= -1"),
        (QuadraticConstraint({"x": 2}, {("x", "x"): -0.5, ("x", "y"): 1}, 3), "2*x - 0.5*x*x + x*y <= 3"),
    ],
)
def test_a_constraint_reads_as_a_formula(constraint: Constraint, text: str) -> None:
    assert str(constraint) == text


def test_the_data_of_constraints_are_plain_and_stand_after_the_variables() -> None:
    constraints = [LinearConstraint({"x": 1}, 2), QuadraticConstraint({}, {("x", "y"): 3}, 4)]
    space = Space([Integer("x", 0, 2), Integer("y", 0, 2)], constraints)
    assert space.to_dict()[2:] == [
        {"kind": "LinearConstraint", "coefficients": {"x": 1.0}, "bound": 2.0},
        {"kind": "QuadraticConstraint", "coefficients": {}, "pairs": [["x", "y", 3.0]], "bound": 4.0},
    ]


def test_numbers_of_numpy_are_numbers() -> None:
    assert LinearConstraint({"x": np.int64(2)}, np.float32(0.5)) == LinearConstraint({"x": 2.0}, 0.5)


@pytest.mark.parametrize(
    ("constraint", "parts"),
    [
        (LinearConstraint({"b00": 1}, 1), ["b00 <= 1", "'b00'", "'op'"]),
        (LinearConstraint({"op": 1}, 1), ["op <= 1", "'op'"]),
        (QuadraticConstraint({}, {("b0", "op"): 1}, 1), ["b0*op <= 1", "'op'", "not all numbers"]),
        ("b0 <= 1", ["'b0 <= 1'", "LinearConstraint or a QuadraticConstraint"]),
    ],
)
def test_a_constraint_that_does_not_fit_is_explained(constraint: Any, parts: list[str]) -> None:
    variables = [Integer("b0", 0, 1), Nominal("op", ["conv", "pool", 1]), Real("big", 0, 1)]
    with pytest.raises(SpaceError) as caught:
        Space(variables, [constraint])
    assert [part for part in parts if part not in str(caught.value)] == []


@pytest.mark.parametrize("bad", [math.nan, math.inf, "1", True])
def test_numbers_must_be_finite(bad: Any) -> None:
    makers = [
        lambda: LinearConstraint({"x": bad}, 1),
        lambda: LinearConstraint({"x": 1}, bad),
        lambda: QuadraticConstraint({"x": bad}, {("x", "x"): 1}, 1),
        lambda: QuadraticConstraint({}, {("x", "x"): bad}, 1),
        lambda: QuadraticConstraint({}, {("x", "x"): 1}, bad),
    ]
    for make in makers:
        with pytest.raises(SpaceError, match="must be a finite number"):
            make()


@pytest.mark.parametrize(
    ("entry", "part"),
    [
        ({"kind": "LinearConstraint", "coefficients": {"x": 1}}, "bound"),
        ({"kind": "LinearConstraint", "coefficients": {}, "bound": 1}, "without coefficients"),
        ({"kind": "LinearConstraint", "coefficients": ["x"], "bound": 1}, "coefficients = ['x']"),
        ({"kind": "LinearConstraint", "coefficients": {1: 1}, "bound": 1}, "coefficients = {1: 1}"),
        ({"kind": "QuadraticConstraint", "coefficients": {}, "pairs": [["x", 1]], "bound": 1}, "[['x', 1]]"),
    ],
)
def test_bad_data_are_explained(entry: dict[str, Any], part: str) -> None:
    with pytest.raises(SpaceError) as caught:
        Space.from_dict([*Space([Real("x", 0, 1)]).to_dict(), entry])
    assert part in str(caught.value)


@pytest.mark.parametrize("pairs", [{"xy": 1}, [("x", "x", 1)], {("x",): 1}, {("x", "y", "z"): 1}, {("x", 2): 1}])
def test_pairs_are_pairs_of_names(pairs: Any) -> None:
    with pytest.raises(SpaceError, match="must map names, or pairs of names, to numbers"):
        QuadraticConstraint({}, pairs, 1)
