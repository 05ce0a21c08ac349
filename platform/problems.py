"""The registry of problems: what can be optimised, by name.

p = problem("func3c")
p.space
p.trainer.evaluate(trial).objective
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from fmnas.platform.errors import ConfigError
from fmnas.search_spaces import Space, joint_space
from fmnas.trainers import SYNTHETIC_PROBLEMS, FunctionTrainer, Split, Trainer
from fmnas.trainers.image_trainer import FLOPS_WEIGHT, GUESSING_ERROR


class DataSettings(BaseModel):
    """The data of a real problem.

    name: data set; digits is small and needs no network, for tests and explicit offline use.
    root: the folder that holds it; None looks in the usual places.
    train, validation: number of images. batch_size: images per SGD step.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    name: Literal["fashion_mnist", "digits"] = "fashion_mnist"
    root: str | None = None
    train: int = Field(default=30_000, ge=1)
    validation: int = Field(default=30_000, ge=1)
    batch_size: int = Field(default=32, ge=1)


@dataclass(frozen=True)
class ProblemSettings:
    """What a configuration may set of a problem: its data, and the number of seeds averaged."""

    data: DataSettings = field(default_factory=DataSettings)
    seeds: int = 4


@dataclass(frozen=True)
class Hardware:
    """Where a trainer runs: a torch device and the number of CPU threads."""

    device: str = "cpu"
    threads: int = 1


@dataclass(frozen=True)
class Problem:
    """A named task: a space, what evaluates it, and how its objective is to be modelled.

    epochs: full fidelity unless a configuration says otherwise.
    log_objective: whether models see the logarithm.
    penalty: the objective that an optimizer is told for a trial that failed.
    seeds: error columns in the table of trials; 0 for a synthetic problem.
    dataset: what its trainings see; empty for a synthetic problem.
    load: reads the data (None without any); raises DataError. build: makes the trainer from them.
    """

    name: str
    space: Space
    epochs: int
    log_objective: bool
    penalty: float
    seeds: int
    dataset: str
    load: Callable[[], Split | None]
    build: Callable[[Split | None, Hardware], Trainer]

    @cached_property
    def trainer(self) -> Trainer:
        """A trainer in this process, on one CPU thread."""
        return self.build(self.load(), Hardware())


def _joint(settings: ProblemSettings) -> Problem:
    data = settings.data

    def load() -> Split:
        from fmnas.trainers import digits_split, fashion_mnist_split

        if data.name == "digits":
            return digits_split(data.train, data.validation)
        return fashion_mnist_split(data.train, data.validation, Path(data.root) if data.root else None)

    def build(split: Split | None, hardware: Hardware) -> Trainer:
        from fmnas.trainers import ImageTrainer, TrainingSettings

        assert split is not None
        return ImageTrainer(
            split,
            TrainingSettings(settings.seeds, data.batch_size, device=hardware.device, threads=hardware.threads),
        )

    return Problem(
        name="joint",
        space=joint_space(),
        epochs=25,
        log_objective=True,
        penalty=GUESSING_ERROR + FLOPS_WEIGHT,
        seeds=settings.seeds,
        dataset=data.name,
        load=load,
        build=build,
    )


def _synthetic(name: str, penalty: float) -> Callable[[ProblemSettings], Problem]:
    def make(settings: ProblemSettings) -> Problem:
        task = SYNTHETIC_PROBLEMS[name]

        def build(split: Split | None, hardware: Hardware) -> Trainer:
            return FunctionTrainer(task.space, task.function)

        return Problem(name, task.space, 1, False, penalty, 0, "", lambda: None, build)

    return make


@dataclass(frozen=True)
class Entry:
    """A line of the registry."""

    summary: str
    make: Callable[[ProblemSettings], Problem]


PROBLEMS: dict[str, Entry] = {
    "joint": Entry("NASNet cell and SGD schedule on FashionMNIST: 12 discrete and 6 continuous variables", _joint),
    "func2c": Entry("two of Rosenbrock, camel, beale added: 2 discrete, 2 continuous", _synthetic("func2c", 100.0)),
    "func3c": Entry("three of them added: 3 discrete, 2 continuous", _synthetic("func3c", 100.0)),
    "ackley5c": Entry("Ackley: 5 discrete of 17 values, 1 continuous", _synthetic("ackley5c", 10.0)),
    "ackley53c": Entry("Ackley: 50 binary, 3 continuous", _synthetic("ackley53c", 10.0)),
}
ALIASES = {"fashion_mnist": "joint"}


def problem(name: str, settings: ProblemSettings | None = None) -> Problem:
    """The problem of that name, with default settings unless given; ConfigError if there is none."""
    known = ALIASES.get(name, name)
    if known not in PROBLEMS:
        raise ConfigError(f"problem {name!r}: it must be one of {', '.join([*PROBLEMS, *ALIASES])}")
    return PROBLEMS[known].make(settings or ProblemSettings())
