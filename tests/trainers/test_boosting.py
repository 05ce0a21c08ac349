"""Boosted trees: rounds as epochs, and the objective against xgboost's classifier."""

from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec

import numpy as np
import pytest

from fmnas.search_spaces import Evaluation, Trial, errors
from fmnas.trainers import TrainerError
from fmnas.trainers.problem import DataSettings, ProblemSettings
from fmnas.trainers.split import Split
from fmnas.trainers.tables.boosting import (
    DIGITS_SPACE,
    FASHION_MNIST_SPACE,
    XGB_DIGITS,
    BoostingTrainer,
    xgb_fashion_mnist,
)
from fmnas.trainers.tables.tables import digits_table

needs_xgboost = pytest.mark.skipif(
    find_spec("xgboost") is None, reason="xgboost is not installed: pip install xgboost-cpu"
)
BASE = {"booster": "gbtree", "grow_policy": "depthwise", "loss": "multi:softmax", "learning_rate": 0.3}
BASE |= {"max_depth": 4, "min_split_loss": 0.01, "subsample": 0.5, "reg_lambda": 1.0}


@pytest.fixture(scope="module")
def few() -> Split:
    """300 + 200 digits."""
    table = digits_table()
    parts = (table.train_inputs[:300], table.train_labels[:300])
    return Split(*parts, table.held_out_inputs[:200], table.held_out_labels[:200], "digits", "a test")


def trial(epochs: int, seed: int = 0, **values: object) -> Trial:
    return Trial(0, {**BASE, **values}, epochs, "random", seed=seed)


def evaluate(split: Split, chosen: Trial, best_round: bool = False, threads: int = 1) -> Evaluation:
    return BoostingTrainer(DIGITS_SPACE, split, best_round, threads, clock=lambda: 0.0).evaluate(chosen)


def test_spaces() -> None:
    bounds = {v.name: (v.low, v.high, v.log) for v in FASHION_MNIST_SPACE.continuous}
    assert bounds == {
        "learning_rate": (1e-6, 1.0, True),
        "min_split_loss": (1e-4, 10.0, True),
        "subsample": (1e-3, 1.0, True),
        "reg_lambda": (0.0, 5.0, False),
    }
    assert [v.name for v in DIGITS_SPACE.continuous if v.log] == ["learning_rate"]
    for space in (FASHION_MNIST_SPACE, DIGITS_SPACE):
        assert sorted(space.names) == sorted(BASE)
        assert sorted(type(v).__name__ for v in space.variables) == ["Integer"] + ["Nominal"] * 3 + ["Real"] * 4
    settings = ProblemSettings(DataSettings(train=100, validation=50))
    assert (xgb_fashion_mnist(settings).epochs, XGB_DIGITS.epochs) == (50, 100)


@needs_xgboost
@pytest.mark.parametrize("values", [{}, {"booster": "dart"}, {"grow_policy": "lossguide", "loss": "multi:softprob"}])
def test_the_error_is_that_of_xgboosts_classifier(few: Split, values: dict[str, object]) -> None:
    from xgboost import XGBClassifier

    evaluation = evaluate(few, trial(6, **values))
    theirs = {"objective" if name == "loss" else name: value for name, value in {**BASE, **values}.items()}
    model = XGBClassifier(n_estimators=6, n_jobs=1, base_score=0.5, **theirs)
    model.fit(few.train_inputs, few.train_labels)
    error = np.mean(model.predict(few.held_out_inputs) != few.held_out_labels)
    assert evaluation.objective == pytest.approx(error, abs=1e-9)
    assert evaluation.errors == (evaluation.objective,)
    assert 0 < evaluation.objective < 0.5


@needs_xgboost
def test_a_short_training_is_the_beginning_of_a_long_one(few: Split) -> None:
    assert evaluate(few, trial(5, learning_rate=1e-5)).objective < 0.5, "a small learning rate still learns"
    long, short = (evaluate(few, trial(epochs)) for epochs in (12, 5))
    assert len(long.curve) == long.epochs == 12
    assert short.curve == long.curve[:5]
    assert len(set(long.curve)) > 1


@needs_xgboost
def test_the_best_round_counts_or_the_last(few: Split) -> None:
    noisy = {"learning_rate": 1.0, "subsample": 0.05}
    curve = evaluate(few, trial(20, **noisy)).curve
    worse = next(epochs for epochs in range(2, 20) if curve[epochs - 1] > min(curve[:epochs]))
    last, best = (evaluate(few, trial(worse, **noisy), best_round) for best_round in (False, True))
    assert last.curve == best.curve
    assert last.objective == last.curve[-1] == best.errors[0]
    assert best.objective == min(best.curve) < last.objective


@needs_xgboost
def test_read_only_arrays_and_several_threads_and_seeds_make_no_difference(few: Split) -> None:
    read_only = replace(few, train_inputs=few.train_inputs.copy())
    read_only.train_inputs.flags.writeable = False
    assert evaluate(read_only, trial(3), threads=2) == evaluate(few, trial(3, seed=1), threads=2)


def test_the_error_without_xgboost_says_how_to_install_it(few: Split, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> object:
        if name == "xgboost":
            raise ModuleNotFoundError(name, name=name)
        return import_module(name)

    monkeypatch.setattr(errors, "import_module", missing)
    with pytest.raises(TrainerError, match="pip install xgboost-cpu"):
        BoostingTrainer(DIGITS_SPACE, few, best_round=False)
