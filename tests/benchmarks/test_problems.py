"""Data and problems of the benchmarks: the points of the joint space, the mixed functions, the additive share."""

import itertools

import numpy as np
import pytest
import sample_efficiency
import scales
from suggestion import JOINT_POINTS, dataset

from fmnas.search_spaces import Nominal, Real, Space, Trial, joint_space

SPACE = Space([Real("x", 0.0, 1.0), Nominal("a", [0, 1, 2]), Nominal("b", [0, 1, 2])])


def test_the_joint_points_are_200_different_ones_of_the_joint_space() -> None:
    configurations, y = dataset(joint_space(), 1000, JOINT_POINTS)
    X = joint_space().encode_all(configurations)
    assert len(np.unique(X, axis=0)) == len(y) == 200
    assert joint_space().feasible(X).all()
    assert min(y) > 0


@pytest.mark.parametrize(
    ("name", "at", "minimum"),
    [
        ("levy", 1.0, 0.0),
        ("styblinski_tang", -2.903534, -2 * 39.166166 - 4 * 39),
        ("rosenbrock", 1.0, 0.0),
        ("rastrigin", 0.0, 0.0),
    ],
)
def test_each_mixed_function_has_its_minimum_at_one_combination_of_values(name: str, at: float, minimum: float) -> None:
    problem = sample_efficiency.problem_of(f"mixed_{name}")
    nominal = {variable.name: variable.vertices for variable in problem.space.discrete if isinstance(variable, Nominal)}
    real = {variable.name: at for variable in problem.space.continuous}
    configurations = [{**real, **dict(zip(nominal, c, strict=True))} for c in itertools.product(*nominal.values())]
    values = [problem.trainer.evaluate(Trial(0, c, 1, "random")).objective for c in configurations]
    assert min(values) == pytest.approx(minimum, abs=1e-4)
    assert values.count(min(values)) == 1


def test_a_sum_is_all_additive_and_pure_interaction_is_not() -> None:
    X = scales.points(SPACE, 4000, np.random.default_rng(0))
    a, b = X[:, 1] - 1.0, X[:, 2] - 1.0
    assert scales.additive_share(SPACE, X, a**2 - 3 * b) == pytest.approx(1.0, abs=1e-6)
    assert scales.additive_share(SPACE, X, X[:, 0]) == pytest.approx(1.0, abs=2e-3)  # 32 steps for a slope
    assert scales.additive_share(SPACE, X, a * b) == pytest.approx(0.0, abs=0.02)
    assert scales.additive_share(SPACE, X, a + a * b) == pytest.approx(0.6, abs=0.03)  # variances 2/3 and 4/9
