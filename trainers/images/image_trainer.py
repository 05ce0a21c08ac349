"""The trainer of the joint problem: a cell and an SGD schedule, trained from scratch with several seeds on images.

    objective = validation error, averaged over the seeds + weight x FLOPs / FLOPs of the largest cell

Same trial, data and settings: same evaluation (except its seconds), in any order and process, with the same number of
threads on the same model of GPU or on CPUs with the same vector instructions. `conditions` records the model of a GPU,
but neither instructions nor threads. The fast arrangement gives the same numbers for 1 thread up to one per seed.

FinalTrainer tests a configuration that was found: it is trained again with new seeds, on all its images, and measured
once on others. The best validation error of a search is biased, as the lowest of many noisy numbers; this one is not.
"""

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from hashlib import sha256

import torch

from fmnas.search_spaces import Cell, Conditions, Evaluation, Schedule, Trial, joint_space
from fmnas.trainers.checkpoints import Checkpoints, Rows
from fmnas.trainers.contract import (
    Clock,
    FinalEvaluation,
    Report,
    Stop,
    TrainerError,
    TrainingFailedError,
    check_trial,
    never_stop,
    no_report,
)
from fmnas.trainers.images.batches import streams, to_device
from fmnas.trainers.images.cpu_fast import fast_learner
from fmnas.trainers.images.devices import deterministic_float32, evaluation_batch, usable_device
from fmnas.trainers.images.multi_seed import Stack, StackedLearner
from fmnas.trainers.images.network import build_network, count_flops, flops_ratio
from fmnas.trainers.images.saved_model import saved_files
from fmnas.trainers.images.seed_parallelism import Task, Training, plan_training, train_side_by_side, wrap_device_errors
from fmnas.trainers.images.settings import TrainingSettings
from fmnas.trainers.images.training import Learner, TrainingContext, plain_learner
from fmnas.trainers.split import GUESSING_ERROR, Split


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
        clock: Clock = time.perf_counter,
        checkpoints: Checkpoints | None = None,
    ) -> None:
        """split: copied to the device once. clock: returns seconds, for `Evaluation.seconds`.

        checkpoints: where unfinished trainings are saved; None: nowhere. With `continue_promoted`, finished ones that
        are shorter than `schedule_epochs` are saved, too, for a longer trial of the same run, configuration and seed.
        Raises TrainerError if the device is not available or does not support the arrangement. Sets torch's threads
        unless the settings say None.
        """
        self.settings = settings or TrainingSettings()
        self.space = joint_space()
        self._split = split
        self._clock = clock
        self._device = device = usable_device(self.settings.device)
        self._plan = plan = plan_training(self.settings.arrangement, device, self.settings.threads, self.settings.seeds)
        cudnn = torch.backends.cudnn.version() if device.type == "cuda" else None
        name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
        self._conditions = Conditions(plan.mode, plan.captured, name, str(torch.__version__), cudnn)
        self._context = TrainingContext(to_device(split, device), self.settings.batch_size, evaluation_batch(device))
        self._checkpoints = checkpoints
        parts = (split.train_inputs, split.train_labels, split.held_out_inputs, split.held_out_labels)
        digests = [sha256(part.tobytes()).digest() for part in parts] if checkpoints else []
        self._data_fingerprint = sha256(b"".join(digests)).hexdigest()
        if self.settings.threads is not None:
            torch.set_num_threads(self.settings.threads)

    def evaluate(self, trial: Trial, report: Report = no_report, stop: Stop = never_stop) -> Evaluation:
        """Train the trial's cell with its schedule, once per seed; only the first ones if it then loses its race.

        A training whose loss or validation logits are not finite ends: it has diverged, and its error from that epoch
        to the last is that of guessing. The other trainings continue.
        The curve is the mean validation error after each epoch. Its last value is on all validation images, the others
        on the first `early_validation` of them, if that is set.
        report: called in this thread, with the epochs of each training in order; those of several trainings mix. Epochs
        before a checkpoint are reported, too. An exception in `report` ends the evaluation and is raised.
        stop: called before each step, in several threads.
        Raises SpaceError for a configuration outside the joint space, TrainerError for invalid epochs or an invalid
        seed, EvaluationStoppedError once `stop` returns true, TrainingFailedError if a training fails, and
        DeviceFailedError if the device does: then this process should end; checkpoints are kept for a retry.
        """
        start = self._clock()
        check_trial(trial, self.space)
        if trial.epochs > (most := self._schedule_length(trial)):
            raise TrainerError(
                f"trial {trial.id}: epochs = {trial.epochs}; it must be at most schedule_epochs = {most}"
            )
        cell, schedule = Cell.from_configuration(trial.configuration), Schedule.from_configuration(trial.configuration)
        seeds, first = self.settings.seeds, trial.first_seeds or self.settings.seeds
        task = Task(trial, cell, schedule, range(first), report, stop)
        try:
            with deterministic_float32(self._device):
                trainings = self._trainings(task)
                if first < seeds and not trial.loses_race(self._evaluation(trial, cell, trainings, 0.0).objective):
                    trainings += self._trainings(replace(task, numbers=range(first, seeds)))
        except TrainingFailedError:
            self._discard(trial)  # it is not retried
            raise
        if not self._is_continuable(trial):
            self._discard(trial)
        return self._evaluation(trial, cell, trainings, self._clock() - start)

    def _evaluation(self, trial: Trial, cell: Cell, trainings: Sequence[Training], seconds: float) -> Evaluation:
        """The result of a trial."""
        errors = tuple(training.errors[-1] for training in trainings)
        ratio = flops_ratio(cell, self.settings.flops)
        return Evaluation(
            objective=_mean(errors) + self.settings.flops_weight * ratio,
            epochs=trial.epochs,
            errors=errors,
            flops=count_flops(cell, self.settings.flops),
            flops_ratio=ratio,
            curve=tuple(_mean(epoch) for epoch in zip(*(training.errors for training in trainings), strict=True)),
            seconds=seconds,
            diverged=any(training.diverged for training in trainings),
            conditions=self._conditions,
            seed_curves=tuple(training.errors for training in trainings),
            share=len(trainings) / self.settings.seeds,
        )

    def _trainings(self, task: Task) -> list[Training]:
        """The trainings of the task, by the plan."""
        plan = self._plan
        if plan.mode == "stacked":
            return self._train(task)

        def train(place: int, report: Report, stop: Stop) -> Training:
            return self._train(replace(task, numbers=(task.numbers[place],), report=report, stop=stop))[0]

        if plan.side_by_side == 1:
            return [train(place, task.report, task.stop) for place in range(len(task.numbers))]
        return train_side_by_side(
            train, len(task.numbers), plan.side_by_side, plan.threads or 1, task.report, task.stop
        )

    def _train(self, task: Task) -> list[Training]:
        """Train the task's networks; report after each epoch."""
        length = self._schedule_length(task.trial)
        with wrap_device_errors(task, self._device):
            learner, rows = self._restore(task)  # rows: the errors of each epoch
            diverged = learner.diverged()
        # The last epoch is validated as one of a longer trial, for the checkpoint, and then on all images.
        early = self.settings.early_validation
        validates_twice = early is not None and self._is_continuable(task.trial)
        for epoch in range(task.trial.epochs):
            last = epoch + 1 == task.trial.epochs
            with wrap_device_errors(task, self._device):
                if epoch == len(rows):
                    first = None if last and not validates_twice else early
                    rates = [task.schedule.learning_rate_at(epoch, length)]
                    # Once all have diverged, the errors stay those of guessing, and nothing is trained.
                    diverged, row = (diverged, rows[-1]) if all(diverged) else _resolve(learner.train(rates, first))
                    rows.append(row)
                    if not all(diverged):
                        self._save(task, rows, learner)
                if last and validates_twice and not all(diverged):
                    diverged, rows[epoch] = _resolve(learner.validation_errors())
            task.report_epoch(epoch, rows[epoch])
        columns = zip(*rows, strict=True)
        return [Training(errors, has_diverged) for errors, has_diverged in zip(columns, diverged, strict=True)]

    def _schedule_length(self, trial: Trial) -> int:
        """The epochs of the trial's learning rate schedule."""
        return self.settings.schedule_epochs or trial.epochs

    def _is_continuable(self, trial: Trial) -> bool:
        """Whether a longer trial may continue the trainings of this one."""
        kept = self._checkpoints is not None and self._checkpoints.continue_promoted
        return kept and trial.epochs < self._schedule_length(trial)

    def _learner(self, task: Task) -> Learner | StackedLearner:
        draws = [streams(task.trial.seed, number) for number in task.numbers]
        networks = [build_network(task.cell, stream.initialisation) for stream in draws]
        context = replace(self._context, stop=task.stop)
        if self._plan.mode == "stacked":
            stacked = StackedLearner(Stack(networks, task.cell, self._device), task.schedule, draws, context)
            if self._plan.captured:
                stacked.capture()
            return stacked
        make = fast_learner if self._plan.mode == "fast" else plain_learner
        return make(networks[0], task.schedule, draws[0], context)

    def _restore(self, task: Task) -> tuple[Learner | StackedLearner, Rows]:
        """A learner and the errors of the epochs it has done: from a checkpoint, if there is one."""
        learner, trial = self._learner(task), task.trial
        if self._checkpoints is None:
            return learner, []
        rows = self._checkpoints.restore(self._fingerprint(trial), task.numbers, trial.epochs, learner.load_state_dict)
        return (self._learner(task), []) if rows is None else (learner, rows)

    def _save(self, task: Task, rows: Rows, learner: Learner | StackedLearner) -> None:
        """Save a checkpoint if one is due."""
        if self._checkpoints is None:
            return
        trial, epochs = task.trial, len(rows)
        if epochs % self._checkpoints.every == 0 if epochs < trial.epochs else self._is_continuable(trial):
            self._checkpoints.save(self._fingerprint(trial), task.numbers[0], rows, learner.state_dict())

    def _discard(self, trial: Trial) -> None:
        if self._checkpoints is not None:
            self._checkpoints.discard(self._fingerprint(trial), self.settings.seeds)

    def _fingerprint(self, trial: Trial) -> str:
        """Hash of the trial's run and all that affects the numbers of its trainings; not of epochs under a schedule.

        Runs share trainings, such as those of an initial design, but each is charged the seconds of all its epochs.
        """
        length, early, plan = self.settings.schedule_epochs, self.settings.early_validation, self._plan
        facts = {
            "configuration": trial.configuration,
            **({"run": trial.run} if trial.run else {}),
            **({"epochs": trial.epochs} if length is None else {"schedule_epochs": length}),
            **({} if early is None else {"early_validation": early}),
            "seed": trial.seed,
            "seeds": trial.first_seeds or self.settings.seeds if plan.mode == "stacked" else 1,  # in one program
            "batch_size": self.settings.batch_size,
            "conditions": asdict(self._conditions),
            "instructions": torch.backends.cpu.get_cpu_capability() if self._device.type == "cpu" else "",
            "threads": plan.threads,
            "data": self._data_fingerprint,
        }
        return sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _resolve(errors: list[float | None]) -> tuple[list[bool], list[float]]:
    """Whether each training has diverged (None), and its error, which is then that of guessing."""
    return [error is None for error in errors], [GUESSING_ERROR if error is None else error for error in errors]


def _mean(values: tuple[float, ...]) -> float:
    return sum(values) / len(values)


class FinalTrainer(ImageTrainer):
    """An ImageTrainer whose `errors` are test errors, and whose `curve` is their mean only.

    Its evaluations have the files of the trained networks, see `saved_model.py`. A training that diverges, or whose
    logits on the test images are not finite, has the error of guessing.
    """

    def _train(self, task: Task) -> list[Training]:
        """Train the task's networks; report once, at the end."""
        epochs, length = task.trial.epochs, self._schedule_length(task.trial)
        with wrap_device_errors(task, self._device):
            learner = self._learner(task)
            rates = (task.schedule.learning_rate_at(epoch, length) for epoch in range(epochs))
            diverged, errors = _resolve(learner.train(rates))
            weights = learner.weights()
        task.report_epoch(epochs - 1, errors)
        return list(map(Training, ((error,) for error in errors), diverged, weights))

    def _evaluation(self, trial: Trial, cell: Cell, trainings: Sequence[Training], seconds: float) -> FinalEvaluation:
        evaluation = super()._evaluation(trial, cell, trainings, seconds)
        files = saved_files(trial, self._split, evaluation, [training.weights for training in trainings])
        return FinalEvaluation(**vars(evaluation), files=files)
