"""The authors' initial points, compared with points written by their code."""

import math

import pytest

from fmnas.search_spaces import joint_space
from fmnas.trainers import SYNTHETIC_PROBLEMS, TrainerError, authors_initial_design

# problem, seed, number of the point, coordinates in the authors' order
POINTS = [
    ("func2c", 0, 0, [-0.027905354, 0.061928328, 1, 4]),
    ("func2c", 4, 9, [-0.063484624, 0.233220294, 0, 2]),
    ("func3c", 0, 9, [0.593418598, -0.515418708, 0, 4, 3]),
    ("func3c", 4, 0, [-0.845703781, 0.642889857, 1, 3, 2]),
    ("ackley5c", 0, 0, [-0.027905354, 11, 13, 4, 1, 0]),
    ("ackley5c", 4, 9, [-0.063484624, 10, 0, 1, 14, 11]),
]
# log learning rate, momentum, log weight decay, gamma, r1, r2; vertex numbers of op1..op8, in2, in3, in4, output
JOINT_POINTS = [
    (
        (0, 0),
        [-4.6694245, 0.9061928, -11.4358196, 0.5229534, 0.1474198, 0.232514],
        [5, 4, 7, 2, 3, 5, 4, 4, 2, 5, 2, 0],
    ),
    (
        (4, 9),
        [-4.751349, 0.923322, -7.2442083, 0.2386807, 0.9706386, 0.2040646],
        [1, 5, 6, 6, 7, 5, 7, 6, 1, 4, 4, 2],
    ),
]
BEST = {
    "func2c": [0.2925, 0.1245, 0.1441, 0.0670, -0.0762],
    "func3c": [0.3096, 0.2271, 0.2293, 0.9468, 0.4167],
    "ackley5c": [3.3618, 3.0934, 3.0125, 3.3777, 3.1330],
}


@pytest.mark.parametrize(("problem", "seed", "number", "expected"), POINTS)
def test_points_of_the_synthetic_problems(problem: str, seed: int, number: int, expected: list[float]) -> None:
    configuration = authors_initial_design(problem, seed)[number]
    assert list(configuration.values()) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(("where", "continuous", "vertices"), JOINT_POINTS)
def test_points_of_the_joint_problem(where: tuple[int, int], continuous: list[float], vertices: list[int]) -> None:
    configuration = authors_initial_design("joint", where[0])[where[1]]
    values = [configuration[v.name] for v in joint_space().continuous]
    values[0], values[2] = math.log(values[0]), math.log(values[2])
    assert values == pytest.approx(continuous, abs=1e-6)
    assert [v.index(configuration[v.name]) for v in joint_space().discrete] == vertices


@pytest.mark.parametrize("problem", BEST)
def test_the_best_of_ten_is_the_one_that_was_published(problem: str) -> None:
    function = SYNTHETIC_PROBLEMS[problem].function
    best = [min(function(c) for c in authors_initial_design(problem, seed)) for seed in range(5)]
    assert best == pytest.approx(BEST[problem], abs=5.1e-5)


@pytest.mark.parametrize("problem", ["joint", "func2c", "func3c", "ackley5c"])
def test_all_points_lie_in_the_space_and_shorter_lists_are_beginnings(problem: str) -> None:
    space = joint_space() if problem == "joint" else SYNTHETIC_PROBLEMS[problem].space
    design = authors_initial_design(problem, 11, count=200)
    for configuration in design:
        space.validate(configuration)
        assert tuple(configuration) == space.names
    assert authors_initial_design(problem, 11) == design[:10]
    assert authors_initial_design(problem, 12) != design[:10]


def test_what_is_not_known() -> None:
    with pytest.raises(TrainerError, match="'ackley53c': the authors' initial design is known for"):
        authors_initial_design("ackley53c", 0)
    with pytest.raises(TrainerError, match="count = 0"):
        authors_initial_design("func2c", 0, count=0)
