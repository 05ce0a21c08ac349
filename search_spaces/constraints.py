"""Known constraints: which configurations of a space are feasible.

    LinearConstraint        sum_i a_i x_i <= b
    QuadraticConstraint     sum_i a_i x_i + sum_ij q_ij x_i x_j <= b

x_i is the value of a variable as its user writes it: a Real in its own units, a discrete variable's number (True is 1,
False is 0). An equation is two inequalities.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real as Number
from typing import Any

from fmnas.search_spaces.errors import SpaceError

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
