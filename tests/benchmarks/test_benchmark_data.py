"""The points of the joint space that come with the benchmarks."""

import json

import numpy as np
from suggestion import JOINT_POINTS, dataset

from fmnas.search_spaces import joint_space


def test_the_joint_points_are_200_of_the_joint_space_and_say_where_they_are_from() -> None:
    configurations, y = dataset(joint_space(), 1000, JOINT_POINTS)
    assert len(configurations) == len(y) == 200
    X = joint_space().encode_all(configurations)
    assert joint_space().feasible(X).all()
    assert len(np.unique(X, axis=0)) == 200
    assert min(y) > 0
    assert "synthetic" in json.loads(JOINT_POINTS.read_text())["note"]
