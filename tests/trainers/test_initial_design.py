"""The authors' initial designs, compared with points from their code."""

import math
from typing import Any

import pytest

from fmnas.platform.problems import PROBLEMS, problem
from fmnas.search_spaces import joint_space
from fmnas.trainers.problem import authors_points

KNOWN = ["joint", "func2c", "func3c", "ackley5c", "svm_boston", "xgb_fashion_mnist"]
# problem, seed, number of the point, coordinates in the authors' order
POINTS = [
    ("func2c", 0, 0, [-0.027905354, 0.061928328, 1, 4]),
    ("func2c", 4, 9, [-0.063484624, 0.233220294, 0, 2]),
    ("func3c", 0, 9, [0.593418598, -0.515418708, 0, 4, 3]),
    ("func3c", 4, 0, [-0.845703781, 0.642889857, 1, 3, 2]),
    ("ackley5c", 0, 0, [-0.027905354, 11, 13, 4, 1, 0]),
    ("ackley5c", 4, 9, [-0.063484624, 10, 0, 1, 14, 11]),
]
# seed, number of the point; log learning rate, momentum, log weight decay, gamma, r1, r2; vertex numbers
JOINT_POINTS = [
    (0, 0, [-4.6694245, 0.9061928, -11.4358196, 0.5229534, 0.1474198, 0.232514], [5, 4, 7, 2, 3, 5, 4, 4, 2, 5, 2, 0]),
    (4, 9, [-4.751349, 0.923322, -7.2442083, 0.2386807, 0.9706386, 0.2040646], [1, 5, 6, 6, 7, 5, 7, 6, 1, 4, 4, 2]),
]
# problem, seed, number of the point; coordinates in the authors' order, logarithms to base 10 of the log-scaled ones
GBTREE, DART = ("gbtree", "lossguide", "multi:softprob"), ("dart", "lossguide", "multi:softmax")
TABLE_POINTS = [
    ("svm_boston", 0, 0, [-1.5697634, -2.8142149, -4.44977, "linear", "auto", False]),
    ("svm_boston", 4, 9, [-1.6587116, -2.3003392, -1.7191796, "rbf", "auto", True]),
    ("xgb_fashion_mnist", 0, 0, [-3.0837162, -1.3451792, -2.224885, 2.6434586, 2, *DART]),
    ("xgb_fashion_mnist", 4, 9, [-3.1904538, -0.9169493, -0.8595898, 0.8667542, 9, *GBTREE]),
]
XGBOOST = ("learning_rate", "min_split_loss", "subsample", "reg_lambda", "max_depth", "booster", "grow_policy", "loss")
AUTHORS_ORDER = {"svm_boston": ("C", "tolerance", "nu", "kernel", "gamma", "shrinking"), "xgb_fashion_mnist": XGBOOST}
BEST = {
    "func2c": [0.2925, 0.1245, 0.1441, 0.0670, -0.0762],
    "func3c": [0.3096, 0.2271, 0.2293, 0.9468, 0.4167],
    "ackley5c": [3.3618, 3.0934, 3.0125, 3.3777, 3.1330],
}


@pytest.mark.parametrize(("name", "seed", "number", "expected"), POINTS)
def test_points_of_the_synthetic_problems(name: str, seed: int, number: int, expected: list[float]) -> None:
    configuration = authors_points(problem(name).space, seed)[number]
    assert list(configuration.values()) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(("name", "seed", "number", "expected"), TABLE_POINTS)
def test_points_of_the_problems_with_a_table(name: str, seed: int, number: int, expected: list[Any]) -> None:
    space = problem(name).space
    configuration, logs = authors_points(space, seed)[number], {v.name for v in space.continuous if v.log}
    values = [math.log10(float(configuration[n])) if n in logs else configuration[n] for n in AUTHORS_ORDER[name]]
    reals = len(space.continuous)
    assert values[:reals] == pytest.approx(expected[:reals], abs=1e-6)
    assert values[reals:] == expected[reals:]


@pytest.mark.parametrize(("seed", "number", "reals", "vertices"), JOINT_POINTS)
def test_points_of_the_joint_problem(seed: int, number: int, reals: list[float], vertices: list[int]) -> None:
    configuration = authors_points(joint_space(), seed)[number]
    values = [configuration[v.name] for v in joint_space().continuous]
    values[0], values[2] = math.log(values[0]), math.log(values[2])
    assert values == pytest.approx(reals, abs=1e-6)
    assert [v.index(configuration[v.name]) for v in joint_space().discrete] == vertices


@pytest.mark.parametrize("name", BEST)
def test_the_best_of_ten_is_the_one_that_was_published(name: str) -> None:
    function = problem(name).function
    assert function is not None
    best = [min(function(c) for c in authors_points(problem(name).space, seed)) for seed in range(5)]
    assert best == pytest.approx(BEST[name], abs=5.1e-5)


@pytest.mark.parametrize("name", KNOWN)
def test_points_are_in_the_space_and_shorter_lists_are_prefixes(name: str) -> None:
    space = problem(name).space
    design = authors_points(space, 11, count=50)
    for configuration in design:
        space.validate(configuration)
        assert tuple(configuration) == space.names
    assert authors_points(space, 11) == design[:10]
    assert authors_points(space, 12) != design[:10]


def test_they_are_known_for_the_papers_six_problems() -> None:
    surrogate_of_the_first = "joint_recorded"
    assert {name for name in PROBLEMS if problem(name).has_authors_points} == {*KNOWN, surrogate_of_the_first}
