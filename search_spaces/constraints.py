"""Known constraints: which configurations of a space are feasible, and which encoded points.

    LinearConstraint        sum_i a_i x_i <= b
    QuadraticConstraint     sum_i a_i x_i + sum_ij q_ij x_i x_j <= b

x_i is the value of a variable as its user writes it: a Real in its own units, a discrete variable's number (True is 1,
False is 0). An equation is two inequalities. Of encoded points:

| symbol | shape | meaning |
|---|---|---|
| m, k | | points; variables that some constraint names |
| X | [m, D + P] | encoded points |
| V | [m, k] | their values, in the users' units |
| M | [m, k] | how large the values are, for rounding |
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real as Number
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmnas.search_spaces.errors import SpaceError, did_you_mean
from fmnas.search_spaces.variables import Discrete, Real

TERMS_SHOWN = 8


@dataclass(frozen=True)
class LinearConstraint:
    """sum_i a_i x_i <= b. coefficients: variable name -> a_i. bound: b.

    Example: at most two of three switches: LinearConstraint({"s1": 1, "s2": 1, "s3": 1}, bound=2)
    """

    coefficients: Mapping[str, float]
    bound: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "coefficients", _coefficients(self.coefficients, "LinearConstraint"))
        object.__setattr__(self, "bound", _finite(self.bound, "LinearConstraint: bound"))
        if not self.coefficients:
            raise SpaceError("LinearConstraint without coefficients: name at least one variable")

    def __hash__(self) -> int:
        return hash((frozenset(self.coefficients.items()), self.bound))

    def __str__(self) -> str:
        return _formula(self)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data."""
        return {"kind": "LinearConstraint", "coefficients": dict(self.coefficients), "bound": self.bound}


@dataclass(frozen=True)
class QuadraticConstraint:
    """sum_i a_i x_i + sum_ij q_ij x_i x_j <= b. coefficients: name -> a_i, may be empty. pairs: (name, name) -> q_ij.

    (x, x) is the square of x. (x, y) and (y, x) are two terms: both count.

    Example: an area of at most 6: QuadraticConstraint({}, {("width", "height"): 1}, bound=6)
    """

    coefficients: Mapping[str, float]
    pairs: Mapping[tuple[str, str], float]
    bound: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "coefficients", _coefficients(self.coefficients, "QuadraticConstraint"))
        object.__setattr__(self, "pairs", _pairs(self.pairs))
        object.__setattr__(self, "bound", _finite(self.bound, "QuadraticConstraint: bound"))
        if not self.pairs:
            raise SpaceError("QuadraticConstraint without pairs: name at least one, or use a LinearConstraint")

    def __hash__(self) -> int:
        return hash((frozenset(self.coefficients.items()), frozenset(self.pairs.items()), self.bound))

    def __str__(self) -> str:
        return _formula(self)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data; each pair as [name, name, q_ij]."""
        pairs = [[first, second, q] for (first, second), q in self.pairs.items()]
        return {
            "kind": "QuadraticConstraint",
            "coefficients": dict(self.coefficients),
            "pairs": pairs,
            "bound": self.bound,
        }


Constraint = LinearConstraint | QuadraticConstraint
CONSTRAINT_KINDS = ("LinearConstraint", "QuadraticConstraint")


def names_of(constraint: Constraint) -> list[str]:
    """The variables that a constraint names, each once."""
    ends = [name for pair in pairs_of(constraint) for name in pair]
    return list(dict.fromkeys([*constraint.coefficients, *ends]))


def pairs_of(constraint: Constraint) -> Mapping[tuple[str, str], float]:
    """The pair terms; none of a linear constraint."""
    return constraint.pairs if isinstance(constraint, QuadraticConstraint) else {}


def constraint_from_dict(entry: Mapping[str, Any]) -> Constraint:
    """The inverse of `to_dict`. Raises SpaceError on a missing or unknown field, or what cannot be a constraint."""
    fields = dict(entry)
    kind = fields.pop("kind")
    wanted = ["coefficients", "bound"] if kind == "LinearConstraint" else ["coefficients", "pairs", "bound"]
    if sorted(fields) != sorted(wanted):
        raise SpaceError(f"{kind} with fields {sorted(fields)}: it must have exactly {wanted}")
    if kind == "LinearConstraint":
        return LinearConstraint(**fields)
    listed = fields["pairs"]
    if not isinstance(listed, Sequence) or not all(_is_triple(entry) for entry in listed):
        raise SpaceError(f"QuadraticConstraint: pairs = {listed!r}: it must be a list of [name, name, number]")
    ends = [(first, second) for first, second, _ in listed]
    twice = [pair for pair in ends if ends.count(pair) > 1]
    if twice:
        raise SpaceError(f"QuadraticConstraint: the pair {twice[0]} is given twice; add their numbers")
    return QuadraticConstraint(fields["coefficients"], {(a, b): q for a, b, q in listed}, fields["bound"])


def _is_triple(entry: Any) -> bool:
    return isinstance(entry, list | tuple) and len(entry) == 3 and all(isinstance(name, str) for name in entry[:2])


def _formula(constraint: Constraint) -> str:
    """e.g. "2*x + y - 0.5*x*y <= 3"; the middle of a long one is left out."""
    terms = list(constraint.coefficients.items())
    terms += [("*".join(pair), q) for pair, q in pairs_of(constraint).items()]
    shown = [f"{'-' if a < 0 else '+'} {'' if abs(a) == 1 else f'{abs(a):.6g}*'}{name}" for name, a in terms]
    if len(shown) > TERMS_SHOWN:
        shown = [*shown[: TERMS_SHOWN - 2], "+ ...", shown[-1]]
    return f"{' '.join(shown).removeprefix('+ ')} <= {constraint.bound:.6g}"


def _coefficients(given: Any, what: str) -> dict[str, float]:
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise SpaceError(f"{what}: coefficients = {given!r}: it must map names of variables to numbers")
    return {name: _finite(a, f"{what}: coefficient of {name!r}") for name, a in given.items()}


def _pairs(given: Any) -> dict[tuple[str, str], float]:
    def is_pair(key: Any) -> bool:
        return isinstance(key, tuple) and len(key) == 2 and all(isinstance(name, str) for name in key)

    if not isinstance(given, Mapping) or not all(is_pair(key) for key in given):
        raise SpaceError(f"QuadraticConstraint: pairs = {given!r}: it must map pairs (name, name) to numbers")
    return {pair: _finite(q, f"QuadraticConstraint: coefficient of {pair}") for pair, q in given.items()}


def _finite(value: Any, what: str) -> float:
    if not isinstance(value, bool) and isinstance(value, Number):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return number
    raise SpaceError(f"{what} = {value!r}: it must be a finite number")


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
            hint = did_you_mean(name, known)
            raise SpaceError(f"constraint {constraint}: no variable is named {name!r}; there are {list(known)}.{hint}")
        variable = known[name]
        if not isinstance(variable, Real) and any(isinstance(value, str) for value in variable.vertices):
            raise SpaceError(
                f"constraint {constraint}: the values of {name!r} are {list(variable.vertices)}, not all numbers; "
                "leave it out, give it numbers as values, or use a variable with the values 0 and 1 for each choice"
            )
