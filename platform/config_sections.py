"""The sections of a configuration: what stands under one key, with its defaults."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_serializer, model_validator

from fmnas.platform.mlflow_uri import shown_uri
from fmnas.trainers.arrangement import Arrangement


class Section(BaseModel):
    """A mapping whose keys and types are known; anything else is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class BudgetConfig(Section):
    """What each run may spend.

    evaluations: full trainings, paid by the epoch (evaluations x fidelity.epochs).
    seconds: training plus suggestion; no trial starts once they are spent. None: no limit.
    trial_seconds: what one trial may take; one that takes longer is ended and has timed out. None: no limit.
    """

    evaluations: int = Field(ge=1)
    seconds: float | None = Field(default=None, gt=0)
    trial_seconds: float | None = Field(default=None, gt=0)


class FidelityConfig(Section):
    """epochs: what a full evaluation trains for."""

    epochs: int = Field(ge=1)


class WorkersConfig(Section):
    """The pool of workers.

    kind: "ray", or "in-process" for a debugger (one trial at a time in this process).
    count: how many; "auto" takes what the cluster holds and the runs can use.
    cpus, gpus: what one worker takes; fractions let several share a device. With gpus 0 it trains on CPUs.
    arrangement: how it arranges the trainings of one evaluation: auto takes what is fastest (fast on CPUs, stacked on
    GPUs), plain is the reference.
    attempts: how often a trial is tried when workers are lost. failures: how many failed trials in a row end the
    experiment. grace_seconds: how long Ctrl-C and SIGTERM wait for running trials.
    """

    kind: Literal["ray", "in-process"] = "ray"
    count: int | Literal["auto"] = "auto"
    cpus: float = Field(default=1, gt=0)
    gpus: float = Field(default=0, ge=0)
    arrangement: Arrangement = "auto"
    attempts: int = Field(default=3, ge=1)
    failures: int = Field(default=5, ge=1)
    grace_seconds: float = Field(default=30, ge=0)

    @model_validator(mode="after")
    def _whole_gpus(self) -> "WorkersConfig":
        if self.gpus > 1 and self.gpus != int(self.gpus):
            raise ValueError("gpus above 1 must be a whole number: a worker shares one device or owns several")
        if self.arrangement == "fast" and self.gpus > 0:
            raise ValueError("arrangement fast is for CPUs, so gpus must be 0; auto suits both")
        if isinstance(self.count, int) and self.count < 1:
            raise ValueError("count must be at least 1, or auto")
        return self


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

    every: int | None = Field(default=None, ge=1)
    continue_promoted: bool = False


class TrackingConfig(Section):
    """MLflow. uri None: SQLite in the run directory. experiment None: the experiment's name.

    A password in the URI is known to this record alone: in whatever is written from it, *** stands in its place.
    """

    enabled: bool = True
    uri: str | None = Field(default=None, repr=False)
    experiment: str | None = None

    @field_serializer("uri")
    def _hide_password(self, uri: str | None) -> str | None:
        return None if uri is None else shown_uri(uri)


class OptimizerConfig(Section):
    """One competitor: its name, how many trials it may have in flight, and its own options."""

    name: str
    concurrency: int = Field(default=1, ge=1)
    options: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _flat(cls, given: Any) -> Any:
        """A bare name, or a mapping whose unknown keys are the method's options."""
        if isinstance(given, str):
            return {"name": given}
        if isinstance(given, dict):
            own = {k: v for k, v in given.items() if k in cls.model_fields}
            options = given.get("options", {})
            if isinstance(options, dict):  # else it is refused as it stands
                own["options"] = {**options, **{k: v for k, v in given.items() if k not in cls.model_fields}}
            return own
        return given
