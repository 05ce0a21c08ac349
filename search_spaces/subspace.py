"""A subspace: some variables of a space are fixed, the others are free.

    subspace = Subspace(joint_space(), {"op1": "conv3x3"})
    subspace.free                        # a Space of the 17 other variables
    subspace.add_fixed(configuration)     # with op1 again

Fixed values are substituted into the constraints. With the fixed values v and the free variables F,

    sum_i a_i x_i + sum_ij q_ij x_i x_j <= b
    sum_(i in F) (a_i + sum_(j fixed) (q_ij + q_ji) v_j) x_i + sum_(i, j in F) q_ij x_i x_j <= b - (fixed terms)

are equivalent.
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

    whole: the space. fixed: name -> value, in the order of the space.
    free: the space of the other variables, with the remaining constraints; `whole` if nothing is fixed.
    """

    def __init__(self, whole: Space, fixed: Mapping[str, Any]) -> None:
        """Raises SpaceError for unknown names, invalid or infeasible values, and if no variable is free."""
        if errors := fixed_value_errors(whole, fixed):
            raise SpaceError("; ".join(errors))
        self.whole = whole
        self.fixed: Configuration = {v.name: v.coerce(fixed[v.name]) for v in whole.variables if v.name in fixed}
        self.free = _free_space(whole, self.fixed) if self.fixed else whole

    def add_fixed(self, configuration: Mapping[str, Value]) -> Configuration:
        """Add the fixed values to a configuration of the free variables."""
        return {name: self.fixed[name] if name in self.fixed else configuration[name] for name in self.whole.names}

    def reduce(self, configuration: Mapping[str, Value]) -> Configuration:
        """Drop the fixed values; the inverse of `add_fixed`."""
        return {name: configuration[name] for name in self.free.names}


def fixed_value_errors(space: Space, fixed: Mapping[str, Any]) -> list[str]:
    """Return one message "fixed.NAME = VALUE: ..." per reason why these values cannot be fixed."""
    variables = {variable.name: variable for variable in space.variables}
    messages = [_value_error(variables, name, value) for name, value in fixed.items()]
    if errors := [message for message in messages if message]:
        return errors
    if len(fixed) == len(space):
        return [f"fixed: it contains all {len(space)} variables; leave at least one out"]
    values = {name: variables[name].coerce(value) for name, value in fixed.items()}
    free = [variable for variable in space.variables if variable.name not in fixed]
    return [
        f"fixed: {constraint} cannot be met with these values: change one of them"
        for constraint in space.constraints
        if not _can_hold(constraint, values, free)
    ]


def _value_error(variables: Mapping[str, Variable], name: str, value: Any) -> str:
    """Return why a value cannot be fixed; empty if it can."""
    if name not in variables:
        hint = did_you_mean(name, variables)
        return f"fixed.{name}: unknown variable; the space has {', '.join(variables)}{hint and '.' + hint}"
    variable = variables[name]
    try:
        variable.check(value)
    except SpaceError as error:
        hint = ""
        if isinstance(value, str) and not isinstance(variable, Real):
            hint = did_you_mean(value, map(str, variable.vertices))
        return f"fixed.{error}{hint and '.' + hint}"
    return ""


def _free_space(whole: Space, fixed: Configuration) -> Space:
    constraints = (_substitute(constraint, fixed) for constraint in whole.constraints)
    free = [variable for variable in whole.variables if variable.name not in fixed]
    return Space(free, [constraint for constraint in constraints if constraint is not None])


def _can_hold(constraint: Constraint, fixed: Mapping[str, Value], free: list[Variable]) -> bool:
    """Return whether the fixed values and the ranges of the free variables leave the constraint satisfiable."""
    substituted = _substitute(constraint, fixed)
    if substituted is None:
        return _free_terms(constraint, fixed)[2] >= 0
    try:
        Space(free, [substituted])
    except SpaceError:
        return False
    return True


def _substitute(constraint: Constraint, fixed: Mapping[str, Value]) -> Constraint | None:
    """Return the constraint on the free variables; None if no term is left."""
    coefficients, pairs, bound = _free_terms(constraint, fixed)
    if pairs:
        return QuadraticConstraint(coefficients, pairs, bound)
    return LinearConstraint(coefficients, bound) if coefficients else None


def _free_terms(
    constraint: Constraint, fixed: Mapping[str, Value]
) -> tuple[dict[str, float], dict[tuple[str, str], float], float]:
    """Return the non-zero coefficients and pairs of the free variables, and their bound.

    A bound within rounding error of 0 becomes 0; otherwise it could exclude the boundary.
    """
    coefficients: dict[str, float] = {}
    pairs: dict[tuple[str, str], float] = {}
    constants = []
    terms = [((name,), a) for name, a in constraint.coefficients.items()]
    for names, factor in [*terms, *constraint.pairs.items()]:
        known = factor * math.prod(float(fixed[name]) for name in names if name in fixed)
        free = [name for name in names if name not in fixed]
        if len(free) == 2:
            pairs[free[0], free[1]] = factor
        elif free:
            coefficients[free[0]] = coefficients.get(free[0], 0.0) + known
        else:
            constants.append(known)
    bound = constraint.bound - math.fsum(constants)
    rounding = TOLERANCE * (abs(constraint.bound) + math.fsum(map(abs, constants)))
    return (
        {name: a for name, a in coefficients.items() if a},
        {pair: q for pair, q in pairs.items() if q},
        0.0 if abs(bound) <= rounding else bound,
    )
