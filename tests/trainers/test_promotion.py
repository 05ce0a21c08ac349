"""A longer trial that continues a shorter one has the numbers of an uninterrupted training."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from fmnas.search_spaces import Cell, Schedule, Trial
from fmnas.trainers import TrainerError
from fmnas.trainers.checkpoints import Checkpoints
from fmnas.trainers.images import image_trainer
from fmnas.trainers.images.batches import streams
from fmnas.trainers.images.image_trainer import ImageTrainer
from fmnas.trainers.images.model import Network
from fmnas.trainers.images.multi_seed import StackedLearner
from fmnas.trainers.images.network import build_network
from fmnas.trainers.images.training import Learner

pytestmark = pytest.mark.slow

MakeTrial, Trainer = Callable[..., Trial], Callable[..., ImageTrainer]
FULL = 4
"""Length of the learning rate schedule."""
CONVOLUTION = {"op1": "conv1x1", **{f"op{i}": "identity" for i in range(2, 9)}}
arrangements = pytest.mark.parametrize(("arrangement", "threads"), [("plain", 1), ("fast", 2), ("stacked", 1)])


@pytest.fixture
def trainer(make_trainer: Callable[..., ImageTrainer]) -> Trainer:
    """Makes a trainer with these checkpoints and settings."""
    return lambda checkpoints=None, **other: make_trainer(
        None, checkpoints, **{"seeds": 2, "schedule_epochs": FULL, **other}
    )


@pytest.fixture
def make_trial(make_trial: MakeTrial) -> MakeTrial:
    """Trials of a cell with a single convolution."""
    return partial(make_trial, **CONVOLUTION)


@pytest.fixture
def checkpoints(tmp_path: Path) -> Checkpoints:
    return Checkpoints(tmp_path / "checkpoints", every=3, continue_promoted=True)


def files(checkpoints: Checkpoints) -> list[Path]:
    return sorted(checkpoints.folder.glob("*"))


@pytest.fixture
def rates(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The learning rates of the epochs that learners train."""
    rates: list[float] = []
    for learner in (Learner, StackedLearner):
        real = learner.train_epoch

        def spy(*arguments: Any, real: Callable[..., Any] = real) -> Any:
            rates.append(arguments[-1])
            return real(*arguments)

        monkeypatch.setattr(learner, "train_epoch", spy)
    return rates


@arrangements
@pytest.mark.parametrize("happens", ["kept", "removed", "damaged"])
def test_a_trial_promoted_twice_is_trained_once(
    trainer: Trainer,
    make_trial: MakeTrial,
    checkpoints: Checkpoints,
    rates: list[float],
    arrangement: str,
    threads: int,
    happens: str,
) -> None:
    """If the shorter trial ran elsewhere, or its file is damaged, it is trained from scratch."""
    chosen = {"arrangement": arrangement, "threads": threads}
    expected = trainer(**chosen).evaluate(make_trial(epochs=FULL))
    learners, before = 1 if arrangement == "stacked" else 2, 0
    for number, epochs in enumerate((1, 2, FULL)):
        rates.clear()
        reports: list[tuple[int, int, float]] = []
        trial = replace(make_trial(epochs=epochs), id=number)
        evaluation = trainer(checkpoints, **chosen).evaluate(trial, lambda *r, to=reports: to.append(r))
        assert evaluation.curve == expected.curve[:epochs]
        assert evaluation.epochs == epochs
        assert len(rates) == learners * (epochs - (before if happens == "kept" else 0))
        assert sorted(r[:2] for r in reports) == [(seed, n + 1) for seed in range(2) for n in range(epochs)]
        assert len(files(checkpoints)) == (0 if epochs == FULL else learners)
        for path in files(checkpoints):
            if happens == "removed":
                path.unlink()
            elif happens == "damaged":
                path.write_bytes(path.read_bytes()[:-1])
        before = epochs
    assert evaluation == expected


@pytest.mark.parametrize("arrangement", ["plain", "stacked"])
def test_the_learning_rate_follows_the_schedule_of_the_longest_trial(
    trainer: Trainer, make_trial: MakeTrial, checkpoints: Checkpoints, rates: list[float], arrangement: str
) -> None:
    chosen = {"arrangement": arrangement, "seeds": 1}
    points = {"learning_rate": 0.08, "lr_reduction": 0.25, "reduction_point_1": 0.5, "reduction_point_2": 0.5}
    trial = make_trial(epochs=3, **points)  # reduced after epoch 4 x 0.5 = 2 and 4 x 0.75 = 3
    trainer(checkpoints, **chosen).evaluate(trial)
    assert rates == pytest.approx([0.08, 0.08, 0.02])
    trainer(checkpoints, **chosen).evaluate(replace(trial, epochs=FULL))
    assert rates == pytest.approx([0.08, 0.08, 0.02, 0.005])
    rates.clear()
    trainer(**chosen, schedule_epochs=None).evaluate(trial)  # int(3 x 0.5) and int(3 x 0.75)
    assert rates == pytest.approx([0.08, 0.02, 0.005])


@arrangements
def test_a_shorter_trial_after_a_longer_one_is_trained_from_scratch(
    trainer: Trainer, make_trial: MakeTrial, tmp_path: Path, rates: list[float], arrangement: str, threads: int
) -> None:
    chosen = {"arrangement": arrangement, "threads": threads}
    checkpoints = Checkpoints(tmp_path / "checkpoints", every=1, continue_promoted=True)
    expected = [trainer(**chosen).evaluate(make_trial(epochs=epochs)) for epochs in (1, FULL)]
    trainer(checkpoints, **chosen).evaluate(make_trial(epochs=3))
    rates.clear()
    assert trainer(checkpoints, **chosen).evaluate(make_trial(epochs=1)) == expected[0]
    assert len(rates) == (1 if arrangement == "stacked" else 2)
    assert trainer(checkpoints, **chosen).evaluate(make_trial(epochs=FULL)) == expected[1]
    assert files(checkpoints) == []


def poison(number: int) -> Callable[[Cell, torch.Generator], Network]:
    """`build_network`, but the network of training `number` has an infinite weight."""
    seed = streams(5, number).initialisation.initial_seed()

    def build(cell: Cell, generator: torch.Generator) -> Network:
        network = build_network(cell, generator)
        if generator.initial_seed() == seed:
            network.classifier.weight.data[0, 0] = float("inf")
        return network

    return build


@arrangements
@pytest.mark.parametrize(("last", "every"), [(1, 1), (FULL, 5)])
def test_a_diverged_training_stays_so(
    trainer: Trainer,
    make_trial: MakeTrial,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arrangement: str,
    threads: int,
    last: int,
    every: int,
) -> None:
    """Training 1 diverges at once, the other when the learning rate becomes infinite, in epoch `last` from 0."""
    real, infinite = Schedule.learning_rate_at, float("inf")
    monkeypatch.setattr(Schedule, "learning_rate_at", lambda s, n, of: infinite if n == last else real(s, n, of))
    monkeypatch.setattr(image_trainer, "build_network", poison(1))
    chosen, checkpoints = {"arrangement": arrangement, "threads": threads}, Checkpoints(tmp_path / "c", every, True)
    full, short = (trainer(**chosen).evaluate(make_trial(epochs=epochs)) for epochs in (FULL, 2))
    assert full.diverged
    assert [error == 0.9 for error in full.errors] == [last < FULL, True]
    for _ in range(2):  # the second time, it is repeated because its driver died
        assert trainer(checkpoints, **chosen).evaluate(make_trial(epochs=2)) == short
    assert short.curve == full.curve[:2]
    assert trainer(checkpoints, **chosen).evaluate(make_trial(epochs=FULL)) == full
    assert files(checkpoints) == []


@arrangements
@pytest.mark.parametrize("early", [None, 6])
def test_without_promoted_trials_that_continue_nothing_is_kept_nor_validated_for_them(
    trainer: Trainer,
    make_trial: MakeTrial,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arrangement: str,
    threads: int,
    early: int | None,
) -> None:
    kept, validated = Checkpoints(tmp_path / "checkpoints", every=1), []
    for learner in (Learner, StackedLearner):
        real = learner.validation_errors

        def spy(*arguments: Any, real: Callable[..., Any] = real) -> Any:
            validated.append(1)
            return real(*arguments)

        monkeypatch.setattr(learner, "validation_errors", spy)
    trainer(kept, arrangement=arrangement, threads=threads, early_validation=early).evaluate(make_trial(epochs=2))
    assert len(validated) == 2 * (1 if arrangement == "stacked" else 2)
    assert files(kept) == []


def test_a_different_seed_or_schedule_is_a_different_training(
    trainer: Trainer, make_trial: MakeTrial, checkpoints: Checkpoints, rates: list[float]
) -> None:
    trainer(checkpoints, seeds=1).evaluate(make_trial())
    for trial, length in ((make_trial(seed=6), FULL), (make_trial(), FULL + 1), (make_trial(), None)):
        rates.clear()
        trainer(checkpoints, seeds=1, schedule_epochs=length).evaluate(trial)
        assert len(rates) == 2


def test_more_epochs_than_the_schedule_are_refused(trainer: Trainer, make_trial: MakeTrial) -> None:
    with pytest.raises(TrainerError, match=r"epochs = 4.*schedule_epochs = 3"):
        trainer(schedule_epochs=3).evaluate(make_trial(epochs=4))
