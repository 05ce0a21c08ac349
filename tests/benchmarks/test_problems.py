"""Data and problems of the benchmarks: the points of the joint space, functions of the suite, the additive share."""

from collections.abc import Callable

import numpy as np
import pytest
import scales
import suite_functions
from suggestion import JOINT_POINTS, dataset

from fmnas.search_spaces import Nominal, Real, Space, joint_space

SPACE = Space([Real("x", 0.0, 1.0), Nominal("a", [0, 1, 2]), Nominal("b", [0, 1, 2])])


def test_the_joint_points_are_200_different_ones_of_the_joint_space() -> None:
    configurations, y = dataset(joint_space(), 1000, JOINT_POINTS)
    X = joint_space().encode_all(configurations)
    assert len(np.unique(X, axis=0)) == len(y) == 200
    assert joint_space().feasible(X).all()
    assert min(y) > 0


@pytest.mark.parametrize(
    ("function", "at", "minimum"),
    [
        (suite_functions.of_levy, 1.0, 0.0),
        (suite_functions.of_styblinski_tang, -2.903534, -6 * 39.166166),
        (suite_functions.of_rosenbrock, 1.0, 0.0),
        (suite_functions.of_rastrigin, 0.0, 0.0),
        (suite_functions.of_griewank, 0.0, 0.0),
    ],
)
def test_functions_have_their_minimum_where_it_is_published(
    function: Callable[[np.ndarray], float], at: float, minimum: float
) -> None:
    best = np.full(6, at)
    assert function(best) == pytest.approx(minimum, abs=1e-4)
    rng = np.random.default_rng(0)
    nearby = [best + rng.normal(0, scale, 6) for scale in (1e-3, 0.1, 1.0, 5.0) for _ in range(50)]
    assert min(map(function, nearby)) > function(best)


def test_a_sum_is_all_additive_and_pure_interaction_is_not() -> None:
    X = scales.points(SPACE, 4000, np.random.default_rng(0))
    a, b = X[:, 1] - 1.0, X[:, 2] - 1.0
    assert scales.additive_share(SPACE, X, a**2 - 3 * b) == pytest.approx(1.0, abs=1e-6)
    assert scales.additive_share(SPACE, X, X[:, 0]) == pytest.approx(1.0, abs=2e-3)  # 32 steps for a slope
    assert scales.additive_share(SPACE, X, a * b) == pytest.approx(0.0, abs=0.02)
    assert scales.additive_share(SPACE, X, a + a * b) == pytest.approx(0.6, abs=0.03)  # variances 2/3 and 4/9
