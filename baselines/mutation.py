"""Mutations: how Regularized Evolution makes a child (BO-FM paper, Supp. D.2).

Every child changes exactly one continuous and one discrete variable of its parent, where the space has them. Where it
has constraints, an infeasible child is made again.
"""

from collections.abc import Callable, Sequence

import numpy as np

from fmnas.optimizers import Suggestion
from fmnas.search_spaces import Configuration, Real, Space, Trial
from fmnas.search_spaces.nasnet import CELL_NAMES, STATES, parse_pair
from fmnas.search_spaces.records import FALLBACK, MUTATION, RANDOM
from fmnas.search_spaces.variables import Discrete

Mutation = Callable[[Configuration, np.random.Generator], Configuration]

STEP = 0.01
"""Standard deviation of a continuous mutation, as a share of the variable's range."""

CHILDREN = 100
"""How many children are made before a parent is taken to have no feasible one."""

CELL_OPERATIONS = tuple(f"op{i}" for i in range(1, 2 * STATES + 1))
CELL_INPUTS = ("in2", "in3", "in4")


def mutation_for(space: Space) -> Mutation:
    """The mixed mutation of a space: the cell's own where the space holds a cell, else uniform over the variables."""
    discrete = {v.name: v for v in space.discrete}
    cell = set(CELL_NAMES) <= set(discrete)
    choose = _choose_in_cell if cell else _choose_anywhere
    keep = CELL_INPUTS if cell else ()

    def mutate(parent: Configuration, rng: np.random.Generator) -> Configuration:
        child = dict(parent)
        if space.continuous:
            variable = space.continuous[int(rng.integers(len(space.continuous)))]
            child[variable.name] = _nudge(variable, float(parent[variable.name]), rng)
        if discrete:
            name = choose(list(discrete), rng)
            child[name] = _other_value(discrete[name], parent, rng, pair=name in keep)
        return child

    return mutate


def mutated(space: Space, mutate: Mutation, parent: Trial, rng: np.random.Generator) -> Suggestion:
    """The first child of a trial that meets the constraints of the space; if CHILDREN do not, chance chooses."""
    for _ in range(CHILDREN):
        child = mutate(parent.configuration, rng)
        if space.meets_constraints(child, strictly=True):
            return Suggestion(child, MUTATION, parent=parent.id)
    note = f"none of {CHILDREN} children of trial {parent.id} was feasible and chance chose"
    return Suggestion(space.sample(rng), RANDOM, note=note, fallback=FALLBACK)


def _nudge(variable: Real, value: float, rng: np.random.Generator) -> float:
    """A normal step of 1% of the range (on the variable's own scale), clipped to the bounds."""
    unit = variable.to_unit(value) + STEP * rng.standard_normal()
    return variable.from_unit(min(max(unit, 0.0), 1.0))


def _choose_anywhere(names: Sequence[str], rng: np.random.Generator) -> str:
    return names[int(rng.integers(len(names)))]


def _choose_in_cell(names: Sequence[str], rng: np.random.Generator) -> str:
    """A fair coin between operations and wiring, then uniform within; other discrete variables count as wiring."""
    if rng.random() < 0.5:
        return _choose_anywhere(CELL_OPERATIONS, rng)
    return _choose_anywhere([name for name in names if name not in CELL_OPERATIONS], rng)


def _other_value(
    variable: Discrete, parent: Configuration, rng: np.random.Generator, *, pair: bool
) -> str | int | float | bool:
    """Another value, uniformly; an input pair of the cell keeps one of its two inputs in its place.

    The place decides which operation the input meets, so that a child has one changed edge (Real et al. 2019).
    """
    current = parent[variable.name]
    at = variable.index(current)
    others = [value for i, value in enumerate(variable.vertices) if i != at]
    if pair:
        inputs = parse_pair(str(current))
        by_kept_place = [[v for v in others if parse_pair(str(v))[place] == inputs[place]] for place in (0, 1)]
        possible = [pairs for pairs in by_kept_place if pairs]
        others = possible[int(rng.integers(len(possible)))]
    return others[int(rng.integers(len(others)))]
