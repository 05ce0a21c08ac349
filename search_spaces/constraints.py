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
from dataclasses import dataclass, field
from numbers import Real as Number
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmnas.search_spaces.errors import SpaceError
from fmnas.search_spaces.variables import Discrete, Floats, Real


class _Polynomial:
    """Base class of both kinds; a linear constraint has no pairs."""

    coefficients: Mapping[str, float]
    pairs: Mapping[tuple[str, str], float]
    bound: float

    def __post_init__(self) -> None:
        """Convert all numbers to floats. Raises SpaceError for other values, and without a variable."""
        kind = type(self).__name__
        object.__setattr__(self, "coefficients", _floats(f"{kind}: coefficients", self.coefficients, str))
        object.__setattr__(self, "pairs", _floats(f"{kind}: pairs", self.pairs, tuple))
        object.__setattr__(self, "bound", _floats(kind, {"bound": self.bound}, str)["bound"])
        if not self.names:
            raise SpaceError(f"{kind} without coefficients: name at least one variable")

    @property
    def names(self) -> list[str]:
        """The names of its variables, without repetition."""
        return list(dict.fromkeys([*self.coefficients, *(name for pair in self.pairs for name in pair)]))

    def __str__(self) -> str:
        """Format as "2*x + y - 0.5*x*y <= 3"."""
        terms = [*self.coefficients.items(), *(("*".join(pair), q) for pair, q in self.pairs.items())]
        shown = [f"{'-' if a < 0 else '+'} {'' if abs(a) == 1 else f'{abs(a):.6g}*'}{name}" for name, a in terms]
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


@dataclass(frozen=True)
class QuadraticConstraint(_Polynomial):
    """sum_i a_i x_i + sum_ij q_ij x_i x_j <= b. coefficients: name -> a_i, may be empty. pairs: (name, name) -> q_ij.

    (x, x) is the square of x. (x, y) and (y, x) are two terms, and both count.

    Example: an area of at most 6: QuadraticConstraint({}, {("width", "height"): 1}, bound=6)
    """

    coefficients: Mapping[str, float]
    pairs: Mapping[tuple[str, str], float]
    bound: float


Constraint = LinearConstraint | QuadraticConstraint


def _floats(what: str, values: Any, kind: type) -> dict[Any, float]:
    """Convert the values of a mapping to floats. Raises SpaceError for other values, and for keys of another kind.

    kind: str, or tuple for pairs of names.
    """
    is_map = isinstance(values, Mapping) and all(isinstance(key, kind) for key in values)
    if not is_map or (kind is tuple and any(list(map(type, pair)) != [str, str] for pair in values)):
        raise SpaceError(f"{what} = {values!r}: it must map names, or pairs of names, to numbers")
    for key, value in values.items():
        if isinstance(value, bool) or not isinstance(value, Number) or not math.isfinite(value):
            raise SpaceError(f"{what}: {key} = {value!r}: it must be a finite number")
    return {key: float(value) for key, value in values.items()}


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
        known = {variable.name: variable for variable in variables}
        for constraint in self.constraints:
            if not isinstance(constraint, _Polynomial):
                raise SpaceError(f"constraint {constraint!r}: it must be a LinearConstraint or a QuadraticConstraint")
            for name in constraint.names:
                if name not in known:
                    raise SpaceError(f"constraint {constraint}: unknown variable {name!r}; the space has {list(known)}")
                if any(isinstance(value, str) for value in getattr(known[name], "vertices", ())):
                    raise SpaceError(
                        f"constraint {constraint}: the values of {name!r} are not all numbers; use numbers as values, "
                        "or one variable with the values 0 and 1 per choice"
                    )
        named = {name for constraint in self.constraints for name in constraint.names}
        self._columns = [i for i, variable in enumerate(variables) if variable.name in named]
        self._variables = [variables[i] for i in self._columns]
        largest = np.array([[max(map(abs, _values_of(variable))) for variable in self._variables]])  # [1, k]
        # The rounding error of a linear Real is that of its bounds; of other variables, that of the value itself.
        self._floor = largest * [isinstance(variable, Real) and not variable.log for variable in self._variables]
        place = {variable.name: i for i, variable in enumerate(self._variables)}
        real = np.array([isinstance(variable, Real) for variable in self._variables], dtype=bool)
        self._sides = [_LeftSide(constraint, place, real) for constraint in self.constraints]
        for constraint, side in zip(self.constraints, self._sides, strict=True):
            if (least := _least(constraint, known)) > constraint.bound + TOLERANCE * side.size(largest)[0]:
                raise SpaceError(
                    f"constraint {constraint} cannot be met: its left side is at least {least:.6g}; raise its bound, "
                    "or widen the ranges of its variables"
                )

    def contains(self, X: Floats, *, strictly: bool = False) -> NDArray[np.bool_]:
        """Return which encoded points X [m, D + P] are feasible [m]; strictly: by the rule for suggestions."""
        if not self.constraints:
            return np.ones(len(X), dtype=bool)
        columns = [
            v.from_units(X[:, i]) if isinstance(v, Real) else np.array(v.vertices, float)[np.rint(X[:, i]).astype(int)]
            for v, i in zip(self._variables, self._columns, strict=True)
        ]
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


def _least(constraint: Constraint, known: Mapping[str, Real | Discrete]) -> float:
    """Return a lower bound of the left side: the sum of the minima of its terms."""
    values = {name: _values_of(known[name]) for name in constraint.names}
    terms = [min(a * value for value in values[name]) for name, a in constraint.coefficients.items()]
    for (first, second), q in constraint.pairs.items():
        if first == second:
            through_zero = isinstance(known[first], Real) and min(values[first]) < 0 < max(values[first])
            terms.append(min(q * x * x for x in [*values[first], *[0.0] * through_zero]))
        else:
            terms.append(min(q * x * y for x in values[first] for y in values[second]))
    return math.fsum(terms)


def _values_of(variable: Real | Discrete) -> list[float]:
    """Return the values of a discrete variable, or the bounds of a Real."""
    return [*map(float, (variable.low, variable.high) if isinstance(variable, Real) else variable.vertices)]
