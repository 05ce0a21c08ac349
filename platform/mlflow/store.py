"""The tree of runs in MLflow: one of the run directory, in it one per optimizer x repeat, in each one per trial.

    experiment                      all run directories of one name
    `- quickstart                   of one run directory, by its name: result in words, config, report, figures, tables
       |- bo-fm/repeat-0            incumbent over evaluations and over epochs
       |  |- bo-fm/repeat-0/trial-0
       |  `- bo-fm/repeat-0/trial-1
       |- bohb/repeat-0
       `- bo-fm/mean                final numbers, mean curve over the repeats and its interval, once all have ended

An extended experiment has a new parent run: its runs move there, and the mean curves are drawn again. Runs are found
again by their tags, so a trial written twice is there once.
"""

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fmnas.comparison import styles
from fmnas.platform.config.uri import sqlite_path
from fmnas.platform.experiment.trial_result import RunSnapshot, TrialResult, run_name
from fmnas.platform.mlflow import records as records
from fmnas.platform.mlflow.client import MlflowExperiment, TrackingSettings
from fmnas.platform.mlflow.database import file_identity, prepare_file
from fmnas.platform.mlflow.records import COLOR, DESCRIPTION, EXTENSIONS, KIND, NAME, PARENT, RUN, TRIAL, Point
from fmnas.search_spaces.records import CANCELLED, LOST

_STATUS = {"finished": "FINISHED", "interrupted": "KILLED"}

_Key = tuple[str, int]
"""A trial: (run, id)."""


@dataclass
class _Progress:
    """How far the MLflow run of one optimizer x repeat is."""

    run_id: str
    there: set[tuple[str, int]]  # (metric, step) of the incumbent's lines
    standing: RunSnapshot = field(default_factory=RunSnapshot)
    best: TrialResult | None = None
    trials: set[int] = field(default_factory=set)

    def missing(self, points: Iterable[Point]) -> list[Point]:
        """Those of the incumbent's lines that are not there."""
        return [point for point in points if (point.key, point.step) not in self.there]

    def take(self, outcome: TrialResult, points: Iterable[Point]) -> None:
        """A trial was written; one that had to be set aside comes after later ones."""
        standing, found, best = outcome.snapshot, outcome.objective, self.best.objective if self.best else None
        if found is not None and found == standing.incumbent and (best is None or found < best):
            self.best = outcome
        if standing.epochs >= self.standing.epochs:
            self.standing = standing
        self.trials.add(outcome.trial.id)
        self.there |= {(point.key, point.step) for point in points}


class MlflowStore:
    """Writes one experiment. Every method may be called again after it raised; no run is then there twice.

    experiment: MLflow's id of it; empty before it is open. remark: what a person should know of how the store was
    found; empty if nothing.
    """

    def __init__(self, settings: TrackingSettings) -> None:
        self._settings = settings
        self._mlflow: MlflowExperiment
        self.experiment = self.remark = ""
        self._file: tuple[int, int] | None = None
        self._parent = ""
        self._colors: dict[str, str] = {}
        self._runs: dict[str, _Progress] = {}
        self._written: dict[_Key, tuple[str, str]] = {}  # -> (run id, status of the outcome)
        self._begun: dict[_Key, str] = {}  # created and not yet terminated
        self._doubtful: set[_Key] = set()  # creation failed on our side; the server may have done it

    @property
    def gone(self) -> str:
        """Why what was written is no longer there; empty while it is, as far as that can be known."""
        if not self.experiment or file_identity(self._settings.uri) == self._file:
            return ""
        return f"{sqlite_path(self._settings.uri)} was removed or replaced, and with it what had been written"

    def open(self, runs: Sequence[tuple[str, int]]) -> None:
        """Connect; find or create the experiment, its pages, and the runs of every optimizer."""
        self.remark = prepare_file(self._settings) or self.remark  # there may be several attempts
        self._mlflow = MlflowExperiment(self._settings)
        self._file = file_identity(self._settings.uri)
        optimizers = list(dict.fromkeys(optimizer for optimizer, _ in runs))
        self._mlflow.publish_pages(self._now())
        known = self._known_runs()
        self._parent = self._open_parent(known.get(records.EXPERIMENT_KIND))
        self._colors = {name: style.colour for name, style in styles(optimizers).items()}
        for optimizer, repeat in runs:
            self._runs[run_name(optimizer, repeat)] = self._open_progress(optimizer, repeat, known)
        self.experiment = self._mlflow.id

    def write(self, outcome: TrialResult) -> bool:
        """Write a trial and its run's progress; False if the trial was there already."""
        progress = self._runs[outcome.run]
        ended = records.milliseconds(outcome.finished_at)
        points = records.incumbent_points(progress.standing, outcome.snapshot, ended)
        self._mlflow.log(progress.run_id, progress.missing(points))
        progress.take(outcome, points)
        # Last: one that the store will not take for now is tried again after others, and the lines are there by then.
        return self._write_trial(outcome)

    def close(self, status: str, artifacts: Sequence[Path], summary: Mapping[str, Any]) -> None:
        """Write the final values of every run, and of the experiment its result in words and its files."""
        ending = _STATUS.get(status, "FAILED")
        for progress in self._runs.values():
            self._write_end(progress, status)
            self._mlflow.terminate(progress.run_id, ending)
        if note := records.result_note(summary):
            self._mlflow.log(self._parent, tags={DESCRIPTION: note})
        files = list(filter(Path.is_file, artifacts))
        if status == "finished":  # until then the curves change, and MLflow forgets no point
            self._write_means([path for path in files if path.name == "mean_curves.csv"], summary)
        self._mlflow.terminate(self._parent, ending)
        for path in files:
            self._mlflow.upload(self._parent, path)

    def is_refusal(self, error: Exception) -> bool:
        """Whether MLflow answered that it will never take this; anything else may pass.

        A database that is reached without a server raises SQLAlchemy's errors: MLflow wraps most of them, with a
        status that tells nothing of whether the connection or the statement was at fault, and lets some through.
        """
        from sqlalchemy import exc

        if isinstance(error, OSError):
            return False
        for each in (error, error.__cause__):
            if isinstance(each, exc.SQLAlchemyError):
                return isinstance(each, exc.DataError | exc.IntegrityError | exc.ProgrammingError)
        status = getattr(error, "get_http_status_code", lambda: 400)()
        return 400 <= status < 500 and status not in (408, 429)

    def _known_runs(self) -> dict[str, Any]:
        """Sorts what is in the store: trials into `_written` and `_begun`; returns the others by their runs' names."""
        known = {}
        for found in self._mlflow.runs():
            tags, run_id = found.data.tags, found.info.run_id
            if tags[KIND] in (records.MEAN_KIND, records.EARLIER_MEAN_KIND):
                continue
            if TRIAL not in tags:
                known[tags.get(RUN, tags[KIND])] = found
            elif found.info.end_time is None:
                self._begun[tags[RUN], int(tags[TRIAL])] = run_id
            else:
                self._written[tags[RUN], int(tags[TRIAL])] = run_id, tags["status"]
        return known

    def _open_parent(self, known: Any) -> str:
        """The experiment's own run; a new one after an extension: its curves change, and MLflow forgets no point."""
        kind, count, name = records.EXPERIMENT_KIND, self._settings.extensions, self._settings.name
        name = name or self._settings.experiment
        tags = {KIND: kind, EXTENSIONS: str(count)} if count else {KIND: kind}
        if known and count and known.data.tags.get(EXTENSIONS) != tags[EXTENSIONS]:
            self._mlflow.log(known.info.run_id, tags={KIND: records.EARLIER_KIND, NAME: f"earlier {name}"})
            known = None
        return self._open_run(known, name, tags, self._settings.params)

    def _open_progress(self, optimizer: str, repeat: int, known: Mapping[str, Any]) -> _Progress:
        name = run_name(optimizer, repeat)
        tags = {**self._place(records.RUN_KIND, optimizer, self._parent), RUN: name, "repeat": str(repeat)}
        params = self._settings.optimizers.get(optimizer, {})
        run_id = self._open_run(known.get(name), name, tags, params)
        lines = records.INCUMBENT_LINES if name in known else ()
        return _Progress(run_id, {(key, step) for key in lines for step in self._mlflow.values(run_id, key)})

    def _open_run(self, known: Any, name: str, tags: Mapping[str, str], params: Mapping[str, str]) -> str:
        if known:
            run_id = known.info.run_id
            self._mlflow.reopen(run_id)
            self._mlflow.log(run_id, tags=tags)  # it may have another parent since
        else:
            run_id = self._mlflow.create(name, tags, self._now())
        self._mlflow.describe(run_id, params)
        return run_id

    def _place(self, kind: str, optimizer: str, parent: str) -> dict[str, str]:
        """The tags that say what an optimizer's run is, and where it stands in the tree."""
        return {KIND: kind, "optimizer": optimizer, COLOR: self._colors[optimizer], PARENT: parent}

    def _write_trial(self, outcome: TrialResult) -> bool:
        key = (outcome.run, outcome.trial.id)
        run_id, status = self._written.get(key, (self._begun.get(key, ""), ""))
        # A trial that was lost or cancelled may be tried again after a resume.
        if status == outcome.status or status not in ("", LOST, CANCELLED):
            return False
        record = records.trial_record(outcome, self._settings.space)
        if run_id:
            self._mlflow.log(run_id, record.points, record.params)
            self._mlflow.replace_tags(run_id, record.tags)
        else:
            self._begun[key] = run_id = self._create_trial(key, record)
            self._mlflow.log(run_id, record.points, record.params)
        self._mlflow.terminate(run_id, record.status, record.ended)
        self._written[key] = run_id, outcome.status
        return True

    def _create_trial(self, key: _Key, record: records.TrialRecord) -> str:
        if key in self._doubtful:
            for found in self._mlflow.runs(f"tags.`{RUN}` = '{key[0]}'", f"tags.`{TRIAL}` = '{key[1]}'"):
                return str(found.info.run_id)
        self._doubtful.add(key)
        place = self._place(records.TRIAL_KIND, record.tags["optimizer"], self._runs[key[0]].run_id)
        run_id = self._mlflow.create(record.name, {**record.tags, **place}, record.started)
        self._doubtful.discard(key)
        return run_id

    def _write_end(self, progress: _Progress, status: str) -> None:
        standing, best = progress.standing, progress.best
        if not progress.trials:
            return
        now, there = self._now(), self._mlflow.latest(progress.run_id)
        points = progress.missing(records.last_points(standing, now)) if status == "finished" else []
        values = {"trials": len(progress.trials), "epochs": standing.epochs, **records.results(best)}
        step = math.floor(standing.evaluations)
        points += [Point(key, value, now, step) for key, value in values.items() if there.get(key) != value]
        tags = {"best_trial": str(best.trial.id), DESCRIPTION: records.best_note(best)} if best else {}
        self._mlflow.log(progress.run_id, points, tags=tags)

    def _write_means(self, files: Iterable[Path], summary: Mapping[str, Any]) -> None:
        """A run per optimizer, in its colour: the report's mean curve, and the final numbers."""
        lines = {name: points for path in files for name, points in records.mean_lines(path, self._now()).items()}
        there = self._mean_runs()
        for optimizer, points in lines.items():
            place = self._place(records.MEAN_KIND, optimizer, self._parent)
            run_id = there.get(optimizer) or self._mlflow.create(records.mean_name(optimizer), place, self._now())
            self._mlflow.describe(run_id, self._settings.optimizers.get(optimizer, {}))
            final = records.final_numbers(summary, optimizer)
            self._log_missing(run_id, [*points, *(Point(key, value, self._now(), 0) for key, value in final.items())])
            self._mlflow.terminate(run_id, "FINISHED")

    def _mean_runs(self) -> dict[str, str]:
        """Optimizer -> the run of its mean curve; those of an earlier parent run are marked as such."""
        there = {}
        for found in self._mlflow.runs(f"tags.`{KIND}` = '{records.MEAN_KIND}'"):
            optimizer, run_id = found.data.tags["optimizer"], found.info.run_id
            if found.data.tags[PARENT] == self._parent:
                there[optimizer] = run_id
            else:
                name = f"earlier {records.mean_name(optimizer)}"
                self._mlflow.log(run_id, tags={KIND: records.EARLIER_MEAN_KIND, NAME: name})
        return there

    def _log_missing(self, run_id: str, points: Sequence[Point]) -> None:
        """Points that a run does not have with this value."""
        there = {key: self._mlflow.values(run_id, key) for key in dict.fromkeys(point.key for point in points)}
        self._mlflow.log(run_id, [point for point in points if there[point.key].get(point.step) != point.value])

    def _now(self) -> int:
        return records.milliseconds(time.time())
