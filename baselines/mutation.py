"""Mutations of Regularized Evolution, of the joint space as in the code of BO-FM's authors.

A mutation changes one continuous and one discrete variable, if the space has them. The identity of Real et al. (2019)
is left out. Outside of a cell a discrete value is drawn uniformly from the others, also of ordered variables.
Infeasible children are rejected.
"""

from collections.abc import Callable, Sequence

import numpy as np

from fmnas.optimizers import Suggestion
from fmnas.search_spaces import Configuration, Real, Space, Trial
from fmnas.search_spaces.nasnet import CELL_NAMES, STATES, parse_pair
from fmnas.search_spaces.records import FALLBACK, MUTATION, RANDOM
from fmnas.search_spaces.variables import Discrete, Value

Mutation = Callable[[Configuration, np.random.Generator], Configuration]

STEP = 0.01
"""Standard deviation of a continuous mutation, relative to the variable's range."""

MAX_CHILDREN = 100
"""Attempts to find a feasible child before a random configuration is suggested."""

CELL_OPERATIONS = tuple(f"op{i}" for i in range(1, 2 * STATES + 1))
CELL_INPUTS = ("in2", "in3", "in4")


def mutation_for(space: Space) -> Mutation:
    """Return the mutation of a space: that of the NASNet cell if it has one, otherwise uniform over the variables."""
    discrete = {v.name: v for v in space.discrete}
    has_cell = set(CELL_NAMES) <= set(discrete)
    choose = _choose_in_cell if has_cell else _choose_uniformly
    input_pairs = CELL_INPUTS if has_cell else ()

    def mutate(parent: Configuration, rng: np.random.Generator) -> Configuration:
        child = dict(parent)
        if space.continuous:
            variable = space.continuous[int(rng.integers(len(space.continuous)))]
            child[variable.name] = _perturb(variable, float(parent[variable.name]), rng)
        if discrete:
            name = choose(list(discrete), rng)
            child[name] = _draw_new_value(discrete[name], parent[name], rng, is_pair=name in input_pairs)
        return child

    return mutate


def mutate_feasibly(space: Space, mutate: Mutation, parent: Trial, rng: np.random.Generator) -> Suggestion:
    """Return the first feasible child of a trial; a random configuration after MAX_CHILDREN infeasible ones."""
    for _ in range(MAX_CHILDREN):
        child = mutate(parent.configuration, rng)
        if space.meets_constraints(child, strictly=True):
            return Suggestion(child, MUTATION, parent=parent.id)
    note = f"none of {MAX_CHILDREN} children of trial {parent.id} was feasible; random configuration instead"
    return Suggestion(space.sample(rng), RANDOM, note=note, fallback=FALLBACK)


def _perturb(variable: Real, value: float, rng: np.random.Generator) -> float:
    """Add a normal step of 1% of the range (on the variable's scale), clipped to the bounds."""
    unit = variable.to_unit(value) + STEP * rng.standard_normal()
    return variable.from_unit(min(max(unit, 0.0), 1.0))


def _choose_uniformly(names: Sequence[str], rng: np.random.Generator) -> str:
    return names[int(rng.integers(len(names)))]


def _choose_in_cell(names: Sequence[str], rng: np.random.Generator) -> str:
    """Choose operations or wiring with equal probability, then uniformly; other discrete variables count as wiring."""
    if rng.random() < 0.5:
        return _choose_uniformly(CELL_OPERATIONS, rng)
    return _choose_uniformly([name for name in names if name not in CELL_OPERATIONS], rng)


def _draw_new_value(variable: Discrete, current: Value, rng: np.random.Generator, *, is_pair: bool) -> Value:
    """Draw a different value uniformly; an input pair of the cell keeps one of its inputs at its position.

    The position determines the operation on an input, so a child has one changed edge (Real et al. 2019).
    """
    index = variable.index(current)
    values = [value for i, value in enumerate(variable.vertices) if i != index]
    if is_pair:
        inputs = parse_pair(str(current))
        by_kept_input = [[v for v in values if parse_pair(str(v))[k] == inputs[k]] for k in (0, 1)]
        nonempty = [pairs for pairs in by_kept_input if pairs]
        values = nonempty[int(rng.integers(len(nonempty)))]
    return values[int(rng.integers(len(values)))]
