"""Distances to recorded trainings: in standard deviations, to the nearest that is allowed."""

import numpy as np
import pytest
import surrogate as fitting
from surrogate_distance import Recordings


def test_a_distance_is_a_root_mean_square_of_standard_deviations() -> None:
    recordings = Recordings(np.array([[0.0, 10.0, 5.0], [2.0, 30.0, 5.0]]))  # the third feature never varies
    points = np.array([[0.0, 10.0, 7.0], [3.0, 30.0, 5.0]])
    assert recordings.distances(points, [np.array([True, True])] * 2) == pytest.approx([0.0, np.sqrt(1 / 3)])


def test_what_is_not_allowed_is_not_the_nearest() -> None:
    recordings = Recordings(np.array([[0.0], [2.0], [4.0]]))
    unit = np.std([0, 2, 4])
    assert recordings.distances(np.array([[0.5]]), [np.array([False, False, True])]) == pytest.approx([3.5 / unit])


def test_a_group_is_in_one_part() -> None:
    groups = np.repeat(np.arange(50), 3)
    parts = fitting.divide(groups).reshape(50, 3)
    assert (parts == parts[:, :1]).all()
    assert set(parts[:, 0]) == set(range(fitting.PARTS))
