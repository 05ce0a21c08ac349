"""The events of an experiment: everything that happens, in the order in which it happens.

The journal is a list of them, and everything else follows from it: `Ledger` folds them, observers are shown them.
Times are seconds since the epoch, in UTC.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from fmnas.platform.environment import provenance
from fmnas.platform.experiment.journal import ASKED, BEGUN, DRIVER, ENDED, EXTENDED, FORMAT, OWN_FILES, DriverWork
from fmnas.platform.experiment.trial_result import Job
from fmnas.platform.experiment.warm_start import NOTHING, Knowledge, as_recorded
from fmnas.search_spaces import Evaluation, Trial
from fmnas.search_spaces.records import FAILED


@dataclass(frozen=True, slots=True)
class Begun:
    """An experiment begins. config: as resolved. warm_starts: optimizer label -> the trials it begins with."""

    id: str
    format: int
    config: Mapping[str, Any]
    at: float
    warm_starts: Mapping[str, Knowledge] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Extended:
    """An experiment grows. changes: dotted key -> (before, after). config: the whole configuration after it.

    warm_starts: of the optimizers that are new or have more repeats.
    """

    changes: Mapping[str, Any]
    config: Mapping[str, Any]
    at: float
    warm_starts: Mapping[str, Knowledge] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DriverStarted:
    """A process begins to work. work: a `DriverWork`. user_files: whose file -> its SHA-256."""

    work: str
    fmnas: str | None
    commit: str | None
    python: str
    torch: str | None
    host: str
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
    """The incumbents are about to be retrained. epochs, images, seeds: of each; test_images: how many it is tested on.

    runs: those whose incumbents are still to be retrained in this way.
    """

    epochs: int
    images: int
    seeds: int
    test_images: int
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
    """An incumbent was retrained. errors: on the test images, one per seed."""

    run: str
    trial_id: int
    attempt: int
    worker: str
    errors: tuple[float, ...]
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
    for each in fields(event):
        value = getattr(event, each.name)
        if isinstance(value, Trial | Evaluation):
            value = value.to_dict()
        elif each.name == "warm_starts":
            value = {label: known.to_dict() for label, known in value.items()}
        data[each.name] = value
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
    if "warm_starts" in rest:
        rest["warm_starts"] = {label: Knowledge.from_dict(known) for label, known in rest["warm_starts"].items()}
    rest |= {key: tuple(rest[key]) for key in _TUPLES if key in rest}
    return EVENT_TYPES[name](**rest)


def asked_record(run: str, trial: Trial, suggest_seconds: float, at: float) -> dict[str, Any]:
    """The record of a suggestion."""
    return {"event": ASKED, "run": run, "trial": trial.to_dict(), "suggest_seconds": suggest_seconds, "at": at}


def job_record(event: str, job: Job, worker: str, at: float, **facts: Any) -> dict[str, Any]:
    """The record of a job on a worker: of STARTED, or of the status with which it ended, and what that tells of it."""
    about = {"run": job.run, "trial": job.trial.id, "attempt": job.attempt, "worker": worker}
    return {"event": event, **about, "at": at, **facts}


def driver_record(work: DriverWork, at: float, files: Mapping[str, str]) -> dict[str, Any]:
    """The record of a driver that begins: what it works at, and with what. files: SHA-256 of a user's own, by whose."""
    return {"event": DRIVER, "work": work, **provenance(), **({OWN_FILES: dict(files)} if files else {}), "at": at}


def ended_record(status: str, reason: str, at: float) -> dict[str, Any]:
    """The record of a driver that leaves."""
    return {"event": ENDED, "status": status, **({"reason": reason} if reason else {}), "at": at}


def begun_record(
    identity: str, config: Mapping[str, Any], at: float, knowledge: Mapping[str, Knowledge] = NOTHING
) -> dict[str, Any]:
    """The first record: the experiment's id, its resolved configuration, and what its optimizers begin with."""
    head = {"event": BEGUN, "id": identity, "format": FORMAT, "config": dict(config)}
    return {**head, **as_recorded(knowledge), "at": at}


def extended_record(
    changes: Mapping[str, Any], config: Mapping[str, Any], at: float, knowledge: Mapping[str, Knowledge] = NOTHING
) -> dict[str, Any]:
    """The record of an experiment that grows: dotted key -> [before, after], and the whole configuration after.

    knowledge: of the optimizers that are new or have more repeats.
    """
    grown = {"event": EXTENDED, "format": FORMAT, "changes": dict(changes), "config": dict(config)}
    return {**grown, **as_recorded(knowledge), "at": at}


def grown(changes: Mapping[str, Any]) -> str:
    """The changes of an extension in words, e.g. "repeats 3 -> 5, optimizers + tpe"."""
    told = []
    for key, (before, after) in changes.items():
        if isinstance(after, list):
            told.append(f"{key} + {', '.join(name for name in after if name not in before)}")
        else:
            told.append(f"{key} {before} -> {'no limit' if after is None else after}")
    return ", ".join(told)
