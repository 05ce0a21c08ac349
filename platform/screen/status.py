"""How an experiment stands, from its journal and its lock alone: nothing is written, no optimizer is built.

The facts, as `fmnas status DIR --json` gives them:

| fact | meaning |
|---|---|
| directory, name, problem | of the experiment |
| state | starting, working, retraining, syncing; or how the last driver left: finished, interrupted, failed, killed |
| driver | host, pid, visible (whether it can be seen from here), since; None where none is at work |
| again | the command that goes on with it; None while a driver works, or where all is done |
| spent_epochs, budget_epochs, spent_share | of all runs together |
| seconds_left | at the pace of this driver; None while unknown |
| workers_busy, workers | the former None while retraining, the latter where no driver is at work |
| runs | of each: run, trials (ended), unfinished (how many of them without a result), spent_epochs, budget_epochs, \
evaluations, incumbent (trial, objective, error; or None), running (of each trial: trial, origin, epochs, attempt, \
worker, seconds) |
| events | the last of the journal: at, event, run, trial, text |
| retrained | how many of the runs' best were retrained |

Times are seconds since the epoch, `seconds` and `seconds_left` are seconds. A trial that no driver works on is not
running.
"""

import csv
import shlex
import time
from collections import deque
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.console import Console
from rich.table import Table

from fmnas.platform.errors import RunDirectoryError, legible
from fmnas.platform.record.journal import DRIVER, ENDED, EXPERIMENT, ILLEGIBLE, Record, experiment_records
from fmnas.platform.record.lock import AtWork, look
from fmnas.platform.record.outcome import run_name
from fmnas.platform.record.run_directory import RunDirectory
from fmnas.platform.screen.ending import called
from fmnas.platform.screen.screen import as_time, seconds_left
from fmnas.search_spaces.records import CANCELLED, FAILED, FINISHED, LOST, TIMED_OUT

LAST_EVENTS = 8
_STATES = {"experiment": "working", "retraining": "retraining", "sync": "syncing"}

_Key = tuple[str, int]


def status_of(directory: RunDirectory, now: float | None = None) -> dict[str, Any]:
    """The facts. now: seconds since the epoch. Raises RunDirectoryError for what is no run directory, or is damaged."""
    now = time.time() if now is None else now
    directory.check_present()
    found = look(directory.lock)
    driver = found if found and found.alive else None
    since = driver.facts.get("since") if driver else None
    records = experiment_records(directory)
    config, reading = records[0]["config"], _read(directory, records)
    state = _state(driver, reading.ended)
    again = None if driver or state == "finished" else f"{called()} resume {shlex.quote(str(directory.root))}"
    running = reading.running_since(since) if state == "working" and since is not None else {}
    return {
        "directory": str(directory.root),
        "name": config["name"],
        "problem": config["problem"],
        "state": state,
        "driver": _driver(driver),
        "again": again,
        **reading.budget(),
        "seconds_left": reading.left(since, now) if state == "working" and since is not None else None,
        "workers_busy": len(running) if state != "retraining" else None,
        "workers": driver.facts.get("workers") if driver else None,
        "runs": [{**reading.run(name), "running": reading.trials_of(name, running, now)} for name in reading.runs],
        "events": [_event(record) for record in reading.last],
        "retrained": _retrained(directory),
    }


def _read(directory: RunDirectory, records: Sequence[Record]) -> "_Reading":
    reading = _Reading(records[0]["config"])
    try:
        for record in records[1:]:
            reading.take(record)
    except (KeyError, TypeError) as error:
        raise RunDirectoryError(
            f"{directory.journal}: a line does not follow from those before it ({type(error).__name__}: {error}); "
            f"`{called()} report {shlex.quote(str(directory.root))}` says which, and what to do"
        ) from None
    return reading


class _Reading:
    """What the records of a journal come to. config: of its first record."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        names = [entry["name"] for entry in config["optimizers"]]
        self.runs = [run_name(name, repeat) for repeat in range(config["repeats"]) for name in names]
        self.full = int(config["fidelity"]["epochs"])
        self.whole = int(config["budget"]["evaluations"]) * self.full
        self.asked: dict[_Key, Record] = {}
        self.running: dict[_Key, Record] = {}
        self.charged: list[tuple[str, int, float]] = []  # run, epochs, when
        self.trials = {name: [0, 0] for name in self.runs}  # ended, of them without a result
        self.best: dict[str, dict[str, Any]] = {}
        self.last: deque[Record] = deque(maxlen=LAST_EVENTS)
        self.ended = ""

    def take(self, record: Record) -> None:
        """One record, in its order."""
        event, key = record["event"], (record.get("run", ""), record.get("trial", 0))
        if event == ILLEGIBLE or (event == DRIVER and record["work"] != EXPERIMENT):
            return
        self.ended = record["status"] if event == ENDED else ""
        if event == "asked":
            self.asked[record["run"], record["trial"]["id"]] = record["trial"]
            return
        self.last.append(record)
        if event == "started":
            self.running[key] = record
        elif event not in (DRIVER, ENDED):
            self.running.pop(key, None)
            if event not in (LOST, CANCELLED) or record.get("final"):
                self._end(record, key)

    def _end(self, record: Record, key: _Key) -> None:
        run, event = key[0], record["event"]
        epochs = self.asked[key]["epochs"]
        self.trials[run][0] += 1
        self.trials[run][1] += event != FINISHED
        if event in (FINISHED, FAILED, TIMED_OUT):
            self.charged.append((run, epochs, record["at"]))
        if event == FINISHED and epochs == self.full:
            evaluation, best = record["evaluation"], self.best.get(run)
            if best is None or evaluation["objective"] < best["objective"]:
                errors = evaluation["errors"]
                error = sum(errors) / len(errors) if errors else None
                self.best[run] = {"trial": key[1], "objective": evaluation["objective"], "error": error}

    def spent(self, run: str) -> int:
        """The run's epochs."""
        return sum(epochs for name, epochs, _ in self.charged if name == run)

    def budget(self) -> dict[str, Any]:
        """Of all runs together."""
        spent, whole = sum(epochs for _, epochs, _ in self.charged), self.whole * len(self.runs)
        return {"spent_epochs": spent, "budget_epochs": whole, "spent_share": round(spent / whole, 6)}

    def left(self, since: float, now: float) -> float | None:
        """Seconds to the end of all budgets at the pace since then."""
        done = sum(epochs for _, epochs, at in self.charged if at >= since)
        told = self.budget()
        seconds = seconds_left(done, told["budget_epochs"] - told["spent_epochs"], now - since)
        return None if seconds is None else round(seconds, 1)

    def run(self, name: str) -> dict[str, Any]:
        """What one run has come to."""
        spent, (ended, unfinished) = self.spent(name), self.trials[name]
        return {
            "run": name,
            "trials": ended,
            "unfinished": unfinished,
            "spent_epochs": spent,
            "budget_epochs": self.whole,
            "evaluations": spent / self.full,
            "incumbent": self.best.get(name),
        }

    def running_since(self, since: float) -> dict[_Key, Record]:
        """What the driver that began then has started and not ended; what a dead one left does not run."""
        return {key: record for key, record in self.running.items() if record["at"] >= since}

    def trials_of(self, run: str, running: Mapping[_Key, Record], now: float) -> list[dict[str, Any]]:
        """The run's trials among those that are running."""
        return [
            {
                "trial": key[1],
                "origin": self.asked[key]["origin"],
                "epochs": self.asked[key]["epochs"],
                "attempt": record["attempt"],
                "worker": record["worker"],
                "seconds": round(max(0.0, now - record["at"]), 1),
            }
            for key, record in running.items()
            if key[0] == run
        ]


def _state(driver: AtWork | None, ended: str) -> str:
    if driver is not None:
        return _STATES.get(str(driver.facts.get("work")), "starting")
    return ended or "killed"


def _driver(driver: AtWork | None) -> dict[str, Any] | None:
    if driver is None:
        return None
    holder = driver.holder
    return {"host": holder.host, "pid": holder.pid, "visible": driver.visible, "since": driver.facts.get("since")}


def _event(record: Record) -> dict[str, Any]:
    evaluation = record.get("evaluation")
    objective = f"objective {evaluation['objective']:.5f}" if evaluation else ""
    said = ": ".join(record[key] for key in ("status", "reason") if record.get(key))
    text = objective or legible(said) or str(record.get("work", ""))
    return {**{key: record.get(key) for key in ("at", "event", "run", "trial", "worker")}, "text": text}


def _retrained(directory: RunDirectory) -> int:
    try:
        with directory.retrained.open(newline="") as file:
            return sum(1 for _ in csv.DictReader(file))
    except FileNotFoundError:
        return 0


def print_status(facts: Mapping[str, Any], console: Console) -> None:
    """The same for a person."""

    def say(text: str) -> None:
        console.print(text, highlight=False, markup=False, soft_wrap=True)

    say(f"{facts['name']} ({facts['problem']}) in {facts['directory']}: {_in_words(facts)}")
    console.print(_table(facts["runs"]), markup=False)
    workers = "" if facts["workers"] is None else f" of {facts['workers']}"
    say(
        f"{facts['spent_share']:.0%} of all budgets spent ({facts['spent_epochs']}/{facts['budget_epochs']} epochs), "
        f"{'-' if facts['workers_busy'] is None else facts['workers_busy']}{workers} workers busy, "
        f"{as_time(facts['seconds_left'])} left"
    )
    for event in facts["events"]:
        when = datetime.fromtimestamp(event["at"]).strftime("%H:%M:%S")
        trial = f"{event['run']}, trial {event['trial']}" if event["run"] else "the driver"
        worker = f" on {event['worker']}" if event["worker"] else ""
        say(f"  {when}  {trial} {event['event']}{worker}{': ' if event['text'] else ''}{event['text']}")
    if facts["retrained"]:
        say(f"retrained: the best of {facts['retrained']} of {len(facts['runs'])} runs")
    if facts["again"]:
        say(f"go on with     {facts['again']}")


def _in_words(facts: Mapping[str, Any]) -> str:
    driver = facts["driver"]
    if driver is None:
        return {"killed": "its driver died without a word"}.get(facts["state"], facts["state"])
    unseen = "" if driver["visible"] else ", which cannot be seen from here"
    return f"{facts['state']}, process {driver['pid']} on {driver['host']}{unseen}"


def _table(runs: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False)
    for header in ("run", "incumbent", "trial", "trials", "epochs", "", "now"):
        table.add_column(header, no_wrap=True, justify="left" if header in ("run", "now") else "right")
    for run in runs:
        best, running = run["incumbent"], run["running"]
        trials = f"{run['trials']} ({run['unfinished']} without a result)" if run["unfinished"] else str(run["trials"])
        table.add_row(
            run["run"],
            f"{best['objective']:.5f}" if best else "-",
            str(best["trial"]) if best else "-",
            trials,
            f"{run['spent_epochs']}/{run['budget_epochs']}",
            f"{run['spent_epochs'] / run['budget_epochs']:.0%}",
            ", ".join(f"trial {each['trial']} on {each['worker']} ({each['seconds']:.0f} s)" for each in running),
        )
    return table
