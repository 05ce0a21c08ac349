"""The joint space: its 18 variables, ranges and scales."""

import pytest

from fmnas.search_spaces import Real, joint_space


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
