"""The records of the journal, one maker for each event. `Ledger` reads them.

| event | what happened |
|---|---|
| experiment | it begins, with this configuration |
| asked | an optimizer suggested a trial |
| started | an attempt at it began on a worker |
| finished, failed, timed_out | it ended, with a result or without |
| lost | its worker was lost; `final` when it will not be tried again |
| cancelled | a stop left it in the middle; a resume starts it again |
| driver, ended | a driver began to work here, and left |
| extended | the experiment has grown, and has another configuration from here on |
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from fmnas.platform.environment import provenance
from fmnas.platform.record.journal import ASKED, BEGUN, DRIVER, ENDED, EXTENDED, FORMAT, OWN_FILES, STARTED, DriverWork
from fmnas.platform.record.outcome import Job
from fmnas.platform.record.warm_start import NOTHING, Knowledge, as_recorded
from fmnas.search_spaces import Evaluation, Trial
from fmnas.search_spaces.records import FINISHED, LOST

NO_FILES: Mapping[str, str] = MappingProxyType({})


def asked_record(run: str, trial: Trial, suggest_seconds: float, at: float) -> dict[str, Any]:
    """The record of a suggestion."""
    return {"event": ASKED, "run": run, "trial": trial.to_dict(), "suggest_seconds": suggest_seconds, "at": at}


def started_record(job: Job, worker: str, at: float) -> dict[str, Any]:
    """The record of an attempt."""
    return _of_job(STARTED, job, worker, at)


def finished_record(job: Job, worker: str, evaluation: Evaluation, at: float) -> dict[str, Any]:
    """The record of a result."""
    return {**_of_job(FINISHED, job, worker, at), "evaluation": evaluation.to_dict()}


def unfinished_record(status: str, job: Job, worker: str, reason: str, at: float) -> dict[str, Any]:
    """The record of a trial without a result: FAILED, TIMED_OUT, or CANCELLED, which a resume starts again."""
    return {**_of_job(status, job, worker, at), "reason": reason}


def lost_record(job: Job, worker: str, reason: str, final: bool, at: float) -> dict[str, Any]:
    """The record of a lost worker; `final` when its trial will not be tried again."""
    return {**_of_job(LOST, job, worker, at), "reason": reason, "final": final}


def driver_record(work: DriverWork, at: float, files: Mapping[str, str] = NO_FILES) -> dict[str, Any]:
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


def _of_job(event: str, job: Job, worker: str, at: float) -> dict[str, Any]:
    return {
        "event": event,
        "run": job.run,
        "trial": job.trial.id,
        "attempt": job.attempt,
        "worker": worker,
        "at": at,
    }
