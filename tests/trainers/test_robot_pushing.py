"""Robot pushing: values of the published code without its noise, the noise, and what is asked of Box2D."""

import math
from typing import Any

import numpy as np
import pytest

from fmnas.search_spaces import Configuration, Trial
from fmnas.trainers.functions import robot_pushing as robots
from fmnas.trainers.functions.robot_pushing import ROBOT_PUSHING, SPACE, decode_pushes, distance_change

QUIET = np.zeros((2, 2))
FIRST = [0, 2, 2, 6, 6, 7, 20, 5, 2, 24, -0.3157, -0.295, 0.7996, 0.8427]
VALUES = [
    (FIRST, 0.9371969675296867, 0.0107),
    ([4, 5, 2, 7, 12, 13, 11, 0, 19, 20, -0.4972, 0.4198, -0.6073, 0.5907], -0.3962366448584218, 0.0064),
    ([9, 3, 0, 2, 5, 9, 15, 17, 9, 19, -0.2543, -0.5299, 0.418, -0.3132], -1.0648970094069155, 0.0092),
    ([10, 4, 5, 7, 11, 2, 8, 15, 22, 25, -0.1343, -0.7313, 0.5415, -0.4268], -0.2656064866347103, 9.5e-6),
    ([4, 5, 5, 3, 12, 13, 8, 14, 15, 20, -0.1374, -0.8047, 0.3539, -0.2948], -0.33851945522797866, 0.0251),
]
"""A point, its value without noise, and the standard deviation of 12 values with noise."""


def point(values: list[Any]) -> Configuration:
    """Return the configuration of h1..h10, x1..x4."""
    return {f"h{j}": h for j, h in enumerate(values[:10], 1)} | {f"x{i}": x for i, x in enumerate(values[10:], 1)}


def test_the_variables_are_decoded_as_published() -> None:
    first, second = decode_pushes(point(FIRST), np.array([[0.5, 0.25], [-0.5, -0.25]]))
    assert (first.place, second.place) == ((-5.0, -3.0), (-3.0, 1.0))
    assert (first.velocity, second.velocity) == ((-3.5, -2.75), (9.5, -5.25))
    assert (first.steps, second.steps) == (40, 260)
    assert (first.angle, second.angle) == pytest.approx((math.pi * 0.6843, math.pi * 0.705))
    assert (first.angular_velocity, second.angular_velocity) == pytest.approx((8.998, 9.2135))


def test_the_space_has_the_published_sizes() -> None:
    assert [len(variable.vertices) for variable in SPACE.discrete] == [11] * 4 + [21] * 4 + [29] * 2
    assert [(real.low, real.high) for real in SPACE.continuous] == [(-1.0, 1.0)] * 4


@pytest.fixture
def needs_box2d() -> None:
    pytest.importorskip("Box2D", reason="box2d is not installed: pip install box2d")


@pytest.mark.usefixtures("needs_box2d")
@pytest.mark.parametrize(("values", "expected", "deviation"), VALUES)
def test_values_of_the_published_code(values: list[Any], expected: float, deviation: float) -> None:
    assert distance_change(point(values), QUIET) == pytest.approx(expected, abs=1e-4)
    noisy = [robots.robot_pushing(point(values), seed) for seed in range(100)]
    assert 0.4 < np.std(noisy) / deviation < 2.5
    assert abs(np.mean(noisy) - expected) < deviation


@pytest.mark.usefixtures("needs_box2d")
def test_robots_that_stay_away_move_nothing() -> None:
    away = [0, 0, 10, 0, 10, 0, 10, 0, 0, 0, -1.0, -1.0, -1.0, -1.0]
    assert distance_change(point(away), QUIET) == 0.0


@pytest.mark.usefixtures("needs_box2d")
def test_the_noise_is_of_the_trials_seed() -> None:
    trainer = ROBOT_PUSHING.trainer
    one, same, other = (trainer.evaluate(Trial(0, point(FIRST), 1, "random", seed=seed)) for seed in (3, 3, 4))
    assert one.objective == same.objective != other.objective


@pytest.mark.usefixtures("needs_box2d")
def test_random_values_are_between_the_bound_and_the_penalty() -> None:
    rng = np.random.default_rng(0)
    values = [robots.robot_pushing(SPACE.sample(rng), seed) for seed in range(100)]
    bound = -sum(map(math.dist, robots.STARTS, robots.GOALS))
    assert bound == pytest.approx(-11.072737127026487)
    assert bound < min(values) < 0.0 < max(values) < (ROBOT_PUSHING.penalty or 0.0)
