"""What the journal comes to: the one reader of its records, for driver, status, retraining and report.

    ledger = new_ledger(config)
    ledger.replay(records)

Every record changes it in one place. It builds no optimizer and writes nothing; `ExperimentState` adds the optimizers.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fmnas.platform.environment import driver_in_words, provenance, same_fmnas
from fmnas.platform.errors import Ending, RunDirectoryError, legible, one_line
from fmnas.platform.experiment.journal import ASKED, DRIVER, ENDED, EXTENDED, ILLEGIBLE, STARTED, DriverWork, Record
from fmnas.platform.experiment.trial_result import Outcome, RunStanding, run_name
from fmnas.search_spaces import Evaluation, Trial
from fmnas.search_spaces.records import CANCELLED, CHARGED, FAILED, FINISHED, LOST, TIMED_OUT, is_full


@dataclass
class RunBudget:
    """A run's account: a hard cap over finished, failed and pending trials. The unit of cost is the epoch.

    epochs: what the run may spend. seconds: limit on training plus suggestion, or None.
    spent: epochs of trials that ended; lost work is the platform's and is not charged.
    committed: epochs of trials in flight.
    """

    epochs: int
    seconds: float | None = None
    spent: int = 0
    committed: int = 0
    seconds_spent: float = 0.0

    def affords(self, epochs: int, suggest_seconds: float = 0.0) -> bool:
        """Whether a trial of that many epochs may start whose suggestion took so long and is not yet on the account."""
        in_time = self.seconds is None or self.seconds_spent + suggest_seconds < self.seconds
        return in_time and self.spent + self.committed + epochs <= self.epochs

    def commit(self, epochs: int, suggest_seconds: float) -> None:
        """A trial was asked and will run."""
        self.committed += epochs
        self.seconds_spent += suggest_seconds

    def settle(self, epochs: int, train_seconds: float) -> None:
        """A trial in flight ended, and is charged."""
        self.committed -= epochs
        self.spent += epochs
        self.seconds_spent += train_seconds

    def release(self, epochs: int) -> None:
        """A trial in flight was lost for good, and is not charged."""
        self.committed -= epochs


@dataclass
class RunAccount:
    """One optimizer, one repeat, as the journal knows it.

    best: the trial with the lowest objective at full fidelity, the first of equals; None before the first.
    ended: how many trials have ended. without_result: how many of them have no result.
    seeds: trial -> its seed, of all that were asked.
    """

    optimizer_name: str
    repeat: int
    budget: RunBudget
    best: Outcome | None = None
    ended: int = 0
    without_result: int = 0
    seeds: dict[int, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """e.g. "bo-fm/repeat-0"."""
        return run_name(self.optimizer_name, self.repeat)

    @property
    def incumbent(self) -> float | None:
        """The lowest full-fidelity objective so far."""
        return self.best.objective if self.best else None

    @property
    def done(self) -> bool:
        """Whether its budget affords not even one more epoch, as things stand."""
        return not self.budget.affords(1)

    @property
    def epochs_ahead(self) -> int:
        """What it will still spend, as far as that is known."""
        return self.budget.committed if self.done else self.budget.epochs - self.budget.spent


@dataclass
class OpenTrial:
    """A trial asked and not ended.

    attempt: how often it was started. losses: how often its worker was lost. cancelled: the record of a stop that left
    it in the middle; None once it was started again. running: whether an attempt was started and did not end, and on
    which worker. lost_seconds: what the attempts took that came to nothing.
    """

    trial: Trial
    suggest_seconds: float
    attempt: int = 0
    losses: int = 0
    started_at: float = 0.0
    worker: str = ""
    cancelled: Record | None = None
    running: bool = False
    lost_seconds: float = 0.0

    def lose(self, at: float) -> None:
        """The attempt that runs, if any, came to nothing: when it was cancelled, or else `at`."""
        if self.running:
            end = self.cancelled["at"] if self.cancelled else at
            self.lost_seconds += max(0.0, end - self.started_at)
        self.running = False


class Ledger:
    """Accounts, open trials and outcomes.

    open: (run, trial) -> a trial asked and not ended, in the order asked.
    outcomes: every trial that ended, in the journal's order.
    drivers: the record of every driver that worked here, from journals of format 2 on. ended_before: of each of them,
        how many trials had ended when it began.
    extensions: the record of every extension, and how many trials had ended before it.
    status: how the last driver left, an `Ending`; empty if it did not say, or still works.
    pauses: begin and end of each time in which no driver worked at the experiment, in seconds since the epoch. A driver
        that died worked until its last record.
    """

    def __init__(self, accounts: Iterable[RunAccount], full: int) -> None:
        """full: the epochs of a full evaluation."""
        self.full = full
        self.accounts: dict[str, RunAccount] = {account.name: account for account in accounts}
        self.open: dict[tuple[str, int], OpenTrial] = {}
        self.outcomes: list[Outcome] = []
        self.drivers: list[Record] = []
        self.ended_before: list[int] = []
        self.extensions: list[tuple[Record, int]] = []
        self.status = ""
        self.pauses: list[tuple[float, float]] = []
        self._last_at, self._worked_until = 0.0, math.inf

    def replay(self, records: Iterable[Record]) -> None:
        """Take the records of a journal that come after its first.

        Raises RunDirectoryError, naming the line, where one does not follow from those before it.
        """
        for line, record in enumerate(records, start=2):
            self.follow(line, record)

    def follow(self, line: int, record: Record) -> None:
        """Take one record of a journal, its line counted from 1. Raises RunDirectoryError as `replay`."""
        try:
            self._follow(record)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            what = ", ".join(f"{key} {record[key]!r}" for key in ("event", "run", "attempt") if key in record)
            raise RunDirectoryError(
                f"line {line} of the journal ({what}) does not follow from the lines before it ({one_line(error)}): "
                f"{self._advice(line)}"
            ) from None

    def _follow(self, record: Record) -> None:
        self.apply(record)

    def apply(self, record: Record) -> Outcome | None:
        """Take one record; the outcome if a trial ended with it."""
        event, last_at = record["event"], self._last_at
        self._last_at = record.get("at", last_at)
        self._take_pause(event, record)
        if event == DRIVER:
            self.drivers.append(record)
            self.ended_before.append(len(self.outcomes))
        if event != DRIVER or record["work"] == DriverWork.EXPERIMENT:
            self.status = ""
        if event == EXTENDED:
            self.extensions.append((record, len(self.outcomes)))
        elif event == ASKED:
            self._asked(record)
        elif event == STARTED:
            self._started(record, last_at)
        elif event == CANCELLED:
            self.open[_key(record)].cancelled = record
        elif event == LOST and not record["final"]:
            opened = self.open[_key(record)]
            opened.losses += 1
            opened.lose(record["at"])
        elif event in (FINISHED, FAILED, TIMED_OUT, LOST):
            return self._ended(record, event)
        elif event == ENDED:
            self.status = Ending(record["status"])
        elif event not in (DRIVER, ILLEGIBLE):
            raise ValueError(f"an event {event!r} is not known")
        return None

    def _take_pause(self, event: str, record: Record) -> None:
        """Keep the time without a driver that ends with this record, if one does; a retraining is part of it."""
        if event == DRIVER and record["work"] == DriverWork.EXPERIMENT:
            if self._worked_until < record["at"]:
                self.pauses.append((self._worked_until, record["at"]))
            self._worked_until = record["at"]
        elif event not in (DRIVER, EXTENDED):
            self._worked_until = self._last_at

    def cancelled(self) -> Iterator[Outcome]:
        """Trials that a stop left in the middle: a resume starts them again."""
        for (name, _), opened in self.open.items():
            account, record = self.accounts[name], opened.cancelled
            if record is not None:
                outcome = _outcome(account, opened, CANCELLED, record)
                yield replace(outcome, standing=self._standing(account, account.incumbent))

    def pending(self) -> Iterator[tuple[str, OpenTrial]]:
        """Trials asked and not ended, but for the cancelled ones; with the names of their runs."""
        return ((name, opened) for (name, _), opened in self.open.items() if opened.cancelled is None)

    def running(self, since: float) -> Iterator[tuple[str, OpenTrial]]:
        """Those that a driver that began then has started; what a dead one left does not run."""
        return ((name, opened) for name, opened in self.pending() if opened.running and opened.started_at >= since)

    def in_flight(self, run: str) -> int:
        """How many of a run's trials are open."""
        return sum(name == run for name, _ in self.open)

    def incumbents(self) -> Sequence[Outcome]:
        """The best full-fidelity outcome of each run that has one, in the order of the runs."""
        return [account.best for account in self.accounts.values() if account.best is not None]

    def _asked(self, record: Record) -> None:
        account, trial = self.accounts[record["run"]], Trial.from_dict(record["trial"])
        account.seeds[trial.id] = trial.seed
        account.budget.commit(trial.epochs, record["suggest_seconds"])
        self.open[account.name, trial.id] = OpenTrial(trial, record["suggest_seconds"])

    def _started(self, record: Record, last_at: float) -> None:
        opened = self.open[_key(record)]
        if opened.cancelled:
            opened.lose(record["at"])
        elif opened.running:
            # Nobody ended the attempt before: its driver died, and with it all that ran. Its last record is from then.
            for other in self.open.values():
                other.lose(last_at)
        opened.attempt, opened.started_at, opened.worker = record["attempt"], record["at"], record["worker"]
        opened.cancelled, opened.running = None, True

    def _ended(self, record: Record, status: str) -> Outcome:
        """A result or a failure is charged, a loss is not."""
        account, opened = self.accounts[record["run"]], self.open.pop(_key(record))
        outcome = _outcome(account, opened, status, record)
        evaluation, epochs = outcome.evaluation, opened.trial.epochs
        if status in CHARGED:
            account.budget.settle(epochs, evaluation.seconds if evaluation else outcome.seconds)
        else:
            account.budget.release(epochs)
        account.ended += 1
        account.without_result += evaluation is None
        best = account.incumbent
        if evaluation and is_full(epochs, self.full):
            best = evaluation.objective if best is None else min(best, evaluation.objective)
        outcome = replace(outcome, standing=self._standing(account, best))
        if best != account.incumbent:
            account.best = outcome
        self.outcomes.append(outcome)
        return outcome

    def _standing(self, account: RunAccount, incumbent: float | None) -> RunStanding:
        return RunStanding(account.budget.spent / self.full, account.budget.spent, incumbent)

    def _advice(self, line: int) -> str:
        """What to do about a line that does not follow."""
        driver = self.drivers[-1] if self.drivers else {}
        if driver and not same_fmnas(driver, provenance()):
            return (
                f"it was written by {driver_in_words(driver)}, and this is {driver_in_words(provenance())}, which may "
                "not know all that it says; use the other one"
            )
        return (
            "a line is missing or was changed. Lines before it are whole: to go on from there, keep a copy and cut the "
            f"file to its first {line - 1} lines"
        )


def new_ledger(config: Mapping[str, Any]) -> Ledger:
    """Of an experiment at its beginning, by its resolved configuration as plain data."""
    names = [entry.get("label") or entry["name"] for entry in config["optimizers"]]  # older ones have no labels
    budget, repeats, full = config["budget"], range(config["repeats"]), int(config["fidelity"]["epochs"])
    epochs, seconds = int(budget["evaluations"]) * full, budget.get("seconds")
    accounts = [RunAccount(name, repeat, RunBudget(epochs, seconds)) for repeat in repeats for name in names]
    return Ledger(accounts, full)


def _key(record: Record) -> tuple[str, int]:
    return record["run"], record["trial"]


def _outcome(account: RunAccount, opened: OpenTrial, status: str, record: Record) -> Outcome:
    started_at = opened.started_at if opened.attempt else record["at"]  # what is known needs no start
    return Outcome(
        optimizer=account.optimizer_name,
        repeat=account.repeat,
        trial=opened.trial,
        status=status,
        evaluation=Evaluation.from_dict(record["evaluation"]) if status == FINISHED else None,
        suggest_seconds=opened.suggest_seconds,
        started_at=started_at,
        finished_at=record["at"],
        worker=record["worker"],
        attempt=record["attempt"],
        reason=legible(record.get("reason", "")),
        lost_seconds=opened.lost_seconds,
        seconds=record.get("seconds", max(0.0, record["at"] - started_at)),
    )
