"""The state of an experiment as the journal tells it: every record changes it in one place, live or replayed.

While an experiment runs, the driver appends a record and then applies it; after a crash the same records are applied
again. Only `asked` differs: live, the optimizer has just suggested the trial; replayed, it is told that it once did.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from fmnas.platform.environment import in_words, provenance, same_fmnas
from fmnas.platform.errors import ExperimentFailed, RunDirectoryError, legible, one_line
from fmnas.platform.record.experiment import Experiment, Run
from fmnas.platform.record.journal import DRIVER, ENDED, EXPERIMENT, ILLEGIBLE, Record
from fmnas.platform.record.outcome import Outcome, Standing
from fmnas.platform.workers.pool import Job
from fmnas.search_spaces import Evaluation, Trial
from fmnas.search_spaces.records import CANCELLED, FAILED, FINISHED, LOST, TIMED_OUT

MISSING_LINE = (
    "a line is missing or was changed. Lines before it are whole: to go on from there, keep a copy and cut the file to "
    "its first {} lines"
)


@dataclass
class OpenTrial:
    """A trial asked and not ended.

    attempt: how often it was started. losses: how often its worker was lost. cancelled: the record of a stop that left
    it in the middle; None once it was started again. running: whether an attempt was started and did not end.
    lost_seconds: what the attempts took that came to nothing.
    """

    trial: Trial
    suggest_seconds: float
    attempt: int = 0
    losses: int = 0
    started_at: float = 0.0
    cancelled: Record | None = None
    running: bool = False
    lost_seconds: float = 0.0

    def start(self, attempt: int, at: float) -> None:
        """An attempt begins."""
        self.attempt, self.started_at, self.cancelled, self.running = attempt, at, None, True

    def lose(self, at: float) -> None:
        """The attempt that runs, if any, came to nothing: when it was cancelled, or else `at`."""
        if self.running:
            end = self.cancelled["at"] if self.cancelled else at
            self.lost_seconds += max(0.0, end - self.started_at)
        self.running = False


class ExperimentState:
    """Runs, open trials and outcomes.

    heard: whether the optimizers hear what happened; without that the state serves for looking, not for going on.
    outcomes: every trial that ended with its run's standing after it, in the journal's order.
    drivers: the record of every driver that worked here, from journals of format 2 on.
    status: how the last driver left: "finished", "interrupted" or "failed"; empty if it did not say, or still works.
    """

    def __init__(self, experiment: Experiment, heard: bool = True) -> None:
        self.experiment, self._heard = experiment, heard
        self.drivers: list[Record] = []
        self.runs: dict[str, Run] = {run.name: run for run in experiment.runs}
        self.open: dict[tuple[str, int], OpenTrial] = {}
        self.outcomes: list[tuple[Outcome, Standing]] = []
        self.status = ""
        self._last_at = 0.0

    def replay(self, records: Iterable[Record]) -> None:
        """Apply the records of a journal that come after its first.

        Raises RunDirectoryError, naming the line, where one does not follow from those before it.
        """
        for line, record in enumerate(records, start=2):
            self.follow(line, record)

    def follow(self, line: int, record: Record) -> None:
        """Apply one record of a journal, its line counted from 1."""
        try:
            self.apply(record, live=False)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            what = ", ".join(f"{key} {record[key]!r}" for key in ("event", "run", "attempt") if key in record)
            raise RunDirectoryError(
                f"line {line} of the journal ({what}) does not follow from the lines before it ({one_line(error)}): "
                f"{self._other_version() or MISSING_LINE.format(line - 1)}"
            ) from None

    def _other_version(self) -> str:
        """What to do when the journal was written by another fmnas; empty if it was not, or does not say."""
        driver = self.drivers[-1] if self.drivers else {}
        if not driver or same_fmnas(driver, provenance()):
            return ""
        return (
            f"it was written by {in_words(driver)}, and this is {in_words(provenance())}, which may not know all that "
            "it says; use the other one"
        )

    def apply(self, record: Record, live: bool = True) -> tuple[Outcome, Standing] | None:
        """Take one record; the outcome and standing if a trial ended with it."""
        ended = self._take(record, record["event"], live)
        self._last_at = record.get("at", self._last_at)
        return ended

    def _take(self, record: Record, event: str, live: bool) -> tuple[Outcome, Standing] | None:
        if event == DRIVER:
            self.drivers.append(record)
        if event != DRIVER or record["work"] == EXPERIMENT:
            self.status = ""
        if event in (DRIVER, ILLEGIBLE):
            pass
        elif event == "asked":
            self._asked(record, live)
        elif event == "started":
            self._started(record)
        elif event == CANCELLED:
            self.open[self._key(record)].cancelled = record
        elif event == LOST and not record["final"]:
            opened = self.open[self._key(record)]
            opened.losses += 1
            opened.lose(record["at"])
        elif event in (FINISHED, FAILED, TIMED_OUT, LOST):
            return self._ended(record, event)
        elif event == ENDED:
            self.status = record["status"]
        else:
            raise ValueError(f"an event {event!r} is not known")
        return None

    def unfinished(self) -> Iterator[Job]:
        """Trials to start again after a resume, oldest first."""
        for (run, _), opened in self.open.items():
            yield Job(run, opened.trial, opened.attempt + 1)

    def cancelled(self) -> Iterator[tuple[Outcome, Standing]]:
        """Trials that a stop left in the middle, and where their runs stand: a resume starts them again."""
        for (name, _), opened in self.open.items():
            run, record = self.runs[name], opened.cancelled
            if record is not None:
                yield self._outcome(run, opened, CANCELLED, record), self._standing(run)

    def pending(self) -> Iterator[tuple[Run, OpenTrial]]:
        """Trials asked and not ended, but for the cancelled ones."""
        for (name, _), opened in self.open.items():
            if opened.cancelled is None:
                yield self.runs[name], opened

    def in_flight(self, run: Run) -> int:
        """How many of a run's trials are open."""
        return sum(name == run.name for name, _ in self.open)

    @staticmethod
    def _key(record: Record) -> tuple[str, int]:
        return record["run"], record["trial"]

    def _asked(self, record: Record, live: bool) -> None:
        run, trial = self.runs[record["run"]], Trial.from_dict(record["trial"])
        if not live:
            self._suggested(run, trial)
        run.seeds[trial.id] = trial.seed
        run.budget.commit(trial.epochs, record["suggest_seconds"])
        self.open[run.name, trial.id] = OpenTrial(trial, record["suggest_seconds"])

    def _started(self, record: Record) -> None:
        opened = self.open[self._key(record)]
        if opened.cancelled:
            opened.lose(record["at"])
        elif opened.running:
            # Nobody ended the attempt before: its driver died, and with it all that ran. Its last record is from then.
            for other in self.open.values():
                other.lose(self._last_at)
        opened.start(record["attempt"], record["at"])

    def _suggested(self, run: Run, recorded: Trial) -> None:
        """A journal says that the run's optimizer once suggested this."""
        if self._heard:
            run.optimizer.restore(recorded)

    def _ended(self, record: Record, status: str) -> tuple[Outcome, Standing]:
        run, opened = self.runs[record["run"]], self.open.pop(self._key(record))
        outcome = self._outcome(run, opened, status, record)
        self._tell(run, outcome)
        run.ended += 1
        evaluation = outcome.evaluation
        if evaluation and opened.trial.epochs == self.experiment.epochs:
            best = run.incumbent
            run.incumbent = evaluation.objective if best is None else min(best, evaluation.objective)
        standing = self._standing(run)
        self.outcomes.append((outcome, standing))
        return outcome, standing

    def _standing(self, run: Run) -> Standing:
        return Standing(run.budget.spent / self.experiment.epochs, run.budget.spent, run.incumbent)

    @staticmethod
    def _outcome(run: Run, opened: OpenTrial, status: str, record: Record) -> Outcome:
        return Outcome(
            optimizer=run.optimizer_name,
            repeat=run.repeat,
            trial=opened.trial,
            status=status,
            evaluation=Evaluation.from_dict(record["evaluation"]) if status == FINISHED else None,
            suggest_seconds=opened.suggest_seconds,
            started_at=opened.started_at,
            finished_at=record["at"],
            worker=record["worker"],
            attempt=record["attempt"],
            reason=legible(record.get("reason", "")),
            lost_seconds=opened.lost_seconds,
            seconds=record.get("seconds", max(0.0, record["at"] - opened.started_at)),
        )

    def _tell(self, run: Run, outcome: Outcome) -> None:
        """A result is told and charged; a failure is charged, and told as the configuration says; a loss is neither."""
        trial, evaluation = outcome.trial, outcome.evaluation
        if outcome.status == LOST:
            run.budget.release(trial.epochs)
        else:
            run.budget.settle(trial.epochs, evaluation.seconds if evaluation else outcome.seconds)
        if not self._heard:
            return
        if evaluation is None and outcome.status != LOST and self.experiment.config.on_failure == "penalty":
            evaluation = Evaluation(self.experiment.problem.penalty, epochs=trial.epochs)
        try:
            if evaluation is None:
                run.optimizer.forget(trial)
            else:
                run.optimizer.tell(trial, evaluation)
        except Exception as error:
            raise ExperimentFailed(
                f"{run.name}: the optimizer failed when it heard of trial {trial.id} ({one_line(error)}). The result "
                "is in the journal: mend the optimizer and resume; `fmnas report` needs none"
            ) from error


def asked_record(run: str, trial: Trial, suggest_seconds: float, at: float) -> dict[str, Any]:
    """The record of a suggestion."""
    return {"event": "asked", "run": run, "trial": trial.to_dict(), "suggest_seconds": suggest_seconds, "at": at}


def started_record(job: Job, worker: str, at: float) -> dict[str, Any]:
    """The record of an attempt."""
    return _of_job("started", job, worker, at)


def finished_record(job: Job, worker: str, evaluation: Evaluation, at: float) -> dict[str, Any]:
    """The record of a result."""
    return {**_of_job(FINISHED, job, worker, at), "evaluation": evaluation.to_dict()}


def unfinished_record(status: str, job: Job, worker: str, reason: str, at: float) -> dict[str, Any]:
    """The record of a trial without a result: FAILED, TIMED_OUT, or CANCELLED, which a resume starts again."""
    return {**_of_job(status, job, worker, at), "reason": reason}


def lost_record(job: Job, worker: str, reason: str, final: bool, at: float) -> dict[str, Any]:
    """The record of a lost worker; `final` when its trial will not be tried again."""
    return {**_of_job(LOST, job, worker, at), "reason": reason, "final": final}


def driver_record(work: str, at: float) -> dict[str, Any]:
    """The record of a driver that begins: what it works at, and with what."""
    return {"event": DRIVER, "work": work, **provenance(), "at": at}


def ended_record(status: str, reason: str, at: float) -> dict[str, Any]:
    """The record of a driver that leaves."""
    return {"event": ENDED, "status": status, **({"reason": reason} if reason else {}), "at": at}


def _of_job(event: str, job: Job, worker: str, at: float) -> dict[str, Any]:
    return {
        "event": event,
        "run": job.run,
        "trial": job.trial.id,
        "attempt": job.attempt,
        "worker": worker,
        "at": at,
    }
