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

What a user hands in may exceed a bound by a TOLERANCE. What an optimizer suggests may not: with Reals it stays a little
inside, so that the left side is at most the bound in floating point, too, in whatever order its terms are added. Where
no term of a Real counts there is nothing to stay inside with: the boundary of discrete values, as 0.1 + 0.2 <= 0.3, is
feasible.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real as Number
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmnas.search_spaces.errors import SpaceError, did_you_mean
from fmnas.search_spaces.variables import Discrete, Floats, Real

TERMS_SHOWN = 8


class _Polynomial:
    """What both kinds of constraint have; a linear one has no pairs."""

    coefficients: Mapping[str, float]
    pairs: Mapping[tuple[str, str], float]
    bound: float

    @property
    def names(self) -> list[str]:
        """The variables that it names, each once."""
        return list(dict.fromkeys([*self.coefficients, *(name for pair in self.pairs for name in pair)]))

    def _own_numbers(self) -> None:
        """Take coefficients and bound as floats. Raises SpaceError for what is none."""
        object.__setattr__(self, "coefficients", _coefficients(self.coefficients, type(self).__name__))
        object.__setattr__(self, "bound", _finite(self.bound, f"{type(self).__name__}: bound"))

    def __hash__(self) -> int:
        return hash((frozenset(self.coefficients.items()), frozenset(self.pairs.items()), self.bound))

    def __str__(self) -> str:
        """e.g. "2*x + y - 0.5*x*y <= 3"; the middle of a long one is left out."""
        terms = [*self.coefficients.items(), *(("*".join(pair), q) for pair, q in self.pairs.items())]
        shown = [f"{'-' if a < 0 else '+'} {'' if abs(a) == 1 else f'{abs(a):.6g}*'}{name}" for name, a in terms]
        if len(shown) > TERMS_SHOWN:
            shown = [*shown[: TERMS_SHOWN - 2], "+ ...", shown[-1]]
        return f"{' '.join(shown).removeprefix('+ ')} <= {self.bound:.6g}"

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data; each pair as [name, name, q_ij]."""
        pairs = [[first, second, q] for (first, second), q in self.pairs.items()]
        of_pairs = {"pairs": pairs} if isinstance(self, QuadraticConstraint) else {}
        return {"kind": type(self).__name__, "coefficients": dict(self.coefficients), **of_pairs, "bound": self.bound}


@dataclass(frozen=True)
class LinearConstraint(_Polynomial):
    """sum_i a_i x_i <= b. coefficients: variable name -> a_i. bound: b.

    Example: at most two of three switches: LinearConstraint({"s1": 1, "s2": 1, "s3": 1}, bound=2)
    """

    coefficients: Mapping[str, float]
    bound: float
    pairs: Mapping[tuple[str, str], float] = field(default_factory=dict, init=False, repr=False, compare=False)
    __hash__ = _Polynomial.__hash__

    def __post_init__(self) -> None:
        self._own_numbers()
        if not self.coefficients:
            raise SpaceError("LinearConstraint without coefficients: name at least one variable")


@dataclass(frozen=True)
class QuadraticConstraint(_Polynomial):
    """sum_i a_i x_i + sum_ij q_ij x_i x_j <= b. coefficients: name -> a_i, may be empty. pairs: (name, name) -> q_ij.

    (x, x) is the square of x. (x, y) and (y, x) are two terms: both count.

    Example: an area of at most 6: QuadraticConstraint({}, {("width", "height"): 1}, bound=6)
    """

    coefficients: Mapping[str, float]
    pairs: Mapping[tuple[str, str], float]
    bound: float
    __hash__ = _Polynomial.__hash__

    def __post_init__(self) -> None:
        self._own_numbers()
        object.__setattr__(self, "pairs", _pairs(self.pairs))
        if not self.pairs:
            raise SpaceError("QuadraticConstraint without pairs: name at least one, or use a LinearConstraint")


Constraint = LinearConstraint | QuadraticConstraint
CONSTRAINT_KINDS = ("LinearConstraint", "QuadraticConstraint")


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
SUGGESTED_INSIDE = 1e-12
"""By this share of its terms a suggestion with Reals stays inside: more than what thousands of roundings add up to."""


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
        named = {name for constraint in self.constraints for name in constraint.names}
        self._columns = [i for i, variable in enumerate(variables) if variable.name in named]
        self._variables = [variables[i] for i in self._columns]
        self._floor = np.array([_rounding_scale(variable) for variable in self._variables])  # [k]
        place = {variable.name: i for i, variable in enumerate(self._variables)}
        real = np.array([isinstance(variable, Real) for variable in self._variables], dtype=bool)
        self._sides = [_LeftSide(constraint, place, real) for constraint in self.constraints]
        self._check_sizes(known)

    def contains(self, X: Floats, *, strictly: bool = False) -> NDArray[np.bool_]:
        """Which of the encoded points X [m, D + P] are feasible, [m]; strictly: as a suggestion must be."""
        if not self.constraints:
            return np.ones(len(X), dtype=bool)
        columns = [_values(v, X[:, i]) for v, i in zip(self._variables, self._columns, strict=True)]
        return np.all([self._excess(side, np.column_stack(columns), strictly) <= 0 for side in self._sides], axis=0)

    def violated(self, configuration: Mapping[str, Any], *, strictly: bool = False) -> tuple[Constraint, float] | None:
        """The first constraint that a configuration violates, with its left side; None if it is feasible."""
        if not self.constraints:
            return None
        V = np.array([[float(configuration[variable.name]) for variable in self._variables]])
        for constraint, side in zip(self.constraints, self._sides, strict=True):
            if self._excess(side, V, strictly)[0] > 0:
                return constraint, float(side.value(V)[0])
        return None

    def _excess(self, side: "_LeftSide", V: Floats, strictly: bool) -> Floats:
        """By how much the left side of values V [m, k] is above what is allowed [m]; feasible where it is at most 0."""
        above = side.value(V) - side.bound
        allowed = TOLERANCE * side.size(np.maximum(np.abs(V), self._floor))
        if strictly:
            allowed = np.where(side.has_real_terms(V), -SUGGESTED_INSIDE * side.size(np.abs(V)), allowed)
        return above - allowed

    def _check_sizes(self, known: Mapping[str, Real | Discrete]) -> None:
        """Terms that leave the range of floating point could not be compared with a bound, and some are never met."""
        largest = np.array([[_largest(variable) for variable in self._variables]])
        for constraint, side in zip(self.constraints, self._sides, strict=True):
            with np.errstate(over="ignore", invalid="ignore"):
                size = float(side.size(largest)[0])
            if not math.isfinite(size):
                raise SpaceError(f"constraint {constraint}: its terms can exceed the largest number; scale it down")
            least = _least(constraint, known)
            if least > constraint.bound + TOLERANCE * size:
                raise SpaceError(
                    f"constraint {constraint} cannot be met: its left side is at least {least:.6g}; raise its bound, "
                    "or widen the ranges of its variables"
                )


class _LeftSide:
    """One constraint as arrays over the k named variables."""

    def __init__(self, constraint: Constraint, place: Mapping[str, int], real: NDArray[np.bool_]) -> None:
        """place: the column of each variable. real [k]: which of them are Reals."""
        self.bound = constraint.bound
        self._a = np.zeros(len(place))
        for name, a in constraint.coefficients.items():
            self._a[place[name]] = a
        pairs = constraint.pairs
        self._i = np.array([place[first] for first, _ in pairs], dtype=int)
        self._j = np.array([place[second] for _, second in pairs], dtype=int)
        self._q = np.array(list(pairs.values()), dtype=float)
        self._real_a = np.abs(self._a) * real
        self._real_q = np.abs(self._q) * (real[self._i] | real[self._j])

    def value(self, V: Floats) -> Floats:
        """The left side [m]."""
        return V @ self._a + (V[:, self._i] * V[:, self._j]) @ self._q

    def size(self, M: Floats) -> Floats:
        """The absolute values of the terms and of the bound, added up [m]."""
        return M @ np.abs(self._a) + (M[:, self._i] * M[:, self._j]) @ np.abs(self._q) + abs(self.bound)

    def has_real_terms(self, V: Floats) -> NDArray[np.bool_]:
        """Whether a term of a Real is not 0 [m]."""
        return (np.abs(V) @ self._real_a + np.abs(V[:, self._i] * V[:, self._j]) @ self._real_q) > 0


def _values(variable: Real | Discrete, column: Floats) -> Floats:
    """A column [m] of the encoding as values."""
    if isinstance(variable, Real):
        return variable.from_units(column)
    return np.array(variable.vertices, dtype=float)[np.rint(column).astype(int)]


def _least(constraint: Constraint, known: Mapping[str, Real | Discrete]) -> float:
    """What the left side is at least: each term by itself as small as it can be. The true minimum may be larger."""
    terms = [min(a * value for value in _values_of(known[name])) for name, a in constraint.coefficients.items()]
    for (first, second), q in constraint.pairs.items():
        values, others = _values_of(known[first]), _values_of(known[second])
        if first != second:
            products = [x * y for x in (min(values), max(values)) for y in (min(others), max(others))]
        else:
            through_zero = isinstance(known[first], Real) and min(values) < 0 < max(values)
            products = [x * x for x in values] + [0.0] * through_zero
        terms.append(min(q * product for product in products))
    return math.fsum(terms)


def _values_of(variable: Real | Discrete) -> list[float]:
    """All of a discrete variable's, the ends of a Real's."""
    return [*map(float, (variable.low, variable.high) if isinstance(variable, Real) else variable.vertices)]


def _largest(variable: Real | Discrete) -> float:
    return max(map(abs, _values_of(variable)))


def _rounding_scale(variable: Real | Discrete) -> float:
    """What encoding rounds relative to, where that is not the value itself: of a linear Real, its bounds."""
    return _largest(variable) if isinstance(variable, Real) and not variable.log else 0.0


def _check_names(constraint: Constraint, known: Mapping[str, Real | Discrete]) -> None:
    for name in constraint.names:
        if name not in known:
            hint = did_you_mean(name, known)
            raise SpaceError(f"constraint {constraint}: no variable is named {name!r}; there are {list(known)}.{hint}")
        variable = known[name]
        if not isinstance(variable, Real) and any(isinstance(value, str) for value in variable.vertices):
            raise SpaceError(
                f"constraint {constraint}: the values of {name!r} are {list(variable.vertices)}, not all numbers; "
                "leave it out, give it numbers as values, or use a variable with the values 0 and 1 for each choice"
            )
