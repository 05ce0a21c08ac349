"""The contract of every trainer."""

import json
import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from fmnas.platform.problems import PROBLEMS
from fmnas.search_spaces import Evaluation, Space, SpaceError, Trial
from fmnas.trainers import EvaluationStoppedError, Problem, TrainerError
from fmnas.trainers.functions.synthetic import FunctionTrainer
from fmnas.trainers.images.image_trainer import ImageTrainer
from fmnas.trainers.images.image_trainer import TrainingSettings as Settings
from fmnas.trainers.problem import Hardware
from fmnas.trainers.split import Split
from fmnas.trainers.surrogate.problem import JOINT_RECORDED, SurrogateTrainer
from fmnas.trainers.tables.boosting import DIGITS_SPACE, FASHION_MNIST_SPACE, BoostingTrainer
from fmnas.trainers.tables.decision_trees import DT_WINE, mean_error
from fmnas.trainers.tables.support_vectors import NUSVR_DIABETES, rmse
from fmnas.trainers.tables.tables import digits_table, sklearn_table

AnyTrainer = ImageTrainer | FunctionTrainer | BoostingTrainer | SurrogateTrainer
BOOSTING = {"boosting, last round": (DIGITS_SPACE, False), "boosting, best round": (FASHION_MNIST_SPACE, True)}
SYNTHETIC = {
    name: row.target for name, row in PROBLEMS.items() if isinstance(row.target, Problem) and row.target.function
}
FITS = {
    "support vectors": (NUSVR_DIABETES.space, partial(rmse, sklearn_table("diabetes"))),
    "a decision tree": (DT_WINE.space, partial(mean_error, sklearn_table("wine"))),
}
NAMES = ("images", "a surrogate", *FITS, *BOOSTING, *SYNTHETIC)


@pytest.fixture(params=NAMES)
def make(request: pytest.FixtureRequest, noise_split: Split) -> Callable[[], AnyTrainer]:
    """Makes a trainer of each kind, with a constant clock."""
    if request.param == "images":
        return lambda: ImageTrainer(noise_split, Settings(seeds=2, batch_size=12), clock=lambda: 0.0)
    if request.param == "a surrogate":
        return lambda: JOINT_RECORDED.build(JOINT_RECORDED.load(), Hardware())
    if request.param in FITS:
        return lambda: FunctionTrainer(*FITS[request.param], clock=lambda: 0.0)
    if request.param in BOOSTING:
        pytest.importorskip("xgboost", reason="xgboost is not installed: pip install xgboost-cpu")
        space, best_round = BOOSTING[request.param]
        return lambda: BoostingTrainer(space, digits_table(), best_round, clock=lambda: 0.0)
    problem = SYNTHETIC[request.param]
    assert problem.function is not None
    return lambda: FunctionTrainer(problem.space, problem.function, noise=1e-6, clock=lambda: 0.0)


def sample(space: Space, number: int, epochs: int = 2) -> Trial:
    configuration = space.sample(np.random.default_rng(number))
    return Trial(number, configuration, epochs, "random", seed=number + 100)


def test_an_evaluation_is_plain_finite_and_counts_its_epochs(make: Callable[[], AnyTrainer]) -> None:
    trainer = make()
    for number, epochs in ((0, 1), (1, 3)):
        trial = sample(trainer.space, number, epochs)
        before = json.dumps(trial.to_dict())
        evaluation = trainer.evaluate(trial)
        assert np.isfinite(evaluation.objective)
        assert type(evaluation.objective) is float
        assert evaluation.epochs == epochs
        assert len(evaluation.curve) in (0, epochs)
        assert Evaluation.from_dict(json.loads(json.dumps(evaluation.to_dict()))) == evaluation
        assert json.dumps(trial.to_dict()) == before


def test_it_is_a_function_of_the_trial(make: Callable[[], AnyTrainer]) -> None:
    trainer = make()
    trials = [sample(trainer.space, number) for number in range(2)]
    first = [trainer.evaluate(trial) for trial in trials]
    other = make()
    assert [other.evaluate(trial) for trial in reversed(trials)] == first[::-1]
    renamed = replace(trials[0], id=77, origin="model", parent=3)
    assert trainer.evaluate(renamed) == first[0], "only configuration, epochs and seed count"


def test_every_epoch_is_reported_without_an_effect(make: Callable[[], AnyTrainer]) -> None:
    trainer, epochs = make(), dict[int, list[int]]()
    trial = sample(trainer.space, 0, 3)
    evaluation = trainer.evaluate(trial, lambda n, epoch, error: epochs.setdefault(n, []).append(epoch), lambda: False)
    assert evaluation == make().evaluate(trial)
    assert epochs == {number: [1, 2, 3] for number in range(len(evaluation.errors) if evaluation.curve else 0)}


def test_a_cancelled_evaluation_has_no_result(make: Callable[[], AnyTrainer]) -> None:
    trainer = make()
    trial = sample(trainer.space, 0, 3)
    evaluation = trainer.evaluate(trial)
    if evaluation.curve:
        with pytest.raises(EvaluationStoppedError):
            trainer.evaluate(trial, stop=lambda: True)
        assert trainer.evaluate(trial) == evaluation, "the trainer is usable"
    else:
        assert trainer.evaluate(trial, stop=lambda: True) == evaluation, "a single call cannot be cancelled"


def test_global_random_states_do_not_change(make: Callable[[], AnyTrainer]) -> None:
    trainer = make()
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    states = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
    trainer.evaluate(sample(trainer.space, 0))
    assert (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()) == states


def test_invalid_trials_are_refused(make: Callable[[], AnyTrainer]) -> None:
    trainer = make()
    good = sample(trainer.space, 0)
    name = trainer.space.names[-1]
    for configuration, key in (({**good.configuration, name: "nonsense"}, name), ({}, "missing")):
        with pytest.raises(SpaceError, match=key):
            trainer.evaluate(replace(good, configuration=configuration))
    for field, value in (("epochs", 0), ("seed", -1)):
        with pytest.raises(TrainerError, match=f"trial 0: {field} = {value}"):
            trainer.evaluate(replace(good, **{field: value}))
