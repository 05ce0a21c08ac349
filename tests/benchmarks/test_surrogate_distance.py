"""Distances of recorded trainings to the others."""

import numpy as np
from surrogate_accuracy import PARTS, divide
from surrogate_data import Observation
from surrogate_models import FAR, arrange, measure_flops, place_points

from fmnas.search_spaces import joint_space
from fmnas.trainers.surrogate.features import Features


def test_the_limit_is_of_distances_to_what_is_another_training() -> None:
    """Each training is there twice, so each would be its own nearest."""
    configurations = [joint_space().sample(np.random.default_rng(seed)) for seed in range(20)]
    observations = [
        Observation(configuration, 3, 3, (0.1, 0.2), 0.1, 1.0, group, "random")
        for group, configuration in enumerate(configurations)
        for _ in range(2)
    ]
    recorded = arrange(observations, Features(measure_flops(), 3))
    points = place_points(recorded)
    distances = np.array([points.distances(x) for x in recorded.X])
    other_groups = recorded.groups[:, None] != recorded.groups
    nearest = np.where(other_groups, distances, np.inf).min(axis=1)
    assert points.limit > 0
    assert np.mean(nearest <= points.limit) >= FAR > np.mean(nearest < 0.9 * points.limit)


def test_a_group_is_in_one_part() -> None:
    groups = np.repeat(np.arange(50), 3)
    parts = divide(groups).reshape(50, 3)
    assert (parts == parts[:, :1]).all()
    assert set(parts[:, 0]) == set(range(PARTS))
