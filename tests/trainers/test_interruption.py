"""Evaluations that are cancelled, and trainings that resume from a checkpoint."""

import hashlib
import os
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from fmnas.search_spaces import Cell, Evaluation, Schedule, Trial
from fmnas.trainers import EvaluationStoppedError, TrainingFailedError
from fmnas.trainers.checkpoints import Checkpoints, pack, unpack
from fmnas.trainers.contract import never_stop, no_report
from fmnas.trainers.images import training
from fmnas.trainers.images.image_trainer import ImageTrainer
from fmnas.trainers.images.multi_seed import StackedLearner
from fmnas.trainers.images.seed_parallelism import Task
from fmnas.trainers.split import Split

pytestmark = pytest.mark.slow

MakeTrial, MakeTrainer = Callable[..., Trial], Callable[..., ImageTrainer]
Saved = tuple[Checkpoints, Evaluation]
arrangements = pytest.mark.parametrize(("arrangement", "threads"), [("plain", 1), ("fast", 2), ("stacked", 1)])


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by one number per step."""
    steps: list[int] = []
    for place, name in ((training, "train_step"), (StackedLearner, "step")):
        real = getattr(place, name)

        def step(*arguments: Any, real: Callable[..., Any] = real) -> Any:
            steps.append(1)
            return real(*arguments)

        monkeypatch.setattr(place, name, step)
    return steps


@arrangements
def test_a_stop_ends_within_one_step_of_each_training(
    make_trainer: MakeTrainer, make_trial: MakeTrial, steps: list[int], arrangement: str, threads: int
) -> None:
    trainer = make_trainer(arrangement=arrangement, threads=threads)
    healthy = trainer.evaluate(make_trial())
    for allowed in (0, 1, 5):
        steps.clear()
        with pytest.raises(EvaluationStoppedError):
            trainer.evaluate(make_trial(), stop=lambda allowed=allowed: len(steps) >= allowed)
        assert allowed <= len(steps) <= allowed + threads - 1
    assert trainer.evaluate(make_trial()) == healthy


class PowerCut(Exception):  # noqa: N818
    """Ends a process at once."""


def cut_after(epoch: int) -> Callable[[int, int, float], None]:
    """A report that raises after this epoch of training 0."""

    def report(number: int, epochs: int, error: float) -> None:
        if (number, epochs) == (0, epoch):
            raise PowerCut

    return report


@arrangements
def test_a_retried_trial_ends_as_if_nothing_had_happened(
    make_trainer: MakeTrainer,
    make_trial: MakeTrial,
    tmp_path: Path,
    steps: list[int],
    arrangement: str,
    threads: int,
    reports: Any,
) -> None:
    trial, chosen = make_trial(epochs=5, op1="conv5x5"), {"arrangement": arrangement, "threads": threads}
    uninterrupted = make_trainer(**chosen).evaluate(trial)
    checkpoints = Checkpoints(tmp_path / "checkpoints", every=2)
    with pytest.raises(PowerCut):
        make_trainer(None, checkpoints, **chosen).evaluate(trial, cut_after(5))
    assert list(checkpoints.folder.glob("*-0.pt"))
    assert len(steps) >= 3 * 5
    steps.clear()
    assert make_trainer(None, checkpoints, **chosen).evaluate(trial, reports) == uninterrupted
    assert len(steps) <= (3 if arrangement == "stacked" else 3 * (1 + 5 + 5)), (
        "one epoch of 3 steps is left of the first"
    )
    assert sorted(report[:2] for report in reports) == [(seed, epoch) for seed in range(3) for epoch in range(1, 6)]
    assert not list(checkpoints.folder.iterdir()), "nothing is left of a finished evaluation"


@pytest.mark.parametrize("arrangement", ["plain", "fast", "stacked"])
def test_a_learner_with_a_saved_state_goes_on_as_the_one_that_saved_it(
    make_trainer: MakeTrainer, make_trial: MakeTrial, arrangement: str
) -> None:
    """To the last bit of weights and statistics: errors on a few images hide differences."""
    configuration = make_trial(op1="conv5x5").configuration
    cell, schedule = Cell.from_configuration(configuration), Schedule.from_configuration(configuration)
    task = Task(make_trial(), cell, schedule, range(1 + (arrangement == "stacked")), no_report, never_stop)
    trainer = make_trainer(arrangement=arrangement, threads=1)
    saved, resumed = trainer._learner(task), trainer._learner(task)
    saved.train([0.05])
    resumed.load_state_dict(unpack(pack(saved.state_dict())))
    assert saved.train([0.02]) == resumed.train([0.02])
    for one, other in zip(saved.weights(), resumed.weights(), strict=True):
        torch.testing.assert_close(one, other, rtol=0.0, atol=0.0)


@pytest.fixture
def evaluate(make_trainer: MakeTrainer) -> Callable[..., Evaluation]:
    """Evaluates with one seed, and checkpoints after every epoch."""
    return lambda trial, checkpoints, **other: make_trainer(
        other.pop("split", None), checkpoints, **{"seeds": 1, **other}
    ).evaluate(trial)


@pytest.fixture
def saved(make_trainer: MakeTrainer, make_trial: MakeTrial, tmp_path: Path) -> Saved:
    """The checkpoint of a training after 1 of 2 epochs, and the evaluation without interruption."""
    checkpoints = Checkpoints(tmp_path, every=1)
    with pytest.raises(PowerCut):
        make_trainer(None, checkpoints, seeds=1).evaluate(make_trial(), cut_after(1))
    return checkpoints, make_trainer(seeds=1).evaluate(make_trial())


def test_a_checkpoint_of_other_conditions_is_not_used(
    make_trial: MakeTrial,
    evaluate: Callable[..., Evaluation],
    saved: Saved,
    steps: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another processor rounds differently: half of a training on each would be reproducible on neither."""
    checkpoints, _ = saved
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "another")
    uninterrupted = evaluate(make_trial(), None)  # as on the other processor: the fast arrangement depends on it
    steps.clear()
    assert evaluate(make_trial(), checkpoints) == uninterrupted
    assert len(steps) == 2 * 3, "both epochs"


class Bomb:
    """Executes code when it is unpickled."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return exec, ("raise SystemExit('code from a file was executed')",)


@pytest.mark.parametrize("damage", ["cut", "a flipped bit", "code", "another", "an incomplete state", "none"])
def test_an_invalid_checkpoint_costs_time_only(
    make_trial: MakeTrial,
    evaluate: Callable[..., Evaluation],
    saved: Saved,
    steps: list[int],
    damage: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    checkpoints, expected = saved
    steps.clear()
    (path,) = checkpoints.folder.iterdir()
    intact = path.read_bytes()
    content, bomb, flipped = unpack(intact), pickle.dumps(Bomb()), bytearray(intact)
    flipped[len(intact) // 2] ^= 64
    invalid = {
        "cut": intact[:2000],
        "a flipped bit": bytes(flipped),
        "code": hashlib.sha256(bomb).digest() + bomb,
        "another": pack({**content, "fingerprint": "of another cell"}),
        "an incomplete state": pack({**content, "learner": {"network": content["learner"]["network"]}}),
        "none": intact,
    }
    path.write_bytes(invalid[damage])
    assert evaluate(make_trial(), checkpoints) == expected
    assert len(steps) == (3 if damage == "none" else 6), "of two epochs"
    assert (str(path) in caplog.text) == (damage != "none")


@pytest.mark.parametrize(
    ("trial", "settings"),
    [
        ({"seed": 6}, {}),
        ({"learning_rate": 0.04}, {}),
        ({}, {"batch_size": 9}),
        ({}, {"arrangement": "plain"}),
        ({}, {"split": True}),
    ],
)
def test_a_checkpoint_is_for_its_training_only(
    make_trial: MakeTrial,
    evaluate: Callable[..., Evaluation],
    saved: Saved,
    noise_split: Split,
    tmp_path: Path,
    trial: dict[str, object],
    settings: dict[str, object],
) -> None:
    if "split" in settings:
        settings = {"split": replace(noise_split, train_labels=noise_split.train_labels[::-1].copy())}
    expected = evaluate(make_trial(**trial), Checkpoints(tmp_path / "empty"), **settings)
    assert evaluate(make_trial(**trial), saved[0], **settings) == expected


def test_each_run_trains_all_epochs_of_its_own_trial(
    make_trial: MakeTrial, make_trainer: MakeTrainer, tmp_path: Path, steps: list[int]
) -> None:
    """Runs share configuration and seed of an initial design, but the seconds of one are not those of another."""
    trainer = make_trainer(None, Checkpoints(tmp_path, every=1), seeds=1)
    first, second = (replace(make_trial(), run=run) for run in ("bohb/repeat-0", "random/repeat-0"))
    with pytest.raises(PowerCut):
        trainer.evaluate(first, cut_after(1))
    evaluations = []
    for trial, trained in ((second, 2), (first, 1)):
        steps.clear()
        evaluations.append(trainer.evaluate(trial))
        assert len(steps) == 3 * trained, trial.run
    assert evaluations[0] == evaluations[1]
    assert not list(tmp_path.iterdir())


def test_a_write_that_fails_keeps_the_previous_checkpoint(
    make_trial: MakeTrial,
    evaluate: Callable[..., Evaluation],
    saved: Saved,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    checkpoints, expected = saved
    (path,) = checkpoints.folder.iterdir()
    before = path.read_bytes()

    def fail(number: int) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(os, "fsync", fail)
    checkpoints.save(unpack(before)["fingerprint"], 0, [[0.1]], {})
    assert path.read_bytes() == before
    assert list(checkpoints.folder.iterdir()) == [path]
    path.unlink()
    assert evaluate(make_trial(), checkpoints) == expected
    assert "the disk is full" in caplog.text


def test_without_the_run_directory_no_checkpoints_are_written(
    make_trial: MakeTrial, evaluate: Callable[..., Evaluation], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    absent = tmp_path / "not mounted here" / "checkpoints"
    evaluation = evaluate(make_trial(), Checkpoints(absent, every=1))
    assert evaluation == evaluate(make_trial(), Checkpoints(tmp_path / "here", every=1))
    assert not absent.parent.exists(), "the run directory is not created"
    assert str(absent) in caplog.text


@pytest.mark.parametrize("arrangement", ["fast", "stacked"])
def test_a_failed_trial_leaves_no_checkpoint(
    make_trainer: MakeTrainer, make_trial: MakeTrial, tmp_path: Path, arrangement: str
) -> None:
    checkpoints = Checkpoints(tmp_path / "checkpoints", every=1)

    def fail(number: int, epochs: int, error: float) -> None:
        assert list(checkpoints.folder.iterdir())
        raise TrainingFailedError("no memory")

    with pytest.raises(TrainingFailedError):
        make_trainer(None, checkpoints, arrangement=arrangement, threads=2).evaluate(make_trial(), fail)
    assert not list(checkpoints.folder.iterdir())
