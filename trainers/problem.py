"""A problem: a space, a trainer that evaluates its configurations, and how to model the objective.

`authors_points` returns the ten random points at which the BO-FM paper's runs started, for paired comparisons with its
published runs. For run number `seed`, RandomState(seed) draws one seed per variable, continuous variables first,
discrete ones in the order of the space. Then each variable is drawn with its own seed, uniformly (a log-scaled one on
its logarithm), and rounded to float32.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from fmnas.search_spaces import Configuration, Space
from fmnas.search_spaces.variables import Value
from fmnas.trainers.contract import Trainer

if TYPE_CHECKING:
    from fmnas.trainers.checkpoints import Checkpoints

Arrangement = Literal["auto", "plain", "fast", "stacked"]
FlopsConvention = Literal["torch", "pthflops"]

AUTHORS_POINTS = 10
"""Size of the initial design of each of the paper's runs."""
OWN = "own"
"""The name of a custom set of images."""
USER_SETS = ("mnist", "kmnist", OWN)
"""Sets of images that are read from `data.root`, and never downloaded."""


class Data(Protocol):
    """Data from a place; an experiment is not resumed if their `digest`, a text, has changed (if they have one)."""

    @property
    def place(self) -> str: ...


@dataclass(frozen=True)
class DataSettings:
    """The data of a real problem; None: the problem's default.

    name: data set. root: the folder or file with it; None: search the usual places.
    train, validation: number of images. batch_size: images per SGD step.
    early_validation: validation images used in the epochs before a trial's last; None: all.
    """

    name: str | None = None
    root: str | None = None
    train: int | None = None
    validation: int | None = None
    batch_size: int | None = None
    early_validation: int | None = None


@dataclass(frozen=True)
class ProblemSettings:
    """What a configuration may set of a problem.

    seeds: trainings per evaluation. checkpoints: when and where trainings are saved; None: never.
    schedule_epochs: length of the learning rate schedule; None: the trial's epochs.
    flops_weight: of FLOPs in the objective, beside the error; None: the problem's default. flops: how to count them.
    """

    data: DataSettings = field(default_factory=DataSettings)
    seeds: int = 4
    checkpoints: "Checkpoints | None" = None
    schedule_epochs: int | None = None
    flops_weight: float | None = None
    flops: FlopsConvention = "torch"


@dataclass(frozen=True)
class Hardware:
    """Where a trainer runs. arrangement: how the trainings of an evaluation share it, see `seed_parallelism.py`."""

    device: str = "cpu"
    threads: int = 1
    arrangement: Arrangement = "auto"


@dataclass(frozen=True)
class ConfigurableProblem:
    """A problem with settings.

    make: returns the problem for settings without missing data keys or a missing weight.
    data: the keys of DataSettings that it takes, and their defaults; empty if its data are fixed.
    checkpoints: whether its trainings support checkpoints.
    schedule: whether its trainings follow a learning rate schedule, which may be longer than a trial.
    flops_weight: default weight of FLOPs in the objective; None: it has no FLOPs term.
    """

    make: "Callable[[ProblemSettings], Problem]"
    data: Mapping[str, Any] = field(default_factory=dict)
    checkpoints: bool = False
    schedule: bool = False
    flops_weight: float | None = None


@dataclass(frozen=True)
class Problem:
    """An optimization problem.

    build: returns the trainer for the data.
    penalty: the objective reported to an optimizer for a failed trial; None: the worst one observed, if any.
    epochs: default full fidelity.
    log_objective: whether models see the logarithm of the objective.
    objectives: of a problem with two, their names and values in the reference point of the hypervolume; the optimizers
    of one objective minimise another number, their sum for instance.
    minimum: the known optimum, without noise. function: the objective without noise, if it is a plain function.
    has_authors_points: whether the BO-FM paper's runs started at the `authors_points` of the space.
    description: a paragraph; for a user's function, the first of its docstring.
    objective: a sentence on what an evaluation measures.
    seeds: number of error columns in the table of trials; 0 if the objective is not an average over trainings.
    dataset: name of the data; empty for a synthetic problem.
    load: reads the data (None without any); raises DataError, or TrainerError for a missing package.
    load_final: reads the data to retrain and test the best configurations on, given the number of training images;
    `build` takes them, too. None: the problem has no test data.
    """

    space: Space
    build: Callable[[Any, Hardware], Trainer]
    penalty: float | None
    epochs: int = 1
    log_objective: bool = False
    minimum: float | None = None
    function: Callable[[Mapping[str, Any]], float] | None = None
    has_authors_points: bool = False
    description: str = ""
    objective: str = "The objective is the value of the function."
    seeds: int = 0
    dataset: str = ""
    objectives: Mapping[str, float] = field(default_factory=dict)
    load: Callable[[], Data | None] = lambda: None
    load_final: Callable[[int], Any] | None = None

    @cached_property
    def trainer(self) -> Trainer:
        """A trainer in this process, on one CPU thread."""
        return self.build(self.load(), Hardware())


def authors_points(space: Space, seed: int, count: int = AUTHORS_POINTS) -> list[Configuration]:
    """The initial design of the paper's run `seed` (0, 1, 2, ...), for a problem that `has_authors_points`."""
    names = [v.name for v in space.columns]
    seeds = np.random.RandomState(seed).randint(0, 2**31 - 2, size=len(names))
    rngs = {name: np.random.RandomState(own) for name, own in zip(names, seeds, strict=True)}
    columns: dict[str, list[Value]] = {}
    for real in space.continuous:
        drawn = rngs[real.name].uniform(*real.ends, count).astype(np.float32).tolist()
        values = [math.exp(value) if real.log else value for value in drawn]
        # Rounding to float32 may exceed the bounds.
        columns[real.name] = [min(max(value, real.low), real.high) for value in values]
    for variable in space.discrete:
        numbers = rngs[variable.name].randint(0, len(variable.vertices), size=count)
        columns[variable.name] = [variable.vertices[int(i)] for i in numbers]
    return [{name: columns[name][i] for name in space.names} for i in range(count)]
