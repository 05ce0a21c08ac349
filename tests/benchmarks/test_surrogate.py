"""Fitting the surrogate: scikit-learn's predictions come out of the arrays, and known numbers are found again."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingRegressor
from surrogate_accuracy import predict_repeats, tau_of_best, taus_of_truth
from surrogate_data import Observation, measure_overhead, targets_of
from surrogate_models import MODELS, Recorded, measure_flops, to_trees

from fmnas.search_spaces import joint_space, largest_cell
from fmnas.trainers.images.network import count_flops

SPACE = joint_space()


def observation(errors: tuple[float, ...], length: int = 3, group: int = 0, seconds: float = 1.0) -> Observation:
    configuration = SPACE.sample(np.random.default_rng(group))
    return Observation(configuration, length, length, errors, 0.1, seconds, group, "random")


def test_trees_predict_what_scikit_learn_predicts() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 5)).astype(np.float32)
    y = X[:, 0] * X[:, 1] + rng.normal(size=300)
    fitted = GradientBoostingRegressor(n_estimators=40, max_depth=3, random_state=0).fit(X, y)
    trees = to_trees(fitted)
    points = np.concatenate([X, rng.normal(size=(200, 5)).astype(np.float32)])
    assert [trees.predict(x) for x in points] == pytest.approx(fitted.predict(points).tolist(), abs=1e-12)


def test_flops_are_split_into_operations() -> None:
    costs = measure_flops()
    assert costs.largest == count_flops(largest_cell()) == costs.count(largest_cell())
    assert costs.operations["identity"] == 0


def test_guesses_are_left_out_of_the_error() -> None:
    targets = targets_of([observation((0.1, 0.4, 0.9, 0.9)), observation((0.9,) * 4)], most=3)
    assert targets["error"][0] == pytest.approx(np.log(0.2))
    assert targets["guessing"].tolist() == [0.5, 1.0]
    assert np.isnan(targets["error"][1])
    assert np.isnan(targets["spread"]).all()


def test_the_deviation_of_a_normal_sample_is_not_biased() -> None:
    """Of the logarithm, as that is what is predicted."""
    rng = np.random.default_rng(0)
    errors = np.exp(rng.normal(-2.0, 0.2, (4000, 4)))
    targets = targets_of([observation(tuple(row)) for row in errors.tolist()], most=3)
    assert targets["spread"].mean() == pytest.approx(np.log(0.2), abs=0.03)


def test_overhead_is_what_a_short_trial_takes_longer() -> None:
    """Seconds are 2 x (0.5 + epochs)."""
    pairs = [observation((0.1,), length, group, 2.0 * (0.5 + length)) for group in range(3) for length in (1, 3)]
    assert measure_overhead(pairs, 3) == pytest.approx(0.5)
    assert measure_overhead(pairs[1:2], 3) == 0.0


class Mean:
    """Predicts the mean of what it saw."""

    def __init__(self, target: np.ndarray) -> None:
        self.mean = float(target.mean())

    def predict(self, x: np.ndarray) -> float:
        return self.mean


def test_a_repeat_is_predicted_without_its_configurations() -> None:
    """Repeats 0 and 1 share the first configuration, of group 0; the last observation is of another file."""
    facts = [(0, 0), (1, 0), (0, 1), (2, 1), (3, -1)]
    observations = [replace(observation((0.1,) * 4, group=group), repeat=repeat) for group, repeat in facts]
    targets = {name: np.array([1.0, 2.0, 4.0, 8.0, 16.0]) for name in MODELS}
    recorded = Recorded(
        observations,
        np.zeros((5, 1), dtype=np.float32),
        targets,
        lambda X, kept: {name: Mean(target) for name, target in kept.items()},
    )
    assert predict_repeats(recorded)["error"].tolist() == [12.0, 12.0, 9.0, 9.0, 0.0]


def test_tau_of_the_best_leaves_out_the_rest() -> None:
    truth = np.array([0.1, 0.2, 0.3, 5.0, 4.0])
    predicted = np.array([1.0, 2.0, 3.0, 0.0, 0.5])
    assert tau_of_best(predicted, truth, 3) == 1.0
    assert tau_of_best(predicted, truth, 5) < 0.5


def test_without_noise_the_truth_is_ordered_perfectly() -> None:
    rng = np.random.default_rng(0)
    predicted = {
        "error": np.log(rng.uniform(0.2, 0.4, 300)),
        "spread": np.full(300, -30.0),
        "guessing": np.zeros(300),
    }
    assert taus_of_truth(predicted, np.zeros(300), 4) == pytest.approx([1.0, 1.0, 1.0])
    noisy = taus_of_truth({**predicted, "spread": np.full(300, np.log(0.3))}, np.zeros(300), 4)
    assert all(noisy < 0.8)
    assert noisy[1] < noisy[0]
