"""The reconciler: it writes to MLflow what the journal of an experiment has and the store lacks.

    experiment                      all run directories of one name
    `- quickstart                   of one run directory, by its name: report in words, config, figures, tables
       |- bo-fm/repeat-0            incumbent by evaluations and by epochs
       |  |- bo-fm/repeat-0/trial-0
       |  `- bo-fm/repeat-0/trial-1
       |- bohb/repeat-0
       `- bo-fm/mean                mean curve over the repeats with its interval, and final numbers

It reads the run directory alone. Runs are found by their tags, so each is written once, whenever a pass was stopped.
"""

import json
import math
import time
from collections.abc import Mapping
from typing import Any

from fmnas.comparison import styles
from fmnas.platform.config.uri import redact
from fmnas.platform.experiment.events import Asked, Begun, Extended
from fmnas.platform.experiment.journal import JournalReader
from fmnas.platform.experiment.ledger import Ledger
from fmnas.platform.experiment.run_directory import RunDirectory
from fmnas.platform.experiment.saved_models import saved_models
from fmnas.platform.mlflow import records
from fmnas.platform.mlflow.client import MlflowExperiment, prepare_own_store
from fmnas.platform.mlflow.records import KIND, PARENT, RUN, TRIAL, IncumbentCurve, LoggedTrial, Point
from fmnas.platform.mlflow.settings import TrackingSettings


def describe(error: Exception) -> str:
    """Return an error in one line, without passwords."""
    return " ".join(redact(f"{type(error).__name__}: {error}").split())[:500]


class JournalFollower:
    """Folds the journal of a run directory, reading at each call only what was appended since the last one.

    ledger: of all events so far. trials: (run, id) -> every trial that ended. curves: run -> its incumbent.
    begun_at: when the experiment began.
    """

    def __init__(self, directory: RunDirectory) -> None:
        self._reader, self.ledger = JournalReader(directory.journal), Ledger()
        self.begun_at = 0.0
        self.trials: dict[tuple[str, int], LoggedTrial] = {}
        self.curves: dict[str, IncumbentCurve] = {}

    def follow(self, is_over: bool) -> None:
        """Fold the new events. An incomplete last line is left for the next call.

        is_over: count the trials that a stop left unfinished as ended, until a resume repeats them.
        """
        for event in self._reader.read():
            result = self.ledger.apply(event)
            if isinstance(event, Asked):
                curve = self.curves[event.run]
                curve.started_at = min(curve.started_at, event.at - event.suggest_seconds)
            if isinstance(event, Begun | Extended):
                self.begun_at = self.begun_at or event.at
                new = {name: IncumbentCurve(self.ledger.full_epochs) for name in self.ledger.runs}
                self.curves = {**new, **self.curves}
            if result is not None:
                run = self.ledger.runs[result.run]
                trial = self.curves[run.name].add(result, run.budget.spent, run.incumbent)
                self.trials[run.name, result.trial.id] = trial
        for result in self.ledger.cancelled_results() if is_over else ():
            self.trials[result.run, result.trial.id] = self.curves[result.run].snapshot(result)


class Reconciler:
    """Writes what the journal has and the store lacks.

    A pass that raised may be repeated. It connects again, and so finds what was created although nobody answered.
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
        self._trial_params: dict[tuple[str, int], Mapping[str, str]] = {}  # that the store had: they cannot change
        self._points: dict[str, int] = {}  # run -> how many points of its lines were logged since connecting
        self.written: set[tuple[str, int]] = set()
        self.experiment = self.remark = ""
        self.deadline = float("inf")

    def count(self) -> tuple[int, int]:
        """Return how many trials were logged by this reconciler, and how many were logged before."""
        logged = sum(self._statuses.get(key) == trial.result.status for key, trial in self._journal.trials.items())
        return len(self.written), logged - len(self.written)

    def reconcile(self, status: str = "") -> str:
        """Make a pass; return why a trial could not be logged, or nothing.

        status: of the experiment if it has ended; then its results are logged, too. Raises whatever MLflow raises if
        the store does not answer.
        """
        self._journal.follow(is_over=bool(status))
        store, self._store = self._store or self._connect(), None
        for run, curve in self._journal.curves.items():  # the new points of its lines; MLflow keeps equal ones once
            final = curve.final_points() if status == "finished" else []
            store.log(self._ids[run], [*curve.points[self._points.get(run, 0) :], *final])
            self._points[run] = len(curve.points)
        reason = self._log_trials(store)
        if status:
            self._log_results(store, status)
        self._store = None if reason else store
        return reason

    def _connect(self) -> MlflowExperiment:
        if self._settings.is_own:
            self.remark = prepare_own_store(self._settings) or self.remark
        store = MlflowExperiment(self._settings)
        self.experiment = store.id
        trial_ids, statuses, existing = {}, {}, {}
        for run in store.runs({}):
            tags, key = run.data.tags, ("", -1)
            if tags[KIND] == records.TRIAL_KIND:
                key = tags[RUN], int(tags[TRIAL])
                trial_ids[key], self._trial_params[key] = run.info.run_id, run.data.params
                if run.info.end_time is not None:
                    statuses[key] = tags["status"]
            elif tags[KIND] != records.MEAN_KIND:
                existing[tags.get(RUN, "")] = run
        self._trial_ids, self._statuses, self._points = trial_ids, statuses, {}
        self._open_runs(store, existing)
        return store

    def _open_runs(self, store: MlflowExperiment, existing: Mapping[str, Any]) -> None:
        settings, begun = self._settings, records.milliseconds(self._journal.begun_at)
        runs = self._journal.ledger.runs
        optimizers = list(dict.fromkeys(run.optimizer for run in runs.values()))
        self._colours = {name: style.colour for name, style in styles(optimizers).items()}
        kind = {KIND: records.EXPERIMENT_KIND}
        self._ids[""] = store.open(existing.get(""), settings.name, kind, settings.params, begun)
        for name, run in runs.items():
            tags = {**self._place(records.RUN_KIND, run.optimizer, ""), RUN: name, "repeat": str(run.repeat)}
            first = self._journal.curves[name].started_at
            started = begun if math.isinf(first) else max(begun, records.milliseconds(first))
            params = settings.optimizers.get(run.optimizer, {})
            self._ids[name] = store.open(existing.get(name), name, tags, params, started)
        store.label()

    def _place(self, kind: str, optimizer: str, parent: str) -> dict[str, str]:
        """The tags of a run of an optimizer: what it is, and the run that it is nested in."""
        return {KIND: kind, "optimizer": optimizer, records.COLOR: self._colours[optimizer], PARENT: self._ids[parent]}

    def _log_trials(self, store: MlflowExperiment) -> str:
        """Log the trials that the store lacks; one that it rejects does not block the others."""
        reason = ""
        for key, trial in self._journal.trials.items():
            if self._statuses.get(key) == trial.result.status:
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
        result = trial.result
        tags = {**records.trial_tags(result), **self._place(records.TRIAL_KIND, result.optimizer, result.run)}
        started, ended = (records.milliseconds(at) for at in (result.started_at, result.finished_at))
        is_new = key not in self._trial_ids
        if is_new:
            self._trial_ids[key] = store.create(f"{result.run}/trial-{result.trial.id}", tags, started)
        run_id, known = self._trial_ids[key], self._trial_params.get(key, {})
        params = {k: text for k, text in records.params(result.trial.configuration).items() if k not in known}
        store.log_dataset(run_id)
        store.log(run_id, records.trial_points(trial), params, {} if is_new else tags)
        store.client.set_terminated(run_id, records.STATUSES.get(result.status, "FAILED"), ended)
        self._statuses[key] = result.status
        self.written.add(key)

    def _log_results(self, store: MlflowExperiment, status: str) -> None:
        """Log the final values of every run, the mean curves, the retrained models, and the files of the report."""
        directory, ending = self._directory, records.STATUSES.get(status, "FAILED")
        summary = json.loads(directory.summary.read_text()) if directory.summary.is_file() else {}
        ends = {run: curve.ended_at or self._journal.begun_at for run, curve in self._journal.curves.items()}
        for run, ended in ends.items():
            self._log_summary(store, run, records.milliseconds(ended))
            store.client.set_terminated(self._ids[run], ending, records.milliseconds(ended))
        if note := "\n\n".join(filter(None, (summary.get("headline"), summary.get("caution")))):
            store.log(self._ids[""], tags={records.DESCRIPTION: note[:5000]})
        last = records.milliseconds(max(ends.values()))
        if status == "finished":
            self._log_means(store, summary, last)
        saved = saved_models(directory, self._journal.ledger)
        for run, retrained in self._journal.ledger.current_retrained().items():
            trial = self._journal.trials[run, retrained.trial_id].result.trial
            name, folder = f"{run}/trial-{trial.id}", saved.get(run)
            store.log_model(name, self._ids[run], retrained.errors, trial.configuration, folder)
        store.client.set_terminated(self._ids[""], ending, last)
        tables = [directory.trials, directory.summary, directory.retrained, directory.page]
        figures = sorted(path for path in directory.report.glob("*") if path.suffix in (".png", ".csv"))
        for path in filter(lambda path: path.is_file(), [directory.config, directory.environment, *tables, *figures]):
            store.client.log_artifact(self._ids[""], str(path))

    def _log_summary(self, store: MlflowExperiment, name: str, at: int) -> None:
        """Log the final metrics of a run: its size, and the results of its best trial."""
        run, curve = self._journal.ledger.runs[name], self._journal.curves[name]
        values = {"trials": float(run.ended), "epochs": float(curve.epochs), **records.results(run.best)}
        points = [Point(key, value, at, int(curve.evaluations)) for key, value in values.items()]
        store.log(self._ids[name], points, tags={"best_trial": str(run.best.trial.id)} if run.best else {})

    def _log_means(self, store: MlflowExperiment, summary: Mapping[str, Any], at: int) -> None:
        """Log a run per optimizer with its mean curve; one with other values, of before an extension, is replaced."""
        path = self._directory.report / "mean_curves.csv"
        existing = {run.data.tags["optimizer"]: run for run in store.runs({KIND: records.MEAN_KIND})}
        for optimizer, points in records.mean_points(path, summary, at).items() if path.is_file() else ():
            content, run = records.content_digest(points), existing.get(optimizer)
            if run and run.info.end_time is not None and run.data.tags.get(records.CONTENT) == content:
                continue
            if run:
                store.client.delete_run(run.info.run_id)
            tags = {**self._place(records.MEAN_KIND, optimizer, ""), records.CONTENT: content}
            params = self._settings.optimizers.get(optimizer, {})
            run_id = store.open(None, f"{optimizer}/mean", tags, params, records.milliseconds(self._journal.begun_at))
            store.log(run_id, points)
            store.client.set_terminated(run_id, "FINISHED", at)
