"""Validation of the epochs before a trial's last on a part of the images: the last stays exact, ways stay equal."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from fmnas.search_spaces import Trial
from fmnas.trainers import TrainerError
from fmnas.trainers.checkpoints import Checkpoints
from fmnas.trainers.images import image_trainer
from fmnas.trainers.images.batches import normalise, to_device
from fmnas.trainers.images.image_trainer import FinalTrainer, ImageTrainer, TrainingSettings
from fmnas.trainers.images.training import Learner, TrainingContext
from fmnas.trainers.split import Split

MakeTrial = Callable[..., Trial]
EARLY, EPOCHS = 6, 3
SETTINGS = TrainingSettings(seeds=2, batch_size=8, early_validation=EARLY)


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that validation takes several batches, the last of them smaller."""
    monkeypatch.setattr(image_trainer, "evaluation_batch", lambda device: 4)


arrangements = pytest.mark.parametrize("arrangement", ["plain", "fast", "stacked"])


def trainer(split: Split, checkpoints: Checkpoints | None = None, **other: Any) -> ImageTrainer:
    return ImageTrainer(split, replace(SETTINGS, **other), clock=lambda: 0.0, checkpoints=checkpoints)


def beginning_of(split: Split, count: int) -> Split:
    """The split with the first so many validation images alone."""
    return replace(split, held_out_inputs=split.held_out_inputs[:count], held_out_labels=split.held_out_labels[:count])


@arrangements
def test_early_epochs_are_measured_on_the_first_images_and_the_last_on_all(
    noise_split: Split, make_trial: MakeTrial, arrangement: str
) -> None:
    trial = make_trial(epochs=EPOCHS)
    found = trainer(noise_split, arrangement=arrangement).evaluate(trial)
    whole = trainer(noise_split, arrangement=arrangement, early_validation=None).evaluate(trial)
    part = trainer(beginning_of(noise_split, EARLY), arrangement=arrangement, early_validation=None).evaluate(trial)
    assert found.curve == (*part.curve[:-1], whole.curve[-1])
    assert replace(found, curve=whole.curve) == whole
    assert found.curve != whole.curve, "or nothing has been tested"


@arrangements
def test_all_of_the_images_are_as_none_said(noise_split: Split, make_trial: MakeTrial, arrangement: str) -> None:
    chosen = {"arrangement": arrangement}
    found = [trainer(noise_split, early_validation=n, **chosen).evaluate(make_trial()) for n in (17, None)]
    assert found[0] == found[1]


def test_no_more_images_are_looked_at(
    noise_split: Split, make_trial: MakeTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, seen = Learner.validation_error, []

    def spy(learner: Learner, first: int | None = None) -> float | None:
        seen.append(first)
        return real(learner, first)

    monkeypatch.setattr(Learner, "validation_error", spy)
    trainer(noise_split, seeds=1, arrangement="plain").evaluate(make_trial(epochs=EPOCHS))
    assert seen == [EARLY, EARLY, None]


@pytest.mark.parametrize("first", [EARLY, None])
def test_the_first_of_the_held_out_images(noise_split: Split, first: int | None) -> None:
    data = to_device(noise_split, torch.device("cpu"))
    batches = list(TrainingContext(data, 4, 4).validation_batches(first))
    images, labels = (torch.cat(column) for column in zip(*batches, strict=True))
    assert torch.equal(images, normalise(data.held_out_images[:first]))
    assert torch.equal(labels, data.held_out_labels[:first])
    assert len(labels) == (first or 17)


@arrangements
@pytest.mark.parametrize("again", [False, True])
def test_trials_that_go_on_have_the_numbers_of_those_that_nothing_cut(
    noise_split: Split, make_trial: MakeTrial, tmp_path: Path, arrangement: str, again: bool
) -> None:
    """The epoch at which a shorter trial ended is an early one of the longer; a repeated trial is the same."""
    chosen = {"arrangement": arrangement, "schedule_epochs": 4}
    checkpoints = Checkpoints(tmp_path / "kept", every=3)
    for epochs in (1, 2, 4):
        trial = make_trial(epochs=epochs)
        for _ in range(1 + again):
            reports: list[tuple[int, int, float]] = []
            found = trainer(noise_split, checkpoints, **chosen).evaluate(trial, lambda *r, to=reports: to.append(r))
            assert found == trainer(noise_split, **chosen).evaluate(trial)
            assert sorted(r[:2] for r in reports) == [(seed, n + 1) for seed in range(2) for n in range(epochs)]
            assert tuple(error for _, n, error in sorted(reports) if n == epochs) == found.errors


def test_a_checkpoint_of_another_setting_is_not_taken(
    noise_split: Split, make_trial: MakeTrial, tmp_path: Path
) -> None:
    checkpoints, trial = Checkpoints(tmp_path / "kept", every=1), make_trial(epochs=2)
    chosen = {"schedule_epochs": 4, "arrangement": "plain", "seeds": 1}
    for early in (EARLY, EARLY + 1, None):
        trainer(noise_split, checkpoints, early_validation=early, **chosen).evaluate(trial)
    assert len(list(checkpoints.folder.iterdir())) == 3


@pytest.mark.parametrize("images", [0, -1, True, 2.0])
def test_no_images_are_refused(images: Any) -> None:
    with pytest.raises(TrainerError, match=rf"early_validation = {images}: it must be an integer of at least 1"):
        TrainingSettings(early_validation=images)


def test_more_images_than_there_are_are_refused(noise_split: Split) -> None:
    with pytest.raises(TrainerError, match=r"early_validation = 18: the split has 17 validation images"):
        trainer(noise_split, early_validation=18)


def test_a_final_training_is_measured_once_on_all_its_images(noise_split: Split, make_trial: MakeTrial) -> None:
    parts = (noise_split.train_inputs, noise_split.train_labels)
    test = (noise_split.held_out_inputs[:4], noise_split.held_out_labels[:4])
    split = Split(*parts, *test, name="noise", place="a test", for_tests=True)
    found = [FinalTrainer(split, replace(SETTINGS, early_validation=n)).evaluate(make_trial()) for n in (EARLY, None)]
    assert found[0].errors == found[1].errors
