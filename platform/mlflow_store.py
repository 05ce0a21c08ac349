"""An experiment in MLflow: one run per optimizer x repeat, a nested run per trial, and one run for the files.

    experiment            the campaign: all run directories of one name in one store
    |- campaign           of one run directory: config, report, drawings, final table
    |- bo-fm/repeat-0     incumbent over evaluations and over epochs
    |  |- 0 bo-fm/0       a trial
    |  `- 1 bo-fm/0
    `- bohb/repeat-0

The campaign's run stands beside the optimizers' and not above them: MLflow opens its tables folded, and what one wants
to see first are the optimizers. Runs are found again by their tags, so writing the same trial twice writes it once.
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

from fmnas.platform import mlflow_records as records
from fmnas.platform.mlflow_records import CAMPAIGN_ID, COLOR, KIND, RUN, TRIAL, Point
from fmnas.platform.mlflow_settings import TrackingError, TrackingSettings, load_mlflow, sqlite_path
from fmnas.platform.mlflow_views import view_tags
from fmnas.platform.outcomes import FINISHED, Outcome, run_name
from fmnas.platform.tracking import Standing

_METRICS_PER_BATCH, _PARAMS_PER_BATCH = 800, 100  # MLflow takes 1,000 entities, of which 100 params
_PAGE = 1000

Key = tuple[str, int]
"""A trial: (run, id)."""


@dataclass
class _Run:
    """What is known of the MLflow run of one optimizer x repeat."""

    run_id: str
    lines: set[tuple[str, int]]  # (metric, step) already in the store
    standing: Standing | None = None
    best: Outcome | None = None
    trials: set[int] = field(default_factory=set)

    def take(self, outcome: Outcome, standing: Standing, points: Iterable[Point]) -> None:
        before = self.standing and self.standing.incumbent
        if standing.incumbent is not None and standing.incumbent != before:
            self.best = outcome
        self.standing = standing
        self.trials.add(outcome.trial.id)
        self.lines |= {(point.key, point.step) for point in points}


class MlflowStore:
    """Writes one experiment. Every method may be called again after it raised; nothing is then written twice."""

    def __init__(self, settings: TrackingSettings, clock: Callable[[], float] = time.time) -> None:
        self._settings = settings
        self._clock = clock
        self._client: Any = None
        self._experiment = ""
        self._campaign = ""
        self._runs: dict[str, _Run] = {}
        self._colors: dict[str, str] = {}
        self._written: dict[Key, tuple[str, str]] = {}  # -> (run id, status of the outcome)
        self._begun: dict[Key, str] = {}  # created and not yet terminated
        self._doubtful: set[Key] = set()  # creation failed on our side; the server may have done it

    @property
    def experiment(self) -> str:
        """MLflow's id of the experiment; empty before `open`."""
        return self._experiment if self._runs else ""

    def open(self, runs: Sequence[tuple[str, int]]) -> None:
        """Connect; find or create the experiment, its views, and the runs of every optimizer."""
        settings = self._settings
        mlflow = load_mlflow()
        if (path := sqlite_path(settings.uri)) is not None:
            path.absolute().parent.mkdir(parents=True, exist_ok=True)
        self._client = mlflow.MlflowClient(tracking_uri=settings.uri)
        self._experiment = self._find_or_create_experiment()
        for key, value in view_tags(settings.experiment_id, settings.space, self._now()).items():
            self._client.set_experiment_tag(self._experiment, key, value)
        self._open_runs(runs, self._known_runs())

    def write(self, outcome: Outcome, standing: Standing) -> bool:
        """Write a trial and its run's progress; False if the trial was there already."""
        run = self._runs[outcome.run]
        new = self._write_trial(outcome, standing, run.run_id)
        ended = records.milliseconds(outcome.finished_at)
        points = records.incumbent_points(run.standing, standing, ended)
        self._log(run.run_id, [point for point in points if (point.key, point.step) not in run.lines])
        run.take(outcome, standing, points)
        return new

    def close(self, status: str, artifacts: Sequence[Path], summary: Mapping[str, Any]) -> None:
        """Final values of every run, and the campaign's files."""
        mlflow_status = {"finished": "FINISHED", "interrupted": "KILLED"}.get(status, "FAILED")
        for run in self._runs.values():
            self._close_run(run, status)
            self._client.set_terminated(run.run_id, mlflow_status)
        self._log(self._campaign, [Point(key, value, self._now(), 0) for key, value in records.numbers(summary)])
        self._client.set_terminated(self._campaign, mlflow_status)
        for path in artifacts:
            self._client.log_artifact(self._campaign, str(path))

    def is_refusal(self, error: Exception) -> bool:
        """Whether MLflow answered that it will never take this; anything else may pass."""
        if isinstance(error, OSError):
            return False
        status = getattr(error, "get_http_status_code", lambda: 400)()
        return 400 <= status < 500 and status not in (408, 429)

    # -- finding what is there

    def _find_or_create_experiment(self) -> str:
        name, artifacts = self._settings.experiment, self._settings.artifacts
        found = self._client.get_experiment_by_name(name)
        if found is None:
            by_server = artifacts is None or self._settings.uri.startswith("http")
            location = None if by_server else artifacts.absolute().as_uri()
            return str(self._client.create_experiment(name, artifact_location=location))
        if found.lifecycle_stage != "active":
            raise TrackingError(
                f"tracking.experiment = {name!r}: it was deleted in the store; restore it with "
                f"'mlflow experiments restore -x {found.experiment_id}' or choose another name"
            )
        return str(found.experiment_id)

    def _search(self, *conditions: str) -> Iterator[Any]:
        """The runs of this run directory, page by page."""
        condition = " and ".join([f"tags.`{CAMPAIGN_ID}` = '{self._settings.experiment_id}'", *conditions])
        token = None
        while True:
            page = self._client.search_runs([self._experiment], condition, max_results=_PAGE, page_token=token)
            yield from page
            if not (token := page.token):
                return

    def _known_runs(self) -> dict[str, str]:
        """Sorts what is in the store: trials into `_written` and `_begun`; returns run name -> run id of the others."""
        known = {}
        for found in self._search():
            tags = found.data.tags
            if TRIAL not in tags:
                known[tags.get(RUN, tags[KIND])] = found.info.run_id
            elif found.info.end_time is None:
                self._begun[tags[RUN], int(tags[TRIAL])] = found.info.run_id
            else:
                self._written[tags[RUN], int(tags[TRIAL])] = found.info.run_id, tags.get("status", "")
        return known

    # -- the campaign and the optimizers

    def _open_runs(self, runs: Sequence[tuple[str, int]], known: Mapping[str, str]) -> None:
        optimizers = list(dict.fromkeys(optimizer for optimizer, _ in runs))
        self._colors = {name: records.COLORS[place % len(records.COLORS)] for place, name in enumerate(optimizers)}
        kind = records.CAMPAIGN_KIND
        self._campaign = self._open_run(known.get(kind), kind, {KIND: kind}, len(runs))
        for place, (optimizer, repeat) in enumerate(runs):
            name = run_name(optimizer, repeat)
            tags = {
                KIND: records.RUN_KIND,
                RUN: name,
                "optimizer": optimizer,
                "repeat": str(repeat),
                COLOR: self._colors[optimizer],
            }
            run_id = self._open_run(known.get(name), records.short_name(optimizer, repeat), tags, place)
            self._runs[name] = _Run(run_id, self._lines(run_id) if name in known else set())

    def _open_run(self, known: str | None, name: str, tags: Mapping[str, str], place: int) -> str:
        if known:
            self._client.update_run(known, status="RUNNING")
            return known
        # MLflow lists the latest first: a millisecond apart, they stand in the order given.
        return self._create(name, tags, self._now() - place)

    def _lines(self, run_id: str) -> set[tuple[str, int]]:
        keys = (records.INCUMBENT, records.INCUMBENT_BY_EPOCHS)
        return {(key, point.step) for key in keys for point in self._client.get_metric_history(run_id, key)}

    def _close_run(self, run: _Run, status: str) -> None:
        standing, best = run.standing, run.best
        if standing is None:
            return
        now, step = self._now(), math.floor(standing.evaluations)
        points = records.last_points(standing, now) if status == "finished" else []
        values: dict[str, float | None] = {"trials": len(run.trials), "epochs": standing.epochs}
        tags = {}
        if best and best.evaluation:
            values |= {
                "objective": best.evaluation.objective,
                "error": best.evaluation.error,
                "flops": best.evaluation.flops,
                "flops_ratio": best.evaluation.flops_ratio,
            }
            tags = {"best_trial": str(best.trial.id), "mlflow.note.content": records.best_note(best)}
        points += [Point(key, float(value), now, step) for key, value in values.items() if value is not None]
        self._log(run.run_id, points, tags=tags)

    # -- trials

    def _write_trial(self, outcome: Outcome, standing: Standing, parent: str) -> bool:
        key = (outcome.run, outcome.trial.id)
        run_id, status = self._written.get(key, (self._begun.get(key, ""), ""))
        # A trial that was lost or cancelled may have been tried again after a resume.
        if status and (status == outcome.status or outcome.status != FINISHED):
            return False
        record = records.trial_record(outcome, standing, self._settings.space)
        if run_id:
            self._log(run_id, record.points, record.params, record.tags)
        else:
            self._begun[key] = run_id = self._create_trial(key, record, parent)
            self._log(run_id, record.points, record.params)
        self._client.set_terminated(run_id, record.status, record.ended)
        self._written[key] = run_id, outcome.status
        return True

    def _create_trial(self, key: Key, record: records.TrialRecord, parent: str) -> str:
        if key in self._doubtful:
            for found in self._search(f"tags.`{RUN}` = '{key[0]}'", f"tags.`{TRIAL}` = '{key[1]}'"):
                return str(found.info.run_id)
        self._doubtful.add(key)
        color = self._colors[record.tags["optimizer"]]
        tags = {**record.tags, KIND: records.TRIAL_KIND, COLOR: color, "mlflow.parentRunId": parent}
        run_id = self._create(record.name, tags, record.started)
        self._doubtful.discard(key)
        return run_id

    # -- MLflow's calls

    def _create(self, name: str, tags: Mapping[str, str], started: int) -> str:
        common = {**self._settings.tags, CAMPAIGN_ID: self._settings.experiment_id, "mlflow.source.name": "fmnas"}
        run = self._client.create_run(self._experiment, started, {**common, **tags}, run_name=name)
        return str(run.info.run_id)

    def _log(
        self,
        run_id: str,
        points: Sequence[Point] = (),
        params: Mapping[str, str] | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        """One batch, or more where MLflow's limits ask for it; none if there is nothing to say."""
        from mlflow.entities import Metric, Param, RunTag

        metrics = _chunks([Metric(*point) for point in points], _METRICS_PER_BATCH)
        pairs = _chunks([Param(*pair) for pair in (params or {}).items()], _PARAMS_PER_BATCH)
        labels = _chunks([RunTag(*pair) for pair in (tags or {}).items()], _PARAMS_PER_BATCH)
        for batch in zip_longest(metrics, pairs, labels, fillvalue=()):
            self._client.log_batch(run_id, *batch, synchronous=True)

    def _now(self) -> int:
        return records.milliseconds(self._clock())


def _chunks(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    return (items[start : start + size] for start in range(0, len(items), size))
