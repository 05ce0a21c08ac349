"""The registry of problems: what can be optimised, by name.

p = problem("func3c")
p.space
p.trainer.evaluate(trial).objective
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from fmnas.platform.errors import ConfigError
from fmnas.search_spaces import Space, joint_space
from fmnas.trainers import (
    SYNTHETIC_PROBLEMS,
    XGB_DIGITS,
    XGB_FASHION_MNIST,
    BoostingTask,
    Checkpoints,
    FinalSplit,
    FunctionTrainer,
    Split,
    Table,
    TableSplit,
    Trainer,
    nusvr_space,
)
from fmnas.trainers.arrangement import Arrangement
from fmnas.trainers.image_trainer import FLOPS_WEIGHT, GUESSING_ERROR

Data = Split | FinalSplit | Table | TableSplit
"""What a problem's trainings see. It has a `place`: where it was found."""


class DataSettings(BaseModel):
    """The data of a real problem; what is None is as the problem has it.

    name: data set; digits is small and needs no network, for tests and explicit offline use.
    root: the folder that holds it, or svm_boston's file; None looks in the usual places.
    train, validation: number of images. batch_size: images per SGD step.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    name: Literal["fashion_mnist", "digits"] | None = None
    root: str | None = None
    train: int | None = Field(default=None, ge=1)
    validation: int | None = Field(default=None, ge=1)
    batch_size: int | None = Field(default=None, ge=1)


@dataclass(frozen=True)
class ProblemSettings:
    """What a configuration may set of a problem: its data, the number of seeds averaged, where checkpoints are kept.

    schedule_epochs: the epochs that a search's learning rates are planned for; None: each trial's own.
    """

    data: DataSettings = field(default_factory=DataSettings)
    seeds: int = 4
    checkpoints: Checkpoints | None = None
    schedule_epochs: int | None = None


@dataclass(frozen=True)
class Hardware:
    """Where a trainer runs: a torch device, the number of CPU threads, and how trainings are arranged on them."""

    device: str = "cpu"
    threads: int = 1
    arrangement: Arrangement = "auto"


@dataclass(frozen=True)
class Problem:
    """A named task: a space, what evaluates it, and how its objective is to be modelled.

    epochs: full fidelity unless a configuration says otherwise.
    log_objective: whether models see the logarithm.
    penalty: the objective that an optimizer is told for a trial that failed.
    seeds: error columns in the table of trials; 0 for a problem that measures no error beside its objective.
    dataset: what its trainings see; empty for a synthetic problem.
    load: reads the data (None without any); raises DataError, or TrainerError where a package is missing.
    build: makes the trainer from them.
    load_final: reads what the best configurations are retrained and tested on, for a number of images to train on;
    `build` makes the trainer from it, too. None for a problem without test images that its search leaves alone.
    """

    name: str
    space: Space
    epochs: int
    log_objective: bool
    penalty: float
    seeds: int
    dataset: str
    load: Callable[[], Data | None]
    build: Callable[[Data | None, Hardware], Trainer]
    load_final: Callable[[int], FinalSplit] | None = None

    @cached_property
    def trainer(self) -> Trainer:
        """A trainer in this process, on one CPU thread."""
        return self.build(self.load(), Hardware())


def _joint(settings: ProblemSettings) -> Problem:
    data = settings.data
    train, validation, batch_size = (_filled(number) for number in (data.train, data.validation, data.batch_size))

    def load() -> Split:
        from fmnas.trainers import digits_split, fashion_mnist_split

        if data.name == "digits":
            return digits_split(train, validation)
        return fashion_mnist_split(train, validation, _path(data))

    def load_final(images: int) -> FinalSplit:
        from fmnas.trainers import final_digits, final_fashion_mnist

        if data.name == "digits":
            return final_digits(train, validation, images)
        return final_fashion_mnist(train, validation, images, _path(data))

    def build(split: Data | None, hardware: Hardware) -> Trainer:
        from fmnas.trainers import FinalTrainer, ImageTrainer, TrainingSettings

        how = TrainingSettings(
            settings.seeds,
            batch_size,
            device=hardware.device,
            threads=hardware.threads,
            arrangement=hardware.arrangement,
        )
        if isinstance(split, FinalSplit):
            return FinalTrainer(split, how)  # for as many epochs as it is told, each planned for its own
        assert isinstance(split, Split)
        searched = replace(how, schedule_epochs=settings.schedule_epochs)
        return ImageTrainer(split, searched, checkpoints=settings.checkpoints)

    return Problem(
        name="joint",
        space=joint_space(),
        epochs=25,
        log_objective=True,
        penalty=GUESSING_ERROR + FLOPS_WEIGHT,
        seeds=settings.seeds,
        dataset=data.name or "",
        load=load,
        build=build,
        load_final=load_final,
    )


def _synthetic(name: str, penalty: float) -> Callable[[ProblemSettings], Problem]:
    def make(settings: ProblemSettings) -> Problem:
        task = SYNTHETIC_PROBLEMS[name]

        def build(data: Data | None, hardware: Hardware) -> Trainer:
            return FunctionTrainer(task.space, task.function)

        return Problem(name, task.space, 1, False, penalty, 0, "", lambda: None, build)

    return make


def _support_vectors(name: str, dataset: str, penalty: float) -> Callable[[ProblemSettings], Problem]:
    def make(settings: ProblemSettings) -> Problem:
        def load() -> Table:
            from fmnas.trainers import boston_from_environment, boston_table, diabetes_table

            if dataset == "boston":
                return boston_table(_path(settings.data) or boston_from_environment())
            return diabetes_table()

        def build(data: Data | None, hardware: Hardware) -> Trainer:
            from fmnas.trainers import nusvr_trainer

            assert isinstance(data, Table)
            return nusvr_trainer(data)

        return Problem(name, nusvr_space(), 1, False, penalty, 0, dataset, load, build)

    return make


def _boosting(name: str, task: BoostingTask, dataset: str) -> Callable[[ProblemSettings], Problem]:
    def make(settings: ProblemSettings) -> Problem:
        data = settings.data

        def load() -> TableSplit:
            from fmnas.trainers import digits_table, fashion_mnist_table, optional_module

            optional_module("xgboost", f"problem {name}")
            if dataset == "digits":
                return digits_table()
            return fashion_mnist_table(_filled(data.train), _filled(data.validation), _path(data))

        def build(split: Data | None, hardware: Hardware) -> Trainer:
            from fmnas.trainers import BoostingTrainer

            assert isinstance(split, TableSplit)
            return BoostingTrainer(task, split, hardware.threads)

        return Problem(name, task.space, task.rounds, False, GUESSING_ERROR, 1, dataset, load, build)

    return make


def _filled(number: int | None) -> int:
    """A setting that `Entry.complete` has filled in."""
    assert number is not None
    return number


def _path(data: DataSettings) -> Path | None:
    return Path(data.root) if data.root else None


@dataclass(frozen=True)
class Entry:
    """A line of the registry.

    data: the keys of DataSettings that the problem takes, with the values that they have unless set. None: there are no
    data. checkpoints: whether its trainings can go on from one.
    """

    summary: str
    make: Callable[[ProblemSettings], Problem]
    data: Mapping[str, object] | None = None
    checkpoints: bool = False

    def complete(self, data: DataSettings) -> DataSettings:
        """The settings with this problem's values where they are None."""
        return data.model_copy(update={k: v for k, v in (self.data or {}).items() if getattr(data, k) is None})

    def refused(self, data: DataSettings) -> list[str]:
        """The keys that are set although the problem does not take them."""
        return [key for key, value in data if value is not None and key not in (self.data or {})]


PROBLEMS: dict[str, Entry] = {
    "joint": Entry(
        "NASNet cell and SGD schedule on FashionMNIST: 12 discrete and 6 continuous variables",
        _joint,
        {"name": "fashion_mnist", "root": None, "train": 30_000, "validation": 30_000, "batch_size": 32},
        checkpoints=True,
    ),
    "func2c": Entry("two of Rosenbrock, camel, beale added: 2 discrete, 2 continuous", _synthetic("func2c", 100.0)),
    "func3c": Entry("three of them added: 3 discrete, 2 continuous", _synthetic("func3c", 100.0)),
    "ackley5c": Entry("Ackley: 5 discrete of 17 values, 1 continuous", _synthetic("ackley5c", 10.0)),
    "ackley53c": Entry("Ackley: 50 binary, 3 continuous", _synthetic("ackley53c", 10.0)),
    "nusvr_diabetes": Entry(
        "support vector regression on scikit-learn's diabetes table: 3 discrete, 3 continuous",
        _support_vectors("nusvr_diabetes", "diabetes", 100.0),
        {},
    ),
    "svm_boston": Entry(
        "the same on the Boston table, from a file of yours (data.root)",
        _support_vectors("svm_boston", "boston", 30.0),
        {"root": None},
    ),
    "xgb_digits": Entry(
        "boosted trees on scikit-learn's digits: 4 discrete, 4 continuous; an epoch is a round, full are 100",
        _boosting("xgb_digits", XGB_DIGITS, "digits"),
        {},
    ),
    "xgb_fashion_mnist": Entry(
        "boosted trees on all of FashionMNIST: 4 discrete, 4 continuous; an epoch is a round, full are 50",
        _boosting("xgb_fashion_mnist", XGB_FASHION_MNIST, "fashion_mnist"),
        {"root": None, "train": 49_000, "validation": 21_000},
    ),
}
ALIASES = {"fashion_mnist": "joint"}


def problem(name: str, settings: ProblemSettings | None = None) -> Problem:
    """The problem of that name, with default settings unless given; ConfigError if there is none."""
    known = ALIASES.get(name, name)
    if known not in PROBLEMS:
        raise ConfigError(f"problem {name!r}: it must be one of {', '.join([*PROBLEMS, *ALIASES])}")
    settings = settings or ProblemSettings()
    return PROBLEMS[known].make(replace(settings, data=PROBLEMS[known].complete(settings.data)))
