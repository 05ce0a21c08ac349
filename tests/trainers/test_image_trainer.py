"""Evaluations: objective, curve, divergence, reproducibility, in every arrangement; invalid settings."""

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

from fmnas.search_spaces import Cell, SpaceError, Trial, joint_space
from fmnas.trainers import TrainerError, TrainingFailedError
from fmnas.trainers.images import image_trainer, training
from fmnas.trainers.images.data import digits_set, search_split
from fmnas.trainers.images.image_trainer import ImageTrainer
from fmnas.trainers.images.model import Network
from fmnas.trainers.images.multi_seed import StackedLearner
from fmnas.trainers.images.network import count_flops
from fmnas.trainers.images.settings import TrainingSettings
from fmnas.trainers.images.training import Learner
from fmnas.trainers.split import Split

pytestmark = pytest.mark.slow

MakeTrial, MakeTrainer = Callable[..., Trial], Callable[..., ImageTrainer]
ARRANGEMENTS = ("plain", "fast", "stacked")
arrangements = pytest.mark.parametrize("arrangement", ARRANGEMENTS)


@pytest.fixture(params=ARRANGEMENTS)
def trainer(request: pytest.FixtureRequest, make_trainer: MakeTrainer) -> ImageTrainer:
    return make_trainer(arrangement=request.param)


def test_the_parts_of_an_evaluation(trainer: ImageTrainer, make_trial: MakeTrial, reports: Any) -> None:
    trial = make_trial(epochs=3)
    evaluation = trainer.evaluate(trial, reports)
    reports.sort(key=lambda report: report[0])  # the epochs of each training must have come in order
    assert [(seed, epoch) for seed, epoch, _ in reports] == [(s, e) for s in range(3) for e in (1, 2, 3)]
    errors = np.array([error for *_, error in reports]).reshape(3, 3)  # [seeds, epochs]
    assert evaluation.errors == tuple(errors[:, -1])
    assert evaluation.curve == pytest.approx(errors.mean(axis=0))
    assert evaluation.seed_curves == tuple(map(tuple, errors))
    assert len({round(error * 17, 6) % 1 for error in errors.flat}) == 1, "17 validation images"
    flops = count_flops(Cell.from_configuration(trial.configuration))
    assert (evaluation.flops, evaluation.flops_ratio) == (flops, flops / 70_274_048)
    assert evaluation.objective == pytest.approx(errors[:, -1].mean() + 0.02 * flops / 70_274_048, abs=1e-12)
    assert (evaluation.epochs, evaluation.diverged) == (3, False)


def test_seconds_are_those_of_the_clock(noise_split: Split, make_trial: MakeTrial) -> None:
    ticks = iter([10.0, 12.5])
    trainer = ImageTrainer(noise_split, TrainingSettings(seeds=1), clock=lambda: next(ticks))
    assert trainer.evaluate(make_trial(epochs=1)).seconds == 2.5


def test_the_fast_numbers_do_not_depend_on_the_number_of_threads(
    make_trial: MakeTrial, make_trainer: MakeTrainer
) -> None:
    trial = make_trial(op1="conv5x5")
    results = [make_trainer(arrangement="fast", threads=threads).evaluate(trial) for threads in (1, 2, 3)]
    assert results[1:] == results[:1] * 2


@arrangements
def test_a_loss_that_is_not_finite_ends_its_training_at_that_step(
    make_trainer: MakeTrainer, make_trial: MakeTrial, monkeypatch: pytest.MonkeyPatch, reports: Any, arrangement: str
) -> None:
    """That of training 1, in its second step, or for a stack in the fifth of six, in the second epoch.

    It counts as guessing, and the others continue.
    """
    trainer = make_trainer(arrangement=arrangement)
    healthy = trainer.evaluate(make_trial())
    steps, networks = [0, 0, 0], []
    real_build, real_step, real_losses = image_trainer.build_network, training.train_step, StackedLearner._losses

    def build(*arguments: Any) -> Network:
        networks.append(real_build(*arguments))
        return networks[-1]

    def step(network: torch.nn.Module, *rest: Any) -> float:
        number = [network is built or getattr(network, "network", None) is built for built in networks].index(True)
        steps[number] += 1
        loss = real_step(network, *rest)
        return math.inf if (number, steps[number]) == (1, 2) else loss

    def losses(learner: StackedLearner, *batch: Any) -> torch.Tensor:
        steps[:] = [count + 1 for count in steps]
        return real_losses(learner, *batch) * torch.tensor([1.0, math.nan if steps[1] == 5 else 1.0, 1.0])

    monkeypatch.setattr(image_trainer, "build_network", build)
    monkeypatch.setattr(training, "train_step", step)
    monkeypatch.setattr(StackedLearner, "_losses", losses)
    evaluation = trainer.evaluate(make_trial(), reports)
    assert steps == ([6, 6, 6] if arrangement == "stacked" else [6, 2, 6]), "23 images in batches of 8, twice"
    assert evaluation.errors == (healthy.errors[0], 0.9, healthy.errors[2])
    assert evaluation.diverged
    assert [report for report in reports if report[0] == 1][-1] == (1, 2, 0.9)
    assert evaluation.objective == pytest.approx(sum(evaluation.errors) / 3 + 0.02 * healthy.flops_ratio)
    assert arrangement != "stacked" or evaluation.curve[0] == healthy.curve[0]


@pytest.mark.parametrize(("method", "result"), [("train_epoch", False), ("validation_error", None)])
def test_the_curve_of_a_late_divergence(
    make_trainer: MakeTrainer, make_trial: MakeTrial, monkeypatch: pytest.MonkeyPatch, method: str, result: object
) -> None:
    """It keeps the epochs before, and nothing is trained after."""
    real, calls = getattr(Learner, method), iter(range(100))
    monkeypatch.setattr(Learner, method, lambda *a: result if next(calls) == 1 else real(*a))
    evaluation = make_trainer(seeds=1).evaluate(make_trial(epochs=4))
    assert evaluation.curve[1:] == (0.9, 0.9, 0.9)
    assert evaluation.curve[0] * 17 == pytest.approx(round(evaluation.curve[0] * 17))
    assert next(calls) == 2, "epochs 3 and 4 are not trained"
    assert evaluation.diverged


@arrangements
@pytest.mark.parametrize("name", ["identity", "maxpool3x3"])
def test_an_extreme_schedule_is_an_evaluation(
    make_trial: MakeTrial, make_trainer: MakeTrainer, arrangement: str, name: str
) -> None:
    """Momentum 1 at the highest rate, with each operation: finite numbers, also if the weights are not."""
    operations = {f"op{place}": name for place in range(1, 9)}
    trial = make_trial(epochs=2, momentum=1.0, learning_rate=0.1, reduction_point_1=1.0, **operations)
    split = search_split(digits_set(), 20, 20)
    evaluation = make_trainer(split, seeds=2, batch_size=4, arrangement=arrangement).evaluate(trial)
    assert len(evaluation.curve) == 2
    assert all(0.0 <= error <= 1.0 for error in (*evaluation.curve, *evaluation.errors))
    assert evaluation.diverged <= (0.9 in evaluation.errors)


def test_same_trial_same_evaluation(make_trainer: MakeTrainer, make_trial: MakeTrial) -> None:
    trial, trainer = make_trial(), make_trainer()
    first = trainer.evaluate(trial)
    trainer.evaluate(make_trial(seed=6, op1="conv5x5"))
    torch.manual_seed(123)
    assert trainer.evaluate(trial) == first
    assert make_trainer().evaluate(trial) == first
    assert trainer.evaluate(make_trial(seed=7)).curve != first.curve
    assert make_trainer(seeds=2).evaluate(trial).errors == first.errors[:2], "the first seeds of a larger number"


def test_a_report_that_raises_ends_the_evaluation(trainer: ImageTrainer, make_trial: MakeTrial) -> None:
    expected = trainer.evaluate(make_trial())
    calls = []

    def cancel(*report: object) -> None:
        calls.append(report)
        raise InterruptedError

    with pytest.raises(InterruptedError):
        trainer.evaluate(make_trial(), cancel)
    assert len(calls) == 1
    assert trainer.evaluate(make_trial()) == expected


@pytest.mark.parametrize(
    ("threads", "error"), [(1, RuntimeError("not enough memory: you tried to allocate")), (2, MemoryError())]
)
def test_a_failed_training_names_the_cell_and_the_trainer_is_usable(
    make_trainer: MakeTrainer, make_trial: MakeTrial, monkeypatch: pytest.MonkeyPatch, threads: int, error: Exception
) -> None:
    trainer = make_trainer(threads=threads)
    healthy = trainer.evaluate(make_trial())

    def fail(*arguments: object) -> float:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(training, "train_step", fail)
        with pytest.raises(TrainingFailedError, match=rf"training \d of Cell.*conv1x1.*{type(error).__name__}"):
            trainer.evaluate(make_trial())
    assert trainer.evaluate(make_trial()) == healthy


def test_a_batch_of_one_trains(make_trainer: MakeTrainer, make_trial: MakeTrial) -> None:
    evaluation = make_trainer(seeds=1, batch_size=22).evaluate(make_trial(epochs=1))
    assert not evaluation.diverged, "the last batch has one image"


def test_threads_are_set_only_if_asked(make_trainer: MakeTrainer) -> None:
    torch.set_num_threads(2)
    make_trainer(threads=None)
    assert torch.get_num_threads() == 2
    make_trainer(threads=1)
    assert torch.get_num_threads() == 1


@pytest.mark.parametrize("device", ["gpu", "cuda:99"])
def test_an_unknown_device_is_refused(make_trainer: MakeTrainer, device: str) -> None:
    with pytest.raises(TrainerError, match=f"device = {device!r}"):
        make_trainer(device=device)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *product(("seeds", "batch_size", "threads", "schedule_epochs", "early_validation"), (0, 1.5, True, "4")),
        *product(("seeds", "batch_size"), (None,)),
        *product(("arrangement", "flops"), ("other", None)),
        *product(("flops_weight",), (-0.1, math.nan, math.inf, None, "a")),
    ],
)
def test_a_setting_that_is_not_allowed_is_named(name: str, value: Any) -> None:
    with pytest.raises(TrainerError, match=f"^{name} = {value!r}; it must be"):
        TrainingSettings(**{name: value})


def test_an_invalid_configuration_is_refused_before_training(
    trainer: ImageTrainer, make_trial: MakeTrial, reports: Any
) -> None:
    with pytest.raises(SpaceError, match="learning_rate"):
        trainer.evaluate(make_trial(learning_rate=1.0), reports)
    assert reports == []
    assert trainer.space == joint_space()
