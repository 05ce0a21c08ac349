"""The sections of a configuration: what stands under one key, with its defaults."""

import re
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_serializer, field_validator, model_validator

from fmnas.platform.config.messages import hint, shown
from fmnas.platform.config.named import whole
from fmnas.platform.optimizers import OPTIMIZERS, Row
from fmnas.platform.tracking.uri import shown_uri
from fmnas.trainers.problem import Arrangement, DataSettings

LONG = 1e9
"""Seconds, some thirty years: timers of the operating system take no more than a few times that."""
LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
"""What an optimizer may be called: it is part of the names of runs."""
SHARE = 0.0001
"""The smallest share of a CPU or GPU that Ray can count."""


class Section(BaseModel):
    """A mapping whose keys and types are known; anything else is an error, as are numbers that are not finite."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class BudgetConfig(Section):
    """What each run may spend.

    evaluations: full trainings, paid by the epoch (evaluations x fidelity.epochs).
    seconds: training plus suggestion; no trial starts once they are spent. None: no limit.
    trial_seconds: what one trial may take; one that takes longer is ended and has timed out. None: no limit.
    """

    evaluations: int = Field(ge=1, le=10_000_000)
    seconds: float | None = Field(default=None, gt=0, le=LONG)
    trial_seconds: float | None = Field(default=None, gt=0, le=LONG)


class FidelityConfig(Section):
    """epochs: what a full evaluation trains for."""

    epochs: int = Field(ge=1, le=1_000_000)


class WorkersConfig(Section):
    """The pool of workers.

    kind: "ray", or "in-process" for a debugger (one trial at a time in this process, which a trial that kills it or
    never returns from C takes along).
    count: how many; "auto" takes what the cluster holds and the runs can use.
    cpus, gpus: what one worker takes; fractions let several share a device. With gpus 0 it trains on CPUs; it trains
    on one GPU, so it takes no more than 1.
    arrangement: how it arranges the trainings of one evaluation: auto takes what is fastest (fast on CPUs, stacked on
    GPUs), plain is the reference.
    attempts: how often a trial is tried when workers are lost. failures: how many failed trials in a row end the
    experiment. grace_seconds: how long Ctrl-C and SIGTERM wait for running trials.
    """

    kind: Literal["ray", "in-process"] = "ray"
    count: int | Literal["auto"] = "auto"
    cpus: float = Field(default=1, ge=SHARE, le=100_000)
    gpus: float = Field(default=0, ge=0)
    arrangement: Arrangement = "auto"
    attempts: int = Field(default=3, ge=1, le=1_000_000)
    failures: int = Field(default=5, ge=1, le=1_000_000)
    grace_seconds: float = Field(default=30, ge=0, le=LONG)

    @field_validator("count", mode="before")
    @classmethod
    def _number_or_auto(cls, given: Any) -> Any:
        if given == "auto" or (isinstance(given, int) and not isinstance(given, bool) and 1 <= given <= 100_000):
            return given
        raise ValueError("it must be a whole number of at least 1 and at most 100000, or auto")

    @field_validator("gpus")
    @classmethod
    def _one_gpu(cls, given: float) -> float:
        if given > 1:
            raise ValueError("it must be at most 1: a worker trains on one GPU, and several workers use several")
        return given

    @model_validator(mode="after")
    def _device(self) -> "WorkersConfig":
        if 0 < self.gpus < SHARE:
            raise ValueError(f"gpus must be 0, or at least {SHARE}")
        if self.arrangement == "fast" and self.gpus > 0:
            raise ValueError("arrangement fast is for CPUs, so gpus must be 0; auto suits both")
        return self


class DataConfig(Section):
    """The data of a real problem; what is None is as the problem has it.

    name: data set; digits is small and needs no network, for tests and explicit offline use.
    root: the folder that holds it, or svm_boston's file; None looks in the usual places.
    train, validation: number of images. batch_size: images per SGD step.
    early_validation: how many of the validation images, the first of them, every epoch before a trial's last is
    measured on; None: all. The last, and so the objective, is always measured on all.
    """

    name: Literal["fashion_mnist", "digits"] | None = None
    root: str | None = None
    train: int | None = Field(default=None, ge=1)
    validation: int | None = Field(default=None, ge=1)
    batch_size: int | None = Field(default=None, ge=1)
    early_validation: int | None = Field(default=None, ge=1)

    def settings(self) -> DataSettings:
        """As a problem takes it."""
        return DataSettings(**dict(self))


class CheckpointsConfig(Section):
    """every: epochs between two checkpoints of a training, in the run directory; None: none.

    A trial that is repeated, because its worker was lost or the experiment interrupted, goes on from its last ones and
    ends with the same numbers. On a cluster that takes a run directory that all nodes share.

    continue_promoted: a trial that is promoted to more epochs goes on from the last epoch of the trial it continues,
    with that trial's seed. Every learning rate is then planned for fidelity.epochs: a shorter trial is the beginning of
    a full one, and a promoted trial ends with the numbers of a training that nothing cut. Without it (as BOHB's paper
    has it) a promoted trial trains anew, and every trial's learning rate is planned for its own epochs. Either way it
    is charged all its epochs: what an optimizer may spend does not depend on whether a file was found. Only the seconds
    are those that it took. The files of shorter trials, up to a megabyte for each training, stay until a full one has
    gone on from them, or the experiment is done.
    """

    every: int | None = Field(default=None, ge=1, le=1_000_000)
    continue_promoted: bool = False


class TrackingConfig(Section):
    """MLflow. uri None: SQLite in the run directory. experiment None: the experiment's name.

    A password in the URI is known to this record alone: in whatever is written from it, *** stands in its place.
    """

    enabled: bool = True
    uri: str | None = Field(default=None, min_length=1, repr=False)
    experiment: str | None = Field(default=None, min_length=1)

    @field_serializer("uri")
    def _hide_password(self, uri: str | None) -> str | None:
        return None if uri is None else shown_uri(uri)


class OptimizerConfig(Section):
    """One competitor.

    name: of the registry; with `use`, any.
    use: the class of an optimizer of one's own, as "module:Class" or "FILE.py:Class"; a file keeps its place, wherever
    the experiment is resumed.
    label: what tables, curves, MLflow and files call it; its name unless another is given, as it must be where one
    optimizer competes several times.
    concurrency: how many trials it may have in flight.
    options: its own.
    """

    name: str
    use: str | None = None
    label: str = ""
    concurrency: int = Field(default=1, ge=1, le=100_000)
    options: dict[str, Any] = Field(default_factory=dict)

    @property
    def row(self) -> Row:
        """Of the registry, or its own. Raises KeyError for a name that is not there."""
        return OPTIMIZERS[self.name] if self.use is None else Row(self.name, self.use, "")

    @field_validator("use")
    @classmethod
    def _whole(cls, given: str | None) -> str | None:
        return None if given is None else whole(given)

    @field_validator("label")
    @classmethod
    def _plain(cls, given: str) -> str:
        if not LABEL.fullmatch(given):
            raise ValueError(
                "it must be letters, digits, '.', '_' and '-', 40 at most, and begin with a letter or digit"
            )
        return given

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
                raise ValueError(f"{shown(doubled[0])} stands beside the name and under options: keep one of the two")
            if inner := [key for key in options if key in cls.model_fields]:
                raise ValueError(f"{shown(inner[0])} stands under options: write it beside the name")
            own["options"] = {**options, **beside}
        return own


def _nameless(keys: list[str]) -> str:
    """What is wrong with an optimizer that has these keys."""
    meant = [key for key in keys if hint(key, ["name"])]
    if meant:
        return f"it has no name. Did you mean 'name' for {shown(meant[0])}?"
    return "it has no name: write {name: NAME, KEY: VALUE} with one of `fmnas list optimizers`"
