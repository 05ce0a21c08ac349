"""A part of a space: some of its variables are fixed, the others are free.

    subspace = Subspace(joint_space(), {"op1": "conv3x3"})
    subspace.free                        # a Space of the 17 others
    subspace.complete(configuration)     # with op1 again

What is fixed is put into the constraints. Of one of them, with v the fixed values, F the free variables:

    sum_i a_i x_i + sum_ij q_ij x_i x_j <= b
    sum_(i in F) (a_i + sum_(j fixed) (q_ij + q_ji) v_j) x_i + sum_(i, j in F) q_ij x_i x_j <= b - (what is fixed alone)

Of a free configuration the constraint holds if it holds of the complete one.
"""

import math
from collections.abc import Mapping
from typing import Any

from fmnas.search_spaces.constraints import TOLERANCE, Constraint, LinearConstraint, QuadraticConstraint
from fmnas.search_spaces.errors import SpaceError, did_you_mean
from fmnas.search_spaces.space import Configuration, Space
from fmnas.search_spaces.variables import Real, Value, Variable


class Subspace:
    """The configurations of a space that have the fixed values.

    whole: the space. fixed: name -> value, in the order of the space, each as its variable has it.
    free: the other variables, with what is left of the constraints; `whole` itself where nothing is fixed.
    """

    def __init__(self, whole: Space, fixed: Mapping[str, Any]) -> None:
        """Raises SpaceError, naming each, for names and values that the space does not have, for values that no
        configuration can have together, and where no variable is left."""
        if wrong := misfits(whole, fixed):
            raise SpaceError("; ".join(wrong))
        self.whole = whole
        self.fixed: Configuration = {v.name: v.own(fixed[v.name]) for v in whole.variables if v.name in fixed}
        self.free = _free(whole, self.fixed) if self.fixed else whole

    def complete(self, configuration: Mapping[str, Value]) -> Configuration:
        """A configuration of the free variables with the fixed ones, in the order of the whole space."""
        return {name: self.fixed[name] if name in self.fixed else configuration[name] for name in self.whole.names}

    def reduce(self, configuration: Mapping[str, Value]) -> Configuration:
        """The free part of a complete configuration; the inverse of `complete`."""
        return {name: configuration[name] for name in self.free.names}


def misfits(space: Space, fixed: Mapping[str, Any]) -> list[str]:
    """A line for each thing that keeps these values from being fixed in the space: fixed.NAME = VALUE: what may be."""
    variables = {variable.name: variable for variable in space.variables}
    found = [_misfit(variables, name, value) for name, value in fixed.items()]
    if wrong := [line for line in found if line]:
        return wrong
    if len(fixed) == len(space):
        return [f"fixed: it has all {len(space)} variables, so nothing is left to choose: leave at least one out"]
    values = {name: variables[name].own(value) for name, value in fixed.items()}
    free = [variable for variable in space.variables if variable.name not in fixed]
    return [
        f"fixed: with these values {constraint} cannot be met: change one of them"
        for constraint in space.constraints
        if not _can_hold(constraint, values, free)
    ]


def _misfit(variables: Mapping[str, Variable], name: str, value: Any) -> str:
    """What is wrong with one of them; empty if nothing."""
    if name not in variables:
        return f"fixed.{name}: no variable has this name; there are {', '.join(variables)}{_meant(name, variables)}"
    try:
        variables[name].check(value)
    except SpaceError as error:
        return f"fixed.{error}{_hint(variables[name], value)}"
    return ""


def _hint(variable: Variable, value: Any) -> str:
    if not isinstance(value, str):
        return ""
    if not isinstance(variable, Real):
        return _meant(value, {str(each): each for each in variable.vertices})
    try:
        return f". {value!r} is text: write {float(value)!r} for the number"
    except ValueError:
        return ""


def _meant(given: str, known: Mapping[str, Any]) -> str:
    hint = did_you_mean(given, known)
    return f".{hint}" if hint else ""


def _free(whole: Space, fixed: Configuration) -> Space:
    left = (_substituted(constraint, fixed) for constraint in whole.constraints)
    free = [variable for variable in whole.variables if variable.name not in fixed]
    return Space(free, [constraint for constraint in left if constraint is not None])


def _can_hold(constraint: Constraint, fixed: Mapping[str, Value], free: list[Variable]) -> bool:
    """Whether it may, as far as the fixed values and the ranges of the free variables tell."""
    left = _substituted(constraint, fixed)
    if left is None:
        return _terms(constraint, fixed)[2] >= 0
    try:
        Space(free, [left])
    except SpaceError:
        return False
    return True


def _substituted(constraint: Constraint, fixed: Mapping[str, Value]) -> Constraint | None:
    """What it says of the free variables; None if nothing."""
    coefficients, pairs, bound = _terms(constraint, fixed)
    if pairs:
        return QuadraticConstraint(coefficients, pairs, bound)
    return LinearConstraint(coefficients, bound) if coefficients else None


def _terms(
    constraint: Constraint, fixed: Mapping[str, Value]
) -> tuple[dict[str, float], dict[tuple[str, str], float], float]:
    """The coefficients and pairs of the free variables that are not 0, and the bound for them.

    A bound that is 0 but for rounding is 0: else it could refuse what lies on the boundary.
    """
    coefficients: dict[str, float] = {}
    pairs: dict[tuple[str, str], float] = {}
    constants = []
    for name, a in constraint.coefficients.items():
        if name in fixed:
            constants.append(a * float(fixed[name]))
        else:
            coefficients[name] = coefficients.get(name, 0.0) + a
    for (first, second), q in constraint.pairs.items():
        known = math.prod(float(fixed[name]) for name in (first, second) if name in fixed)
        free = [name for name in (first, second) if name not in fixed]
        if len(free) == 2:
            pairs[first, second] = q
        elif free:
            coefficients[free[0]] = coefficients.get(free[0], 0.0) + q * known
        else:
            constants.append(q * known)
    bound = constraint.bound - math.fsum(constants)
    rounding = TOLERANCE * (abs(constraint.bound) + math.fsum(map(abs, constants)))
    return (
        {name: a for name, a in coefficients.items() if a},
        {pair: q for pair, q in pairs.items() if q},
        0.0 if abs(bound) <= rounding else bound,
    )
