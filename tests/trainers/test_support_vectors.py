"""The support vector regression: splits, the objective against scikit-learn's pipeline, known values."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import root_mean_squared_error
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import NuSVR

from fmnas.search_spaces import Configuration, Nominal, Real, Trial
from fmnas.trainers.tables.support_vectors import NUSVR_DIABETES, SPACE, rmse
from fmnas.trainers.tables.tables import Table, sklearn_table, splits

TABLE = sklearn_table("diabetes")
LINEAR: Configuration = {
    "kernel": "linear",
    "gamma": "scale",
    "shrinking": True,
    "C": 10.0,
    "tolerance": 1.0,
    "nu": 0.5,
}


def objective(configuration: Configuration, table: Table = TABLE) -> float:
    return rmse(table, configuration)


def test_the_space() -> None:
    assert [type(v) for v in SPACE.variables] == [Nominal] * 3 + [Real] * 3
    assert [len(v.vertices) for v in SPACE.discrete] == [4, 2, 2]
    assert [(v.low, v.high, v.log) for v in SPACE.continuous] == [(1e-4, 10, True), (1e-6, 1, True), (1e-6, 1, True)]


@given(count=st.integers(2, 600), split=st.integers(0, 4))
def test_a_split_is_a_partition_of_fixed_sizes(count: int, split: int) -> None:
    train, test = list(splits(count))[split]
    assert len(train) == int(0.7 * count)
    assert sorted([*train, *test]) == list(range(count))


def test_splits_follow_the_published_seeds() -> None:
    assert [len(part) for part in next(splits(506))] == [354, 152]
    for split, seed in zip(splits(442), (0, 1, 4, 9, 16), strict=True):
        order = np.arange(442)
        np.random.RandomState(seed).shuffle(order)
        assert np.array_equal(np.concatenate(split), order)


@given(seed=st.integers(0, 10**6))
@settings(max_examples=10)
def test_the_objective_is_that_of_a_pipeline(seed: int) -> None:
    configuration = SPACE.sample(np.random.default_rng(seed))
    parameters = {"tol" if name == "tolerance" else name: value for name, value in configuration.items()}
    errors = []
    for train, test in splits(442):
        model = make_pipeline(StandardScaler(), NuSVR(**parameters)).fit(TABLE.features[train], TABLE.targets[train])
        errors.append(root_mean_squared_error(TABLE.targets[test], model.predict(TABLE.features[test])))
    assert objective(configuration) == pytest.approx(np.mean(errors), rel=1e-12)


def test_known_values() -> None:
    assert objective(LINEAR) == pytest.approx(54.27, abs=0.02)
    assert objective({**LINEAR, "kernel": "rbf"}) == pytest.approx(58.76, abs=0.02)


def test_the_seed_has_no_effect() -> None:
    trials = [Trial(i, LINEAR, epochs, "random", seed=i) for i, epochs in enumerate((1, 3))]
    one, other = (NUSVR_DIABETES.trainer.evaluate(trial) for trial in trials)
    assert one.objective == other.objective
    assert (other.epochs, other.errors, other.curve) == (3, (), ())
