"""ParEGO: its weights, the augmented Tchebycheff value, what its model sees, and that it finds a front."""

from collections import Counter

import numpy as np
import pytest
from contract_subjects import QUICK
from hypothesis import given
from hypothesis import strategies as st

from fmnas.baselines.parego import ParEGO, draw_weights, tchebycheff
from fmnas.comparison.analysis.hypervolume import hypervolume
from fmnas.optimizers import random_design
from fmnas.optimizers.bofm import BOFM
from fmnas.search_spaces import Evaluation, Trial
from fmnas.search_spaces.records import MODEL
from fmnas.trainers.functions.two_objectives import SPACE, zdt1_mixed


def test_the_value_by_hand() -> None:
    F = np.array([[0.0, 30.0], [2.0, 10.0], [4.0, 20.0]])  # scaled: (0, 1), (0.5, 0), (1, 0.5)
    expected = [0.75 + 0.05 * 0.75, 0.125 + 0.05 * 0.125, 0.375 + 0.05 * (0.25 + 0.375)]
    np.testing.assert_allclose(tchebycheff(F, np.array([0.25, 0.75]), 0.05), expected)
    assert tchebycheff(np.empty(0), np.array([1.0]), 0.05).tolist() == []


def test_a_constant_objective_does_not_count() -> None:
    F = np.array([[1.0, 5.0], [3.0, 5.0]])
    assert tchebycheff(F, np.array([0.5, 0.5]), 0.0).tolist() == [0.0, 0.5]


@given(seed=st.integers(0, 10**6), count=st.integers(1, 4))
def test_weights_are_tenths_of_sum_one(seed: int, count: int) -> None:
    w = draw_weights(count, np.random.default_rng(seed))
    assert w.shape == (count,)
    assert w.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(10 * w, np.round(10 * w), atol=1e-12)
    assert w.min() >= 0


def test_each_of_the_eleven_vectors_is_as_likely() -> None:
    rng = np.random.default_rng(0)
    counts = Counter(round(10 * draw_weights(2, rng)[0]) for _ in range(5500))
    assert sorted(counts) == list(range(11))
    assert all(400 < count < 600 for count in counts.values())  # 500 expected, standard deviation 21


def evaluate(trial: Trial) -> Evaluation:
    f1, f2 = zdt1_mixed(trial.configuration)
    return Evaluation(f1 + f2, values=(f1, f2))


def run_trials(optimizer: BOFM, count: int, transform: float | None = None) -> list[Trial]:
    """transform: tell the first objective alone, times this."""
    trials = []
    for _ in range(count):
        trial = optimizer.ask()
        assert trial is not None
        evaluation = evaluate(trial)
        optimizer.tell(trial, evaluation if transform is None else Evaluation(transform * evaluation.objective))
        trials.append(trial)
    return trials


def test_the_model_sees_new_scalarised_values_in_each_suggestion() -> None:
    optimizer = ParEGO(SPACE, seed=3, mode=QUICK, initial_design=random_design(SPACE, 6, 0))
    run_trials(optimizer, 6)
    seen = []
    for _ in range(4):
        run_trials(optimizer, 1)
        rng = np.random.default_rng([optimizer.seed, optimizer._asked - 1])
        results = optimizer.history[:-1]
        F = np.array([evaluation.values for _, evaluation in results])
        seen.append(tuple(draw_weights(2, rng)))
        assert optimizer._weights.tolist() == list(seen[-1])
        expected = tchebycheff(F, np.array(seen[-1]), 0.05)
        optimizer.history, kept = results, optimizer.history
        np.testing.assert_array_equal(optimizer.objectives(), expected)
        optimizer.history = kept
    assert len(set(seen)) > 1


def test_restored_it_goes_on_the_same() -> None:
    design = random_design(SPACE, 5, 1)
    optimizer, copy = (ParEGO(SPACE, seed=4, mode=QUICK, initial_design=design) for _ in range(2))
    for trial in run_trials(optimizer, 9):
        copy.restore(Trial.from_dict(trial.to_dict()))
        copy.tell(trial, evaluate(trial))
    assert run_trials(optimizer, 2) == run_trials(copy, 2)


def test_it_dominates_more_than_random_search() -> None:
    optimizer = ParEGO(SPACE, seed=0, mode=QUICK)
    run_trials(optimizer, 40)
    dominated = hypervolume(np.array([evaluation.values for _, evaluation in optimizer.history]), (1.0, 10.0))
    rng = np.random.default_rng(0)
    chance = hypervolume(np.array([zdt1_mixed(SPACE.sample(rng)) for _ in range(400)]), (1.0, 10.0))
    assert dominated > chance


def test_one_objective_is_minimised_whatever_its_unit() -> None:
    design = random_design(SPACE, 6, 0)
    plain, scaled = (
        ParEGO(SPACE, seed=2, mode=QUICK, initial_design=design, log_objective=log) for log in (False, True)
    )
    assert run_trials(plain, 9, 1.0) == run_trials(scaled, 9, 1024.0)


def test_objectives_may_be_negative_whatever_log_objective_is() -> None:
    optimizer = ParEGO(SPACE, log_objective=True)
    optimizer.tell(optimizer.ask(), -1.0)
    optimizer.tell(optimizer.ask(), -3.0)
    optimizer._weights = draw_weights(1, np.random.default_rng(0))
    np.testing.assert_allclose(optimizer.objectives(), [1.05, 0.0])


def test_huge_objectives_are_modelled() -> None:
    optimizer = ParEGO(SPACE, initial_design=random_design(SPACE, 4, 0))
    for values in ((1.7e308, 1.0), (-1.7e308, 2.0), (1e200, 3.0), (0.0, 0.0)):
        optimizer.tell(optimizer.ask(), Evaluation(sum(values[1:]), values=values))
    assert optimizer.ask().origin == MODEL
