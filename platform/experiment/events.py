"""The events of an experiment: everything that happens, in the order in which it happens.

The journal is a list of them, and everything else follows from it: `Ledger` folds them, observers are shown them.
Times are seconds since the epoch, in UTC.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from typing import Any

from fmnas.platform.environment import Software
from fmnas.platform.experiment.warm_start import WarmStartData
from fmnas.search_spaces import Evaluation, Trial
from fmnas.search_spaces.records import FAILED

FORMAT = 3
"""Version of the journal's format."""


class DriverWork(StrEnum):
    """What a driver works on."""

    EXPERIMENT = "experiment"
    RETRAINING = "retraining"
    SYNC = "sync"


@dataclass(frozen=True, slots=True)
class Begun:
    """An experiment begins. config: as resolved. warm_starts: optimizer label -> the trials it begins with."""

    id: str
    format: int
    config: Mapping[str, Any]
    at: float
    warm_starts: Mapping[str, WarmStartData] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Extended:
    """An experiment grows. changes: dotted key -> (before, after). config: the whole configuration after it.

    warm_starts: of the optimizers that are new or have more repeats.
    """

    changes: Mapping[str, Any]
    config: Mapping[str, Any]
    at: float
    warm_starts: Mapping[str, WarmStartData] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DriverStarted:
    """A process begins to work. work: a `DriverWork`. user_files: whose file -> its SHA-256."""

    work: str
    software: Software
    at: float
    user_files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Asked:
    """An optimizer suggested a trial."""

    run: str
    trial: Trial
    suggest_seconds: float
    at: float


@dataclass(frozen=True, slots=True)
class Started:
    """A worker begins an attempt at a trial."""

    run: str
    trial_id: int
    attempt: int
    worker: str
    at: float


@dataclass(frozen=True, slots=True)
class Finished:
    """A trial has a result. worker: empty for the trial of a warm start, which was evaluated before."""

    run: str
    trial_id: int
    attempt: int
    worker: str
    evaluation: Evaluation
    at: float


@dataclass(frozen=True, slots=True)
class Failed:
    """A trial ended without a result, and is charged. status: "failed" or "timed_out"."""

    run: str
    trial_id: int
    attempt: int
    worker: str
    reason: str
    seconds: float
    at: float
    status: str = FAILED


@dataclass(frozen=True, slots=True)
class Lost:
    """The worker of a trial is gone. final: whether the trial is given up, and not tried again."""

    run: str
    trial_id: int
    attempt: int
    worker: str
    reason: str
    final: bool
    at: float


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The driver stopped while a trial was running; a resume repeats the trial."""

    run: str
    trial_id: int
    attempt: int
    worker: str
    reason: str
    at: float


@dataclass(frozen=True, slots=True)
class Ended:
    """A driver leaves. status: "finished", "interrupted" or "failed"; reason: why it failed."""

    status: str
    at: float
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RetrainingBegun:
    """Incumbents are about to be retrained. epochs, images: of each training; seeds: number of trainings of each.

    runs: those whose incumbents are still to be retrained with these settings.
    """

    epochs: int
    images: int
    seeds: int
    runs: tuple[str, ...]
    at: float


@dataclass(frozen=True, slots=True)
class RetrainingStarted:
    """A worker begins to retrain an incumbent."""

    run: str
    trial_id: int
    attempt: int
    worker: str
    at: float


@dataclass(frozen=True, slots=True)
class Retrained:
    """An incumbent was retrained. errors: on the test images, one per seed. test_images: how many there are."""

    run: str
    trial_id: int
    attempt: int
    worker: str
    errors: tuple[float, ...]
    test_images: int
    train_seconds: float
    started_at: float
    at: float


@dataclass(frozen=True, slots=True)
class RetrainingFailed:
    """The retraining of an incumbent failed or lost its worker. final: whether it is not tried again."""

    run: str
    trial_id: int
    attempt: int
    worker: str
    reason: str
    final: bool
    at: float


TrialEvent = Asked | Started | Finished | Failed | Lost | Cancelled
RetrainingEvent = RetrainingBegun | RetrainingStarted | Retrained | RetrainingFailed
Event = Begun | Extended | DriverStarted | TrialEvent | RetrainingEvent | Ended

EVENT_TYPES: Mapping[str, type[Event]] = {
    "begun": Begun,
    "extended": Extended,
    "driver_started": DriverStarted,
    "asked": Asked,
    "started": Started,
    "finished": Finished,
    "failed": Failed,
    "lost": Lost,
    "cancelled": Cancelled,
    "ended": Ended,
    "retraining_begun": RetrainingBegun,
    "retraining_started": RetrainingStarted,
    "retrained": Retrained,
    "retraining_failed": RetrainingFailed,
}
"""The name of each type in the journal."""
EVENT_NAMES = {kind: name for name, kind in EVENT_TYPES.items()}
_TUPLES = ("errors", "runs")


def event_to_dict(event: Event) -> dict[str, Any]:
    """Convert an event to plain JSON data: its name under "event", and its fields."""
    data: dict[str, Any] = {"event": EVENT_NAMES[type(event)]}
    for attribute in fields(event):
        value = getattr(event, attribute.name)
        if isinstance(value, Trial | Evaluation):
            value = value.to_dict()
        elif isinstance(value, Software):
            value = asdict(value)
        elif attribute.name == "warm_starts":
            value = {label: asdict(known) for label, known in value.items()}
        data[attribute.name] = value
    return data


def event_from_dict(data: Mapping[str, Any]) -> Event:
    """Convert plain JSON data back to an event.

    Raises ValueError for an unknown name; KeyError, TypeError or ValueError for missing, unknown or invalid fields.
    """
    rest = dict(data)
    name = rest.pop("event")
    if name not in EVENT_TYPES:
        raise ValueError(f"unknown event {name!r}")
    if "trial" in rest:
        rest["trial"] = Trial.from_dict(rest["trial"])
    if "evaluation" in rest:
        rest["evaluation"] = Evaluation.from_dict(rest["evaluation"])
    if "software" in rest:
        rest["software"] = Software(**rest["software"])
    if "warm_starts" in rest:
        rest["warm_starts"] = {label: WarmStartData.from_dict(known) for label, known in rest["warm_starts"].items()}
    rest |= {key: tuple(rest[key]) for key in _TUPLES if key in rest}
    return EVENT_TYPES[name](**rest)
