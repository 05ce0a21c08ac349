"""Early epochs validated on a part of the images: the last epoch stays exact, arrangements and resumed trials agree."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from fmnas.search_spaces import Trial
from fmnas.trainers.checkpoints import Checkpoints
from fmnas.trainers.images import image_trainer
from fmnas.trainers.images.batches import to_device
from fmnas.trainers.images.image_trainer import ImageTrainer
from fmnas.trainers.images.model import normalise
from fmnas.trainers.images.training import TrainingContext
from fmnas.trainers.split import Split

pytestmark = pytest.mark.slow

MakeTrial, MakeTrainer = Callable[..., Trial], Callable[..., ImageTrainer]
EARLY, EPOCHS = 6, 2
arrangements = pytest.mark.parametrize("arrangement", ["plain", "fast", "stacked"])


@pytest.fixture
def trainer(make_trainer: MakeTrainer, monkeypatch: pytest.MonkeyPatch) -> MakeTrainer:
    """With early validation, in several batches, the last of them smaller."""
    monkeypatch.setattr(image_trainer, "evaluation_batch", lambda device: 4)
    return lambda *arguments, **settings: make_trainer(
        *arguments, **{"seeds": 2, "early_validation": EARLY, **settings}
    )


@arrangements
def test_early_epochs_use_the_first_images_and_the_last_all(
    trainer: MakeTrainer, noise_split: Split, make_trial: MakeTrial, arrangement: str
) -> None:
    trial, split = make_trial(epochs=EPOCHS), noise_split
    part = replace(split, held_out_inputs=split.held_out_inputs[:EARLY], held_out_labels=split.held_out_labels[:EARLY])
    early = trainer(arrangement=arrangement).evaluate(trial)
    exact, of_part = (
        trainer(data, arrangement=arrangement, early_validation=None).evaluate(trial) for data in (split, part)
    )
    assert early.curve == (*of_part.curve[:-1], exact.curve[-1])
    assert replace(early, curve=exact.curve, seed_curves=exact.seed_curves) == exact
    assert early.curve != exact.curve, "otherwise nothing is tested"
    assert trainer(arrangement=arrangement, early_validation=17).evaluate(trial) == exact


@pytest.mark.parametrize("first", [EARLY, None])
def test_the_first_of_the_held_out_images(noise_split: Split, first: int | None) -> None:
    data = to_device(noise_split, torch.device("cpu"))
    batches = list(TrainingContext(data, 4, 4).validation_batches(first))
    images, labels = (torch.cat(column) for column in zip(*batches, strict=True))
    assert torch.equal(images, normalise(data.held_out_images[:first]))
    assert torch.equal(labels, data.held_out_labels[:first])
    assert len(labels) == (first or 17)


@pytest.mark.parametrize(("arrangement", "repeated"), [("plain", True), ("fast", False), ("stacked", False)])
def test_continued_trials_have_the_numbers_of_uninterrupted_ones(
    trainer: MakeTrainer, make_trial: MakeTrial, tmp_path: Path, arrangement: str, repeated: bool
) -> None:
    """The epoch at which a shorter trial ended is an early one of the longer; a repeated trial is the same."""
    settings: dict[str, Any] = {"arrangement": arrangement, "schedule_epochs": 4}
    checkpoints = Checkpoints(tmp_path / "checkpoints", every=3, continue_promoted=True)
    for epochs in (1, 2, 4):
        trial = make_trial(epochs=epochs)
        expected = trainer(**settings).evaluate(trial)
        for _ in range(1 + repeated):
            reports: list[tuple[int, int, float]] = []
            evaluation = trainer(None, checkpoints, **settings).evaluate(trial, lambda *r, to=reports: to.append(r))
            assert evaluation == expected
            assert sorted(r[:2] for r in reports) == [(seed, n + 1) for seed in range(2) for n in range(epochs)]
            assert tuple(error for _, n, error in sorted(reports) if n == epochs) == evaluation.errors


def test_a_checkpoint_belongs_to_its_setting(trainer: MakeTrainer, make_trial: MakeTrial, tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path / "checkpoints", every=1, continue_promoted=True)
    for early in (EARLY, EARLY + 1, None):
        settings = {"schedule_epochs": 4, "arrangement": "plain", "seeds": 1, "early_validation": early}
        trainer(None, checkpoints, **settings).evaluate(make_trial(epochs=2))
    assert len(list(checkpoints.folder.iterdir())) == 3
