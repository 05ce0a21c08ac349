"""The feasible region of a space: which encoded points meet its constraints.

| symbol | shape | meaning |
|---|---|---|
| m, k | | points; variables that some constraint names |
| X | [m, D + P] | encoded points |
| V | [m, k] | their values, in the users' units |
| M | [m, k] | how large the values are, for rounding |
"""

import math
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmnas.search_spaces.constraints import Constraint, LinearConstraint, QuadraticConstraint, names_of, pairs_of
from fmnas.search_spaces.errors import SpaceError
from fmnas.search_spaces.variables import Discrete, Real

TOLERANCE = 1e-9
"""A constraint holds if its left side exceeds the bound by at most this share of its terms: boundaries are feasible."""


class FeasibleRegion:
    """Where every constraint of a space holds.

    variables: all of the space's, in the order of its encoding.

    Raises SpaceError when a constraint names a variable that is unknown or has values that are no numbers.
    """

    def __init__(self, variables: Sequence[Real | Discrete], constraints: Sequence[Constraint]) -> None:
        self.constraints = tuple(constraints)
        for constraint in self.constraints:
            if not isinstance(constraint, LinearConstraint | QuadraticConstraint):
                raise SpaceError(f"constraint {constraint!r}: it must be a LinearConstraint or a QuadraticConstraint")
        known = {variable.name: variable for variable in variables}
        for constraint in self.constraints:
            _check_names(constraint, known)
        named = {name for constraint in self.constraints for name in names_of(constraint)}
        self._columns = [i for i, variable in enumerate(variables) if variable.name in named]
        self._variables = [variables[i] for i in self._columns]
        self._floor = np.array([_rounding_scale(variable) for variable in self._variables])  # [k]
        place = {variable.name: i for i, variable in enumerate(self._variables)}
        self._sides = [_LeftSide(constraint, place) for constraint in self.constraints]
        self._check_size()

    def contains(self, X: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Which of the encoded points X [m, D + P] are feasible, [m]."""
        if not self.constraints:
            return np.ones(len(X), dtype=bool)
        columns = [_values(v, X[:, i]) for v, i in zip(self._variables, self._columns, strict=True)]
        V = np.column_stack(columns)
        M = np.maximum(np.abs(V), self._floor)
        return np.all([side.excess(V, M) <= 0 for side in self._sides], axis=0)

    def violated(self, configuration: Mapping[str, Any]) -> tuple[Constraint, float] | None:
        """The first constraint that a configuration violates, with its left side; None if it is feasible."""
        if not self.constraints:
            return None
        V = np.array([[float(configuration[variable.name]) for variable in self._variables]])
        M = np.maximum(np.abs(V), self._floor)
        for constraint, side in zip(self.constraints, self._sides, strict=True):
            if side.excess(V, M)[0] > 0:
                return constraint, float(side.value(V)[0])
        return None

    def _check_size(self) -> None:
        """Terms that leave the range of floating point could not be compared with a bound."""
        largest = np.array([[_largest(variable) for variable in self._variables]])
        for constraint, side in zip(self.constraints, self._sides, strict=True):
            with np.errstate(over="ignore", invalid="ignore"):
                size = float(side.size(largest)[0])
            if not math.isfinite(size):
                raise SpaceError(f"constraint {constraint}: its terms can exceed the largest number; scale it down")


class _LeftSide:
    """One constraint as arrays over the k named variables."""

    def __init__(self, constraint: Constraint, place: Mapping[str, int]) -> None:
        self._bound = constraint.bound
        self._a = np.zeros(len(place))
        for name, a in constraint.coefficients.items():
            self._a[place[name]] = a
        pairs = pairs_of(constraint)
        self._i = np.array([place[first] for first, _ in pairs], dtype=int)
        self._j = np.array([place[second] for _, second in pairs], dtype=int)
        self._q = np.array(list(pairs.values()), dtype=float)

    def value(self, V: NDArray[np.float64]) -> NDArray[np.float64]:
        """The left side [m]."""
        return V @ self._a + (V[:, self._i] * V[:, self._j]) @ self._q

    def size(self, M: NDArray[np.float64]) -> NDArray[np.float64]:
        """The absolute values of the terms and of the bound, added up [m]."""
        return M @ np.abs(self._a) + (M[:, self._i] * M[:, self._j]) @ np.abs(self._q) + abs(self._bound)

    def excess(self, V: NDArray[np.float64], M: NDArray[np.float64]) -> NDArray[np.float64]:
        """By how much the left side exceeds the bound and the tolerance [m]; feasible where it is at most 0."""
        return self.value(V) - self._bound - TOLERANCE * self.size(M)


def _values(variable: Real | Discrete, column: NDArray[np.float64]) -> NDArray[np.float64]:
    """A column [m] of the encoding as values."""
    if isinstance(variable, Real):
        return variable.from_units(column)
    return np.array(variable.vertices, dtype=float)[np.rint(column).astype(int)]


def _largest(variable: Real | Discrete) -> float:
    values = (variable.low, variable.high) if isinstance(variable, Real) else variable.vertices
    return max(abs(float(value)) for value in values)


def _rounding_scale(variable: Real | Discrete) -> float:
    """What encoding rounds relative to, where that is not the value itself: of a linear Real, its bounds."""
    return _largest(variable) if isinstance(variable, Real) and not variable.log else 0.0


def _check_names(constraint: Constraint, known: Mapping[str, Real | Discrete]) -> None:
    for name in names_of(constraint):
        if name not in known:
            close = get_close_matches(name, known, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise SpaceError(f"constraint {constraint}: no variable is named {name!r}; there are {list(known)}.{hint}")
        variable = known[name]
        if not isinstance(variable, Real) and any(isinstance(value, str) for value in variable.vertices):
            raise SpaceError(
                f"constraint {constraint}: the values of {name!r} are {list(variable.vertices)}, not all numbers; "
                "leave it out, give it numbers as values, or use a variable with the values 0 and 1 for each choice"
            )
