"""Arrangements: what is chosen where, and that they measure the same."""

import math
import statistics
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from fmnas.platform.config.load import check_config
from fmnas.platform.errors import ConfigError
from fmnas.search_spaces import Trial
from fmnas.search_spaces.nasnet import OPERATIONS
from fmnas.trainers import DeviceFailedError, TrainerError, TrainingFailedError
from fmnas.trainers.images import cuda_graph as captured
from fmnas.trainers.images import image_trainer, training
from fmnas.trainers.images.data import digits_set, search_split
from fmnas.trainers.images.image_trainer import ImageTrainer, TrainingSettings
from fmnas.trainers.images.multi_seed import StackedLearner
from fmnas.trainers.images.seed_parallelism import Arranged, arrange
from fmnas.trainers.split import Split

MakeTrial = Callable[..., Trial]
CPU, GPU, META = torch.device("cpu"), torch.device("cuda", 0), torch.device("meta")


@pytest.mark.parametrize(
    ("arrangement", "device", "threads", "seeds", "arranged"),
    [
        ("auto", CPU, 1, 4, Arranged("fast", 1, 1)),
        ("auto", CPU, 2, 4, Arranged("fast", 2, 1)),
        ("fast", CPU, 3, 2, Arranged("fast", 2, 1)),
        ("fast", CPU, 9, 4, Arranged("fast", 4, 2)),
        ("plain", CPU, 8, 4, Arranged("plain", 1, 8)),
        ("plain", CPU, None, 4, Arranged("plain", 1, None)),
        ("stacked", CPU, 8, 4, Arranged("stacked", 1, 8)),
        ("auto", GPU, 8, 4, Arranged("stacked", 1, 8, captured=True)),
        ("stacked", GPU, None, 1, Arranged("stacked", 1, None, captured=True)),
        ("plain", GPU, 1, 4, Arranged("plain", 1, 1)),
        ("auto", META, 1, 4, Arranged("plain", 1, 1)),
    ],
)
def test_what_is_chosen(
    arrangement: str, device: torch.device, threads: int | None, seeds: int, arranged: Arranged
) -> None:
    assert arrange(arrangement, device, threads, seeds) == arranged


def test_threads_that_are_left_alone_are_torchs_own() -> None:
    torch.set_num_threads(2)
    assert arrange("auto", CPU, None, 4) == Arranged("fast", 2, 1)


def test_what_cannot_be_arranged() -> None:
    with pytest.raises(TrainerError, match="arrangement = 'quick': it must be one of auto, plain, fast, stacked"):
        arrange("quick", CPU, 1, 4)
    with pytest.raises(TrainerError, match="'fast' is for CPUs, and device = 'cuda:0': choose auto, plain or stacked"):
        arrange("fast", GPU, 1, 4)


def test_a_configuration_may_force_it() -> None:
    plain = {"name": "t", "problem": "joint", "optimizers": ["random"], "initial_design": 1}
    plain |= {"budget": {"evaluations": 2}, "fidelity": {"epochs": 1}}
    assert check_config(plain, "here").workers.arrangement == "auto"
    assert check_config({**plain, "workers": {"arrangement": "plain"}}, "here").workers.arrangement == "plain"
    with pytest.raises(
        ConfigError, match=r"workers\.arrangement = 'quick': it must be 'auto', 'plain', 'fast' or 'stacked'"
    ):
        check_config({**plain, "workers": {"arrangement": "quick"}}, "here")
    with pytest.raises(ConfigError, match="arrangement fast is for CPUs, so gpus must be 0"):
        check_config({**plain, "workers": {"arrangement": "fast", "gpus": 1}}, "here")


def test_the_fast_numbers_do_not_depend_on_how_many_train_side_by_side(
    noise_split: Split, make_trial: MakeTrial
) -> None:
    settings = TrainingSettings(seeds=3, batch_size=8, arrangement="fast")
    found = []
    for threads in (1, 2, 3, 2):
        trainer = ImageTrainer(noise_split, replace(settings, threads=threads), clock=lambda: 0.0)
        reports: list[tuple[int, int, float]] = []
        evaluation = trainer.evaluate(make_trial(op1="conv5x5"), lambda *r, reports=reports: reports.append(r))
        found.append((evaluation, sorted(reports)))
    assert found[1:] == found[:1] * 3


def test_all_learn_as_well(make_trial: MakeTrial) -> None:
    """The mean errors of 8 seeds differ by less than their standard errors together."""
    split, trial = search_split(digits_set(), 120, 100), make_trial(epochs=2, op7="sepconv5x5")
    errors = {}
    for arrangement in ("plain", "fast", "stacked"):
        settings = TrainingSettings(seeds=8, batch_size=12, arrangement=arrangement)
        errors[arrangement] = ImageTrainer(split, settings).evaluate(trial).errors
    means = [statistics.fmean(found) for found in errors.values()]
    deviations = [statistics.stdev(found) / math.sqrt(8) for found in errors.values()]
    assert max(means) < 0.75, "guessing is 0.9"
    for mean, deviation in zip(means[1:], deviations[1:], strict=True):
        assert abs(means[0] - mean) <= math.hypot(deviations[0], deviation)


@pytest.mark.parametrize("arrangement", ["plain", "fast", "stacked"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_the_wildest_schedule_is_an_evaluation(make_trial: MakeTrial, arrangement: str, name: str) -> None:
    """Momentum 1 at the highest rate, with each operation: numbers, whatever becomes of the weights."""
    operations = {f"op{place}": name for place in range(1, 9)}
    trial = make_trial(epochs=2, momentum=1.0, learning_rate=0.1, reduction_point_1=1.0, **operations)
    threads = {"plain": 1, "fast": 2, "stacked": 1}[arrangement]
    settings = TrainingSettings(seeds=2, batch_size=4, threads=threads, arrangement=arrangement)
    evaluation = ImageTrainer(search_split(digits_set(), 20, 20), settings).evaluate(trial)
    assert len(evaluation.curve) == 2
    assert all(0.0 <= error <= 1.0 for error in (*evaluation.curve, *evaluation.errors))
    assert evaluation.diverged <= (0.9 in evaluation.errors)


def losses_that_end(monkeypatch: pytest.MonkeyPatch, bad: float, of_seed: int, at: int) -> list[int]:
    """Training `of_seed` has a loss that is not finite in step `at`; the steps that each training takes are counted."""
    steps, networks = [0, 0, 0], []
    real_build, real_step = image_trainer.build_network, training.train_step

    def build(*arguments: object) -> object:
        networks.append(real_build(*arguments))
        return networks[-1]

    def step(network: torch.nn.Module, *rest: object) -> float:
        own = [network is built or getattr(network, "network", None) is built for built in networks].index(True)
        steps[own] += 1
        loss = real_step(network, *rest)
        return bad if (own, steps[own]) == (of_seed, at) else loss

    monkeypatch.setattr(image_trainer, "build_network", build)
    monkeypatch.setattr(training, "train_step", step)
    return steps


@pytest.mark.parametrize("arrangement", ["plain", "fast"])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_training_that_diverges_stops_at_once_and_the_others_go_on(
    noise_split: Split, make_trial: MakeTrial, monkeypatch: pytest.MonkeyPatch, arrangement: str, bad: float
) -> None:
    settings = TrainingSettings(seeds=3, batch_size=8, arrangement=arrangement)
    healthy = ImageTrainer(noise_split, settings).evaluate(make_trial(epochs=2))
    steps = losses_that_end(monkeypatch, bad, of_seed=1, at=2)
    evaluation = ImageTrainer(noise_split, settings).evaluate(make_trial(epochs=2))
    assert steps == [6, 2, 6], "23 images in batches of 8, twice; the one ends with its second step"
    assert evaluation.errors == (healthy.errors[0], 0.9, healthy.errors[2])
    assert evaluation.diverged


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_one_of_a_stack_that_diverges_ends_with_its_step_and_the_others_go_on(
    noise_split: Split, make_trial: MakeTrial, monkeypatch: pytest.MonkeyPatch, bad: float
) -> None:
    settings = TrainingSettings(seeds=3, batch_size=8, arrangement="stacked")
    healthy = ImageTrainer(noise_split, settings).evaluate(make_trial(epochs=2))
    real, steps = StackedLearner._losses, []

    def losses(learner: StackedLearner, *batch: object) -> torch.Tensor:
        steps.append(1)
        return real(learner, *batch) * torch.tensor([1.0, bad if len(steps) == 5 else 1.0, 1.0])

    monkeypatch.setattr(StackedLearner, "_losses", losses)
    reports: list[tuple[int, int, float]] = []
    evaluation = ImageTrainer(noise_split, settings).evaluate(make_trial(epochs=2), lambda *r: reports.append(r))
    assert len(steps) == 6
    assert evaluation.errors == (healthy.errors[0], 0.9, healthy.errors[2])
    assert evaluation.diverged
    assert evaluation.curve[0] == healthy.curve[0], "it diverged in the second epoch"
    assert [report[:2] for report in reports] == [(seed, epoch) for epoch in (1, 2) for seed in range(3)]


def test_what_cannot_be_captured_is_trained_in_no_other_way(
    noise_split: Split, make_trial: MakeTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A graph is asked for where there is no GPU."""
    monkeypatch.setattr(captured, "_recorded", no_graph)
    trainer = ImageTrainer(noise_split, TrainingSettings(seeds=3, batch_size=8, arrangement="stacked"))
    assert trainer.evaluate(make_trial()).curve
    trainer._arranged = replace(trainer._arranged, captured=True)
    reports: list[tuple[int, int, float]] = []
    with pytest.raises(DeviceFailedError, match=r"the step could not be captured .*: no kernel image is available"):
        trainer.evaluate(make_trial(), lambda *r: reports.append(r))
    assert not reports


def no_graph(*steps: object) -> None:
    raise RuntimeError("no kernel image is available")


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("error", [RuntimeError("not enough memory: you tried to allocate"), MemoryError()])
def test_a_breakdown_names_the_cell_and_the_trainer_lives_on(
    noise_split: Split, make_trial: MakeTrial, monkeypatch: pytest.MonkeyPatch, threads: int, error: Exception
) -> None:
    trainer = ImageTrainer(noise_split, TrainingSettings(seeds=3, batch_size=8, threads=threads), clock=lambda: 0.0)
    healthy = trainer.evaluate(make_trial())

    def fail(*arguments: object) -> float:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(training, "train_step", fail)
        reason = rf"training \d of Cell.*conv1x1.*failed: {type(error).__name__}: "
        with pytest.raises(TrainingFailedError, match=reason):
            trainer.evaluate(make_trial())
    assert trainer.evaluate(make_trial()) == healthy
