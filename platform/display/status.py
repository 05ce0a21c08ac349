"""How an experiment stands, from its journal and its lock alone: nothing is written, no optimizer is built.

The facts, as `fmnas status DIR --json` gives them:

| fact | meaning |
|---|---|
| directory, name, problem | of the experiment |
| state | starting, working, retraining, syncing; or how the last driver left: finished, interrupted, failed, killed |
| driver | host, pid, since; None where none is at work |
| again | the command that goes on with it; None while a driver works, where all is done, and where no command can: \
a function that `minimize` was given is not in the run directory |
| spent_epochs, budget_epochs, spent_share | of all runs together |
| seconds_left | at the pace of this driver; None while unknown |
| workers_busy, workers | the former None while retraining, the latter where no driver is at work |
| runs | of each: run, trials (ended), unfinished (how many of them without a result), spent_epochs, budget_epochs, \
evaluations, incumbent (trial, objective, error; or None), running (of each trial: trial, origin, epochs, epoch, \
attempt, worker, seconds) |
| events | the last of the journal: at, event, run, trial, text |
| retrained | how many of the runs' best were retrained |

Times are seconds since the epoch, `seconds` and `seconds_left` are seconds. `epochs` is how many epochs a trial has,
`epoch` how many its trainings have done on average, as the driver noted it last; None while that is unknown. A trial
that no driver works on is not running.
"""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from rich.console import Console
from rich.table import Table

from fmnas.platform.display.console import plain_table, say
from fmnas.platform.display.modes import as_reached, as_time, spent_of, time_left
from fmnas.platform.display.runs_table import Doing, as_number
from fmnas.platform.display.summary import called
from fmnas.platform.errors import Ending, legible
from fmnas.platform.experiment.comparability import format_extension
from fmnas.platform.experiment.events import (
    Asked,
    DriverStarted,
    DriverWork,
    Ended,
    Event,
    Failed,
    RetrainingBegun,
    event_to_dict,
)
from fmnas.platform.experiment.journal import read_events
from fmnas.platform.experiment.ledger import Ledger, PendingTrial, RunProgress, fold
from fmnas.platform.experiment.lock import read_driver
from fmnas.platform.experiment.run_directory import RunDirectory
from fmnas.platform.problems import display_name
from fmnas.platform.registry import IN_MEMORY, split_reference
from fmnas.platform.workers.pool import short_worker_name
from fmnas.search_spaces.records import CHARGED, WARM_START

SHOWN_EVENTS = 8
_OF_DRIVERS = {"driver_started": "began", "ended": "left"}
"""What these records mean to a person."""


def status_of(directory: RunDirectory, now: float | None = None) -> dict[str, Any]:
    """The facts. now: seconds since the epoch. Raises RunDirectoryError for what is no run directory, or is damaged."""
    now = time.time() if now is None else now
    directory.check_present()
    driver = read_driver(directory)
    noted = driver or {}
    events = read_events(directory)
    ledger = fold(events)
    config = ledger.config
    state = _state(driver, ledger.status)
    begun = float(noted["since"]) if state == "working" and noted.get("since") is not None else None
    running = [] if begun is None else list(ledger.running(begun))
    reached = {(run, trial): epoch for run, trial, epoch in noted.get("epochs_done", ())}
    begun_by_fmnas = (
        split_reference(config["problem"])[0] != IN_MEMORY
    )  # only `minimize` can go on with what it was given
    over = driver is not None or state == Ending.FINISHED or not begun_by_fmnas
    again = None if over else f"{called()} {directory.command('resume')}"
    return {
        "directory": str(directory.root),
        "name": config["name"],
        "problem": config["problem"],
        "state": state,
        "driver": _driver(driver),
        "again": again,
        **spent_of(ledger.runs.values()),
        "seconds_left": None if begun is None else _left(ledger, begun, now),
        "workers_busy": len(running) if state != "retraining" else None,
        "workers": noted.get("workers"),
        "runs": [
            {
                **_run(account, ledger.full_epochs),
                "running": [
                    _trial(each, reached.get((run, each.trial.id)), now) for run, each in running if run == name
                ],
            }
            for name, account in ledger.runs.items()
        ],
        "events": [_event(event) for event in _last(events)],
        "retrained": len(ledger.current_retrained()),
    }


def _last(events: Sequence[Event]) -> Sequence[Event]:
    """The last that tell of something."""
    told = [
        event
        for event in events[1:]
        if not isinstance(event, Asked | RetrainingBegun)
        and (not isinstance(event, DriverStarted) or event.work == DriverWork.EXPERIMENT)
    ]
    return told[-SHOWN_EVENTS:]


def _left(ledger: Ledger, since: float, now: float) -> float | None:
    """Seconds to the end of all budgets, at the pace since then."""
    done = Counter[str]()
    for outcome in ledger.results:
        if outcome.status in CHARGED and outcome.trial.origin != WARM_START and outcome.finished_at >= since:
            done[outcome.run] += outcome.trial.epochs
    runs = [(done[name], each.epochs_left) for name, each in ledger.runs.items()]
    seconds = time_left(runs, now - since)
    return None if seconds is None else round(seconds, 1)


def _run(account: RunProgress, full: int) -> dict[str, Any]:
    """What one run has come to."""
    spent, best = account.budget.spent, account.best
    return {
        "run": account.name,
        "trials": account.ended,
        "unfinished": account.without_result,
        "spent_epochs": spent,
        "budget_epochs": account.budget.epochs,
        "evaluations": spent / full,
        "incumbent": {"trial": best.trial.id, "objective": best.objective, "error": best.error} if best else None,
    }


def _trial(opened: PendingTrial, epoch: int | None, now: float) -> dict[str, Any]:
    """One that is running."""
    return {
        "trial": opened.trial.id,
        "origin": opened.trial.origin,
        "epochs": opened.trial.epochs,
        "epoch": epoch,
        "attempt": opened.attempt,
        "worker": opened.worker,
        "seconds": round(max(0.0, now - opened.started_at), 1),
    }


def _state(driver: Mapping[str, Any] | None, ended: str) -> str:
    if driver is None:
        return ended or "killed"
    if driver.get("workers") is None and driver.get("work") != DriverWork.SYNC:
        return "starting"
    names: Mapping[str, str] = {
        DriverWork.EXPERIMENT: "working",
        DriverWork.RETRAINING: "retraining",
        DriverWork.SYNC: "syncing",
    }
    return names.get(str(driver.get("work")), "starting")


def _driver(driver: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if driver is None else {key: driver.get(key) for key in ("host", "pid", "since")}


def _event(event: Event) -> dict[str, Any]:
    data = event_to_dict(event)
    evaluation = data.get("evaluation")
    objective = f"objective {as_number(evaluation['objective'])}" if evaluation else ""
    ended = isinstance(event, Ended)
    words = [data[key] for key in (("status", "reason") if ended else ("reason",)) if data.get(key)]
    text = objective or legible(": ".join(words) or format_extension(data.get("changes", {}))) or data.get("work", "")
    name = data.get("status") if isinstance(event, Failed) else data["event"]
    return {
        **{key: data.get(key) for key in ("at", "run", "worker")},
        "event": name,
        "trial": data.get("trial_id"),
        "text": text,
    }


def print_status(facts: Mapping[str, Any], console: Console) -> None:
    """The same for a person."""
    tell = partial(say, console)
    tell(f"{facts['name']} ({display_name(facts['problem'])}) in {facts['directory']}: {_in_words(facts)}")
    console.print(_table(facts), markup=False)
    workers = "" if facts["workers"] is None else f" of {facts['workers']}"
    tell(
        f"{facts['spent_share']:.0%} of all budgets spent ({facts['spent_epochs']}/{facts['budget_epochs']} epochs), "
        f"{'-' if facts['workers_busy'] is None else facts['workers_busy']}{workers} workers busy, "
        f"{as_time(facts['seconds_left'])} left"
    )
    for event in facts["events"]:
        when = datetime.fromtimestamp(event["at"]).strftime("%H:%M:%S")
        happened = _OF_DRIVERS.get(event["event"], event["event"])
        trial = f"{event['run']}, trial {event['trial']}" if event["run"] else "the driver"
        worker = f" on {short_worker_name(event['worker'])}" if event["worker"] else ""
        tell(f"  {when}  {trial} {happened}{worker}{': ' if event['text'] else ''}{event['text']}")
    if facts["retrained"]:
        tell(f"retrained: the best of {facts['retrained']} of {len(facts['runs'])} runs")
    if facts["again"]:
        tell(f"go on with     {facts['again']}")


def _in_words(facts: Mapping[str, Any]) -> str:
    driver = facts["driver"]
    if driver is None:
        return {"killed": "its driver died without a word"}.get(facts["state"], facts["state"])
    return f"{facts['state']}, process {driver['pid']} on {driver['host']}"


def _table(facts: Mapping[str, Any]) -> Table:
    table = plain_table(("run", "incumbent", "trial", "trials", "epochs", "", "now"), {"run", "now"})
    for run in facts["runs"]:
        best = run["incumbent"]
        trials = f"{run['trials']} ({run['unfinished']} without a result)" if run["unfinished"] else str(run["trials"])
        table.add_row(
            run["run"],
            as_number(best["objective"] if best else None),
            str(best["trial"]) if best else "-",
            trials,
            f"{run['spent_epochs']}/{run['budget_epochs']}",
            f"{run['spent_epochs'] / run['budget_epochs']:.0%}",
            _doing(run, facts["state"]),
        )
    return table


def _doing(run: Mapping[str, Any], state: str) -> str:
    """What a run does now: its trials, or what the live table of its driver calls it without any."""
    if run["spent_epochs"] >= run["budget_epochs"]:
        return Doing.DONE
    if state == "working" and not run["running"]:
        return Doing.WAITING
    return ", ".join(
        f"trial {each['trial']} on {short_worker_name(each['worker'])} "
        f"({as_reached(each['epoch'], each['epochs'], each['seconds'])})"
        for each in run["running"]
    )
