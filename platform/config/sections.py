"""The sections of a configuration: what stands under one key, with its defaults."""

import re
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    model_validator,
)

from fmnas.platform.config.errors import shown
from fmnas.platform.config.uri import check_no_password
from fmnas.platform.named import whole
from fmnas.platform.optimizers import OPTIMIZERS, Row
from fmnas.search_spaces.errors import did_you_mean
from fmnas.trainers.problem import Arrangement, FlopsConvention, Hardware

IN_PROCESS: Final = "in-process"
"""The kind of workers that is none: the driver trains itself."""
RAY: Final = "ray"
"""The kind of workers that are actors of Ray."""
AUTO: Final = "auto"
"""As many workers as the runs can use; of the kind that suits the problem."""
LONG = 1e9
"""Seconds, some thirty years: timers of the operating system take no more than a few times that."""
LABEL_FORM = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
"""What an optimizer may be called: it is part of the names of runs."""
LONGEST_VALUE = 200
"""Characters of a value that a variable is fixed to."""
SHARE = 0.0001
"""The smallest share of a CPU or GPU that Ray can count."""


class Section(BaseModel):
    """A mapping whose keys and types are known; anything else is an error, as are numbers that are not finite."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )


def must(hold: Callable[[Any], object], told: str) -> AfterValidator:
    """Lets a value pass of which something holds; of another it is told what it must be."""

    def checked(given: Any) -> Any:
        if not hold(given):
            raise ValueError(f"it must be {told}")
        return given

    return AfterValidator(checked)


def number_or(word: str, least: int, most: int, null: bool = False) -> BeforeValidator:
    """Lets a word pass, and a whole number between these; null too, if `null` says so."""

    def checked(given: Any) -> Any:
        if (
            (null and given is None)
            or given == word
            or (isinstance(given, int) and not isinstance(given, bool) and least <= given <= most)
        ):
            return given
        raise ValueError(f"it must be a whole number of at least {least} and at most {most}, or {word}")

    return BeforeValidator(checked)


_ONE_GPU = must(lambda number: number <= 1, "at most 1: a worker trains on one GPU, and several workers use several")
_LABEL = must(LABEL_FORM.fullmatch, "letters, digits, '.', '_' and '-', 40 at most, and begin with a letter or digit")
_EARLIER = must(str.isprintable, "the path of a run directory, or DIR:LABEL")


class BudgetConfig(Section):
    """What each run may spend."""

    evaluations: int = Field(ge=1, le=10_000_000)
    """Full trainings of each optimizer in each repeat, paid by the epoch: evaluations x fidelity.epochs."""
    seconds: float | None = Field(default=None, gt=0, le=LONG)
    """Of training plus suggestion: no trial starts once they are spent. null: no limit."""
    trial_seconds: float | None = Field(default=None, gt=0, le=LONG)
    """What one trial may take; one that takes longer is ended and has timed out. null: no limit."""


class FidelityConfig(Section):
    """What a full evaluation is. It may be left out where a problem has no epochs, and for one of your own."""

    epochs: int = Field(ge=1, le=1_000_000)
    """What a full evaluation trains for; 1 where a problem has no epochs."""
    schedule_epochs: int | None = Field(default=None, ge=1, le=1_000_000)
    """The epochs that learning rates are planned for: at fidelity.epochs, a shorter trial is the beginning of a full
    one, as in the BO-FM paper's runs of BOHB. null: each trial's own epochs; with checkpoints.continue_promoted,
    fidelity.epochs. A retraining is always planned for its own."""


class WorkersConfig(Section):
    """The pool of workers."""

    kind: Literal["auto", "ray", "in-process"] = AUTO
    """ray; in-process, one trial at a time in the driver's own process, for a debugger and for functions that take
    milliseconds; or auto: in-process for the synthetic functions and engineers' problems of the registry, unless count,
    cpus, gpus, an optimizer's concurrency or --address is given, and ray for everything else."""
    count: Annotated[int | Literal["auto"], number_or(AUTO, 1, 100_000)] = AUTO
    """How many; auto takes what the cluster holds and the runs can use."""
    cpus: float = Field(default=1, ge=SHARE, le=100_000)
    """What one worker takes. With several it trains that many seeds of its trial side by side."""
    gpus: Annotated[float, Field(ge=0), _ONE_GPU] = 0
    """What one worker takes, at most 1: it trains on one GPU, which fractions share. With 0 it trains on CPUs."""
    arrangement: Arrangement = "auto"
    """How a worker arranges the trainings of one evaluation: auto takes what is fastest (fast on CPUs, stacked on
    GPUs); plain is the reference."""
    attempts: int = Field(default=3, ge=1, le=1_000_000)
    """How often a trial is tried when workers are lost."""
    failures: int = Field(default=5, ge=1, le=1_000_000)
    """How many failed, timed-out or lost trials in a row end the experiment."""
    grace_seconds: float = Field(default=30, ge=0, le=LONG)
    """How long Ctrl-C and SIGTERM wait for running trials."""

    @model_validator(mode="after")
    def _device(self) -> "WorkersConfig":
        if 0 < self.gpus < SHARE:
            raise ValueError(f"gpus must be 0, or at least {SHARE}")
        if self.arrangement == "fast" and self.gpus > 0:
            raise ValueError("arrangement fast is for CPUs, so gpus must be 0; auto suits both")
        return self

    @property
    def hardware(self) -> Hardware:
        """Where one worker trains; the driver's own process has one thread for it."""
        threads = 1 if self.kind == IN_PROCESS else max(1, int(self.cpus))
        return Hardware("cuda" if self.gpus > 0 else "cpu", threads, self.arrangement)


def _absolute(path: str) -> str:
    try:
        return str(Path(path).expanduser().absolute())
    except (OSError, RuntimeError):  # of nobody's home
        return path  # which is refused when it is looked for


class DataConfig(Section):
    """The data of a real problem; what is null is as the problem has it."""

    name: Literal["fashion_mnist", "digits", "mnist", "kmnist", "own"] | None = None
    """The data set; digits is small and needs no network, for tests and explicit offline use; mnist, kmnist and own,
    any other images of 28 x 28 in up to ten classes, are files of yours, in root."""
    root: Annotated[str, AfterValidator(_absolute)] | None = None
    """The folder or the .npz file that holds it, or svm_boston's file, which keeps its place wherever the experiment is
    resumed; null looks in FashionMNIST's usual places."""
    train: int | None = Field(default=None, ge=1)
    """How many images train."""
    validation: int | None = Field(default=None, ge=1)
    """How many others measure."""
    batch_size: int | None = Field(default=None, ge=1)
    """Images of one step of SGD."""
    early_validation: int | None = Field(default=None, ge=1)
    """How many of the validation images, the first of them, every epoch before a trial's last is measured on; null:
    all. The last, and so the objective, is always measured on all."""


class ObjectiveConfig(Section):
    """What the objective of the joint problem is made of."""

    flops_weight: float | None = Field(default=None, ge=0, le=1000)
    """Of FLOPs / FLOPs of the largest network, beside the error; 0 is the error alone. null is as the problem has it:
    0.02."""
    flops: FlopsConvention = "torch"
    """How FLOPs are counted: torch has two per multiply-add of convolutions and the fully connected layer; pthflops,
    the BO-FM paper's, one, and counts biases, BatchNorm, ReLU, max pools and sums, too."""


def _scalar(given: Any) -> Any:
    """What a variable may be fixed to: it can be shown, and compared with a variable's values."""
    if isinstance(given, str) and len(given) > LONGEST_VALUE:
        raise ValueError(f"it must be text of at most {LONGEST_VALUE} characters")
    if not isinstance(given, str | bool | int | float) or (isinstance(given, int) and abs(given) >= 2**64):
        raise ValueError("it must be text, a number, true or false")
    return given


Fixed = dict[str, Annotated[Any, BeforeValidator(_scalar)]]
"""Variable -> the value that it has in every trial."""


class CheckpointsConfig(Section):
    """Whether trainings are kept while they run.

    The files of shorter trials, up to a megabyte for each training, stay until a full one has gone on from them, or the
    experiment is done.
    """

    every: int | None = Field(default=None, ge=1, le=1_000_000)
    """Epochs between two checkpoints of a training, in the run directory; null: none. A trial that is repeated, because
    its worker was lost or the experiment interrupted, goes on from its last ones and ends with the same numbers. On a
    cluster that takes a run directory that all nodes share."""
    continue_promoted: bool = False
    """A trial that is promoted to more epochs goes on from the last epoch of the trial it continues, with that trial's
    seed. Every learning rate is then planned for fidelity.epochs: a shorter trial is the beginning of a full one, and a
    promoted trial ends with the numbers of a training that nothing cut. Without it (as BOHB's paper has it) a promoted
    trial trains anew, and every trial's learning rate is planned for its own epochs. Either way it is charged all its
    epochs: what an optimizer may spend does not depend on whether a file was found."""


class TrackingConfig(Section):
    """MLflow."""

    enabled: bool = True
    """Whether MLflow is told at all."""
    uri: Annotated[str, Field(min_length=1), AfterValidator(check_no_password)] | None = None
    """Its server or store, without a password; null: SQLite in the run directory."""
    experiment: str | None = Field(default=None, min_length=1)
    """What it is called there; null: the experiment's name."""


class OptimizerConfig(Section):
    """One competitor. A bare name stands for {name: NAME}; keys beside these are the optimizer's own options."""

    name: str
    """Of the registry (`fmnas list optimizers`); with `use`, any."""
    use: Annotated[str, AfterValidator(whole)] | None = None
    """The class of an optimizer of one's own, as "module:Class" or "FILE.py:Class"; a file is looked for in the current
    folder, then beside the configuration, and keeps its place, wherever the experiment is resumed."""
    label: Annotated[str, _LABEL] = ""
    """What tables, curves, files and MLflow call it; its name unless another is given, as it must be where one
    optimizer competes several times."""
    concurrency: int = Field(default=1, ge=1, le=100_000)
    """How many trials it may have in flight."""
    warm_start: Annotated[str, Field(min_length=1), _EARLIER] | None = None
    """An earlier run directory, or DIR:LABEL for one optimizer of several there: in place of the shared initial design,
    repeat r begins with the full trials that finished in its repeat r. They are charged like its own, and not trained.
    null: none."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Its own; they may as well stand beside the name."""

    @cached_property
    def row(self) -> Row:
        """Of the registry, or its own; always the same, whatever its name stands for later.

        Raises KeyError for a name that is not there.
        """
        return OPTIMIZERS[self.name] if self.use is None else Row(self.name, self.use, "")

    @property
    def settings(self) -> dict[str, Any]:
        """All its options, those not said with their defaults. Raises as `Row.complete`."""
        return self.row.complete(self.options)

    @model_validator(mode="before")
    @classmethod
    def _flat(cls, given: Any) -> Any:
        """A bare name, or a mapping whose unknown keys are the method's options."""
        if isinstance(given, str):
            return {"name": given, "label": given}
        if not isinstance(given, dict):
            return given
        own = {k: v for k, v in given.items() if k in cls.model_fields}
        beside = {k: v for k, v in given.items() if k not in cls.model_fields}
        if "name" not in own:
            raise ValueError(_nameless([str(key) for key in given]))
        own.setdefault("label", own["name"])
        options = given.get("options", {})
        if isinstance(options, dict):  # else it is refused as it stands
            if doubled := [key for key in options if key in given]:
                raise ValueError(
                    f"{shown(doubled[0])} stands beside the name and under options: keep one of the two; an override "
                    f"of the latter is optimizers.N.options.{doubled[0]}"
                )
            if inner := [key for key in options if key in cls.model_fields]:
                raise ValueError(f"{shown(inner[0])} stands under options: write it beside the name")
            own["options"] = {**options, **beside}
        return own


def _nameless(keys: list[str]) -> str:
    """What is wrong with an optimizer that has these keys."""
    meant = [key for key in keys if did_you_mean(key, ["name"])]
    if meant:
        return f"it has no name. Did you mean 'name' for {shown(meant[0])}?"
    return "it has no name: write {name: NAME, KEY: VALUE} with one of `fmnas list optimizers`"
