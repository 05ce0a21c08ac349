"""Final trainings: the last error of the same trainings, measured once, on the test images."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fmnas.search_spaces import Trial
from fmnas.trainers.images.image_trainer import FinalTrainer, ImageTrainer
from fmnas.trainers.images.settings import TrainingSettings
from fmnas.trainers.images.training import Learner
from fmnas.trainers.split import Split

MakeTrial = Callable[..., Trial]


@pytest.fixture
def final(noise_split: Split) -> Split:
    return replace(noise_split, for_tests=True)


@pytest.mark.parametrize(("arrangement", "schedule_epochs"), [("plain", 4), ("fast", None), ("stacked", None)])
def test_it_is_the_last_error_of_the_same_trainings(
    arrangement: str, schedule_epochs: int | None, noise_split: Split, final: Split, make_trial: MakeTrial, reports: Any
) -> None:
    settings = TrainingSettings(seeds=2, batch_size=8, arrangement=arrangement, schedule_epochs=schedule_epochs)
    usual = ImageTrainer(noise_split, settings).evaluate(make_trial(epochs=3))
    evaluation = FinalTrainer(final, replace(settings, early_validation=4)).evaluate(make_trial(epochs=3), reports)
    assert evaluation.errors == usual.errors
    assert evaluation.curve == (usual.curve[-1],)
    assert (evaluation.epochs, evaluation.objective) == (3, usual.objective)
    assert sorted(reports) == [(0, 3, usual.errors[0]), (1, 3, usual.errors[1])]


@pytest.mark.parametrize(("method", "result", "calls"), [("train_epoch", False, 2), ("validation_error", None, 1)])
def test_a_training_that_diverges_has_the_error_of_guessing(
    method: str, result: object, calls: int, final: Split, make_trial: MakeTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, numbers = getattr(Learner, method), iter(range(100))
    monkeypatch.setattr(Learner, method, lambda *a: result if next(numbers) == calls - 1 else real(*a))
    evaluation = FinalTrainer(final, TrainingSettings(seeds=1, batch_size=8)).evaluate(make_trial(epochs=4))
    assert evaluation.diverged
    assert evaluation.errors == (0.9,)
    assert next(numbers) == calls, "the training ends there"
