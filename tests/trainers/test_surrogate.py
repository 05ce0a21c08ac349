"""The surrogate of recorded trainings: its trees, what they see, and the evaluations it draws."""

import subprocess
import sys
from dataclasses import replace
from math import exp
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fmnas.search_spaces import Cell, Schedule, SpaceError, Trial, joint_space, largest_cell
from fmnas.search_spaces.nasnet import OPERATIONS
from fmnas.trainers.contract import NotRecordedError
from fmnas.trainers.images.network import count_flops
from fmnas.trainers.split import GUESSING_ERROR
from fmnas.trainers.surrogate.features import BY_CAPACITY, RecordedPoints, describe_cell, describe_schedule
from fmnas.trainers.surrogate.model import MODELS, Surrogate, read_surrogate, write_surrogate
from fmnas.trainers.surrogate.problem import FILE, JOINT_RECORDED
from fmnas.trainers.surrogate.trees import Trees

SPACE = joint_space()
SEEDS = st.integers(0, 2**32 - 1)


@pytest.fixture(scope="module")
def surrogate() -> Surrogate:
    return read_surrogate(FILE)


def trial_of(seed: int, epochs: int = 3) -> Trial:
    return Trial(0, SPACE.sample(np.random.default_rng(seed)), epochs, "random", seed=seed)


def test_trees_add_a_leaf_of_each() -> None:
    """Two trees: x0 <= 1 gives 10, else x1 <= 2 gives 20, else 30; and a leaf of 0.5."""
    trees = Trees(
        roots=np.array([0, 5], dtype=np.int32),
        features=np.array([0, 0, 1, 0, 0, 0], dtype=np.int16),
        thresholds=np.array([1.0, 0.0, 2.0, 0.0, 0.0, 0.0]),
        low=np.array([1, 1, 3, 3, 4, 5], dtype=np.int32),
        high=np.array([2, 1, 4, 3, 4, 5], dtype=np.int32),
        values=np.array([0.0, 10.0, 0.0, 20.0, 30.0, 0.5]),
        constant=np.array(100.0),
    )
    expected = {(1.0, 5.0): 110.5, (1.5, 2.0): 120.5, (1.5, 2.5): 130.5}
    assert {x: trees.predict(np.array(x, dtype=np.float32)) for x in expected} == expected
    assert Trees.from_arrays(trees.to_arrays("a"), "a").predict(np.array([1.0, 5.0], dtype=np.float32)) == 110.5


def test_every_operation_has_a_rank() -> None:
    assert sorted(BY_CAPACITY) == sorted(OPERATIONS)


@given(SEEDS, st.sampled_from(OPERATIONS))
def test_dead_states_make_no_difference(surrogate: Surrogate, seed: int, operation: str) -> None:
    cell = Cell.from_configuration(trial_of(seed).configuration)
    operations = tuple(
        pair if state in cell.states else (operation, operation) for state, pair in enumerate(cell.operations, start=1)
    )
    other = replace(cell, operations=operations)
    assert describe_cell(other) == describe_cell(cell)
    assert surrogate.features.flops.count(other) == surrogate.features.flops.count(cell)


def test_paths_are_counted() -> None:
    """S1 = id + conv3x3 of the inputs, S2 = conv5x5(S1) + maxpool(input), S3 = id(S1) + conv1x1(S2), S4 = S3 + S2."""
    cell = Cell(
        inputs=((-1, 0), (0, 1), (1, 2), (2, 3)),
        operations=(
            ("identity", "conv3x3"),
            ("maxpool3x3", "conv5x5"),
            ("identity", "conv1x1"),
            ("identity", "identity"),
        ),
        output=1,
    )
    numbers = describe_cell(cell)
    assert (numbers["number of paths, less"], numbers["number of paths, more"]) == (2, 3 + 5)
    assert (numbers["most of paths, less"], numbers["most of paths, more"]) == (1, 3)
    assert (numbers["widest of paths, less"], numbers["widest of paths, more"]) == (1, 2)
    assert (numbers["fewest of paths, less"], numbers["fewest of paths, more"]) == (0, 0)
    assert (numbers["identities of paths, less"], numbers["identities of paths, more"]) == (1, 1)


def test_outputs_and_operations_on_inputs_are_described() -> None:
    """S1 = maxpool5x5 + sepconv3x3 of the inputs, S2 = conv1x1(input) + conv3x3(S1), both outputs read one input."""
    cell = Cell(
        inputs=((-1, 0), (0, 1), (1, 2), (-1, 3)),
        operations=(
            ("maxpool5x5", "sepconv3x3"),
            ("conv1x1", "conv3x3"),
            ("identity", "conv1x1"),
            ("sepconv5x5", "conv5x5"),
        ),
        output=2,
    )
    numbers = describe_cell(cell)
    assert (numbers["states"], numbers["states after the first output"]) == (4, 2)
    assert (numbers["number of conv1x1"], numbers["number of maxpool3x3"]) == (2, 0)
    assert (numbers["first output, lower rank"], numbers["first output, higher rank"]) == (3, 6)
    assert (numbers["last output, lower rank"], numbers["last output, higher rank"]) == (5, 7)
    assert (numbers["first output, inputs"], numbers["last output, inputs"]) == (1, 1)
    assert (numbers["operations on inputs"], numbers["least of them"], numbers["best"]) == (4, 2, 5)


def test_a_schedule_is_described_by_its_rates_and_its_friction() -> None:
    """The rates of the three epochs are 0.1, 0.05 and 0.025; the friction is 1.001 - 0.9."""
    schedule = Schedule(0.1, 0.9, 1e-4, lr_reduction=0.5, reduction_point_1=0.4, reduction_point_2=0.5)
    assert describe_schedule(schedule, 3, 2, 3) == pytest.approx(
        {
            "epochs": 2,
            "learning rate of epoch 1": 0.1,
            "learning rate of epoch 2": 0.05,
            "learning rate of epoch 3": 0.0,
            "sum of learning rates": 0.15,
            "momentum": 0.9,
            "weight decay": 1e-4,
            "first rate / friction": 0.1 / 0.101,
            "last rate / friction": 0.05 / 0.101,
            "sum of rates / friction": 0.15 / 0.101,
        }
    )


@given(SEEDS)
def test_epochs_to_come_make_no_difference(seed: int) -> None:
    """A training of three epochs looks after its first like one of another schedule with the same first rate."""
    schedule = Schedule.from_configuration(trial_of(seed).configuration)
    later = replace(schedule, reduction_point_1=0.9, reduction_point_2=0.9)
    first = replace(schedule, reduction_point_1=0.5, reduction_point_2=0.1)
    assert describe_schedule(later, 3, 1, 3) == describe_schedule(first, 3, 1, 3)


@pytest.fixture(scope="module")
def largest() -> int:
    """FLOPs of the largest network."""
    return count_flops(largest_cell())


@given(SEEDS)
def test_flops_are_those_of_the_network(surrogate: Surrogate, largest: int, seed: int) -> None:
    cell = Cell.from_configuration(trial_of(seed).configuration)
    flops = count_flops(cell)
    assert surrogate.features.flops.count(cell) == flops
    assert surrogate.draw(trial_of(seed)).flops_ratio == flops / largest


def test_the_shipped_file_is_of_these_features_and_small(surrogate: Surrogate) -> None:
    assert list(surrogate.features.describe(trial_of(0).configuration, 3, 3)) == list(surrogate.facts.features)
    assert FILE.stat().st_size < 5_000_000


@given(SEEDS, st.integers(1, 3))
def test_an_evaluation_says_whether_it_is_far_from_all_recorded_ones(
    surrogate: Surrogate, seed: int, epochs: int
) -> None:
    """By its training to the end, however short it was; what was recorded itself is not far."""
    x = surrogate.features.vector(trial_of(seed).configuration, 3, 3)
    assert surrogate.draw(trial_of(seed, epochs)).extrapolated == surrogate.recorded.are_far_from(x)
    assert not surrogate.recorded.are_far_from(surrogate.recorded.X[:, seed % surrogate.recorded.X.shape[1]])


@given(SEEDS, st.integers(1, 3))
def test_an_evaluation_is_what_was_drawn(surrogate: Surrogate, seed: int, epochs: int) -> None:
    trial = trial_of(seed, epochs)
    evaluation = JOINT_RECORDED.trainer.evaluate(trial)
    assert evaluation == JOINT_RECORDED.trainer.evaluate(replace(trial, id=9))
    mean = sum(evaluation.errors) / len(evaluation.errors)
    assert evaluation.flops_ratio is not None
    assert evaluation.objective == pytest.approx(mean + 0.02 * evaluation.flops_ratio)
    assert len(evaluation.errors) == JOINT_RECORDED.seeds
    assert all(0.0 <= error <= GUESSING_ERROR for error in evaluation.errors)
    counts = np.array(evaluation.errors) * surrogate.facts.images
    assert np.allclose(counts, counts.round())


def test_longer_trials_take_longer() -> None:
    trainer = JOINT_RECORDED.trainer
    for seed in range(50):
        seconds = [trainer.evaluate(trial_of(seed, epochs)).seconds for epochs in (1, 2, 3)]
        assert 0 < seconds[0] < seconds[1] < seconds[2]


def test_the_noise_is_as_predicted(surrogate: Surrogate) -> None:
    trial = trial_of(3)
    prediction = surrogate.predict(trial)
    drawn = [surrogate.draw(replace(trial, seed=seed)) for seed in range(3000)]
    errors = np.array([error for evaluation in drawn for error in evaluation.errors])
    guesses = errors >= GUESSING_ERROR
    logs = np.log(errors[~guesses])
    assert logs.mean() == pytest.approx(prediction.log_error, abs=5 * prediction.deviation / np.sqrt(len(logs)))
    assert logs.std() == pytest.approx(prediction.deviation, rel=0.05)
    assert guesses.mean() == pytest.approx(prediction.guessing, abs=0.01)


def with_constants(surrogate: Surrogate, **numbers: float) -> Surrogate:
    """A surrogate whose models predict these numbers for all trials."""
    leaf = replace(surrogate.models["error"], roots=np.zeros(0, dtype=np.int32))
    models = {name: replace(leaf, constant=np.array(number)) for name, number in numbers.items()}
    return Surrogate(surrogate.facts, models, surrogate.recorded)


def test_an_error_is_a_log_normal_number_of_the_seed(surrogate: Surrogate) -> None:
    """Its logarithm is -1 + 0.1 z for a standard normal z; predicted shares of guesses are clipped to [0, 1]."""
    no_guess, guess = (
        with_constants(surrogate, error=-1.0, spread=np.log(0.1), guessing=share, seconds=0.0) for share in (-0.5, 1.5)
    )
    assert (no_guess.predict(trial_of(0)).guessing, guess.predict(trial_of(0)).guessing) == (0.0, 1.0)
    scores = np.random.default_rng(7).standard_normal(surrogate.facts.seeds)
    images = surrogate.facts.images
    errors = no_guess.draw(replace(trial_of(0), seed=7)).errors
    np.testing.assert_allclose(errors, np.rint(np.exp(-1.0 + 0.1 * scores) * images) / images, rtol=1e-12)
    assert set(guess.draw(trial_of(0)).errors) == {GUESSING_ERROR}


def test_seeds_guess_as_often_as_predicted(surrogate: Surrogate) -> None:
    """Models of constants: an error of e^-1 without noise, of which every second seed guesses."""
    fixed = with_constants(surrogate, error=-1.0, spread=-30.0, guessing=0.5, seconds=np.log(2.0))
    drawn = [fixed.draw(replace(trial_of(0), seed=seed)) for seed in range(2000)]
    errors = np.array([evaluation.errors for evaluation in drawn])
    value = round(exp(-1.0) * surrogate.facts.images) / surrogate.facts.images
    assert set(np.unique(errors)) == {value, GUESSING_ERROR}
    assert (errors == GUESSING_ERROR).mean() == pytest.approx(0.5, abs=0.03)
    assert all(evaluation.diverged == (GUESSING_ERROR in evaluation.errors) for evaluation in drawn)
    assert drawn[0].seconds == pytest.approx(2.0)
    overhead = surrogate.facts.overhead
    assert fixed.draw(trial_of(0, epochs=1)).seconds == pytest.approx(2.0 * (overhead + 1) / (overhead + 3))


def test_a_written_surrogate_is_read_again(surrogate: Surrogate, tmp_path: Path) -> None:
    path = tmp_path / "again.npz"
    write_surrogate(path, surrogate)
    again = read_surrogate(path)
    assert again.facts == surrogate.facts
    assert again.draw(trial_of(1)) == surrogate.draw(trial_of(1))
    assert set(again.models) == set(MODELS)


def test_what_was_not_recorded_is_refused() -> None:
    with pytest.raises(NotRecordedError):
        JOINT_RECORDED.trainer.evaluate(trial_of(0, epochs=4))
    outside = {**trial_of(0).configuration, "momentum": 1.5}
    with pytest.raises(SpaceError):
        JOINT_RECORDED.trainer.evaluate(replace(trial_of(0), configuration=outside))


def test_no_training_library_is_needed() -> None:
    code = (
        "import sys; from fmnas.trainers.surrogate.problem import JOINT_RECORDED; JOINT_RECORDED.trainer;"
        "assert not {'torch', 'ray', 'mlflow', 'sklearn'} & {*sys.modules}"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


POINTS = RecordedPoints(
    np.array([[0.0, 2.0], [10.0, 30.0], [5.0, 5.0]], dtype=np.float32), np.array([1.0, 10.0, np.inf]), 0.6
)
"""Two points of three features, the last of which never varies."""


def test_a_distance_is_a_root_mean_square_of_standard_deviations() -> None:
    x = np.array([3.0, 30.0, 7.0], dtype=np.float32)
    assert POINTS.distances(x) == pytest.approx([np.sqrt((9 + 4) / 3), np.sqrt(1 / 3)])


def test_what_is_far_is_far_from_all() -> None:
    near, far = (np.array([value, 30.0, 5.0], dtype=np.float32) for value in (3.0, 3.1))
    assert not POINTS.are_far_from(near)
    assert POINTS.are_far_from(far)
