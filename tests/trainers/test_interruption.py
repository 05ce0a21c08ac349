"""Evaluations that are stopped, and trainings that go on from a checkpoint."""

import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from fmnas.search_spaces import Evaluation, Trial
from fmnas.trainers import (
    Checkpoints,
    EvaluationStoppedError,
    ImageTrainer,
    Split,
    TrainerError,
    TrainingSettings,
    training,
)

MakeTrial = Callable[..., Trial]
arrangements = pytest.mark.parametrize("settings", [("plain", 1), ("fast", 1), ("fast", 2)], ids=str)


def settings_of(arrangement: str, threads: int) -> TrainingSettings:
    return TrainingSettings(seeds=3, batch_size=8, threads=threads, arrangement=arrangement)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by one number a step."""
    taken: list[int] = []
    real = training.train_step

    def step(*arguments: object) -> float:
        taken.append(1)
        return real(*arguments)

    monkeypatch.setattr(training, "train_step", step)
    return taken


@arrangements
def test_a_stop_ends_within_one_step_of_each_training(
    noise_split: Split, make_trial: MakeTrial, steps: list[int], settings: tuple[str, int]
) -> None:
    trainer = ImageTrainer(noise_split, settings_of(*settings), clock=lambda: 0.0)
    healthy = trainer.evaluate(make_trial())
    for allowed in (0, 1, 5):
        steps.clear()
        with pytest.raises(EvaluationStoppedError, match="what it had measured so far is no result"):
            trainer.evaluate(make_trial(), stop=lambda allowed=allowed: len(steps) >= allowed)
        assert allowed <= len(steps) <= allowed + settings[1] - 1
    assert trainer.evaluate(make_trial()) == healthy


class Cut(Exception):  # noqa: N818
    """The power goes out."""


def cut_after(epoch: int, seed: int) -> Callable[[int, int, float], None]:
    def report(number: int, epochs: int, error: float) -> None:
        if (number, epochs) == (seed, epoch):
            raise Cut

    return report


@arrangements
def test_a_retried_trial_ends_as_if_nothing_had_happened(
    noise_split: Split, make_trial: MakeTrial, tmp_path: Path, steps: list[int], settings: tuple[str, int]
) -> None:
    trial, chosen = make_trial(epochs=5, op1="conv5x5"), settings_of(*settings)
    uninterrupted = ImageTrainer(noise_split, chosen, clock=lambda: 0.0).evaluate(trial)
    checkpoints = Checkpoints(tmp_path / "kept", every=2)
    with pytest.raises(Cut):
        ImageTrainer(noise_split, chosen, checkpoints=checkpoints).evaluate(trial, cut_after(5, 0))
    assert list(checkpoints.folder.glob("*-0.pt"))
    steps.clear()
    reports: list[tuple[int, int, float]] = []
    again = ImageTrainer(noise_split, chosen, clock=lambda: 0.0, checkpoints=checkpoints)
    assert again.evaluate(trial, lambda *report: reports.append(report)) == uninterrupted
    assert len(steps) <= 3 * (1 + 5 + 5), "the first seed has one epoch left of 3 steps"
    assert sorted(report[:2] for report in reports) == [(seed, epoch) for seed in range(3) for epoch in range(1, 6)]
    assert not list(checkpoints.folder.iterdir()), "nothing is left of a finished evaluation"


@pytest.fixture
def kept(noise_split: Split, make_trial: MakeTrial, tmp_path: Path) -> tuple[Checkpoints, Evaluation]:
    """The checkpoint of a training after 1 of 2 epochs, and the evaluation that it is to lead to."""
    one = TrainingSettings(seeds=1, batch_size=8)
    checkpoints = Checkpoints(tmp_path, every=1)
    evaluation = ImageTrainer(noise_split, one, clock=lambda: 0.0).evaluate(make_trial())
    with pytest.raises(Cut):
        ImageTrainer(noise_split, one, checkpoints=checkpoints).evaluate(make_trial(), cut_after(1, 0))
    return checkpoints, evaluation


def evaluate(noise_split: Split, trial: Trial, checkpoints: Checkpoints, **other: object) -> Evaluation:
    settings = replace(TrainingSettings(seeds=1, batch_size=8), **other)
    return ImageTrainer(noise_split, settings, clock=lambda: 0.0, checkpoints=checkpoints).evaluate(trial)


class Bomb:
    """Runs code where it is unpickled."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return exec, ("raise SystemExit('code from a file was run')",)


@pytest.mark.parametrize("damage", ["empty", "cut", "no checkpoint", "code", "another"])
def test_a_checkpoint_that_cannot_be_trusted_costs_time_only(
    noise_split: Split,
    make_trial: MakeTrial,
    kept: tuple[Checkpoints, Evaluation],
    steps: list[int],
    damage: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    checkpoints, expected = kept
    (path,) = checkpoints.folder.iterdir()
    content = torch.load(path, weights_only=True)
    if damage == "another":
        torch.save({**content, "fingerprint": "of another cell"}, path)
    else:
        bad = {"empty": b"", "cut": path.read_bytes()[:2000], "no checkpoint": b"text", "code": pickle.dumps(Bomb())}
        path.write_bytes(bad[damage])
    assert evaluate(noise_split, make_trial(), checkpoints) == expected
    assert len(steps) == 6, "both epochs"
    assert str(path) in caplog.text
    assert "the training starts anew" in caplog.text


def test_a_good_checkpoint_saves_its_epochs(
    noise_split: Split, make_trial: MakeTrial, kept: tuple[Checkpoints, Evaluation], steps: list[int]
) -> None:
    assert evaluate(noise_split, make_trial(), kept[0]) == kept[1]
    assert len(steps) == 3


@pytest.mark.parametrize(
    ("trial", "settings"),
    [
        ({"seed": 6}, {}),
        ({"op1": "conv3x3"}, {}),
        ({"learning_rate": 0.04}, {}),
        ({}, {"batch_size": 9}),
        ({}, {"arrangement": "plain"}),
    ],
)
def test_a_checkpoint_is_for_its_training_alone(
    noise_split: Split,
    make_trial: MakeTrial,
    kept: tuple[Checkpoints, Evaluation],
    tmp_path: Path,
    trial: dict[str, object],
    settings: dict[str, object],
) -> None:
    other = make_trial(**trial)
    fresh = evaluate(noise_split, other, Checkpoints(tmp_path / "empty"), **settings)
    assert evaluate(noise_split, other, kept[0], **settings) == fresh


def test_other_data_are_another_training(
    noise_split: Split, make_trial: MakeTrial, kept: tuple[Checkpoints, Evaluation], steps: list[int]
) -> None:
    evaluate(replace(noise_split, train_labels=noise_split.train_labels[::-1].copy()), make_trial(), kept[0])
    assert len(steps) == 6


def test_a_write_that_fails_leaves_the_checkpoint_before(
    noise_split: Split, make_trial: MakeTrial, kept: tuple[Checkpoints, Evaluation], monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoints = kept[0]
    (path,) = checkpoints.folder.iterdir()
    before = path.read_bytes()

    def fail(content: object, file: object) -> None:
        file.write(b"half of it")
        raise OSError("the disk is full")

    monkeypatch.setattr(torch, "save", fail)
    with pytest.raises(OSError, match="the disk is full"):
        evaluate(noise_split, make_trial(), checkpoints, seeds=2)
    assert path.read_bytes() == before
    assert list(checkpoints.folder.iterdir()) == [path]


def test_a_rhythm_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(TrainerError, match="checkpoints every 0 epochs: it must be at least 1"):
        Checkpoints(tmp_path, every=0)
