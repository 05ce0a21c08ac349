"""The events of an experiment: everything that happens, in the order in which it happens.

The journal is a list of them, and everything else follows from it: `Ledger` folds them, observers are shown them.
Times are seconds since the epoch, in UTC.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, get_args

from fmnas.platform.environment import Software
from fmnas.platform.experiment.warm_start import WarmStartData
from fmnas.search_spaces import Evaluation, Trial
from fmnas.search_spaces.records import FAILED

FORMAT = 4
"""Version of the journal's format. From 4 on, an evaluation has the curve of each seed."""


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
    """An optimizer suggested a trial. suggest_seconds: of this ask and of this driver's tells since the last."""

    run: str
    trial: Trial
    suggest_seconds: float
    at: float


@dataclass(frozen=True, slots=True)
class AttemptEvent:
    """What happens to an attempt at a trial, or at the retraining of one. attempt: from 1. worker: its name."""

    run: str
    trial_id: int
    attempt: int
    worker: str


@dataclass(frozen=True, slots=True)
class Started(AttemptEvent):
    """A worker begins an attempt at a trial."""

    at: float


@dataclass(frozen=True, slots=True)
class Finished(AttemptEvent):
    """A trial has a result. worker: empty for the trial of a warm start, which was evaluated before."""

    evaluation: Evaluation
    at: float


@dataclass(frozen=True, slots=True)
class Failed(AttemptEvent):
    """A trial ended without a result, and is charged. status: "failed" or "timed_out"."""

    reason: str
    seconds: float
    at: float
    status: str = FAILED


@dataclass(frozen=True, slots=True)
class Lost(AttemptEvent):
    """The worker of a trial is gone. final: whether the trial is given up, and not tried again."""

    reason: str
    final: bool
    at: float


@dataclass(frozen=True, slots=True)
class Cancelled(AttemptEvent):
    """The driver stopped while a trial was running; a resume repeats the trial."""

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
class RetrainingStarted(AttemptEvent):
    """A worker begins to retrain an incumbent."""

    at: float


@dataclass(frozen=True, slots=True)
class Retrained(AttemptEvent):
    """An incumbent was retrained. errors: on the test images, one per seed. test_images: how many there are."""

    errors: tuple[float, ...]
    test_images: int
    train_seconds: float
    started_at: float
    at: float


@dataclass(frozen=True, slots=True)
class RetrainingFailed(AttemptEvent):
    """The retraining of an incumbent failed or lost its worker. final: whether it is not tried again."""

    reason: str
    final: bool
    at: float


TrialEvent = Asked | Started | Finished | Failed | Lost | Cancelled
RetrainingEvent = RetrainingBegun | RetrainingStarted | Retrained | RetrainingFailed
Event = Begun | Extended | DriverStarted | TrialEvent | RetrainingEvent | Ended
EVENT_NAMES = {kind: re.sub("(?<=[a-z])(?=[A-Z])", "_", kind.__name__).lower() for kind in get_args(Event)}
"""The name of each type in the journal, e.g. "retraining_begun"."""
EVENT_TYPES: Mapping[str, type[Event]] = {name: kind for kind, name in EVENT_NAMES.items()}
_FROM_JSON: Mapping[str, Callable[[Any], Any]] = {
    "trial": Trial.from_dict,
    "evaluation": Evaluation.from_dict,
    "software": lambda data: Software(**data),
    "warm_starts": lambda data: {label: WarmStartData.from_dict(known) for label, known in data.items()},
    "errors": tuple,
    "runs": tuple,
}
"""Fields that are not plain JSON data -> how they are converted back."""


def event_to_dict(event: Event) -> dict[str, Any]:
    """Convert an event to plain data: its name under "event", and its fields."""
    return {"event": EVENT_NAMES[type(event)], **asdict(event)}


def event_from_dict(data: Mapping[str, Any]) -> Event:
    """Convert plain JSON data back to an event.

    Raises KeyError for an unknown name; KeyError, TypeError or ValueError for missing, unknown or invalid fields.
    """
    fields = {key: _FROM_JSON[key](value) if key in _FROM_JSON else value for key, value in data.items()}
    return EVENT_TYPES[fields.pop("event")](**fields)
