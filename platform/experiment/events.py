"""The records of the journal, made: what its events mean, `journal` says. `Ledger` reads them."""

from collections.abc import Mapping
from typing import Any

from fmnas.platform.environment import provenance
from fmnas.platform.experiment.journal import ASKED, BEGUN, DRIVER, ENDED, EXTENDED, FORMAT, OWN_FILES, DriverWork
from fmnas.platform.experiment.trial_result import Job
from fmnas.platform.experiment.warm_start import NOTHING, Knowledge, as_recorded
from fmnas.search_spaces import Trial


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
