"""The trainer of the joint problem: a cell and an SGD schedule, trained from scratch several times on images.

    objective = validation error, averaged over the trainings + 0.02 x FLOPs / FLOPs of the largest cell

How the trainings are arranged on the machine is a setting (`arrangement`): results agree up to float rounding.

Same trial, same data, same settings: the same evaluation (its seconds apart), in any order and any process, on the same
kind of device with the same number of threads. The fast arrangement gives the same numbers for 1 thread up to one per
seed.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256

import torch

from fmnas.search_spaces import Cell, Evaluation, Schedule, Trial, joint_space
from fmnas.trainers.arrangement import Arrangement, arrange
from fmnas.trainers.checkpoints import Checkpoints, Progress, fingerprint_of
from fmnas.trainers.data import Split
from fmnas.trainers.errors import TrainerError, TrainingFailedError
from fmnas.trainers.fast_training import fast_learner
from fmnas.trainers.flops import count_flops, flops_ratio
from fmnas.trainers.network import CLASSES, build_network
from fmnas.trainers.side_by_side import train_in_turn, train_side_by_side
from fmnas.trainers.trainer import Report, Stop, check_trial, ignore, never
from fmnas.trainers.training import Learner, Surroundings, plain_learner, streams, to_device

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
    arrangement: see `arrangement.py`.
    """

    seeds: int = 4
    batch_size: int = 32
    evaluation_batch_size: int = 250
    device: str = "cpu"
    threads: int | None = 1
    arrangement: Arrangement = "auto"

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
        self,
        split: Split,
        settings: TrainingSettings | None = None,
        clock: Callable[[], float] = time.perf_counter,
        checkpoints: Checkpoints | None = None,
    ) -> None:
        """split: the data, moved to the device once. clock: tells the seconds, for `Evaluation.seconds`.

        checkpoints: where unfinished trainings are kept, to go on from; none if None.
        Raises TrainerError when the device cannot be used, or not with the arrangement. Sets torch's threads unless
        the settings say None.
        """
        self.settings = settings or TrainingSettings()
        self.space = joint_space()
        self._clock = clock
        device = _usable_device(self.settings.device)
        self._arranged = arrange(self.settings.arrangement, device, self.settings.threads, self.settings.seeds)
        data = to_device(split, device)
        self._around = Surroundings(data, self.settings.batch_size, self.settings.evaluation_batch_size)
        self._checkpoints = checkpoints
        self._data_fingerprint = _data_fingerprint(split) if checkpoints else ""
        if self.settings.threads is not None:
            torch.set_num_threads(self.settings.threads)

    def evaluate(self, trial: Trial, report: Report = ignore, stop: Stop = never) -> Evaluation:
        """Train the trial's cell with its schedule, once per seed.

        A training whose loss or validation logits stop being finite ends there: its error, from that epoch to the last,
        is that of guessing, and it is reported so; the other trainings go on.
        report: called in this thread; each training's epochs come in their order, those of trainings side by side mix.
        A training that goes on from a checkpoint reports the epochs before it, too. What `report` raises ends the
        evaluation and reaches the caller. stop: asked before each step, in several threads.
        Raises SpaceError for a configuration outside the joint space, TrainerError for epochs or a seed that cannot be,
        EvaluationStoppedError once `stop` says yes, TrainingFailedError when a training breaks down.
        """
        start = self._clock()
        check_trial(trial, self.space)
        cell = Cell.from_configuration(trial.configuration)
        trainings = self._trainings(trial, cell, report, stop)
        if self._checkpoints:
            self._checkpoints.discard(self._fingerprint(trial), self.settings.seeds)
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

    def _trainings(self, trial: Trial, cell: Cell, report: Report, stop: Stop) -> list[Training]:
        """All trainings of the trial, arranged."""

        def train(number: int, report: Report, stop: Stop) -> Training:
            return self._train(trial, cell, number, report, stop)

        how, seeds = self._arranged, self.settings.seeds
        if how.side_by_side == 1:
            return train_in_turn(train, seeds, report, stop)
        return train_side_by_side(train, seeds, how.side_by_side, how.threads, report, stop)

    def _train(self, trial: Trial, cell: Cell, number: int, report: Report, stop: Stop) -> Training:
        """Training `number` of the trial; reports after each epoch."""
        schedule = Schedule.from_configuration(trial.configuration)
        with named_failure(number, cell):
            learner = self._learner(cell, schedule, trial.seed, number, stop)
            errors = self._resume(trial, number, learner)
        for epoch, known in enumerate(errors):
            report(number, epoch + 1, known)
        diverged = False
        for epoch in range(len(errors), trial.epochs):
            with named_failure(number, cell):
                finite = not diverged and learner.train_epoch(schedule.learning_rate_at(epoch, trial.epochs))
                error = learner.validation_error() if finite else None
                diverged = error is None
                errors.append(GUESSING_ERROR if error is None else error)
                self._keep(trial, number, errors, learner, diverged)
            report(number, epoch + 1, errors[-1])
        return Training(tuple(errors), diverged)

    def _learner(self, cell: Cell, schedule: Schedule, seed: int, number: int, stop: Stop) -> Learner:
        draws = streams(seed, number)
        network = build_network(cell, draws.initialisation)
        make = fast_learner if self._arranged.fast else plain_learner
        return make(network, schedule, draws, replace(self._around, stop=stop))

    def _resume(self, trial: Trial, number: int, learner: Learner) -> list[float]:
        """The errors of the epochs that a checkpoint spares; the learner then goes on after them."""
        progress = self._checkpoints.load(self._fingerprint(trial), number) if self._checkpoints else None
        if progress is None:
            return []
        learner.load_state_dict(progress.learner)
        return list(progress.errors)

    def _keep(self, trial: Trial, number: int, errors: list[float], learner: Learner, diverged: bool) -> None:
        """A checkpoint, if one is due; not of what is over anyway."""
        if self._checkpoints and self._checkpoints.due(len(errors)) and len(errors) < trial.epochs and not diverged:
            progress = Progress(tuple(errors), learner.state_dict())
            self._checkpoints.save(self._fingerprint(trial), number, progress)

    def _fingerprint(self, trial: Trial) -> str:
        """Of all that decides the numbers of the trial's trainings."""
        facts = {
            "configuration": trial.configuration,
            "epochs": trial.epochs,
            "seed": trial.seed,
            "batch_size": self.settings.batch_size,
            "device": torch.device(self.settings.device).type,
            "fast": self._arranged.fast,
            "threads": self._arranged.threads,
            "data": self._data_fingerprint,
        }
        return fingerprint_of(facts)


def _usable_device(name: str) -> torch.device:
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:  # torch without CUDA asserts
        reason = str(error).splitlines()[0]
        raise TrainerError(f'device = {name!r} cannot be used here: {reason}. "cpu" always can') from None
    return device


@contextmanager
def named_failure(number: int, cell: Cell) -> Iterator[None]:
    """Memory that runs out, a device that fails: TrainingFailedError, which names the training and its cell."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        reason = " ".join(str(error).split()) or "no reason given"
        raise TrainingFailedError(f"training {number} of {cell} failed: {type(error).__name__}: {reason}") from error


def _data_fingerprint(split: Split) -> str:
    parts = (split.train_images, split.train_labels, split.validation_images, split.validation_labels)
    return sha256(b"".join(sha256(part.tobytes()).digest() for part in parts)).hexdigest()


def _mean(values: tuple[float, ...]) -> float:
    return sum(values) / len(values)
