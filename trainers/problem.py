"""What a problem is: a space, what evaluates a configuration of it, and how its objective is to be modelled.

A problem stands in one file of its chamber, as a `Problem` or, where a configuration may set something of it, as a
function of `ProblemSettings`.

The BO-FM paper's runs began at ten random points, which `authors_points` gives, for comparisons paired with its
published runs. Its recipe, for run number `seed`: one seed per variable from RandomState(seed), continuous variables
first, discrete ones in the order of the space; then each variable is drawn by itself, uniformly (a log-scaled one on
its logarithm), and rounded to float32.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from fmnas.search_spaces import Configuration, Real, Space
from fmnas.search_spaces.variables import Value
from fmnas.trainers.contract import Trainer, TrainerError

if TYPE_CHECKING:
    from fmnas.trainers.checkpoints import Checkpoints

Arrangement = Literal["auto", "plain", "fast", "stacked"]
FlopsConvention = Literal["torch", "pthflops"]
"""How the trainings of an evaluation are arranged on a machine, see `images/arrangement.py`."""

AUTHORS_POINTS = 10
"""How many points each of the paper's runs began with."""


OWN = "own"
"""The name of a set of images that is a user's own."""
USER_SETS = ("mnist", "kmnist", OWN)
"""Sets of images that are read where a user says, and nowhere else."""


class Data(Protocol):
    """What a problem's trainings see. place: where it was found.

    It may have a `digest`, too, text that tells it from other data: then no experiment goes on with others.
    """

    @property
    def place(self) -> str: ...


@dataclass(frozen=True)
class DataSettings:
    """The data of a real problem; what is None is as the problem has it.

    name: data set. root: the folder or file that holds it; None looks in the usual places.
    train, validation: number of images. batch_size: images per SGD step.
    early_validation: how many of the validation images epochs before a trial's last are measured on; None: all.
    """

    name: str | None = None
    root: str | None = None
    train: int | None = None
    validation: int | None = None
    batch_size: int | None = None
    early_validation: int | None = None

    @property
    def path(self) -> Path | None:
        """`root` as a path."""
        return Path(self.root) if self.root else None


@dataclass(frozen=True)
class ProblemSettings:
    """What a configuration may set of a problem: its data, the number of seeds averaged, where checkpoints are kept.

    schedule_epochs: the epochs that a search's learning rates are planned for; None: each trial's own.
    flops_weight: of FLOPs in its objective, beside the error; None: as the problem has it. flops: how they are counted.
    """

    data: DataSettings = field(default_factory=DataSettings)
    seeds: int = 4
    checkpoints: "Checkpoints | None" = None
    schedule_epochs: int | None = None
    flops_weight: float | None = None
    flops: FlopsConvention = "torch"


@dataclass(frozen=True)
class Hardware:
    """Where a trainer runs: a torch device, the number of CPU threads, and how trainings are arranged on them."""

    device: str = "cpu"
    threads: int = 1
    arrangement: Arrangement = "auto"


@dataclass(frozen=True)
class ConfigurableProblem:
    """A problem of which a configuration may set something.

    make: the problem with settings, whose data and weight are complete.
    data: the keys of DataSettings that it takes, with the values that they have unless set; empty where data are fixed.
    checkpoints: whether its trainings can go on from one.
    schedule: whether its trainings follow a schedule, which can be planned for more epochs than a trial has.
    flops_weight: of FLOPs in its objective unless a configuration sets it; None: there are none in it.
    """

    make: "Callable[[ProblemSettings], Problem]"
    data: Mapping[str, Any] = field(default_factory=dict)
    checkpoints: bool = False
    schedule: bool = False
    flops_weight: float | None = None


@dataclass(frozen=True)
class Problem:
    """A task: a space, what evaluates it, and how its objective is to be modelled.

    build: makes the trainer from the data.
    penalty: the objective that an optimizer is told for a trial that failed; None: the worst it was told so far, and
    nothing before it was told any.
    epochs: full fidelity unless a configuration says otherwise.
    log_objective: whether models see the logarithm.
    minimum: the lowest objective there is (without noise), where it is known.
    function: the objective itself, without noise, where it is a plain function.
    has_authors_points: whether the BO-FM paper's runs began at the `authors_points` of the space.
    description: what it is, in a paragraph; of a user's function, the first one of its docstring.
    objective: what an evaluation measures, in a sentence.
    seeds: error columns in the table of trials; 0 for a problem that measures no error beside its objective.
    dataset: what its trainings see; empty for a synthetic problem.
    load: reads the data (None without any); raises DataError, or TrainerError where a package is missing.
    load_final: reads what the best configurations are retrained and tested on, for a number of images to train on;
    `build` makes the trainer from it, too. None for a problem without test images that its search leaves alone.
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
    load: Callable[[], Data | None] = lambda: None
    load_final: Callable[[int], Any] | None = None

    @cached_property
    def trainer(self) -> Trainer:
        """A trainer in this process, on one CPU thread."""
        return self.build(self.load(), Hardware())


def authors_points(space: Space, seed: int, count: int = AUTHORS_POINTS) -> list[Configuration]:
    """The points that the paper's run `seed` (0, 1, 2, ...) began at; more continue the list, fewer are its beginning.

    It is theirs for a problem that `has_authors_points`. Raises TrainerError for a count below 1.
    """
    if count < 1:
        raise TrainerError(f"count = {count}: an initial design needs at least 1 point")
    names = [v.name for v in space.columns]
    seeds = np.random.RandomState(seed).randint(0, 2**31 - 2, size=len(names))
    rngs = {name: np.random.RandomState(own) for name, own in zip(names, seeds, strict=True)}
    columns: dict[str, list[Value]] = {v.name: _reals(v, rngs[v.name], count) for v in space.continuous}
    for variable in space.discrete:
        numbers = rngs[variable.name].randint(0, len(variable.vertices), size=count)
        columns[variable.name] = [variable.vertices[int(i)] for i in numbers]
    return [{name: columns[name][i] for name in space.names} for i in range(count)]


def _reals(variable: Real, rng: np.random.RandomState, count: int) -> list[Value]:
    """`count` draws; rounding to float32 may leave the bounds, so they are clipped."""
    drawn: NDArray[np.float32] = rng.uniform(*variable.ends, count).astype(np.float32)
    values = [math.exp(value) if variable.log else value for value in drawn.tolist()]
    return [min(max(value, variable.low), variable.high) for value in values]
