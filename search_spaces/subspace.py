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
from fmnas.search_spaces.errors import SpaceError
from fmnas.search_spaces.space import Configuration, Space
from fmnas.search_spaces.variables import Value


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
        remaining = (_substitute(constraint, self.fixed) for constraint in whole.constraints)
        variables = [variable for variable in whole.variables if variable.name not in fixed]
        constraints = [constraint for constraint in remaining if constraint is not None]
        self.free = Space(variables, constraints) if self.fixed else whole

    def add_fixed(self, configuration: Mapping[str, Value]) -> Configuration:
        """Add the fixed values to a configuration of the free variables."""
        return {name: self.fixed[name] if name in self.fixed else configuration[name] for name in self.whole.names}

    def reduce(self, configuration: Mapping[str, Value]) -> Configuration:
        """Drop the fixed values; the inverse of `add_fixed`."""
        return {name: configuration[name] for name in self.free.names}


def fixed_value_errors(space: Space, fixed: Mapping[str, Any]) -> list[str]:
    """Return one message "fixed.NAME = VALUE: ..." per reason why these values cannot be fixed."""
    variables = {variable.name: variable for variable in space.variables}
    errors = []
    for name, value in fixed.items():
        try:
            if name not in variables:
                raise SpaceError(f"{name}: unknown variable; the space has {', '.join(variables)}")
            variables[name].check(value)
        except SpaceError as error:
            errors.append(f"fixed.{error}")
    if errors:
        return errors
    if len(fixed) == len(space):
        return [f"fixed: it contains all {len(space)} variables; leave at least one out"]
    values = {name: variables[name].coerce(value) for name, value in fixed.items()}
    free = [variable for variable in space.variables if variable.name not in fixed]
    for constraint in space.constraints:
        try:
            if remaining := _substitute(constraint, values):
                Space(free, [remaining])
        except SpaceError:
            errors.append(f"fixed: {constraint} cannot be met with these values: change one of them")
    return errors


def _substitute(constraint: Constraint, fixed: Mapping[str, Value]) -> Constraint | None:
    """Return the constraint on the free variables, without terms that are zero; None if no term is left.

    A bound within rounding error of 0 becomes 0; otherwise it could exclude the boundary. Raises SpaceError if the
    fixed values alone violate the constraint.
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
    bound = 0.0 if abs(bound) <= rounding else bound
    coefficients = {name: a for name, a in coefficients.items() if a}
    if pairs := {pair: q for pair, q in pairs.items() if q}:
        return QuadraticConstraint(coefficients, pairs, bound)
    if not coefficients and bound < 0:
        raise SpaceError(f"{constraint} is violated")
    return LinearConstraint(coefficients, bound) if coefficients else None
