"""What every trainer keeps, whatever it trains."""

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
from fmnas.trainers.split import Split
from fmnas.trainers.tables.boosting import DIGITS_SPACE, FASHION_MNIST_SPACE, BoostingTrainer
from fmnas.trainers.tables.decision_trees import DT_WINE, mean_error
from fmnas.trainers.tables.support_vectors import NUSVR_DIABETES, rmse
from fmnas.trainers.tables.tables import diabetes_table, digits_table, wine_table

AnyTrainer = ImageTrainer | FunctionTrainer | BoostingTrainer
BOOSTING = {"boosting, last round": (DIGITS_SPACE, False), "boosting, best round": (FASHION_MNIST_SPACE, True)}
SYNTHETIC = {
    name: row.target for name, row in PROBLEMS.items() if isinstance(row.target, Problem) and row.target.function
}
FITS = {
    "support vectors": (NUSVR_DIABETES.space, partial(rmse, diabetes_table())),
    "a decision tree": (DT_WINE.space, partial(mean_error, wine_table())),
}
NAMES = ("images", *FITS, *BOOSTING, *SYNTHETIC)


@pytest.fixture(params=NAMES)
def make(request: pytest.FixtureRequest, noise_split: Split) -> Callable[[], AnyTrainer]:
    """Makes a trainer of each kind, with a clock that stands still."""
    if request.param == "images":
        return lambda: ImageTrainer(noise_split, Settings(seeds=2, batch_size=12), clock=lambda: 0.0)
    if request.param in FITS:
        return lambda: FunctionTrainer(*FITS[request.param], clock=lambda: 0.0)
    if request.param in BOOSTING:
        pytest.importorskip("xgboost", reason="xgboost is not installed: pip install xgboost-cpu")
        space, best_round = BOOSTING[request.param]
        return lambda: BoostingTrainer(space, digits_table(), best_round, clock=lambda: 0.0)
    problem = SYNTHETIC[request.param]
    assert problem.function is not None
    return lambda: FunctionTrainer(problem.space, problem.function, noise=1e-6, clock=lambda: 0.0)


def sampled(space: Space, number: int, epochs: int = 2) -> Trial:
    configuration = space.sample(np.random.default_rng(number))
    return Trial(number, configuration, epochs, "random", seed=number + 100)


def test_an_evaluation_is_plain_finite_and_counts_its_epochs(make: Callable[[], AnyTrainer]) -> None:
    trainer = make()
    for number, epochs in ((0, 1), (1, 3)):
        trial = sampled(trainer.space, number, epochs)
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
    trials = [sampled(trainer.space, number) for number in range(2)]
    first = [trainer.evaluate(trial) for trial in trials]
    other = make()
    assert [other.evaluate(trial) for trial in reversed(trials)] == first[::-1]
    renamed = replace(trials[0], id=77, origin="model", parent=3)
    assert trainer.evaluate(renamed) == first[0], "only configuration, epochs and seed count"


def test_who_listens_hears_every_epoch_and_changes_nothing(make: Callable[[], AnyTrainer]) -> None:
    trainer, told = make(), dict[int, list[int]]()
    trial = sampled(trainer.space, 0, 3)

    def report(training: int, epochs: int, error: float) -> None:
        told.setdefault(training, []).append(epochs)

    evaluation = trainer.evaluate(trial, report, lambda: False)
    assert evaluation == make().evaluate(trial)
    assert told == {training: [1, 2, 3] for training in range(len(evaluation.errors) if evaluation.curve else 0)}


def test_one_that_is_told_to_stop_gives_no_result(make: Callable[[], AnyTrainer]) -> None:
    trainer = make()
    trial = sampled(trainer.space, 0, 3)
    whole = trainer.evaluate(trial)
    if not whole.curve:
        assert trainer.evaluate(trial, stop=lambda: True) == whole, "one call, with nothing to stop"
        return
    with pytest.raises(EvaluationStoppedError):
        trainer.evaluate(trial, stop=lambda: True)
    assert trainer.evaluate(trial) == whole, "it can go on"


def test_global_random_states_are_left_alone(make: Callable[[], AnyTrainer]) -> None:
    trainer = make()
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    states = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
    trainer.evaluate(sampled(trainer.space, 0))
    assert (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()) == states


def test_what_is_no_trial_is_refused(make: Callable[[], AnyTrainer]) -> None:
    trainer = make()
    good = sampled(trainer.space, 0)
    name = trainer.space.names[-1]
    with pytest.raises(SpaceError, match=name):
        trainer.evaluate(replace(good, configuration={**good.configuration, name: "nonsense"}))
    with pytest.raises(SpaceError, match="missing"):
        trainer.evaluate(replace(good, configuration={}))
    with pytest.raises(TrainerError, match="trial 0: epochs = 0; it must be at least 1"):
        trainer.evaluate(replace(good, epochs=0))
    with pytest.raises(TrainerError, match="trial 0: seed = -1; it must be 0 or more"):
        trainer.evaluate(replace(good, seed=-1))
