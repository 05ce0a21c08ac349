"""The trainer of a test function: its noise, its clock, and invalid values."""

import numpy as np
import pytest

from fmnas.platform.problems import problem
from fmnas.search_spaces import Real, Space, Trial
from fmnas.trainers import TrainerError
from fmnas.trainers.functions.synthetic import FunctionTrainer

SPACE = Space([Real("x", 0.0, 1.0)])


def trial(seed: int = 0) -> Trial:
    return Trial(0, {"x": 0.25}, epochs=3, origin="random", seed=seed)


def test_without_noise_the_objective_is_the_value() -> None:
    ticks = iter([1.0, 4.0])
    evaluation = FunctionTrainer(SPACE, lambda c: 4 * c["x"], clock=lambda: next(ticks)).evaluate(trial())
    assert (evaluation.objective, evaluation.epochs, evaluation.errors, evaluation.curve) == (1.0, 3, (), ())
    assert (evaluation.flops, evaluation.diverged, evaluation.error) == (None, False, None)
    assert evaluation.seconds == 3.0


def test_noise_is_one_sided_uniform_and_fixed_by_the_seed() -> None:
    trainer = FunctionTrainer(SPACE, lambda c: 0.0, noise=2.0)
    draws = np.array([trainer.evaluate(trial(seed)).objective for seed in range(400)])
    assert draws.min() >= 0.0
    assert draws.max() < 2.0
    assert draws.mean() == pytest.approx(1.0, abs=0.12)
    assert draws.std() == pytest.approx(2 / np.sqrt(12), abs=0.06)
    assert len(set(draws)) == 400
    assert trainer.evaluate(trial(7)).objective == draws[7]


@pytest.mark.parametrize("name", ["func2c", "func3c", "ackley5c", "ackley53c", "ackley53c_gebo"])
def test_noise_is_that_of_the_published_code(name: str) -> None:
    assert problem(name).trainer.noise == (1e-6 / 3 if name == "ackley53c_gebo" else 1e-6)


@pytest.mark.parametrize("noise", [-1.0, float("nan"), float("inf")])
def test_invalid_noise_is_refused(noise: float) -> None:
    with pytest.raises(TrainerError, match="noise = "):
        FunctionTrainer(SPACE, lambda c: 0.0, noise=noise)


def test_a_value_that_is_not_finite_is_named() -> None:
    with pytest.raises(TrainerError, match=r"trial 0: .*nan.*\{'x': 0.25\}"):
        FunctionTrainer(SPACE, lambda c: float("nan")).evaluate(trial())
