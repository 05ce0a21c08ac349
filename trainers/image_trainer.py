"""The trainer of the joint problem: a cell and an SGD schedule, trained from scratch several times on images.

    objective = validation error, averaged over the trainings + 0.02 x FLOPs / FLOPs of the largest cell

This is the plain trainer: float32, one training after another, one step after another. Faster ones must equal it.

Same trial, same data, same settings: the same evaluation (its seconds apart), in any order and any process, on the same
kind of device with the same number of threads.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from fmnas.search_spaces import Cell, Evaluation, Schedule, Trial, joint_space
from fmnas.trainers.data import Split
from fmnas.trainers.errors import TrainerError
from fmnas.trainers.flops import count_flops, flops_ratio
from fmnas.trainers.network import CLASSES, build_network
from fmnas.trainers.trainer import Report, check_trial, ignore
from fmnas.trainers.training import build_optimizer, streams, to_device, train_epoch, validation_error

FLOPS_WEIGHT = 0.02
GUESSING_ERROR = 1.0 - 1.0 / CLASSES
"""The error of a training that diverged."""


@dataclass(frozen=True)
class TrainingSettings:
    """What is the same for every trial. Raises TrainerError for a value that cannot be.

    seeds: independent trainings per evaluation.
    batch_size, evaluation_batch_size: images per step and per validation batch (a matter of speed).
    device: a torch device, such as "cpu" or "cuda:0".
    threads: what the trainer sets torch's threads to, for the whole process; None leaves them alone.
    """

    seeds: int = 4
    batch_size: int = 32
    evaluation_batch_size: int = 500
    device: str = "cpu"
    threads: int | None = 1

    def __post_init__(self) -> None:
        for name in ("seeds", "batch_size", "evaluation_batch_size", "threads"):
            value = getattr(self, name)
            if name == "threads" and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise TrainerError(f"{name} = {value}: it must be an integer of at least 1")


@dataclass(frozen=True)
class Training:
    """How one training went: the validation error after each epoch, and whether it diverged."""

    errors: tuple[float, ...]
    diverged: bool


class ImageTrainer:
    """Evaluates trials of the joint space on one split.

    Example:
        trainer = ImageTrainer(fashion_mnist_split(), TrainingSettings(device="cuda"))
        evaluation = trainer.evaluate(Trial(0, joint_space().sample(rng), epochs=25, origin="random"))
    """

    def __init__(
        self, split: Split, settings: TrainingSettings | None = None, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        """split: the data, moved to the device once. clock: tells the seconds, for `Evaluation.seconds`.

        Raises TrainerError when the device cannot be used. Sets torch's threads unless the settings say None.
        """
        self.settings = settings or TrainingSettings()
        self.space = joint_space()
        self._clock = clock
        self._device = _usable_device(self.settings.device)
        self._data = to_device(split, self._device)
        if self.settings.threads is not None:
            torch.set_num_threads(self.settings.threads)

    def evaluate(self, trial: Trial, report: Report = ignore) -> Evaluation:
        """Train the trial's cell with its schedule, once per seed.

        A training whose loss or validation logits stop being finite ends there: its error, from that epoch to the last,
        is that of guessing, and it is reported so; the other trainings go on.
        What `report` raises ends the evaluation and reaches the caller.
        Raises SpaceError for a configuration outside the joint space, TrainerError for epochs or a seed that cannot be.
        """
        start = self._clock()
        check_trial(trial, self.space)
        cell = Cell.from_configuration(trial.configuration)
        trainings = [self._train(trial, cell, number, report) for number in range(self.settings.seeds)]
        errors = tuple(training.errors[-1] for training in trainings)
        ratio = flops_ratio(cell)
        return Evaluation(
            objective=_mean(errors) + FLOPS_WEIGHT * ratio,
            epochs=trial.epochs,
            errors=errors,
            flops=count_flops(cell),
            flops_ratio=ratio,
            curve=tuple(_mean(of_epoch) for of_epoch in zip(*(t.errors for t in trainings), strict=True)),
            seconds=self._clock() - start,
            diverged=any(training.diverged for training in trainings),
        )

    def _train(self, trial: Trial, cell: Cell, number: int, report: Report) -> Training:
        """Training `number` of the trial; reports after each epoch."""
        schedule = Schedule.from_configuration(trial.configuration)
        draws = streams(trial.seed, number)
        network = build_network(cell, draws.initialisation).to(self._device)
        network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # up to twice as fast
        optimizer = build_optimizer(network, schedule)
        errors: list[float] = []
        diverged = False
        for epoch in range(trial.epochs):
            if not diverged:
                rate = schedule.learning_rate_at(epoch, trial.epochs)
                finite = train_epoch(network, optimizer, self._data, draws, self.settings.batch_size, rate)
                error = validation_error(network, self._data, self.settings.evaluation_batch_size) if finite else None
                diverged = error is None
            errors.append(GUESSING_ERROR if error is None else error)
            report(number, epoch + 1, errors[-1])
        return Training(tuple(errors), diverged)


def _usable_device(name: str) -> torch.device:
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:  # torch without CUDA asserts
        reason = str(error).splitlines()[0]
        raise TrainerError(f'device = {name!r} cannot be used here: {reason}. "cpu" always can') from None
    return device


def _mean(values: tuple[float, ...]) -> float:
    return sum(values) / len(values)
