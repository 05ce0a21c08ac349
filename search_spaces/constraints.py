"""Known constraints: which configurations and which encoded points of a space are feasible.

    LinearConstraint        sum_i a_i x_i <= b
    QuadraticConstraint     sum_i a_i x_i + sum_ij q_ij x_i x_j <= b

x_i is the value of a variable in the user's units, and a discrete variable's number (True is 1, False is 0). An
equation is two inequalities. Shapes:

| symbol | shape | meaning |
|---|---|---|
| m, k | | number of points; number of variables in any constraint |
| X | [m, D + P] | encoded points |
| V | [m, k] | their values in the user's units |
| M | [m, k] | the magnitudes of the values, for the rounding error |

A user's configuration may exceed a bound by TOLERANCE. A suggestion with Reals must stay slightly inside, so that the
left side is at most the bound in floating point, whatever the order of summation. If no term with a Real counts, the
boundary, such as 0.1 + 0.2 <= 0.3, is feasible.
"""

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from numbers import Real as Number
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmnas.search_spaces.errors import SpaceError, did_you_mean
from fmnas.search_spaces.variables import Discrete, Floats, Real

TERMS_SHOWN = 8


class _Polynomial:
    """Base class of both kinds; a linear constraint has no pairs."""

    coefficients: Mapping[str, float]
    pairs: Mapping[tuple[str, str], float]
    bound: float

    @property
    def names(self) -> list[str]:
        """The names of its variables, without repetition."""
        return list(dict.fromkeys([*self.coefficients, *(name for pair in self.pairs for name in pair)]))

    def _convert_numbers(self) -> None:
        """Convert coefficients and bound to floats. Raises SpaceError for other values."""
        object.__setattr__(self, "coefficients", _coefficients(self.coefficients, type(self).__name__))
        object.__setattr__(self, "bound", _finite(self.bound, f"{type(self).__name__}: bound"))

    def __hash__(self) -> int:
        return hash((frozenset(self.coefficients.items()), frozenset(self.pairs.items()), self.bound))

    def __str__(self) -> str:
        """Format as "2*x + y - 0.5*x*y <= 3", without the middle of a long sum."""
        terms = [*self.coefficients.items(), *(("*".join(pair), q) for pair, q in self.pairs.items())]
        shown = [f"{'-' if a < 0 else '+'} {'' if abs(a) == 1 else f'{abs(a):.6g}*'}{name}" for name, a in terms]
        if len(shown) > TERMS_SHOWN:
            shown = [*shown[: TERMS_SHOWN - 2], "+ ...", shown[-1]]
        return f"{' '.join(shown).removeprefix('+ ')} <= {self.bound:.6g}"

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-serializable data; each pair is [name, name, q_ij]."""
        pairs = [[first, second, q] for (first, second), q in self.pairs.items()]
        quadratic = {"pairs": pairs} if isinstance(self, QuadraticConstraint) else {}
        return {"kind": type(self).__name__, "coefficients": dict(self.coefficients), **quadratic, "bound": self.bound}


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
        self._convert_numbers()
        if not self.coefficients:
            raise SpaceError("LinearConstraint without coefficients: name at least one variable")


@dataclass(frozen=True)
class QuadraticConstraint(_Polynomial):
    """sum_i a_i x_i + sum_ij q_ij x_i x_j <= b. coefficients: name -> a_i, may be empty. pairs: (name, name) -> q_ij.

    (x, x) is the square of x. (x, y) and (y, x) are two terms, and both count.

    Example: an area of at most 6: QuadraticConstraint({}, {("width", "height"): 1}, bound=6)
    """

    coefficients: Mapping[str, float]
    pairs: Mapping[tuple[str, str], float]
    bound: float
    __hash__ = _Polynomial.__hash__

    def __post_init__(self) -> None:
        self._convert_numbers()
        object.__setattr__(self, "pairs", _pairs(self.pairs))
        if not self.pairs:
            raise SpaceError("QuadraticConstraint without pairs: name at least one, or use a LinearConstraint")


Constraint = LinearConstraint | QuadraticConstraint
CONSTRAINT_KINDS = ("LinearConstraint", "QuadraticConstraint")


def constraint_from_dict(data: Mapping[str, Any]) -> Constraint:
    """Invert `to_dict`. Raises SpaceError for missing or unknown fields and invalid values."""
    kind, fields = data["kind"], {name: value for name, value in data.items() if name != "kind"}
    expected = ["bound", "coefficients"] + ["pairs"] * (kind == "QuadraticConstraint")
    if sorted(fields) != expected:
        raise SpaceError(f"{kind} with fields {sorted(fields)}: it must have exactly {expected}")
    if kind == "LinearConstraint":
        return LinearConstraint(**fields)
    try:
        pairs = {(first, second): q for first, second, q in fields["pairs"]}
    except (TypeError, ValueError):
        message = f"QuadraticConstraint: pairs = {fields['pairs']!r}: it must be a list of [name, name, number]"
        raise SpaceError(message) from None
    if len(pairs) < len(fields["pairs"]):
        raise SpaceError(
            f"QuadraticConstraint: pairs = {fields['pairs']!r}: each pair must be listed once; add them up"
        )
    return QuadraticConstraint(fields["coefficients"], pairs, fields["bound"])


def _coefficients(value: Any, kind: str) -> dict[str, float]:
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise SpaceError(f"{kind}: coefficients = {value!r}: it must map names of variables to numbers")
    return {name: _finite(a, f"{kind}: coefficient of {name!r}") for name, a in value.items()}


def _pairs(value: Any) -> dict[tuple[str, str], float]:
    def is_pair(key: Any) -> bool:
        return isinstance(key, tuple) and len(key) == 2 and all(isinstance(name, str) for name in key)

    if not isinstance(value, Mapping) or not all(is_pair(key) for key in value):
        raise SpaceError(f"QuadraticConstraint: pairs = {value!r}: it must map pairs (name, name) to numbers")
    return {pair: _finite(q, f"QuadraticConstraint: coefficient of {pair}") for pair, q in value.items()}


def _finite(value: Any, what: str) -> float:
    with suppress(OverflowError):
        if not isinstance(value, bool) and isinstance(value, Number) and math.isfinite(number := float(value)):
            return number
    raise SpaceError(f"{what} = {value!r}: it must be a finite number")


TOLERANCE = 1e-9
"""A constraint holds if its left side exceeds the bound by at most this share of its terms."""
SUGGESTED_INSIDE = 1e-12
"""A suggestion with Reals stays inside by this share of its terms, more than their rounding error."""


class FeasibleRegion:
    """The part of a space in which all constraints hold.

    variables: all variables of the space, in the order of its encoding. Raises SpaceError if a constraint has an
    unknown or non-numeric variable.
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
        """Return which encoded points X [m, D + P] are feasible [m]; strictly: by the rule for suggestions."""
        if not self.constraints:
            return np.ones(len(X), dtype=bool)
        columns = [_values(v, X[:, i]) for v, i in zip(self._variables, self._columns, strict=True)]
        return np.all([self._excess(side, np.column_stack(columns), strictly) <= 0 for side in self._sides], axis=0)

    def find_violation(
        self, configuration: Mapping[str, Any], *, strictly: bool = False
    ) -> tuple[Constraint, float] | None:
        """Return the first violated constraint with its left side; None if the configuration is feasible."""
        if not self.constraints:
            return None
        V = np.array([[float(configuration[variable.name]) for variable in self._variables]])
        for constraint, side in zip(self.constraints, self._sides, strict=True):
            if self._excess(side, V, strictly)[0] > 0:
                return constraint, float(side.value(V)[0])
        return None

    def _excess(self, side: "_LeftSide", V: Floats, strictly: bool) -> Floats:
        """Return how far the left side of values V [m, k] exceeds its limit [m]; at most 0 if feasible."""
        above = side.value(V) - side.bound
        allowed = TOLERANCE * side.size(np.maximum(np.abs(V), self._floor))
        if strictly:
            allowed = np.where(side.has_real_terms(V), -SUGGESTED_INSIDE * side.size(np.abs(V)), allowed)
        return above - allowed

    def _check_sizes(self, known: Mapping[str, Real | Discrete]) -> None:
        """Raise SpaceError for constraints whose terms overflow and for those that cannot be met."""
        largest = np.array([[_largest(variable) for variable in self._variables]])
        for constraint, side in zip(self.constraints, self._sides, strict=True):
            with np.errstate(over="ignore", invalid="ignore"):
                size = float(side.size(largest)[0])
            if not math.isfinite(size):
                raise SpaceError(
                    f"constraint {constraint}: its terms can exceed the range of floating point; scale it down"
                )
            least = _least(constraint, known)
            if least > constraint.bound + TOLERANCE * size:
                raise SpaceError(
                    f"constraint {constraint} cannot be met: its left side is at least {least:.6g}; raise its bound, "
                    "or widen the ranges of its variables"
                )


class _LeftSide:
    """One constraint as arrays over the k variables."""

    def __init__(self, constraint: Constraint, column: Mapping[str, int], real: NDArray[np.bool_]) -> None:
        """column: the column of each variable. real [k]: which variables are Reals."""
        self.bound = constraint.bound
        self._a = np.zeros(len(column))
        for name, a in constraint.coefficients.items():
            self._a[column[name]] = a
        pairs = constraint.pairs
        self._i = np.array([column[first] for first, _ in pairs], dtype=int)
        self._j = np.array([column[second] for _, second in pairs], dtype=int)
        self._q = np.array(list(pairs.values()), dtype=float)
        self._real_a = np.abs(self._a) * real
        self._real_q = np.abs(self._q) * (real[self._i] | real[self._j])

    def value(self, V: Floats) -> Floats:
        """Return the left side [m]."""
        return V @ self._a + (V[:, self._i] * V[:, self._j]) @ self._q

    def size(self, M: Floats) -> Floats:
        """Return the sum of the absolute values of the terms and the bound [m]."""
        return M @ np.abs(self._a) + (M[:, self._i] * M[:, self._j]) @ np.abs(self._q) + abs(self.bound)

    def has_real_terms(self, V: Floats) -> NDArray[np.bool_]:
        """Return whether any term with a Real is not 0 [m]."""
        return (np.abs(V) @ self._real_a + np.abs(V[:, self._i] * V[:, self._j]) @ self._real_q) > 0


def _values(variable: Real | Discrete, column: Floats) -> Floats:
    """Decode a column [m] of the encoding."""
    if isinstance(variable, Real):
        return variable.from_units(column)
    return np.array(variable.vertices, dtype=float)[np.rint(column).astype(int)]


def _least(constraint: Constraint, known: Mapping[str, Real | Discrete]) -> float:
    """Return a lower bound of the left side: the sum of the minima of its terms."""
    terms = [min(a * value for value in _values_of(known[name])) for name, a in constraint.coefficients.items()]
    for (first, second), q in constraint.pairs.items():
        values, factors = _values_of(known[first]), _values_of(known[second])
        if first != second:
            products = [x * y for x in (min(values), max(values)) for y in (min(factors), max(factors))]
        else:
            through_zero = isinstance(known[first], Real) and min(values) < 0 < max(values)
            products = [x * x for x in values] + [0.0] * through_zero
        terms.append(min(q * product for product in products))
    return math.fsum(terms)


def _values_of(variable: Real | Discrete) -> list[float]:
    """Return the values of a discrete variable, or the bounds of a Real."""
    return [*map(float, (variable.low, variable.high) if isinstance(variable, Real) else variable.vertices)]


def _largest(variable: Real | Discrete) -> float:
    return max(map(abs, _values_of(variable)))


def _rounding_scale(variable: Real | Discrete) -> float:
    """Return the magnitude of the rounding error beyond the value's own: of a linear Real, that of its bounds."""
    return _largest(variable) if isinstance(variable, Real) and not variable.log else 0.0


def _check_names(constraint: Constraint, known: Mapping[str, Real | Discrete]) -> None:
    for name in constraint.names:
        if name not in known:
            hint = did_you_mean(name, known)
            raise SpaceError(f"constraint {constraint}: unknown variable {name!r}; the space has {list(known)}.{hint}")
        variable = known[name]
        if not isinstance(variable, Real) and any(isinstance(value, str) for value in variable.vertices):
            raise SpaceError(
                f"constraint {constraint}: the values of {name!r} are {list(variable.vertices)}, not all numbers; "
                "use numbers as values, or one variable with the values 0 and 1 per choice"
            )
