"""The status of an experiment, from its journal and driver.json alone: nothing is written, no optimizer is built.

`fmnas status DIR --json` prints these facts:

| fact | meaning |
|---|---|
| directory, name, problem | of the experiment |
| state | starting, working, retraining, syncing; or how the last driver ended: finished, interrupted, failed, crashed |
| driver | host, pid, since; None if no driver is at work |
| resume_command | the command that resumes; None if a driver works, if nothing is left, and for `minimize` |
| spent_epochs, budget_epochs, spent_share | of all runs together |
| seconds_left | at the pace of this driver; None while unknown |
| unit | epochs or evaluations: what print_status shows budgets in |
| workers_busy | running trials; None while retraining |
| workers | None if no driver is at work, or it has none yet |
| runs | of each: run, trials (ended), without_result (number of those), spent_epochs, budget_epochs, evaluations, \
incumbent (trial, objective, error; or None), running (of each trial: trial, origin, epochs, epoch, attempt, worker, \
seconds) |
| events | the last ones of the journal: at, event, run, trial, worker, text |
| retrained | number of current incumbents that were retrained |

Times are seconds since the epoch, durations are seconds; those of trials and events are simulated if the workers are.
`epoch`: epochs done, averaged over the trainings of a trial, as the driver noted last; None while unknown. A trial that
no driver works on is not running.
"""

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.console import Console
from rich.table import Table

from fmnas.platform.config.schema import SIMULATED
from fmnas.platform.display.console import print_line
from fmnas.platform.display.formatting import (
    budget_fields,
    budget_unit,
    estimate_eta,
    format_activity,
    format_duration,
    format_epochs,
    format_value,
    plain_table,
)
from fmnas.platform.display.summary import program_name
from fmnas.platform.errors import Ending, legible
from fmnas.platform.experiment.events import EVENT_NAMES, Asked, Begun, DriverStarted, DriverWork, Event, Finished
from fmnas.platform.experiment.journal import read_events
from fmnas.platform.experiment.ledger import Ledger, PendingTrial, RunProgress, fold
from fmnas.platform.experiment.lock import read_driver
from fmnas.platform.experiment.run_directory import RunDirectory
from fmnas.platform.problems import display_name
from fmnas.platform.references import IN_MEMORY, split_reference
from fmnas.platform.workers.pool import short_worker_name
from fmnas.search_spaces.records import CHARGED, WARM_START

N_EVENTS = 8
WORKING = "working"
STATES: Mapping[str, str] = {
    DriverWork.EXPERIMENT: WORKING,
    DriverWork.RETRAINING: "retraining",
    DriverWork.SYNC: "syncing",
}


def collect_status(directory: RunDirectory, now: float | None = None) -> dict[str, Any]:
    """Return the facts. now: seconds since the epoch. Raises RunDirectoryError for an invalid or damaged directory."""
    now = time.time() if now is None else now
    events, driver = read_events(directory), read_driver(directory)
    ledger = fold(events)
    state = _state(driver, ledger.status)
    since = float(driver["since"]) if driver and state == WORKING else None
    begun, at = float("inf") if since is None else since, now  # this driver's begin and the present, in events' time
    if since is not None and ledger.config.get("workers", {}).get("kind") == SIMULATED:
        begun, at = ledger.drivers[-1].at if ledger.drivers else begun, ledger.last_at
    running = [(run, job) for run, job in ledger.unfinished_trials() if job.is_running and job.started_at >= begun]
    epochs_done = {(run, trial): epoch for run, trial, epoch in (driver or {}).get("epochs_done", ())}
    trials = [(run, _trial(pending, epochs_done.get((run, pending.trial.id)), at)) for run, pending in running]
    is_in_memory = split_reference(ledger.config["problem"])[0] == IN_MEMORY  # only `minimize` has the function
    is_over = driver is not None or state == Ending.FINISHED or is_in_memory
    return {
        "directory": str(directory.root),
        "name": ledger.config["name"],
        "problem": ledger.config["problem"],
        "state": state,
        "driver": {key: driver.get(key) for key in ("host", "pid", "since")} if driver else None,
        "resume_command": None if is_over else f"{program_name()} {directory.command('resume')}",
        **budget_fields(ledger.runs.values()),
        "unit": budget_unit(ledger.full_epochs),
        "seconds_left": None if since is None else _seconds_left(ledger, begun, now - since),
        "workers_busy": None if state == STATES[DriverWork.RETRAINING] else len(running),
        "workers": (driver or {}).get("workers"),
        "runs": [
            {**_run(run, ledger.full_epochs), "running": [trial for name, trial in trials if name == run.name]}
            for run in ledger.runs.values()
        ],
        "events": [_event(event) for event in _shown_events(events)],
        "retrained": len(ledger.current_retrained()),
    }


def _state(driver: Mapping[str, Any] | None, status: str) -> str:
    if driver is None:
        return status or "crashed"
    has_begun = "workers" in driver or driver.get("work") == DriverWork.SYNC
    return STATES.get(str(driver.get("work")), "starting") if has_begun else "starting"


def _seconds_left(ledger: Ledger, begun: float, elapsed: float) -> float | None:
    """Return the real seconds to the end of all budgets, at the pace of the driver that began then."""
    done = defaultdict[str, float](float)
    for result in ledger.results:
        if result.status in CHARGED and result.trial.origin != WARM_START and result.finished_at >= begun:
            done[result.run] += result.epochs
    eta = estimate_eta([(done[name], run.epochs_left) for name, run in ledger.runs.items()], elapsed)
    return None if eta is None else round(eta, 1)


def _run(run: RunProgress, full_epochs: int) -> dict[str, Any]:
    spent, best = run.budget.spent, run.best
    return {
        "run": run.name,
        "trials": run.ended,
        "without_result": run.without_result,
        "spent_epochs": spent,
        "budget_epochs": run.budget.epochs,
        "evaluations": spent / full_epochs,
        "incumbent": {"trial": best.trial.id, "objective": best.objective, "error": best.error} if best else None,
    }


def _trial(pending: PendingTrial, epoch: int | None, now: float) -> dict[str, Any]:
    return {
        "trial": pending.trial.id,
        "origin": pending.trial.origin,
        "epochs": pending.trial.epochs,
        "epoch": epoch,
        "attempt": pending.attempt,
        "worker": pending.worker,
        "seconds": round(max(0.0, now - pending.started_at), 1),
    }


def _shown_events(events: Sequence[Event]) -> Sequence[Event]:
    """Return the last events, without suggestions and without the drivers of other work than the experiment."""
    shown = [event for event in events if not isinstance(event, Asked | Begun)]
    shown = [event for event in shown if not isinstance(event, DriverStarted) or event.work == DriverWork.EXPERIMENT]
    return shown[-N_EVENTS:]


def _event(event: Event) -> dict[str, Any]:
    name = EVENT_NAMES[type(event)]
    if isinstance(event, Finished):
        text = f"objective {format_value(event.evaluation.objective)}"
    else:
        parts = getattr(event, "status", ""), legible(getattr(event, "reason", ""))
        text = ": ".join(part for part in parts if part not in ("", name))
    run, trial, worker = (getattr(event, key, None) for key in ("run", "trial_id", "worker"))
    return {"at": event.at, "event": name, "run": run, "trial": trial, "worker": worker, "text": text}


def print_status(facts: Mapping[str, Any], console: Console) -> None:
    """Print the facts for the user."""
    driver, workers = facts["driver"], "" if facts["workers"] is None else f" of {facts['workers']}"
    process = f", process {driver['pid']} on {driver['host']}" if driver else ""
    title = f"{facts['name']} ({display_name(facts['problem'])}) in {facts['directory']}: {facts['state']}{process}"
    print_line(console, title)
    console.print(_table(facts))
    spent = f"{format_epochs(facts['spent_epochs'])}/{facts['budget_epochs']} {facts['unit']}"
    share = f"{facts['spent_share']:.0%} of all budgets spent ({spent})"
    busy = "-" if facts["workers_busy"] is None else facts["workers_busy"]
    print_line(console, f"{share}, {busy}{workers} workers busy, {format_duration(facts['seconds_left'])} left")
    for event in facts["events"]:
        at = datetime.fromtimestamp(event["at"]).strftime("%Y-%m-%d %H:%M:%S")
        trial = f"  {event['run']}, trial {event['trial']}" if event["run"] else ""
        worker = f" on {short_worker_name(event['worker'])}" if event["worker"] else ""
        text = f": {event['text']}" if event["text"] else ""
        print_line(console, f"  {at}  {event['event'].replace('_', ' ')}{trial}{worker}{text}")
    if facts["retrained"]:
        print_line(console, f"retrained: the incumbents of {facts['retrained']} of {len(facts['runs'])} runs")
    if facts["resume_command"]:
        print_line(console, f"resume with     {facts['resume_command']}")


def _table(facts: Mapping[str, Any]) -> Table:
    rows = []
    for run in facts["runs"]:
        best, trials = run["incumbent"], str(run["trials"])
        if run["without_result"]:
            trials += f" ({run['without_result']} without a result)"
        objective, trial = (format_value(best["objective"]), str(best["trial"])) if best else ("-", "-")
        epochs = f"{format_epochs(run['spent_epochs'])}/{run['budget_epochs']}"
        rows.append((run["run"], objective, trial, trials, epochs, _activity(run, facts["state"])))
    return plain_table(("run", "incumbent", "trial", "trials", facts["unit"], "now"), rows, {"run", "now"})


def _activity(run: Mapping[str, Any], state: str) -> str:
    """Return what a run does now: its running trials, or its status in the live table."""
    if run["spent_epochs"] >= run["budget_epochs"]:
        return "done"
    if not run["running"]:
        return "waiting" if state == WORKING else ""
    return format_activity([(t["trial"], t["epoch"], t["epochs"], t["seconds"]) for t in run["running"]])
