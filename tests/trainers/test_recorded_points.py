"""Distances to recorded trainings: in standard deviations, and what is far."""

import numpy as np
import pytest

from fmnas.trainers.surrogate.features import RecordedPoints

POINTS = RecordedPoints(
    np.array([[0.0, 2.0], [10.0, 30.0], [5.0, 5.0]], dtype=np.float32), np.array([1.0, 10.0, np.inf]), 0.6
)
"""Two points of three features, the last of which never varies."""


def test_a_distance_is_a_root_mean_square_of_standard_deviations() -> None:
    x = np.array([3.0, 30.0, 7.0], dtype=np.float32)
    assert POINTS.distances(x) == pytest.approx([np.sqrt((9 + 4) / 3), np.sqrt(1 / 3)])


def test_what_is_far_is_far_from_all() -> None:
    near, far = (np.array([value, 30.0, 5.0], dtype=np.float32) for value in (3.0, 3.1))
    assert not POINTS.are_far_from(near)
    assert POINTS.are_far_from(far)
