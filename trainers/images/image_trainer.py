"""The trainer of the joint problem: a cell and an SGD schedule, trained from scratch several times on images.

    objective = validation error, averaged over the trainings + weight x FLOPs / FLOPs of the largest cell

How the trainings are arranged on the machine is a setting (`arrangement`): results agree up to float rounding.

Same trial, same data, same settings: the same evaluation (its seconds apart), in any order and any process, on the same
kind of device with the same number of threads; the evaluation says how it was trained, and on what (`conditions`). The
fast arrangement gives the same numbers for 1 thread up to one per seed.

FinalTrainer has the last word on a cell: it is trained again with fresh seeds, on all its images, and measured on
others. The best validation error of a search is too good: of many noisy numbers it is the lowest. The error of new
trainings on images that no search has seen is not. They are measured once, after the last epoch.
"""

import json
import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import get_args

import torch

from fmnas.search_spaces import Cell, Conditions, Evaluation, Schedule, Trial, joint_space
from fmnas.trainers.checkpoints import Checkpoints, Rows
from fmnas.trainers.contract import Report, Stop, TrainerError, TrainingFailedError, check_trial, ignore, never
from fmnas.trainers.images.batches import streams, to_device
from fmnas.trainers.images.cpu_fast import fast_learner
from fmnas.trainers.images.devices import device_name, evaluation_batch, exactly, usable_device
from fmnas.trainers.images.multi_seed import Stack, StackedLearner
from fmnas.trainers.images.network import build_network, count_flops, flops_ratio
from fmnas.trainers.images.seed_parallelism import (
    Task,
    Training,
    arrange,
    named_failure,
    train_side_by_side,
)
from fmnas.trainers.images.training import Learner, TrainingContext, plain_learner
from fmnas.trainers.problem import Arrangement, FlopsConvention
from fmnas.trainers.split import GUESSING_ERROR, Split

logger = logging.getLogger(__name__)

FLOPS_WEIGHT = 0.02
"""The paper's (Sec. 5.3)."""


@dataclass(frozen=True)
class TrainingSettings:
    """What is the same for every trial. Raises TrainerError for a value that cannot be.

    seeds: independent trainings per evaluation.
    batch_size: images per step.
    device: a torch device, such as "cpu" or "cuda:0".
    threads: what the trainer sets torch's threads to, for the whole process; None leaves them alone.
    arrangement: see `arrangement.py`.
    schedule_epochs: what learning rates are planned for: a trial of fewer epochs is the beginning of one of so many,
    one of more is refused. None: each trial's own epochs.
    early_validation: the validation images, the first of the split, that epochs before a trial's last are measured on;
    None: all. The last epoch, and with it the objective, is always of all.
    flops_weight: of FLOPs / FLOPs of the largest cell in the objective.
    flops: how both are counted: see `network.py`.
    """

    seeds: int = 4
    batch_size: int = 32
    device: str = "cpu"
    threads: int | None = 1
    arrangement: Arrangement = "auto"
    schedule_epochs: int | None = None
    early_validation: int | None = None
    flops_weight: float = FLOPS_WEIGHT
    flops: FlopsConvention = "torch"

    def __post_init__(self) -> None:
        for name in ("seeds", "batch_size", "threads", "schedule_epochs", "early_validation"):
            value = getattr(self, name)
            if value is None and name not in ("seeds", "batch_size"):
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise TrainerError(f"{name} = {value}: it must be an integer of at least 1")
        if not 0 <= self.flops_weight < math.inf:
            raise TrainerError(f"flops_weight = {self.flops_weight}: it must be a finite number of at least 0")
        if self.flops not in get_args(FlopsConvention):
            raise TrainerError(f"flops = {self.flops!r}: it must be one of {', '.join(get_args(FlopsConvention))}")


class ImageTrainer:
    """Evaluates trials of the joint space on one split.

    Example:
        trainer = ImageTrainer(search_split(fashion_mnist_set(), 30_000, 30_000), TrainingSettings(device="cuda"))
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

        checkpoints: where unfinished trainings are kept, to go on from; none if None. With `schedule_epochs`, also the
        finished ones of shorter trials, for a trial of the same configuration and seed that trains longer.
        Raises TrainerError when the device cannot be used, or not with the arrangement, and for more images of early
        validation than the split has. Sets torch's threads unless the settings say None.
        """
        self.settings = settings or TrainingSettings()
        early, available = self.settings.early_validation, len(split.held_out_inputs)
        if early is not None and early > available:
            raise TrainerError(
                f"early_validation = {early}: the split has {available} validation images, so it must be 1 to "
                f"{available}"
            )
        self.space = joint_space()
        self._clock = clock
        self._device = device = usable_device(self.settings.device)
        self._arranged = arrange(self.settings.arrangement, device, self.settings.threads, self.settings.seeds)
        cudnn = torch.backends.cudnn.version() if device.type == "cuda" else None
        how = self._arranged.way, self._arranged.captured
        self._conditions = Conditions(*how, device_name(device), str(torch.__version__), cudnn)
        self._context = TrainingContext(to_device(split, device), self.settings.batch_size, evaluation_batch(device))
        self._checkpoints = checkpoints
        self._data_fingerprint = _data_fingerprint(split) if checkpoints else ""
        if self.settings.threads is not None:
            torch.set_num_threads(self.settings.threads)

    def evaluate(self, trial: Trial, report: Report = ignore, stop: Stop = never) -> Evaluation:
        """Train the trial's cell with its schedule, once per seed.

        A training whose loss or validation logits stop being finite ends there: its error, from that epoch to the last,
        is that of guessing, and it is reported so; the other trainings go on.
        The curve has the mean validation error after each epoch: after the last on all validation images, as in
        `errors`; before it on the first `early_validation` of them, if the settings say so. It is then of two kinds,
        and its last number is not to be compared with the others as closely as they are with each other.
        report: called in this thread; each training's epochs come in their order, those of trainings side by side mix.
        A training that goes on from a checkpoint reports the epochs before it, too. What `report` raises ends the
        evaluation and reaches the caller. stop: asked before each step, in several threads.
        Raises SpaceError for a configuration outside the joint space, TrainerError for epochs or a seed that cannot be,
        EvaluationStoppedError once `stop` says yes, TrainingFailedError when a training breaks down, DeviceFailedError
        when the device does: then this process should end, and checkpoints stay for whoever repeats the trial.
        """
        start = self._clock()
        check_trial(trial, self.space)
        if trial.epochs > (most := self._planned(trial)):
            raise TrainerError(f"trial {trial.id}: epochs = {trial.epochs}; schedule_epochs allow at most {most}")
        cell, schedule = Cell.from_configuration(trial.configuration), Schedule.from_configuration(trial.configuration)
        try:
            with exactly(self._device):
                trainings = self._trainings(Task(trial, cell, schedule, range(self.settings.seeds), report, stop))
        except TrainingFailedError:
            self._discard(trial)  # it is not tried again
            raise
        if not self._may_go_on(trial):
            self._discard(trial)
        errors = tuple(training.errors[-1] for training in trainings)
        ratio = flops_ratio(cell, self.settings.flops)
        return Evaluation(
            objective=_mean(errors) + self.settings.flops_weight * ratio,
            epochs=trial.epochs,
            errors=errors,
            flops=count_flops(cell, self.settings.flops),
            flops_ratio=ratio,
            curve=tuple(_mean(of_epoch) for of_epoch in zip(*(t.errors for t in trainings), strict=True)),
            seconds=self._clock() - start,
            diverged=any(training.diverged for training in trainings),
            conditions=self._conditions,
        )

    def _trainings(self, task: Task) -> list[Training]:
        """All trainings of the trial, arranged."""
        how = self._arranged
        if how.way == "stacked":
            return self._train(task)

        def train(number: int, report: Report, stop: Stop) -> Training:
            return self._train(replace(task, numbers=(number,), report=report, stop=stop))[0]

        if how.side_by_side == 1:
            return [train(number, task.report, task.stop) for number in task.numbers]
        return train_side_by_side(train, len(task.numbers), how.side_by_side, how.threads, task.report, task.stop)

    def _train(self, task: Task) -> list[Training]:
        """The trainings of a task; reports after each epoch."""
        planned = self._planned(task.trial)
        with named_failure(task, self._device):
            learner, rows = self._begun(task)  # rows: the errors of each epoch
            diverged = learner.ended()
        early, again = self.settings.early_validation, self._validates_again(task.trial)
        for epoch in range(task.trial.epochs):
            last = epoch + 1 == task.trial.epochs
            with named_failure(task, self._device):
                if epoch == len(rows):
                    first = None if last and not again else early
                    rates = [task.schedule.learning_rate_at(epoch, planned)]
                    # Once all have diverged, their last errors are those of guessing, and nothing is trained.
                    diverged, row = (diverged, rows[-1]) if all(diverged) else _read(learner.train(rates, first))
                    rows.append(row)
                    if not all(diverged):
                        self._keep(task, rows, learner)
                if last and again and not all(diverged):
                    diverged, rows[epoch] = _read(learner.validation_errors())
            task.tell(epoch, rows[epoch])
        columns = zip(*rows, strict=True)
        return [Training(column, over) for column, over in zip(columns, diverged, strict=True)]

    def _validates_again(self, trial: Trial) -> bool:
        """Whether the last epoch is measured twice: as one of a longer trial, for the checkpoint, and on all images."""
        return self.settings.early_validation is not None and self._checkpoints is not None and self._may_go_on(trial)

    def _planned(self, trial: Trial) -> int:
        """The epochs that the trial's learning rates are planned for."""
        return self.settings.schedule_epochs or trial.epochs

    def _may_go_on(self, trial: Trial) -> bool:
        """Whether a longer trial may be the same trainings for more epochs."""
        return trial.epochs < self._planned(trial)

    def _learner(self, task: Task) -> Learner | StackedLearner:
        draws = [streams(task.trial.seed, number) for number in task.numbers]
        networks = [build_network(task.cell, each.initialisation) for each in draws]
        context = replace(self._context, stop=task.stop)
        if self._arranged.way == "stacked":
            stacked = StackedLearner(Stack(networks, task.cell, self._device), task.schedule, draws, context)
            if self._arranged.captured:
                stacked.capture()
            return stacked
        make = fast_learner if self._arranged.way == "fast" else plain_learner
        return make(networks[0], task.schedule, draws[0], context)

    def _begun(self, task: Task) -> tuple[Learner | StackedLearner, Rows]:
        """A learner, and the errors of the epochs that a checkpoint spares: it goes on after them."""
        learner = self._learner(task)
        if self._checkpoints is None:
            return learner, []
        fingerprint, number = self._fingerprint(task.trial), task.numbers[0]
        kept = self._checkpoints.load(fingerprint, number, len(task.numbers))
        if kept is None:
            return learner, []
        rows, state = kept
        if len(rows) > task.trial.epochs:  # a longer trial left it; its state is of a later epoch
            self._checkpoints.refuse(fingerprint, number, f"it is of {len(rows)} epochs, not {task.trial.epochs}")
            return learner, []
        try:
            learner.load_state_dict(state)
        except Exception as error:  # the state is of another version of this program: anything may be missing in it
            self._checkpoints.refuse(fingerprint, number, f"it does not fit ({type(error).__name__})")
            return self._learner(task), []
        return learner, rows

    def _keep(self, task: Task, rows: Rows, learner: Learner | StackedLearner) -> None:
        """A checkpoint, if one is due. That it cannot be written is worth a warning and no more."""
        if self._checkpoints is None:
            return
        trial, epochs = task.trial, len(rows)
        if not (self._checkpoints.due(epochs) if epochs < trial.epochs else self._may_go_on(trial)):
            return
        try:
            self._checkpoints.save(self._fingerprint(trial), task.numbers[0], rows, learner.state_dict())
        except OSError as error:
            logger.warning(
                "no checkpoint of trial %d in %s (%s): the training goes on without. Does this machine have the "
                "run directory, and is there space?",
                trial.id,
                self._checkpoints.folder,
                error.strerror or error,
            )

    def _discard(self, trial: Trial) -> None:
        if self._checkpoints is not None:
            self._checkpoints.discard(self._fingerprint(trial), self.settings.seeds)

    def _fingerprint(self, trial: Trial) -> str:
        """Of all that decides the numbers of the trial's trainings; where a longer trial goes on, not of the epochs."""
        planned, early, how = self.settings.schedule_epochs, self.settings.early_validation, self._arranged
        facts = {
            "configuration": trial.configuration,
            **({"epochs": trial.epochs} if planned is None else {"schedule_epochs": planned}),
            **({} if early is None else {"early_validation": early}),
            "seed": trial.seed,
            "seeds": self.settings.seeds if how.way == "stacked" else 1,  # in one program
            "batch_size": self.settings.batch_size,
            "device": self._device.type,
            "way": how.way,
            "threads": how.threads,
            "data": self._data_fingerprint,
        }
        return sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _read(found: list[float | None]) -> tuple[list[bool], list[float]]:
    """Of each training whether it has diverged, and its error, which is then that of guessing."""
    return [error is None for error in found], [GUESSING_ERROR if error is None else error for error in found]


def _data_fingerprint(split: Split) -> str:
    parts = (split.train_inputs, split.train_labels, split.held_out_inputs, split.held_out_labels)
    return sha256(b"".join(sha256(part.tobytes()).digest() for part in parts)).hexdigest()


def _mean(values: tuple[float, ...]) -> float:
    return sum(values) / len(values)


class FinalTrainer(ImageTrainer):
    """As an ImageTrainer, but `errors` are test errors, and `curve` is their mean alone.

    A training that diverges, or whose logits on the test images are not finite, has the error of guessing.
    """

    def __init__(self, split: Split, settings: TrainingSettings | None = None) -> None:
        """Raises TrainerError when the device cannot be used, or not with the arrangement."""
        if settings is not None:
            settings = replace(settings, early_validation=None)  # there is no early validation
        super().__init__(split, settings)

    def _train(self, task: Task) -> list[Training]:
        """The trainings of a task; reports once, at their end."""
        epochs, planned = task.trial.epochs, self._planned(task.trial)
        with named_failure(task, self._device):
            learner = self._learner(task)
            rates = (task.schedule.learning_rate_at(epoch, planned) for epoch in range(epochs))
            diverged, errors = _read(learner.train(rates))
        task.tell(epochs - 1, errors)
        return [Training((error,), over) for error, over in zip(errors, diverged, strict=True)]
