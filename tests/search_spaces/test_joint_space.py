"""The joint space: its 18 variables, ranges and scales."""

import numpy as np
import pytest

from fmnas.search_spaces import Cell, Real, Schedule, joint_space
from fmnas.search_spaces.nasnet import CELL_NAMES, SGD_NAMES


def test_schedule_then_cell() -> None:
    space = joint_space()
    assert space.names == SGD_NAMES + CELL_NAMES
    assert (len(space.continuous), len(space.discrete)) == (6, 12)


@pytest.mark.parametrize(
    ("name", "low", "high", "log"),
    [
        ("learning_rate", 1e-3, 1e-1, True),
        ("momentum", 0.8, 1.0, False),
        ("weight_decay", 1e-6, 1e-2, True),
        ("lr_reduction", 0.1, 0.9, False),
        ("reduction_point_1", 0.0, 1.0, False),
        ("reduction_point_2", 0.0, 1.0, False),
    ],
)
def test_ranges(name: str, low: float, high: float, log: bool) -> None:
    assert {v.name: v for v in joint_space().continuous}[name] == Real(name, low, high, log)


def test_numbers_of_vertices_and_neighbours() -> None:
    space = joint_space()
    assert [len(v.vertices) for v in space.discrete] == [8] * 8 + [3, 6, 9, 3]
    degrees = [[len(n) for n in v.neighbours] for v in space.discrete[8:]]
    assert degrees == [[1, 2, 1], [1, 3, 2, 2, 3, 1], [2, 3, 2, 2, 4, 3, 2, 3, 1], [1, 2, 1]]


def test_every_point_is_a_schedule_and_a_cell() -> None:
    space, rng = joint_space(), np.random.default_rng(0)
    for _ in range(20):
        point = space.sample(rng)
        assert Schedule.from_configuration(point).learning_rate == point["learning_rate"]
        assert Cell.from_configuration(point).output == point["output"]
