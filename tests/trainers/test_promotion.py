"""A trial of more epochs that goes on from a shorter one gives the numbers of a training that nothing cut."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fmnas.search_spaces import Cell, Evaluation, Schedule, Trial
from fmnas.trainers import TrainerError
from fmnas.trainers.checkpoints import Checkpoints
from fmnas.trainers.images import image_trainer as module
from fmnas.trainers.images.batches import streams
from fmnas.trainers.images.image_trainer import FinalTrainer, ImageTrainer, TrainingSettings
from fmnas.trainers.images.multi_seed import StackedLearner
from fmnas.trainers.images.network import Network, build_network
from fmnas.trainers.images.training import Learner
from fmnas.trainers.split import Split

MakeTrial = Callable[..., Trial]
FULL = 4
"""What every learning rate is planned for."""

CONVOLUTION = {"op1": "conv1x1", **{f"op{i}": "identity" for i in range(2, 9)}}

arrangements = pytest.mark.parametrize("how", [("plain", 1), ("fast", 1), ("fast", 2), ("stacked", 1)], ids=str)


def settings_of(how: tuple[str, int], **other: Any) -> TrainingSettings:
    arrangement, threads = how
    chosen = {"seeds": 2, "batch_size": 8, "threads": threads, "arrangement": arrangement, "schedule_epochs": FULL}
    return TrainingSettings(**{**chosen, **other})


def trainer(split: Split, chosen: TrainingSettings, checkpoints: Checkpoints | None = None) -> ImageTrainer:
    return ImageTrainer(split, chosen, clock=lambda: 0.0, checkpoints=checkpoints)


@pytest.fixture
def make_trial(make_trial: MakeTrial) -> MakeTrial:
    """As everywhere, of a cell with a single convolution."""
    return partial(make_trial, **CONVOLUTION)


def kept(checkpoints: Checkpoints) -> list[Path]:
    return sorted(checkpoints.folder.glob("*"))


@pytest.fixture
def epochs_trained(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Grows by the learning rate of each epoch that a learner trains."""
    rates: list[float] = []
    for place in (Learner, StackedLearner):
        real = place.train_epoch

        def spy(*arguments: Any, real: Callable[..., Any] = real) -> Any:
            rates.append(arguments[-1])
            return real(*arguments)

        monkeypatch.setattr(place, "train_epoch", spy)
    return rates


def left_alone(paths: list[Path]) -> None:
    """The shorter trial ran where this one runs."""


def removed(paths: list[Path]) -> None:
    """It ran elsewhere."""
    for path in paths:
        path.unlink()


def damaged(paths: list[Path]) -> None:
    for path in paths:
        path.write_bytes(path.read_bytes()[:-1])


@arrangements
@pytest.mark.parametrize("happens", [left_alone, removed, damaged])
def test_promoted_twice_is_trained_once(
    noise_split: Split,
    make_trial: MakeTrial,
    tmp_path: Path,
    epochs_trained: list[float],
    how: tuple[str, int],
    happens: Callable[[list[Path]], None],
) -> None:
    chosen, checkpoints = settings_of(how), Checkpoints(tmp_path / "kept", every=3)
    whole = trainer(noise_split, chosen).evaluate(make_trial(epochs=FULL))
    epochs_trained.clear()
    at_once = 1 if how[0] == "stacked" else 2
    before = 0
    for number, epochs in enumerate((1, 2, FULL)):
        trial = replace(make_trial(epochs=epochs), id=number)
        reports: list[tuple[int, int, float]] = []
        evaluation = trainer(noise_split, chosen, checkpoints).evaluate(trial, lambda *r, to=reports: to.append(r))
        assert evaluation.curve == whole.curve[:epochs]
        assert evaluation.epochs == epochs
        assert len(epochs_trained) == at_once * (epochs - (before if happens is left_alone else 0))
        assert sorted(r[:2] for r in reports) == [(seed, n + 1) for seed in range(2) for n in range(epochs)]
        assert len(kept(checkpoints)) == (0 if epochs == FULL else at_once)
        happens(kept(checkpoints))
        epochs_trained.clear()
        before = epochs
    assert evaluation == whole


@pytest.fixture(scope="module")
def whole() -> dict[int, Evaluation]:
    """Filled with what a training of so many epochs gives that nothing cuts."""
    return {}


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rungs=st.lists(st.integers(1, FULL), min_size=1, max_size=4, unique=True).map(sorted),
    every=st.integers(1, FULL),
    lost=st.lists(st.booleans(), min_size=4, max_size=4),
)
def test_any_ladder_is_climbed_to_the_same_numbers(
    noise_split: Split,
    make_trial: MakeTrial,
    whole: dict[int, Evaluation],
    rungs: list[int],
    every: int,
    lost: list[bool],
) -> None:
    """Whatever epochs it was promoted through, however often checkpoints were written or lost."""
    chosen = settings_of(("fast", 1), seeds=1)
    with TemporaryDirectory() as folder:
        checkpoints = Checkpoints(Path(folder) / "kept", every)
        for epochs, gone in zip(rungs, lost, strict=False):
            trial = make_trial(epochs)
            if epochs not in whole:
                whole[epochs] = trainer(noise_split, chosen).evaluate(trial)
            assert trainer(noise_split, chosen, checkpoints).evaluate(trial) == whole[epochs]
            if gone:
                removed(kept(checkpoints))


@pytest.mark.parametrize("arrangement", ["plain", "fast", "stacked"])
def test_the_learning_rate_is_reduced_where_the_full_training_reduces_it(
    noise_split: Split, make_trial: MakeTrial, tmp_path: Path, epochs_trained: list[float], arrangement: str
) -> None:
    chosen, checkpoints = settings_of((arrangement, 1), seeds=1), Checkpoints(tmp_path / "kept")
    points = {"learning_rate": 0.08, "lr_reduction": 0.25, "reduction_point_1": 0.5, "reduction_point_2": 0.5}
    trial = make_trial(epochs=3, **points)  # reduced after epoch 4 x 0.5 = 2 and 4 x 0.75 = 3
    trainer(noise_split, chosen, checkpoints).evaluate(trial)
    assert epochs_trained == pytest.approx([0.08, 0.08, 0.02])
    trainer(noise_split, chosen, checkpoints).evaluate(replace(trial, epochs=FULL))
    assert epochs_trained == pytest.approx([0.08, 0.08, 0.02, 0.005])
    epochs_trained.clear()
    trainer(noise_split, replace(chosen, schedule_epochs=None)).evaluate(trial)  # int(3 x 0.5) and int(3 x 0.75)
    assert epochs_trained == pytest.approx([0.08, 0.02, 0.005])


@arrangements
def test_a_shorter_trial_after_a_longer_one_is_trained_anew(
    noise_split: Split,
    make_trial: MakeTrial,
    tmp_path: Path,
    epochs_trained: list[float],
    how: tuple[str, int],
    caplog: pytest.LogCaptureFixture,
) -> None:
    chosen, checkpoints = settings_of(how), Checkpoints(tmp_path / "kept", every=1)
    expected = [trainer(noise_split, chosen).evaluate(make_trial(epochs=epochs)) for epochs in (1, FULL)]
    trainer(noise_split, chosen, checkpoints).evaluate(make_trial(epochs=3))
    epochs_trained.clear()
    assert trainer(noise_split, chosen, checkpoints).evaluate(make_trial(epochs=1)) == expected[0]
    assert len(epochs_trained) == (1 if how[0] == "stacked" else 2)
    assert "is not used, it is of 3 epochs, not 1: the training starts anew" in caplog.text
    assert trainer(noise_split, chosen, checkpoints).evaluate(make_trial(epochs=FULL)) == expected[1]
    assert kept(checkpoints) == []


def poisoned(number: int) -> Callable[[Cell, torch.Generator], Network]:
    """`build_network`, but that of training `number` has an infinite weight, whoever builds it and when."""
    seed = streams(5, number).initialisation.initial_seed()

    def build(cell: Cell, generator: torch.Generator) -> Network:
        network = build_network(cell, generator)
        if generator.initial_seed() == seed:
            with torch.no_grad():
                network.classifier.weight[0, 0] = float("inf")
        return network

    return build


@arrangements
@pytest.mark.parametrize(("last", "every"), [(1, 1), (3, 1), (FULL, 5)])
def test_what_diverged_stays_so(
    noise_split: Split,
    make_trial: MakeTrial,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    how: tuple[str, int],
    last: int,
    every: int,
) -> None:
    """Training 1 diverges at once, the other when the learning rate becomes infinite, in epoch `last` from 0."""
    real = Schedule.learning_rate_at
    monkeypatch.setattr(
        Schedule, "learning_rate_at", lambda s, epoch, of: float("inf") if epoch == last else real(s, epoch, of)
    )
    monkeypatch.setattr(module, "build_network", poisoned(1))
    chosen, checkpoints = settings_of(how), Checkpoints(tmp_path / "kept", every)
    whole = trainer(noise_split, chosen).evaluate(make_trial(epochs=FULL))
    assert whole.diverged
    assert [error == 0.9 for error in whole.errors] == [last < FULL, True]
    short = make_trial(epochs=2)
    first = trainer(noise_split, chosen, checkpoints).evaluate(short)
    assert first == trainer(noise_split, chosen).evaluate(short)
    assert first.curve == whole.curve[:2]
    again = trainer(noise_split, chosen, checkpoints).evaluate(short)
    assert again == first, "its driver died before it heard of it"
    assert trainer(noise_split, chosen, checkpoints).evaluate(make_trial(epochs=FULL)) == whole
    assert kept(checkpoints) == []


@pytest.mark.parametrize("arrangement", ["fast", "stacked"])
def test_a_finished_trial_that_is_repeated_trains_nothing(
    noise_split: Split, make_trial: MakeTrial, tmp_path: Path, epochs_trained: list[float], arrangement: str
) -> None:
    chosen, checkpoints = settings_of((arrangement, 1)), Checkpoints(tmp_path / "kept")
    first = trainer(noise_split, chosen, checkpoints).evaluate(make_trial())
    epochs_trained.clear()
    assert trainer(noise_split, chosen, checkpoints).evaluate(make_trial()) == first
    assert epochs_trained == []


def test_another_seed_or_plan_is_another_training(
    noise_split: Split, make_trial: MakeTrial, tmp_path: Path, epochs_trained: list[float]
) -> None:
    chosen, checkpoints = settings_of(("fast", 1), seeds=1), Checkpoints(tmp_path / "kept")
    trainer(noise_split, chosen, checkpoints).evaluate(make_trial())
    others = [(make_trial(seed=6), FULL), (make_trial(), FULL + 1), (make_trial(), None)]
    for trial, planned in others:
        epochs_trained.clear()
        trainer(noise_split, replace(chosen, schedule_epochs=planned), checkpoints).evaluate(trial)
        assert len(epochs_trained) == 2


def test_without_a_plan_a_finished_trial_leaves_nothing(
    noise_split: Split, make_trial: MakeTrial, tmp_path: Path
) -> None:
    chosen, checkpoints = settings_of(("fast", 1), seeds=1, schedule_epochs=None), Checkpoints(tmp_path / "kept", 1)
    trainer(noise_split, chosen, checkpoints).evaluate(make_trial())
    assert kept(checkpoints) == []


def test_the_last_word_follows_a_plan_too(noise_split: Split, make_trial: MakeTrial) -> None:
    split = noise_split
    arrays = (split.train_inputs, split.train_labels, split.held_out_inputs, split.held_out_labels)
    final, chosen = Split(*arrays, "noise", "a test", for_tests=True), settings_of(("fast", 1))
    trial = make_trial(epochs=2, reduction_point_1=0.5)
    errors = [
        FinalTrainer(final, each).evaluate(trial).errors == trainer(split, each).evaluate(trial).errors
        for each in (chosen, replace(chosen, schedule_epochs=None))
    ]
    assert errors == [True, True]


def test_more_epochs_than_were_planned_are_refused(noise_split: Split, make_trial: MakeTrial) -> None:
    chosen = settings_of(("fast", 1), schedule_epochs=3)
    with pytest.raises(TrainerError, match="trial 0: epochs = 4; schedule_epochs allow at most 3"):
        trainer(noise_split, chosen).evaluate(make_trial(epochs=4))
