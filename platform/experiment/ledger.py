"""The ledger: budgets, pending trials and results, folded from the events of the journal.

    ledger = fold(read_journal(path))

The same code runs while an experiment is live and when its journal is read: the driver applies each event once it is
on disk. The ledger builds no optimizer, loads no problem and writes nothing.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fmnas.platform.errors import Ending, RunDirectoryError, legible, one_line
from fmnas.platform.experiment.events import (
    Asked,
    Begun,
    Cancelled,
    DriverStarted,
    DriverWork,
    Ended,
    Event,
    Extended,
    Failed,
    Finished,
    Lost,
    Retrained,
    RetrainingBegun,
    Started,
    TrialEvent,
)
from fmnas.platform.experiment.trial_result import TrialResult, run_name
from fmnas.platform.experiment.warm_start import WarmStartData
from fmnas.search_spaces import Trial
from fmnas.search_spaces.records import CANCELLED, CHARGED, FINISHED, LOST, is_full


@dataclass
class RunBudget:
    """The budget of a run: a hard limit on finished, failed and pending trials. The unit of cost is the epoch.

    epochs: limit. seconds: limit on training plus suggestion, or None.
    spent: epochs of trials that ended, without lost ones; a fraction after racing. committed: epochs of pending trials.
    """

    epochs: int
    seconds: float | None = None
    spent: float = 0
    committed: int = 0
    seconds_spent: float = 0.0

    def affords(self, epochs: int, suggest_seconds: float = 0.0) -> bool:
        """Whether a trial of that many epochs may start. suggest_seconds: of that trial, not yet charged."""
        in_time = self.seconds is None or self.seconds_spent + suggest_seconds < self.seconds
        return in_time and self.spent + self.committed + epochs <= self.epochs


@dataclass
class RunProgress:
    """One optimizer and one repeat, as far as the journal tells.

    best: the first trial with the lowest full-fidelity objective; None before the first.
    ended: number of trials that ended. without_result: number of those without a result.
    seeds: trial id -> its seed. is_exhausted: set by the driver if the next suggestion exceeds the budget; no event.
    """

    optimizer: str
    repeat: int
    budget: RunBudget
    best: TrialResult | None = None
    ended: int = 0
    without_result: int = 0
    seeds: dict[int, int] = field(default_factory=dict)
    is_exhausted: bool = field(default=False, compare=False)

    @property
    def name(self) -> str:
        """Name of the run, e.g. "bo-fm/repeat-0"."""
        return run_name(self.optimizer, self.repeat)

    @property
    def incumbent(self) -> float | None:
        """Lowest full-fidelity objective so far."""
        return self.best.objective if self.best else None

    @property
    def is_done(self) -> bool:
        """Whether no further trial can be suggested. A pending trial that gets lost may change that."""
        return self.is_exhausted or not self.budget.affords(1)

    @property
    def epochs_left(self) -> float:
        """Epochs that the run is still expected to spend."""
        return self.budget.committed if self.is_done else self.budget.epochs - self.budget.spent


@dataclass
class PendingTrial:
    """A suggested trial that has not ended.

    attempt: number of attempts started. losses: number of workers lost. lost_seconds: duration of fruitless attempts.
    cancelled: the event of a driver that stopped during the trial, until the trial is started again.
    is_running: whether an attempt was started and has not ended. first_start: of the first attempt.
    """

    trial: Trial
    suggest_seconds: float
    attempt: int = 0
    losses: int = 0
    started_at: float = 0.0
    worker: str = ""
    cancelled: Cancelled | None = None
    is_running: bool = False
    lost_seconds: float = 0.0
    first_start: float = 0.0

    def end_attempt(self, at: float) -> None:
        """Add the duration of the running attempt, if any, to the lost time. at: its end, unless it was cancelled."""
        if self.is_running:
            end = self.cancelled.at if self.cancelled else at
            self.lost_seconds += max(0.0, end - self.started_at)
        self.is_running = False


@dataclass(frozen=True)
class RetrainSettings:
    """How incumbents are retrained: epochs and images of each training, and the number of fresh seeds."""

    epochs: int
    images: int
    seeds: int


@dataclass
class Ledger:
    """Everything that the events of an experiment add up to.

    id: of the experiment. config: its current configuration as plain data. warm_starts: optimizer label -> its data.
    runs: name -> progress, in the order of the configuration.
    pending: (run, trial id) -> a suggested trial that has not ended, in the order suggested.
    results: every trial that ended, in order.
    drivers: every driver that began.
    extensions: every extension, with the number of results before it.
    status: how the last driver left, an `Ending`; empty while one works, or if it crashed.
    pauses: (begin, end) of the times between drivers of the experiment: the last event of one, the first trial of the
    next. paused_since: of one that has not ended.
    retrained: settings -> run -> the retraining of its incumbent. retrain_settings: of the retraining begun last.
    """

    id: str = ""
    full_epochs: int = 1
    config: Mapping[str, Any] = field(default_factory=dict)
    warm_starts: dict[str, WarmStartData] = field(default_factory=dict)
    runs: dict[str, RunProgress] = field(default_factory=dict)
    pending: dict[tuple[str, int], PendingTrial] = field(default_factory=dict)
    results: list[TrialResult] = field(default_factory=list)
    drivers: list[DriverStarted] = field(default_factory=list)
    extensions: list[tuple[Extended, int]] = field(default_factory=list)
    status: str = ""
    pauses: list[tuple[float, float]] = field(default_factory=list)
    retrained: dict[RetrainSettings, dict[str, Retrained]] = field(default_factory=dict)
    retrain_settings: RetrainSettings = RetrainSettings(0, 0, 0)
    last_at: float = 0.0
    worked_until: float = math.inf
    paused_since: float = math.inf

    def apply(self, event: Event) -> TrialResult | None:
        """Apply one event. Returns the result if a trial ended with it.

        Raises KeyError, TypeError or ValueError for an event that does not follow from those before it.
        """
        self.last_at = event.at
        match event:
            case Begun() | Extended():
                self._configure(event)
            case DriverStarted():
                self._begin_driver(event)
            case Ended():
                self.status, self.worked_until = Ending(event.status), event.at
            case RetrainingBegun():
                self.retrain_settings = RetrainSettings(event.epochs, event.images, event.seeds)
                self.retrained.setdefault(self.retrain_settings, {})
            case Retrained():
                self.retrained[self.retrain_settings][event.run] = event
            case Asked() | Started() | Cancelled() | Lost() | Finished() | Failed():
                self.status, self.worked_until = "", event.at
                self._end_pause(event)
                return self._apply_to_trial(event)
        return None

    def cancelled_results(self) -> Iterator[TrialResult]:
        """Yield a result for each trial that was running when the driver stopped; a resume repeats these trials."""
        for (name, _), pending in self.pending.items():
            if pending.cancelled is not None:
                yield _result(self.runs[name], pending, pending.cancelled)

    def unfinished_trials(self) -> Iterator[tuple[str, PendingTrial]]:
        """Yield (run, trial) of the pending trials that were not cancelled."""
        return ((name, pending) for (name, _), pending in self.pending.items() if pending.cancelled is None)

    def incumbents(self) -> Sequence[TrialResult]:
        """Return the best full-fidelity result of each run that has one, in the order of the runs."""
        return [run.best for run in self.runs.values() if run.best is not None]

    def current_retrained(self, settings: RetrainSettings | None = None) -> dict[str, Retrained]:
        """Return run -> the retraining of its present incumbent, if there is one. settings: default: the latest."""
        done = self.retrained.get(settings or self.retrain_settings, {})
        present = {result.run: result.trial.id for result in self.incumbents()}
        return {run: done[run] for run, best in present.items() if run in done and done[run].trial_id == best}

    def _configure(self, event: Begun | Extended) -> None:
        """Set the configuration: runs that exist keep what they did, and get the new budget."""
        config = self.config = event.config
        self.status = ""
        self.warm_starts |= event.warm_starts
        if isinstance(event, Begun):
            self.id = event.id
        else:
            self.extensions.append((event, len(self.results)))
        self.full_epochs = int(config["fidelity"]["epochs"])
        epochs, seconds = int(config["budget"]["evaluations"]) * self.full_epochs, config["budget"].get("seconds")
        before, self.runs = self.runs, {}
        for repeat in range(config["repeats"]):
            for label in (entry.get("label") or entry["name"] for entry in config["optimizers"]):
                new = RunProgress(label, repeat, RunBudget(epochs, seconds))
                run = self.runs[new.name] = before.get(new.name, new)
                run.budget.epochs, run.budget.seconds = epochs, seconds

    def _begin_driver(self, event: DriverStarted) -> None:
        self.drivers.append(event)
        if event.work == DriverWork.EXPERIMENT:
            self.status = ""
            for pending in self.pending.values():
                if pending.cancelled is None:  # the driver before crashed
                    pending.end_attempt(self.worked_until)
            self.paused_since = min(self.paused_since, self.worked_until)
            self.worked_until = event.at

    def _end_pause(self, event: TrialEvent) -> None:
        """Add the pause before the first trial of a driver: the time in which Ray starts, for instance, is not work."""
        began = event.at - (event.suggest_seconds if isinstance(event, Asked) else 0.0)
        if began - self.paused_since > 1e-3:  # less is rounding, in simulated time
            self.pauses.append((self.paused_since, began))
        self.paused_since = math.inf

    def _apply_to_trial(self, event: TrialEvent) -> TrialResult | None:
        run = self.runs[event.run]
        if isinstance(event, Asked):
            trial = event.trial
            run.seeds[trial.id] = trial.seed
            run.budget.committed += trial.epochs
            run.budget.seconds_spent += event.suggest_seconds
            self.pending[run.name, trial.id] = PendingTrial(trial, event.suggest_seconds)
            return None
        pending = self.pending[event.run, event.trial_id]
        match event:
            case Started():
                if pending.cancelled:
                    pending.end_attempt(event.at)
                if not pending.attempt:
                    pending.first_start = event.at
                pending.attempt, pending.started_at, pending.worker = event.attempt, event.at, event.worker
                pending.cancelled, pending.is_running = None, True
            case Cancelled():
                pending.cancelled = event
            case Lost(final=False):
                pending.losses += 1
                pending.end_attempt(event.at)
            case _:
                return self._end(run, pending, event)
        return None

    def _end(self, run: RunProgress, pending: PendingTrial, event: Finished | Failed | Lost) -> TrialResult:
        """Charge a result or a failure; free the epochs of a trial that was lost for good."""
        del self.pending[event.run, event.trial_id]
        result = _result(run, pending, event)
        evaluation = result.evaluation
        run.budget.committed -= pending.trial.epochs
        if result.status in CHARGED:
            run.budget.spent = round(run.budget.spent + result.epochs, 9)  # three thirds are one
            run.budget.seconds_spent += result.charged_seconds
        run.ended += 1
        run.without_result += evaluation is None
        is_better = evaluation and (run.incumbent is None or evaluation.objective < run.incumbent)
        if is_better and is_full(result.epochs, self.full_epochs):
            run.best = result
        self.results.append(result)
        return result


def fold(events: Iterable[Event]) -> Ledger:
    """Return the ledger of the events of a journal. Raises RunDirectoryError, naming the line, for an invalid one."""
    ledger = Ledger()
    for line, event in enumerate(events, start=1):
        apply_line(ledger, line, event)
    return ledger


def apply_line(ledger: Ledger, line: int, event: Event) -> TrialResult | None:
    """Apply an event of a journal; see `Ledger.apply`. Raises RunDirectoryError, naming the line, if it is invalid."""
    try:
        return ledger.apply(event)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RunDirectoryError(
            f"line {line} of the journal ({type(event).__name__}) does not follow from the lines before it "
            f"({one_line(error)}): use the version of fmnas that wrote it; environment.json names it"
        ) from None


def _result(run: RunProgress, pending: PendingTrial, event: Finished | Failed | Lost | Cancelled) -> TrialResult:
    started_at = pending.started_at if pending.attempt else event.at  # a warm-start trial is never started
    statuses = {Finished: FINISHED, Lost: LOST, Cancelled: CANCELLED}
    return TrialResult(
        optimizer=run.optimizer,
        repeat=run.repeat,
        trial=pending.trial,
        status=event.status if isinstance(event, Failed) else statuses[type(event)],
        evaluation=event.evaluation if isinstance(event, Finished) else None,
        suggest_seconds=pending.suggest_seconds,
        started_at=started_at,
        finished_at=event.at,
        worker=event.worker,
        attempt=event.attempt,
        reason="" if isinstance(event, Finished) else legible(event.reason),
        lost_seconds=pending.lost_seconds,
        seconds=event.seconds if isinstance(event, Failed) else max(0.0, event.at - started_at),
    )
