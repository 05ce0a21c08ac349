"""Mutations: one continuous and one discrete variable, by how much and how often."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fmnas.baselines.mutation import STEP, mutation_for
from fmnas.search_spaces import Configuration, Graph, Integer, Nominal, Ordinal, Real, Space, joint_space
from fmnas.search_spaces.nasnet import input_pairs, parse_pair

JOINT = joint_space()
MIXED = Space(
    [
        Real("x", -1.0, 3.0),
        Real("rate", 1e-3, 1e-1, log=True),
        Nominal("op", ["a", "b", "c", "d"]),
        Integer("k", 0, 4),
        Ordinal("width", [8, 16, 32]),
        Graph("g", ("s", "t", "u"), (("s", "t"), ("t", "u"))),
    ]
)
PARENT: Configuration = {"x": 1.0, "rate": 0.01, "op": "b", "k": 2, "width": 8, "g": "s"}


def children(space: Space, parent: Configuration, count: int, seed: int = 0) -> list[Configuration]:
    mutate, rng = mutation_for(space), np.random.default_rng(seed)
    return [mutate(parent, rng) for _ in range(count)]


def changed_names(space: Space, parent: Configuration, child: Configuration) -> tuple[list[str], list[str]]:
    """Names of the continuous and of the discrete variables that differ."""
    continuous = [v.name for v in space.continuous if parent[v.name] != child[v.name]]
    return continuous, [v.name for v in space.discrete if parent[v.name] != child[v.name]]


def interior(space: Space, seed: int) -> Configuration:
    """A random configuration whose real values are well inside their bounds."""
    x = space.sample_encoded(np.random.default_rng(seed), 1)[0]
    D = len(space.continuous)
    x[:D] = 0.2 + 0.6 * x[:D]
    return space.decode(x)


@pytest.mark.parametrize("space", [MIXED, JOINT], ids=["mixed", "joint"])
@given(seed=st.integers(0, 2**32))
def test_one_continuous_and_one_discrete_variable_change(space: Space, seed: int) -> None:
    parent = interior(space, seed)
    before = dict(parent)
    for child in children(space, parent, 3, seed):
        space.validate(child)
        continuous, discrete = changed_names(space, parent, child)
        assert (len(continuous), len(discrete)) == (1, 1)
    assert parent == before


@pytest.mark.parametrize(
    ("space", "numbers"),
    [(Space([Real("x", 0.0, 1.0)]), (1, 0)), (Space([Nominal("op", ["a", "b"])]), (0, 1))],
    ids=["continuous", "discrete"],
)
def test_a_space_of_one_kind(space: Space, numbers: tuple[int, int]) -> None:
    parent = interior(space, 0)
    for child in children(space, parent, 5):
        continuous, discrete = changed_names(space, parent, child)
        assert (len(continuous), len(discrete)) == numbers


@pytest.mark.parametrize("name", ["x", "rate"])
def test_a_continuous_step_is_one_percent_of_the_range(name: str) -> None:
    (variable,) = (v for v in MIXED.continuous if v.name == name)
    units = [variable.to_unit(float(child[name])) for child in children(MIXED, PARENT, 6000)]
    steps = np.array(units)[np.array(units) != variable.to_unit(float(PARENT[name]))] - 0.5
    steps = steps[abs(steps) > 1e-12]
    assert STEP == 0.01
    assert len(steps) == pytest.approx(3000, abs=200)  # each of two variables half of the time
    assert steps.std() == pytest.approx(0.01, rel=0.06)
    assert abs(steps.mean()) < 0.001
    assert (abs(steps) < 0.01).mean() == pytest.approx(0.683, abs=0.04)  # a normal's share within one deviation


def test_a_step_is_clipped_to_the_bounds() -> None:
    result = {float(child["x"]) for child in children(MIXED, {**PARENT, "x": 3.0}, 300)}
    assert max(result) == 3.0
    assert min(result) < 3.0


def test_discrete_variables_are_chosen_evenly_and_take_any_other_value() -> None:
    result = [changed_names(MIXED, PARENT, child)[1][0] for child in children(MIXED, PARENT, 4000)]
    for count in Counter(result).values():
        assert count == pytest.approx(1000, abs=120)
    assert len(set(result)) == 4
    values = Counter(child["k"] for child in children(MIXED, PARENT, 4000))
    assert set(values) == {0, 1, 2, 3, 4}  # not only the neighbours on the path
    assert [values[k] for k in (0, 1, 3, 4)] == [pytest.approx(250, abs=70)] * 4


CELL_PARENT = interior(JOINT, 7)
COUNTS = Counter(changed_names(JOINT, CELL_PARENT, child)[1][0] for child in children(JOINT, CELL_PARENT, 8000))


def test_a_fair_coin_between_operations_and_wiring() -> None:
    operations = sum(count for name, count in COUNTS.items() if name.startswith("op"))
    assert operations == pytest.approx(4000, abs=200)


@pytest.mark.parametrize("state", [2, 3, 4])
def test_a_mutated_pair_keeps_one_input_in_its_place(state: int) -> None:
    def kept_places(a: tuple[int, int], b: tuple[int, int]) -> int:
        return (a[0] == b[0]) + (a[1] == b[1])

    name = f"in{state}"
    for pair in input_pairs(state):
        parent = {**CELL_PARENT, name: f"{pair[0]},{pair[1]}"}
        mutated = {parse_pair(str(child[name])) for child in children(JOINT, parent, 500)} - {pair}
        assert mutated == {other for other in input_pairs(state) if kept_places(other, pair) == 1}
