"""Random spaces of every kind of variable, and random configurations of them."""

import math
from typing import Any

import pytest
from hypothesis import strategies as st

from fmnas.search_spaces import Configuration, Graph, Integer, Nominal, Ordinal, Real, Space
from fmnas.search_spaces.variables import Value, Variable

SCALARS = st.one_of(
    st.text(max_size=4),
    st.integers(-(10**6), 10**6),
    st.floats(-1e6, 1e6, allow_nan=False),
    st.booleans(),
)


def _identity(value: Value) -> tuple[str, Value]:
    """True, 1 and "1" are three values; 1 and 1.0 are one."""
    return ("number", value) if isinstance(value, int | float) and not isinstance(value, bool) else (repr(value), 0)


VALUES = st.lists(SCALARS, min_size=2, max_size=7, unique_by=_identity)


@st.composite
def _variable(draw: st.DrawFn, name: str) -> Variable:
    kind = draw(st.sampled_from(["linear", "log", "integer", "ordinal", "nominal", "graph"]))
    if kind == "linear":
        low = draw(st.floats(-1e6, 1e6))
        return Real(name, low, low + draw(st.floats(1e-3, 1e6)))
    if kind == "log":
        low = draw(st.floats(1e-9, 1e3))
        return Real(name, low, low * draw(st.floats(1.01, 1e9)), log=True)
    if kind == "integer":
        low = draw(st.integers(-100, 100))
        return Integer(name, low, low + draw(st.integers(1, 9)))
    values = draw(VALUES)
    if kind == "ordinal":
        return Ordinal(name, values)
    if kind == "nominal":
        return Nominal(name, values)
    n = len(values)
    tree = [(draw(st.integers(0, i - 1)), i) for i in range(1, n)]
    more = draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=4))
    edges = [(values[i], values[j]) for i, j in [*tree, *more] if i != j]
    return Graph(name, tuple(values), tuple(edges))


@st.composite
def _space(draw: st.DrawFn) -> Space:
    count = draw(st.integers(1, 6))
    return Space([draw(_variable(f"v{i}")) for i in range(count)])


def _value(variable: Variable) -> st.SearchStrategy[Value]:
    if not isinstance(variable, Real):
        return st.sampled_from(variable.vertices)
    return st.floats(variable.low, variable.high) | st.sampled_from([variable.low, variable.high])


@st.composite
def _space_and_configuration(draw: st.DrawFn) -> tuple[Space, Configuration]:
    space = draw(_space())
    return space, {variable.name: draw(_value(variable)) for variable in space.variables}


@pytest.fixture(scope="session")
def spaces() -> st.SearchStrategy[Space]:
    """Spaces of 1 to 6 variables of any kind."""
    return _space()


@pytest.fixture(scope="session")
def configured_spaces() -> st.SearchStrategy[tuple[Space, Configuration]]:
    """A space and a valid configuration of it, bounds included."""
    return _space_and_configuration()


def _close(space: Space, a: dict[str, Any], b: dict[str, Any]) -> bool:
    for variable in space.variables:
        x, y = a[variable.name], b[variable.name]
        if not isinstance(variable, Real):
            if type(x) is not type(y) or x != y:
                return False
        elif not math.isclose(x, y, rel_tol=1e-9, abs_tol=0.0 if variable.log else 1e-9 * max(1.0, abs(variable.low))):
            return False
    return True


@pytest.fixture(scope="session")
def close() -> Any:
    """close(space, a, b): discrete values identical, real ones equal up to rounding."""
    return _close
