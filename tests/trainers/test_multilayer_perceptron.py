"""The multilayer perceptron on digits: HyBO's protocol, diverged trainings, no warnings."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from threadpoolctl import threadpool_info, threadpool_limits

from fmnas.search_spaces import Configuration, Nominal, Ordinal, Real
from fmnas.trainers.split import GUESSING_ERROR
from fmnas.trainers.tables.multilayer_perceptron import SPACE, error
from fmnas.trainers.tables.tables import digits_table

SPLIT = digits_table(scaled=True)
ACTIVATIONS = ("identity", "logistic", "tanh", "relu")
SCHEDULES = ("constant", "invscaling", "adaptive")
PUBLISHED_PROTOCOL = [
    ([10, 3, 6, 0, 0], [0.6139, 0.912, -0.0305], 265),
    ([0, 2, 2, 1, 1], [0.4676, -0.0678, 0.6109], 457),
    ([4, 0, 0, 0, 1], [-0.99, 0.3775, -0.9859], 512),
]
"""HyBO's codes h and c, and the number of 540 digits classified correctly (scikit-learn 1.9.1)."""


def decode(h: list[int], c: list[float]) -> Configuration:
    u1, u2, u3 = ((value + 1) / 2 for value in c)
    return {
        "hidden_units": 40 + 20 * h[0],
        "activation": ACTIVATIONS[h[1]],
        "batch_size": 40 + 20 * h[2],
        "learning_rate": SCHEDULES[h[3]],
        "early_stopping": bool(h[4]),
        "learning_rate_init": 0.001 + 0.999 * u1,
        "momentum": 0.5 + 0.5 * u2,
        "alpha": 1e-4 + 0.9999 * u3,
    }


def test_the_space() -> None:
    assert [len(v.vertices) for v in SPACE.discrete] == [14, 4, 9, 3, 2]
    assert [type(v) for v in SPACE.discrete] == [Ordinal, Nominal, Ordinal, Nominal, Nominal]
    assert (SPACE.discrete[0].vertices[-1], SPACE.discrete[2].vertices[-1]) == (300, 200)
    assert [type(v) for v in SPACE.continuous] == [Real] * 3
    for ends in (-1.0, 1.0):
        SPACE.validate(decode([0, 0, 0, 0, 0], [ends] * 3))


def test_the_digits_are_scaled_and_split_as_hybos_table() -> None:
    assert (len(SPLIT.train_labels), len(SPLIT.held_out_labels)) == (1257, 540)
    every = np.concatenate([SPLIT.train_inputs, SPLIT.held_out_inputs])
    assert (every.min(), every.max()) == (0.0, 1.0)
    _, test = train_test_split(load_digits().target, test_size=0.3, random_state=42)
    assert np.array_equal(SPLIT.held_out_labels, test)


@pytest.mark.parametrize(("h", "c", "correct"), PUBLISHED_PROTOCOL)
def test_accuracies_of_the_published_protocol(h: list[int], c: list[float], correct: int) -> None:
    assert error(SPLIT, decode(h, c)) == pytest.approx(1 - correct / 540, abs=0.01)


def test_a_training_that_does_not_converge_does_not_warn() -> None:
    """scikit-learn does, and warnings are errors in these tests."""
    few = replace(SPLIT, train_inputs=SPLIT.train_inputs[:60], train_labels=SPLIT.train_labels[:60])
    assert 0.1 < error(few, decode([0, 2, 0, 1, 0], [-0.99, 0.0, 0.0])) < 0.9
    with pytest.warns(ConvergenceWarning):
        MLPClassifier((40,), solver="sgd", random_state=2).fit(few.train_inputs, few.train_labels)


def test_a_training_uses_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = []

    def fit(self: object, features: object, labels: object) -> None:
        threads.extend(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")
        raise ValueError("non-finite")

    monkeypatch.setattr("sklearn.neural_network.MLPClassifier.fit", fit)
    with threadpool_limits(2):
        error(SPLIT, decode(*PUBLISHED_PROTOCOL[0][:2]))
    assert set(threads) == {1}


def test_a_diverged_training_has_the_error_of_guessing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fit(self: object, features: object, labels: object) -> None:
        raise ValueError(message)

    monkeypatch.setattr("sklearn.neural_network.MLPClassifier.fit", fit)
    message = "Solver produced non-finite parameter weights."
    assert error(SPLIT, decode(*PUBLISHED_PROTOCOL[0][:2])) == GUESSING_ERROR
    message = "another"
    with pytest.raises(ValueError, match="another"):
        error(SPLIT, decode(*PUBLISHED_PROTOCOL[0][:2]))
