"""Spaces: encoding and back, JSON and back, sampling, neighbours, and what a space refuses. Over random spaces."""

import json
import math
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fmnas.search_spaces import Configuration, Graph, LinearConstraint, Nominal, Ordinal, Real, Space, SpaceError

SMALL = Space(
    [
        Nominal("op", ["conv", "pool", "skip"]),
        Real("rate", 1e-3, 1e-1, log=True),
        Ordinal("width", [8, 16, 32]),
        Real("momentum", 0.5, 1.0),
    ]
)
POINT: Configuration = {"op": "pool", "rate": 0.01, "width": 32, "momentum": 0.625}


def test_encoding_puts_reals_first() -> None:
    np.testing.assert_allclose(SMALL.encode(POINT), [0.5, 0.25, 1.0, 2.0], atol=1e-12)
    assert [v.name for v in SMALL.continuous] == ["rate", "momentum"]
    assert [v.name for v in SMALL.discrete] == ["op", "width"]
    assert SMALL.names == ("op", "rate", "width", "momentum")
    assert len(SMALL) == 4


@given(data=st.data())
@settings(max_examples=40)
def test_decode_is_the_inverse_of_encode(data: st.DataObject, configured_spaces: Any, close: Any) -> None:
    space, configuration = data.draw(configured_spaces)
    x = space.encode(configuration)
    back = space.decode(x)
    space.validate(back)
    assert list(back) == list(space.names)
    assert close(space, configuration, back)
    D = len(space.continuous)
    assert x.shape == (len(space),)
    assert (abs(x[:D] - 0.5) <= 0.5 + 1e-12).all()
    assert (x[D:] == np.round(x[D:])).all()


@given(data=st.data())
@settings(max_examples=40)
def test_space_survives_json(data: st.DataObject, configured_spaces: Any) -> None:
    space, configuration = data.draw(configured_spaces)
    back = Space.from_dict(json.loads(json.dumps(space.to_dict())))
    assert back == space
    assert hash(back) == hash(space)
    np.testing.assert_array_equal(back.encode(configuration), space.encode(configuration))
    for a, b in zip(back.discrete, space.discrete, strict=True):
        np.testing.assert_array_equal(a.adjacency, b.adjacency)


def test_samples_are_uniform_on_the_scale_and_over_the_vertices() -> None:
    X = SMALL.sample_encoded(np.random.default_rng(0), 6000)
    for d in range(2):
        np.testing.assert_allclose(np.quantile(X[:, d], [0.25, 0.5, 0.75]), [0.25, 0.5, 0.75], atol=0.03)
    for d in (2, 3):
        np.testing.assert_allclose(np.bincount(X[:, d].astype(int)) / len(X), 1 / 3, atol=0.03)


def _differing(a: Configuration, b: Configuration) -> list[str]:
    assert list(a) == list(b)
    return [name for name in a if type(a[name]) is not type(b[name]) or a[name] != b[name]]


@given(data=st.data())
@settings(max_examples=50)
def test_neighbours_are_one_edge_away_and_know_each_other(data: st.DataObject, configured_spaces: Any) -> None:
    space, configuration = data.draw(configured_spaces)
    discrete = {v.name: v for v in space.discrete}
    indices = {name: v.index(configuration[name]) for name, v in discrete.items()}
    neighbours = space.neighbours(configuration)
    assert len(neighbours) == sum(int(v.adjacency[indices[name]].sum()) for name, v in discrete.items())
    for neighbour in neighbours:
        space.validate(neighbour)
        (name,) = _differing(configuration, neighbour)
        assert discrete[name].adjacency[indices[name], discrete[name].index(neighbour[name])] == 1.0
        assert any(_differing(configuration, back) == [] for back in space.neighbours(neighbour))
    assert len({json.dumps(neighbour) for neighbour in neighbours}) == len(neighbours)


def test_neighbours_of_an_example() -> None:
    assert SMALL.neighbours(POINT) == [{**POINT, "op": "conv"}, {**POINT, "op": "skip"}, {**POINT, "width": 16}]
    assert Space([Real("x", 0, 1)]).neighbours({"x": 0.5}) == []


def test_spaces_are_equal_by_their_variables_in_order() -> None:
    again = Space(SMALL.variables)
    assert again == SMALL
    assert hash(again) == hash(SMALL)
    assert Space(reversed(SMALL.variables)) != SMALL
    assert list(SMALL.variables) != SMALL


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"rate": 0.5}, ["rate", "0.5", "[0.001, 0.1]"]),
        ({"rate": math.nan}, ["rate", "nan", "[0.001, 0.1]"]),
        ({"op": "dense"}, ["op", "'dense'", "['conv', 'pool', 'skip']"]),
        ({"width": 24}, ["width", "24", "[8, 16, 32]"]),
        ({"depth": 3}, ["unknown ['depth']", "['op', 'rate', 'width', 'momentum']"]),
    ],
)
def test_bad_configuration_is_explained(change: dict[str, Any], parts: list[str]) -> None:
    bad = {**POINT, **change}
    for reject in (SMALL.validate, SMALL.encode, SMALL.neighbours, lambda c: SMALL.encode_all([POINT, c])):
        with pytest.raises(SpaceError) as caught:
            reject(bad)
        assert [part for part in parts if part not in str(caught.value)] == []


def test_only_what_is_wrong_with_the_names_is_said() -> None:
    for change, said, unsaid in (({"depth": 3}, "depth", "missing"), ({}, "missing ['op']", "unknown")):
        bad = {name: value for name, value in {**POINT, **change}.items() if change or name != "op"}
        with pytest.raises(SpaceError, match=re.escape(said)) as caught:
            SMALL.validate(bad)
        assert unsaid not in str(caught.value)
    with pytest.raises(SpaceError, match=r"missing \['x'\] and unknown \['y'\]"):
        Space([X]).validate({"y": 1.0})


X = Real("x", 0.0, 1.0)


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ((5,), ["5", "Real("]),
        ((None,), ["None", "Real("]),
        ((X,), ["Real(name='x'", "list"]),
        (("x",), ["'x'", "list"]),
        ((["a", X],), ["['a']", "Real("]),
        (({"x": (0, 1)},), ["['x']", "Real("]),
        (([("x", 0, 1)],), ["('x', 0, 1)", "Real("]),
        (([X], LinearConstraint({"x": 1.0}, 0.5)), ["LinearConstraint", "list"]),
        (([X], None), ["constraints = None", "list"]),
    ],
)
def test_what_is_no_list_of_variables_or_constraints_is_explained(arguments: tuple[Any, ...], parts: list[str]) -> None:
    with pytest.raises(SpaceError) as caught:
        Space(*arguments)
    assert [part for part in parts if part not in str(caught.value)] == []


def test_a_space_shows_its_variables_and_constraints() -> None:
    space = Space([X, Nominal("op", ["a", "b"])], [LinearConstraint({"x": 1.0}, 0.5)])
    names = {"Space": Space, "Real": Real, "Nominal": Nominal, "LinearConstraint": LinearConstraint}
    assert eval(repr(space), names) == space


@pytest.mark.parametrize(
    ("entry", "parts"),
    [
        ({"kind": "Complex", "name": "x"}, ["'Complex'", "Graph", "Integer", "Nominal", "Ordinal", "Real"]),
        ({"name": "x", "low": 0, "high": 1}, ["None", "Real"]),
        ({"kind": "Real", "name": "x", "low": 0, "high": 1, "step": 0.1}, ["Real", "'x'", "step"]),
        ({"kind": "Real", "name": "x", "low": 1, "high": 0}, ["'x'", "[1, 0]"]),
        ({"kind": "Graph", "name": "g", "vertices": [[-1, 0], [0, 1]], "edges": []}, ["g", "[-1, 0]", "list"]),
    ],
)
def test_bad_space_data_is_explained(entry: dict[str, Any], parts: list[str]) -> None:
    with pytest.raises(SpaceError) as caught:
        Space.from_dict([entry])
    assert [part for part in parts if part not in str(caught.value)] == []


def test_space_data_is_plain() -> None:
    space = Space([Real("x", 0, 1), Graph("g", ("a", "b"), (("a", "b"),))])
    assert space.to_dict() == [
        {"kind": "Real", "name": "x", "low": 0, "high": 1, "log": False},
        {"kind": "Graph", "name": "g", "vertices": ("a", "b"), "edges": (("a", "b"),)},
    ]


def test_search_spaces_need_numpy_alone() -> None:
    heavy = {"torch", "scipy", "pandas", "ray", "mlflow"}
    code = f"import sys, fmnas.search_spaces; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
