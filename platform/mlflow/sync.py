"""Logging an experiment to MLflow: a reconciler that writes what the journal has and the store lacks.

    experiment                      all run directories of one name
    `- quickstart                   of one run directory, by its name: report in words, config, figures, tables
       |- bo-fm/repeat-0            incumbent by evaluations and by epochs
       |  |- bo-fm/repeat-0/trial-0
       |  `- bo-fm/repeat-0/trial-1
       |- bohb/repeat-0
       `- bo-fm/mean                mean curve over the repeats with its interval, and final numbers

It runs in a thread of its own while the experiment runs, once more at its end, and in `fmnas sync`. It reads the run
directory alone. Runs are found by their tags, so each is written once, whenever it was stopped.
"""

import json
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fmnas.comparison import styles
from fmnas.platform.config.uri import redact
from fmnas.platform.experiment.events import Begun, Extended
from fmnas.platform.experiment.journal import JournalReader
from fmnas.platform.experiment.ledger import Ledger
from fmnas.platform.experiment.run_directory import RunDirectory
from fmnas.platform.experiment.trial_result import TrialResult
from fmnas.platform.mlflow import records
from fmnas.platform.mlflow.client import MlflowExperiment, TrackingSettings, prepare_own_store
from fmnas.platform.mlflow.records import KIND, PARENT, RUN, TRIAL, LoggedTrial, Point, RunProgress

POLL_SECONDS, LONGEST_PAUSE = 2.0, 60.0
"""Seconds between passes; doubled while the store does not take everything, up to the longest."""
FLUSH_SECONDS = 60.0
"""How long the end of an experiment waits for a store that answers slowly."""
LAST_TRIES = 3
"""Passes at the end of an experiment, if the store does not take everything."""


@dataclass(frozen=True)
class TrackingReport:
    """What became of the trials.

    written: logged now; present: logged before; missed: not logged, and `reason` says why. store_experiment: MLflow's
    id of the experiment; empty if the store was never reached. remark: a line for the user about the store, or empty.
    """

    written: int = 0
    present: int = 0
    missed: int = 0
    reason: str = ""
    store_experiment: str = ""
    remark: str = ""


class JournalFollower:
    """Folds the journal of a run directory, reading at each call only what was appended since the last one.

    trials: (run, id) -> every trial that ended. progress: run -> its totals. begun_at: when the experiment began.
    """

    def __init__(self, directory: RunDirectory) -> None:
        self._reader, self._ledger = JournalReader(directory.journal), Ledger()
        self.begun_at = 0.0
        self.trials: dict[tuple[str, int], LoggedTrial] = {}
        self.progress: dict[str, RunProgress] = {}

    def follow(self) -> None:
        """Fold the new events. An incomplete last line is left for the next call."""
        for event in self._reader.read():
            result = self._ledger.apply(event)
            if isinstance(event, Begun):
                self.begun_at = event.at
            if isinstance(event, Begun | Extended):
                before = self.progress
                self.progress = {
                    name: before.get(name, RunProgress(self._ledger.full_epochs)) for name in self._ledger.runs
                }
            if result is not None:
                self.trials[result.run, result.trial.id] = self.progress[result.run].add(result)

    def add_cancelled(self) -> None:
        """Count the trials that a stop left unfinished as ended, until a resume repeats them."""
        for result in self._ledger.cancelled_results():
            self.trials[result.run, result.trial.id] = self.progress[result.run].snapshot(result)

    def test_errors(self) -> Mapping[tuple[str, int], float]:
        """(run, trial) -> mean test error of the incumbents that were retrained with the latest settings."""
        retrained = self._ledger.current_retrained().values()
        return {(each.run, each.trial_id): sum(each.errors) / len(each.errors) for each in retrained}

    @property
    def runs(self) -> Mapping[str, tuple[str, int]]:
        """Run -> its optimizer and repeat, in the order in which to show them."""
        return {name: (run.optimizer, run.repeat) for name, run in self._ledger.runs.items()}


class Reconciler:
    """Writes what the journal has and the store lacks. A pass that raised may be repeated.

    written: the trials that it has logged. deadline: on the monotonic clock, after which no further trial is logged.
    """

    def __init__(self, settings: TrackingSettings, directory: RunDirectory) -> None:
        self._settings, self._directory = settings, directory
        self._journal = JournalFollower(directory)
        self._store: MlflowExperiment | None = None
        self._colours: dict[str, str] = {}
        self._ids: dict[str, str] = {}  # run -> its id in MLflow; "" -> that of the parent
        self._trial_ids: dict[tuple[str, int], str] = {}  # created, and whether ended or not
        self._statuses: dict[tuple[str, int], str] = {}  # of trials that are logged
        self._unanswered: set[tuple[str, int]] = set()  # creation failed here; the server may have done it
        self._lines: dict[str, dict[tuple[str, int], float]] = {}  # run -> (metric, step) -> logged value
        self.written: set[tuple[str, int]] = set()
        self.experiment = self.remark = ""
        self.deadline = float("inf")

    def count(self) -> tuple[int, int]:
        """Return how many trials were logged by this reconciler, and how many were logged before."""
        logged = sum(self._statuses.get(key) == trial.outcome.status for key, trial in self._journal.trials.items())
        return len(self.written), logged - len(self.written)

    def reconcile(self, status: str = "") -> str:
        """Make a pass; return why a trial could not be logged, or nothing.

        status: of the experiment if it has ended; then its results are logged, too. Raises whatever MLflow raises if
        the store does not answer.
        """
        self._journal.follow()
        if status:
            self._journal.add_cancelled()
        store = self._store = self._store or self._connect()
        for run, progress in self._journal.progress.items():
            if progress.trials or status:
                self._log_line(store, run, progress)
        reason = self._log_trials(store)
        if status:
            self._log_results(store, status)
        return reason

    def _connect(self) -> MlflowExperiment:
        if self._settings.is_own:
            self.remark = prepare_own_store(self._settings) or self.remark
        store = MlflowExperiment(self._settings)
        self.experiment = store.id
        existing = {}
        for run in store.runs({}):
            tags, key = run.data.tags, ("", -1)
            if tags[KIND] == records.TRIAL_KIND:
                key = tags[RUN], int(tags[TRIAL])
                self._trial_ids[key] = run.info.run_id
                if run.info.end_time is not None:
                    self._statuses[key] = tags["status"]
            elif tags[KIND] != records.MEAN_KIND:
                existing[tags.get(RUN, "")] = run
        self._open_runs(store, existing)
        return store

    def _open_runs(self, store: MlflowExperiment, existing: Mapping[str, Any]) -> None:
        settings, begun = self._settings, records.milliseconds(self._journal.begun_at)
        optimizers = list(dict.fromkeys(optimizer for optimizer, _ in self._journal.runs.values()))
        self._colours = {name: style.colour for name, style in styles(optimizers).items()}
        tags = {KIND: records.EXPERIMENT_KIND, **settings.experiment_tags}
        self._ids[""] = store.open(existing.get(""), settings.name, tags, settings.params, begun)
        for run, (optimizer, repeat) in self._journal.runs.items():
            tags = {**self._place(records.RUN_KIND, optimizer, ""), RUN: run, "repeat": str(repeat)}
            started = records.milliseconds(self._journal.progress[run].started_at) or begun
            params = settings.optimizers.get(optimizer, {})
            self._ids[run] = store.open(existing.get(run), run, tags, params, started)
            lines = records.INCUMBENT_LINES if run in existing else ()
            logged = {key: store.values(self._ids[run], key) for key in lines}
            self._lines[run] = {(key, step): value for key in lines for step, value in logged[key].items()}
        try:
            store.label()
        except Exception as error:  # a view is a convenience
            self.remark = f"the view of the comparison was not stored: {redact(str(error))}"

    def _place(self, kind: str, optimizer: str, parent: str) -> dict[str, str]:
        """The tags of a run of an optimizer: what it is, and the run that it is nested in."""
        return {KIND: kind, "optimizer": optimizer, records.COLOR: self._colours[optimizer], PARENT: self._ids[parent]}

    def _log_line(self, store: MlflowExperiment, run: str, progress: RunProgress, is_final: bool = False) -> None:
        """Log the points of the incumbent's lines that the store lacks."""
        points = [*progress.points, *(progress.final_points() if is_final else ())]
        logged = self._lines[run]
        missing = [point for point in points if logged.get((point.key, point.step)) != point.value]
        store.log(self._ids[run], missing)
        logged |= {(point.key, point.step): point.value for point in missing}

    def _log_trials(self, store: MlflowExperiment) -> str:
        """Log the trials that the store lacks; one that it rejects does not block the others."""
        reason = ""
        for key, trial in self._journal.trials.items():
            if self._statuses.get(key) == trial.outcome.status:
                continue
            if time.monotonic() > self.deadline:
                return reason or "the time at the end was not enough"
            try:
                self._log_trial(store, key, trial)
            except Exception as error:
                if not store.is_reachable():
                    raise
                reason = describe(error)
        return reason

    def _log_trial(self, store: MlflowExperiment, key: tuple[str, int], trial: LoggedTrial) -> None:
        outcome = trial.outcome
        tags = {**records.trial_tags(outcome), **self._place(records.TRIAL_KIND, outcome.optimizer, outcome.run)}
        started, ended = (records.milliseconds(at) for at in (outcome.started_at, outcome.finished_at))
        if key in self._unanswered:
            found = next(store.runs({RUN: key[0], TRIAL: str(key[1])}), None)
            self._trial_ids |= {key: found.info.run_id} if found else {}
        is_new = key not in self._trial_ids
        if is_new:
            self._unanswered.add(key)
            self._trial_ids[key] = store.create(f"{outcome.run}/trial-{outcome.trial.id}", tags, started)
        self._unanswered.discard(key)
        run_id, params = self._trial_ids[key], records.params(outcome.trial.configuration)
        store.log(run_id, records.trial_points(trial, self._settings.space), params, {} if is_new else tags)
        store.end(run_id, records.STATUSES.get(outcome.status, "FAILED"), ended)
        self._statuses[key] = outcome.status
        self.written.add(key)

    def _log_results(self, store: MlflowExperiment, status: str) -> None:
        """Log the final values of every run, the mean curves, the retrained models, and the files of the report."""
        directory, ending = self._directory, records.STATUSES.get(status, "FAILED")
        summary = json.loads(directory.summary.read_text()) if directory.summary.is_file() else {}
        progress = self._journal.progress
        for run, ended in progress.items():
            if ended.trials:
                self._log_line(store, run, ended, is_final=status == "finished")
                self._log_summary(store, run, ended)
            store.end(self._ids[run], ending, records.milliseconds(ended.ended_at or time.time()))
        if note := records.experiment_note(summary):
            store.log(self._ids[""], tags={records.DESCRIPTION: note})
        last = records.milliseconds(max((ended.ended_at for ended in progress.values()), default=0.0) or time.time())
        if status == "finished":
            self._log_means(store, summary, last)
        for (run, trial_id), error in self._journal.test_errors().items():
            configuration = self._journal.trials[run, trial_id].outcome.trial.configuration
            store.log_model(f"{run}/trial-{trial_id}", self._ids[run], error, configuration)
        store.end(self._ids[""], ending, last)
        tables = [directory.trials, directory.summary, directory.retrained, directory.page]
        figures = sorted(path for path in directory.report.glob("*") if path.suffix in (".png", ".csv"))
        for path in filter(lambda path: path.is_file(), [directory.config, directory.environment, *tables, *figures]):
            store.upload(self._ids[""], path)

    def _log_summary(self, store: MlflowExperiment, run: str, progress: RunProgress) -> None:
        at, step = records.milliseconds(progress.ended_at), int(progress.evaluations)
        logged, best = store.latest_values(self._ids[run]), progress.best
        points = [Point(key, value, at, step) for key, value in progress.summary().items() if logged.get(key) != value]
        note = {"best_trial": str(best.trial.id), records.DESCRIPTION: records.best_note(best)} if best else {}
        store.log(self._ids[run], points, tags=note)

    def _log_means(self, store: MlflowExperiment, summary: Mapping[str, Any], at: int) -> None:
        """Log a run per optimizer with its mean curve; one with other values, of before an extension, is replaced."""
        path = self._directory.report / "mean_curves.csv"
        existing = {run.data.tags["optimizer"]: run for run in store.runs({KIND: records.MEAN_KIND})}
        for optimizer, points in records.mean_points(path, summary, at).items() if path.is_file() else ():
            content, run = records.content_digest(points), existing.get(optimizer)
            if run and run.info.end_time is not None and run.data.tags.get(records.CONTENT) == content:
                continue
            if run:
                store.delete(run.info.run_id)
            tags = {**self._place(records.MEAN_KIND, optimizer, ""), records.CONTENT: content}
            params = self._settings.optimizers.get(optimizer, {})
            run_id = store.open(None, f"{optimizer}/mean", tags, params, records.milliseconds(self._journal.begun_at))
            store.log(run_id, points)
            store.end(run_id, "FINISHED", at)


def describe(error: Exception) -> str:
    """Return an error in one line, without passwords."""
    return " ".join(redact(f"{type(error).__name__}: {error}").split())[:500]


class Tracker:
    """Follows an experiment, and does nothing: for tracking.enabled = false."""

    def trial(self, outcome: TrialResult) -> None:
        """Take a trial that ended."""

    def finish(self, status: str, trials: int) -> TrackingReport:
        """Take the end of the experiment."""
        return TrackingReport()


class MlflowSync(Tracker):
    """Keeps the store up to date while an experiment runs. No method waits for the store but `finish`.

    flush_seconds: how long `finish` may take; far less if the store is down.
    """

    def __init__(self, reconciler: Reconciler, flush_seconds: float = FLUSH_SECONDS) -> None:
        self._reconciler, self._flush_seconds = reconciler, flush_seconds
        self._ending = threading.Event()
        self._status = self._reason = ""
        # A daemon: a request that hangs must not keep the process alive.
        self._thread = threading.Thread(target=self._work, name="mlflow", daemon=True)

    def start(self) -> None:
        """Begin to connect and to log."""
        self._thread.start()

    def finish(self, status: str, trials: int) -> TrackingReport:
        """Log the rest and the results. status: of the experiment. trials: how many there are."""
        self._status = status
        self._reconciler.deadline = time.monotonic() + self._flush_seconds
        self._ending.set()
        if self._thread.ident is None:
            self._thread.start()
        self._thread.join(self._flush_seconds)
        reason = self._reason
        if self._thread.is_alive():
            reason = reason or f"the store takes more than {self._flush_seconds:g} s"
        written, present = self._reconciler.count()
        missed = trials - written - present
        return TrackingReport(written, present, missed, reason, self._reconciler.experiment, self._reconciler.remark)

    def _work(self) -> None:
        pause = 0.0
        while not self._ending.wait(pause):
            self._pass("")
            pause = min(2 * max(pause, POLL_SECONDS), LONGEST_PAUSE) if self._reason else POLL_SECONDS
        for remaining in reversed(range(LAST_TRIES)):
            self._pass(self._status)
            if not self._reason or time.monotonic() > self._reconciler.deadline:
                return
            time.sleep(min(1.0, POLL_SECONDS) if remaining else 0.0)

    def _pass(self, status: str) -> None:
        try:
            self._reason = self._reconciler.reconcile(status)
        except Exception as error:  # whatever it is, it is no reason to stop an experiment that trains for days
            self._reason = describe(error)
