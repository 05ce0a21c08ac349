"""Whole evaluations: the objective, the curve, divergence, reproducibility, what is refused."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from fmnas.search_spaces import Cell, SpaceError, Trial, joint_space
from fmnas.trainers import TrainerError
from fmnas.trainers.images import cpu_fast as fast_training
from fmnas.trainers.images import image_trainer, training
from fmnas.trainers.images.data import digits_set, search_split
from fmnas.trainers.images.image_trainer import ImageTrainer, TrainingSettings
from fmnas.trainers.images.multi_seed import StackedLearner
from fmnas.trainers.images.network import Network, build_network, count_flops
from fmnas.trainers.images.training import Learner
from fmnas.trainers.split import Split

MakeTrial = Callable[..., Trial]
SETTINGS = TrainingSettings(seeds=3, batch_size=8)


ARRANGEMENTS = ("plain", "fast", "stacked")


@pytest.fixture(params=ARRANGEMENTS)
def trainer(request: pytest.FixtureRequest, noise_split: Split) -> ImageTrainer:
    return ImageTrainer(noise_split, replace(SETTINGS, arrangement=request.param), clock=lambda: 0.0)


def test_the_parts_of_an_evaluation(trainer: ImageTrainer, make_trial: MakeTrial) -> None:
    trial = make_trial(epochs=3)
    reports: list[tuple[int, int, float]] = []
    evaluation = trainer.evaluate(trial, lambda *report: reports.append(report))

    reports.sort(key=lambda report: report[0])  # and so the epochs of each training must have come in their order
    assert [(seed, epoch) for seed, epoch, _ in reports] == [(s, e) for s in range(3) for e in (1, 2, 3)]
    errors = np.array([error for *_, error in reports]).reshape(3, 3)  # [seeds, epochs]
    assert evaluation.errors == tuple(errors[:, -1])
    assert evaluation.curve == pytest.approx(errors.mean(axis=0))
    assert len({round(error * 17, 6) % 1 for error in errors.flat}) == 1, "17 validation images"

    flops = count_flops(Cell.from_configuration(trial.configuration))
    assert (evaluation.flops, evaluation.flops_ratio) == (flops, flops / 70_274_048)
    assert evaluation.objective == pytest.approx(errors[:, -1].mean() + 0.02 * flops / 70_274_048, abs=1e-12)
    assert (evaluation.epochs, evaluation.diverged) == (3, False)


def test_seconds_are_those_of_the_clock(noise_split: Split, make_trial: MakeTrial) -> None:
    ticks = iter([10.0, 12.5])
    trainer = ImageTrainer(noise_split, TrainingSettings(seeds=1), clock=lambda: next(ticks))
    assert trainer.evaluate(make_trial(epochs=1)).seconds == 2.5


def test_it_learns(make_trial: MakeTrial) -> None:
    trainer = ImageTrainer(search_split(digits_set(), 500, 300), TrainingSettings(seeds=2, batch_size=16))
    evaluation = trainer.evaluate(make_trial(epochs=3, op1="conv3x3", op7="conv3x3"))
    assert evaluation.curve[-1] < evaluation.curve[0]
    assert max(evaluation.errors) < 0.5, "guessing is 0.9"


def test_the_schedule_is_applied_epoch_by_epoch(
    trainer: ImageTrainer, make_trial: MakeTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates: list[float] = []
    stacked = trainer.settings.arrangement == "stacked"
    place: Any = StackedLearner if stacked else Learner
    real = place.train_epoch

    def spy(*arguments: object) -> bool:
        rates.append(arguments[-1])
        return real(*arguments)

    monkeypatch.setattr(place, "train_epoch", spy)
    trial = make_trial(epochs=4, learning_rate=0.08, lr_reduction=0.25, reduction_point_1=0.25, reduction_point_2=0.5)
    trainer.evaluate(trial)  # reduced after epoch 4 x 0.25 = 1 and int(4 x 0.625) = 2
    assert rates == pytest.approx([0.08, 0.02, 0.005, 0.005] * (1 if stacked else 3))


@pytest.mark.parametrize("arrangement", ["plain", "fast"])
def test_momentum_and_weight_decay_reach_the_optimizer(
    noise_split: Split, arrangement: str, make_trial: MakeTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stack has no such optimizer: its steps are compared with one's that has (test_stacked_training.py)."""
    trainer = ImageTrainer(noise_split, replace(SETTINGS, arrangement=arrangement))
    groups = []
    real = training.build_optimizer

    def spy(*arguments: object, **named: object) -> torch.optim.SGD:
        optimizer = real(*arguments, **named)
        groups.extend(optimizer.param_groups)
        return optimizer

    for module in (training, fast_training):
        monkeypatch.setattr(module, "build_optimizer", spy)
    trainer.evaluate(make_trial(epochs=1, momentum=0.83, weight_decay=3e-3))
    assert [(g["momentum"], g["weight_decay"], g["nesterov"], g["dampening"]) for g in groups] == [
        (0.83, 3e-3, False, 0)
    ] * 3


def poisoned(number: int) -> Callable[..., Network]:
    """`build_network`, but the network of training `number` has an infinite weight."""
    built = iter(range(100))

    def build(cell: Cell, generator: torch.Generator) -> Network:
        network = build_network(cell, generator)
        if next(built) == number:
            with torch.no_grad():
                network.classifier.weight[0, 0] = float("inf")
        return network

    return build


def test_a_training_that_diverges_counts_as_guessing_and_the_others_go_on(
    trainer: ImageTrainer, make_trial: MakeTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    healthy = trainer.evaluate(make_trial())
    monkeypatch.setattr(image_trainer, "build_network", poisoned(1))
    reports: list[tuple[int, int, float]] = []
    evaluation = trainer.evaluate(make_trial(), lambda *report: reports.append(report))
    assert evaluation.diverged
    assert evaluation.errors == (healthy.errors[0], 0.9, healthy.errors[2])
    assert [report for report in reports if report[0] == 1] == [(1, 1, 0.9), (1, 2, 0.9)]
    assert evaluation.objective == pytest.approx(sum(evaluation.errors) / 3 + 0.02 * healthy.flops_ratio)
    assert evaluation.epochs == 2


def test_a_stack_is_trained_no_more_once_all_have_diverged(
    noise_split: Split, make_trial: MakeTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, epochs = StackedLearner.train_epoch, []

    def spy(learner: StackedLearner, rate: float) -> None:
        epochs.append(rate)
        real(learner, rate)

    monkeypatch.setattr(StackedLearner, "train_epoch", spy)
    monkeypatch.setattr(image_trainer, "build_network", poisoned(0))
    evaluation = ImageTrainer(noise_split, TrainingSettings(seeds=1, arrangement="stacked")).evaluate(
        make_trial(epochs=4)
    )
    assert evaluation.curve == (0.9,) * 4
    assert evaluation.diverged
    assert len(epochs) == 1


@pytest.mark.parametrize("where", ["train_epoch", "validation_error"])
def test_the_curve_of_a_late_divergence(
    noise_split: Split, make_trial: MakeTrial, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """It keeps the epochs before, and trains no more after."""
    real = getattr(Learner, where)
    calls = iter(range(100))
    bad = {"train_epoch": False, "validation_error": None}[where]
    monkeypatch.setattr(Learner, where, lambda *a: bad if next(calls) == 1 else real(*a))
    evaluation = ImageTrainer(noise_split, TrainingSettings(seeds=1)).evaluate(make_trial(epochs=4))
    assert evaluation.curve[1:] == (0.9, 0.9, 0.9)
    assert evaluation.curve[0] * 17 == pytest.approx(round(evaluation.curve[0] * 17))
    assert next(calls) == 2, "epochs 3 and 4 are not trained"
    assert evaluation.diverged


def test_the_wildest_corner_of_the_space_is_an_evaluation(make_trial: MakeTrial) -> None:
    trainer = ImageTrainer(search_split(digits_set(), 120, 50), TrainingSettings(seeds=2, batch_size=8))
    evaluation = trainer.evaluate(make_trial(momentum=1.0, learning_rate=0.1, reduction_point_1=1.0))
    assert all(0.0 <= error <= 1.0 for error in evaluation.errors)
    assert evaluation.error > 0.5, "momentum 1 learns nothing"


def test_same_trial_same_evaluation(noise_split: Split, make_trial: MakeTrial) -> None:
    trial = make_trial()
    one = ImageTrainer(noise_split, SETTINGS, clock=lambda: 0.0)
    first = one.evaluate(trial)
    one.evaluate(make_trial(seed=6, op1="conv5x5"))
    torch.manual_seed(123)
    assert one.evaluate(trial) == first
    assert ImageTrainer(noise_split, SETTINGS, clock=lambda: 0.0).evaluate(trial) == first
    assert one.evaluate(make_trial(seed=7)).curve != first.curve


PROGRAM = """
import json, sys
import numpy as np
from fmnas.search_spaces import Trial
from fmnas.trainers.split import Split
from fmnas.trainers.images.image_trainer import ImageTrainer, TrainingSettings
rng = np.random.default_rng(0)
arrays = []
for count in (23, 17):
    arrays += [rng.integers(0, 256, (count, 28, 28), dtype=np.uint8), rng.integers(0, 10, count, dtype=np.uint8)]
data, trial = Split(*arrays, name="noise", place="x"), Trial.from_dict(json.loads(sys.argv[1]))
for arrangement in sys.argv[2:]:
    print(json.dumps(ImageTrainer(data, TrainingSettings(3, 8, arrangement=arrangement)).evaluate(trial).to_dict()))
"""


def test_another_process_gives_the_same_evaluations(noise_split: Split, make_trial: MakeTrial) -> None:
    trial = make_trial()
    arguments = [json.dumps(trial.to_dict()), *ARRANGEMENTS]
    done = subprocess.run([sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, check=True)
    for arrangement, line in zip(ARRANGEMENTS, done.stdout.splitlines(), strict=True):
        one = ImageTrainer(noise_split, replace(SETTINGS, arrangement=arrangement), clock=lambda: 0.0)
        assert {**json.loads(line), "seconds": 0.0} == json.loads(json.dumps(one.evaluate(trial).to_dict()))


def test_seeds_come_first_to_last(noise_split: Split, make_trial: MakeTrial) -> None:
    """The trainings of a smaller number of seeds are the first of a larger number."""
    two = ImageTrainer(noise_split, TrainingSettings(seeds=2, batch_size=8)).evaluate(make_trial())
    three = ImageTrainer(noise_split, SETTINGS).evaluate(make_trial())
    assert three.errors[:2] == two.errors


def test_a_report_that_raises_ends_the_evaluation_and_leaves_the_trainer_well(
    trainer: ImageTrainer, make_trial: MakeTrial
) -> None:
    expected = trainer.evaluate(make_trial())
    calls = []

    def stop(*report: object) -> None:
        calls.append(report)
        raise InterruptedError("cancelled")

    with pytest.raises(InterruptedError, match="cancelled"):
        trainer.evaluate(make_trial(), stop)
    assert len(calls) == 1
    assert trainer.evaluate(make_trial()) == expected


def test_a_batch_of_one_trains(noise_split: Split, make_trial: MakeTrial) -> None:
    evaluation = ImageTrainer(noise_split, TrainingSettings(seeds=1, batch_size=22)).evaluate(make_trial(epochs=1))
    assert not evaluation.diverged, "the last batch has one image"


def test_threads_are_set_only_if_asked(noise_split: Split) -> None:
    torch.set_num_threads(2)
    ImageTrainer(noise_split, TrainingSettings(threads=None))
    assert torch.get_num_threads() == 2
    ImageTrainer(noise_split, TrainingSettings(threads=1))
    assert torch.get_num_threads() == 1


@pytest.mark.parametrize("name", ["seeds", "batch_size", "threads", "schedule_epochs"])
@pytest.mark.parametrize("value", [0, -1, True, 1.5, "4"])
def test_settings_that_cannot_be(name: str, value: object) -> None:
    with pytest.raises(TrainerError, match=f"{name} = {value}: it must be an integer of at least 1"):
        TrainingSettings(**{name: value})


def test_a_count_of_flops_that_cannot_be() -> None:
    with pytest.raises(TrainerError, match="flops = 'fvcore': it must be one of torch, pthflops"):
        TrainingSettings(flops="fvcore")  # type: ignore[arg-type]


@pytest.mark.parametrize("device", ["gpu", "cuda:99"])
def test_a_device_that_is_not_there(noise_split: Split, device: str) -> None:
    with pytest.raises(TrainerError, match=f"device = '{device}' cannot be used here: .*\"cpu\" always can"):
        ImageTrainer(noise_split, TrainingSettings(device=device))


def test_a_value_outside_the_space_is_refused_before_anything_is_trained(
    trainer: ImageTrainer, make_trial: MakeTrial
) -> None:
    reports: list[object] = []
    with pytest.raises(SpaceError, match=r"learning_rate = 1\.0"):
        trainer.evaluate(make_trial(learning_rate=1.0), lambda *report: reports.append(report))
    assert reports == []
    assert trainer.space == joint_space()
