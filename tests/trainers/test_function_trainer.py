"""The trainer of a function: its noise, and functions that give no number."""

import numpy as np
import pytest

from fmnas.search_spaces import Real, Space, Trial
from fmnas.trainers import Problem, TrainerError
from fmnas.trainers.functions.synthetic import (
    ACKLEY5C,
    ACKLEY53C,
    ACKLEY53C_GEBO,
    FUNC2C,
    FUNC3C,
    FunctionTrainer,
)

SPACE = Space([Real("x", 0.0, 1.0)])


def trial(seed: int = 0) -> Trial:
    return Trial(0, {"x": 0.25}, epochs=3, origin="random", seed=seed)


def test_without_noise_which_is_the_default_the_objective_is_the_value() -> None:
    evaluation = FunctionTrainer(SPACE, lambda c: 4 * c["x"]).evaluate(trial())
    assert (evaluation.objective, evaluation.epochs, evaluation.errors, evaluation.curve) == (1.0, 3, (), ())
    assert (evaluation.flops, evaluation.diverged, evaluation.error) == (None, False, None)


def test_noise_is_one_sided_uniform_and_fixed_by_the_seed() -> None:
    trainer = FunctionTrainer(SPACE, lambda c: 0.0, noise=2.0)
    draws = np.array([trainer.evaluate(trial(seed)).objective for seed in range(400)])
    assert draws.min() >= 0.0
    assert draws.max() < 2.0
    assert draws.mean() == pytest.approx(1.0, abs=0.12)
    assert draws.std() == pytest.approx(2 / np.sqrt(12), abs=0.06)
    assert len(set(draws)) == 400
    assert trainer.evaluate(trial(7)).objective == draws[7]


@pytest.mark.parametrize(
    ("problem", "width"),
    [(FUNC2C, 1e-6), (FUNC3C, 1e-6), (ACKLEY5C, 1e-6), (ACKLEY53C, 1e-6), (ACKLEY53C_GEBO, 1e-6 / 3)],
)
def test_noise_is_that_of_the_published_code_where_there_is_some(problem: Problem, width: float) -> None:
    assert isinstance(problem.trainer, FunctionTrainer)
    assert problem.trainer.noise == width


@pytest.mark.parametrize("noise", [-1.0, float("nan"), float("inf")])
def test_noise_that_cannot_be(noise: float) -> None:
    with pytest.raises(TrainerError, match=r"noise = .*at least 0"):
        FunctionTrainer(SPACE, lambda c: 0.0, noise=noise)


def test_a_function_that_gives_no_number_is_named() -> None:
    trainer = FunctionTrainer(SPACE, lambda c: float("nan"))
    with pytest.raises(TrainerError, match=r"trial 0: the function is nan at \{'x': 0.25\}"):
        trainer.evaluate(trial())


def test_seconds_are_those_of_the_clock() -> None:
    ticks = iter([1.0, 4.0])
    assert FunctionTrainer(SPACE, lambda c: 0.0, clock=lambda: next(ticks)).evaluate(trial()).seconds == 3.0
