"""Evaluations that are stopped, and trainings that go on from a checkpoint."""

import hashlib
import os
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fmnas.search_spaces import Evaluation, Trial
from fmnas.trainers import EvaluationStoppedError, TrainerError, TrainingFailedError
from fmnas.trainers.checkpoints import Checkpoints, pack, unpack
from fmnas.trainers.images import training
from fmnas.trainers.images.image_trainer import ImageTrainer, TrainingSettings
from fmnas.trainers.images.multi_seed import StackedLearner
from fmnas.trainers.split import Split

MakeTrial = Callable[..., Trial]
arrangements = pytest.mark.parametrize("settings", [("plain", 1), ("fast", 1), ("fast", 2), ("stacked", 1)], ids=str)


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
    real_stacked = StackedLearner.step

    def stacked_step(learner: StackedLearner, count: int) -> object:
        taken.append(1)
        return real_stacked(learner, count)

    monkeypatch.setattr(StackedLearner, "step", stacked_step)
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
    taken = len(steps)
    steps.clear()
    reports: list[tuple[int, int, float]] = []
    again = ImageTrainer(noise_split, chosen, clock=lambda: 0.0, checkpoints=checkpoints)
    assert again.evaluate(trial, lambda *report: reports.append(report)) == uninterrupted
    assert len(steps) <= {"stacked": 3}.get(settings[0], 3 * (1 + 5 + 5)), "the first has one epoch left of 3 steps"
    assert taken >= 3 * 5
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


@pytest.mark.parametrize(
    "damage", ["empty", "cut", "a flipped bit", "no checkpoint", "code", "another", "a state that lacks something"]
)
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
    whole = path.read_bytes()
    content = unpack(whole)
    bomb = pickle.dumps(Bomb())
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 64
    bad = {
        "empty": b"",
        "cut": whole[:2000],
        "a flipped bit": bytes(flipped),
        "no checkpoint": b"text",
        "code": hashlib.sha256(bomb).digest() + bomb,
        "another": pack({**content, "fingerprint": "of another cell"}),
        "a state that lacks something": pack({**content, "learner": {"network": content["learner"]["network"]}}),
    }
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
    noise_split: Split,
    make_trial: MakeTrial,
    kept: tuple[Checkpoints, Evaluation],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    checkpoints, expected = kept
    (path,) = checkpoints.folder.iterdir()
    before = path.read_bytes()

    def fail(number: int) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="the disk is full"):
        checkpoints.save(unpack(before)["fingerprint"], 0, [[0.1]], {})
    assert path.read_bytes() == before
    assert list(checkpoints.folder.iterdir()) == [path]
    path.unlink()
    assert evaluate(noise_split, make_trial(), checkpoints) == expected
    assert "no checkpoint of trial 0" in caplog.text
    assert "(the disk is full)" in caplog.text


def test_a_machine_without_the_run_directory_trains_without_checkpoints(
    noise_split: Split, make_trial: MakeTrial, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    nowhere = tmp_path / "not mounted here" / "checkpoints"
    evaluation = evaluate(noise_split, make_trial(), Checkpoints(nowhere, every=1))
    assert evaluation == evaluate(noise_split, make_trial(), Checkpoints(tmp_path / "here", every=1))
    assert not nowhere.parent.exists(), "no run directory is made up"
    assert "Does this machine have the run directory" in caplog.text


@pytest.mark.parametrize("settings", [("plain", 1), ("fast", 2), ("stacked", 1)], ids=str)
def test_a_trial_that_breaks_down_leaves_no_checkpoint(
    noise_split: Split, make_trial: MakeTrial, tmp_path: Path, steps: list[int], settings: tuple[str, int]
) -> None:
    checkpoints = Checkpoints(tmp_path / "kept", every=1)

    def break_down(number: int, epochs: int, error: float) -> None:
        assert list(checkpoints.folder.iterdir())
        raise TrainingFailedError("no memory")

    with pytest.raises(TrainingFailedError):
        ImageTrainer(noise_split, settings_of(*settings), checkpoints=checkpoints).evaluate(make_trial(), break_down)
    assert not list(checkpoints.folder.iterdir())


def test_a_rhythm_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(TrainerError, match="checkpoints every 0 epochs: it must be at least 1"):
        Checkpoints(tmp_path, every=0)
