"""One experiment in MLflow: which store it goes to, and the few calls we make, with MLflow's limits kept.

Creating a run, one batch and the end of the run: three round trips per
trial, where MLflow's fluent functions make one per value.
"""

import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from types import ModuleType
from typing import Any

from fmnas.platform.config.uri import TrackingError, check_uri, is_server
from fmnas.platform.mlflow.records import DESCRIPTION, EXPERIMENT_ID, Point
from fmnas.platform.mlflow.views import is_ours, page_note, view_tags
from fmnas.search_spaces import Space


@dataclass(frozen=True)
class TrackingSettings:
    """Where the trials go and what every run carries.

    uri: MLflow's tracking URI.
    experiment: the MLflow experiment's name; it is created if absent.
    experiment_id: unique id of the run directory, so that two directories of the same name never mix in one store.
    name: of the run directory's own run, the parent of all others; the experiment's unless given.
    description: what the experiment is, in a line of plain text.
    tags: put on every run, e.g. problem, dataset, commit.
    space: tells which parameters are on a log scale; None if nothing is.
    artifacts: folder for the files of a store that MLflow reaches without a server; a server has its own.
    params: of the run directory's own run: the configuration, key by key. optimizers: of each optimizer's runs, by its
    label.
    dataset: what the trials train on, in MLflow's terms a name and a digest; empty for a synthetic problem.
    extensions: how often the experiment was extended.
    own: whether the store is a SQLite file of the run directory's own, which may be made anew from the journal.
    """

    uri: str
    experiment: str
    experiment_id: str
    tags: Mapping[str, str] = field(default_factory=dict)
    space: Space | None = None
    artifacts: Path | None = None
    params: Mapping[str, str] = field(default_factory=dict)
    optimizers: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    dataset: tuple[str, str] = ("", "")
    extensions: int = 0
    own: bool = False
    name: str = ""
    description: str = ""

    def __post_init__(self) -> None:
        check_uri(self.uri)
        if not re.fullmatch(r"[\w.-]{1,64}", self.experiment_id, re.ASCII):
            raise TrackingError(
                f"experiment id {self.experiment_id!r}: it must be 1 to 64 letters, digits, '_', '-' or '.'"
            )


NO_TELEMETRY = {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"}
"""The environment of what runs MLflow, which takes the word true and not 1."""


def load_mlflow() -> ModuleType:
    """mlflow, imported on first use (it takes seconds) with telemetry off, quiet, and with short waits.

    Retries are ours (`tracker.py`), with growing pauses: MLflow's own would hold the thread for minutes, and
    would create a run twice whose first creation was not answered.
    """
    os.environ.update(NO_TELEMETRY)
    for name, value in {
        "MLFLOW_LOGGING_LEVEL": "ERROR",
        "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
        "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
        "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
        "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    }.items():
        os.environ.setdefault(name, value)
    # A server that is down is no news to a person at every attempt; what was missed is said at the end.
    logging.getLogger("urllib3").setLevel(logging.ERROR)
    import mlflow

    return mlflow


_METRICS_PER_BATCH, _PARAMS_PER_BATCH, _TAGS_PER_BATCH = 800, 100, 100
"""MLflow takes 1,000 metrics, 100 params and 100 tags in a batch, and 1,000 of all together."""

_RUNS_PER_PAGE = 1000
_EXPERIMENT_KIND = "mlflow.experimentKind"


class MlflowExperiment:
    """The runs of one run directory in the MLflow experiment of its name, which is created if absent."""

    def __init__(self, settings: TrackingSettings) -> None:
        """Connect. Takes seconds the first time, for MLflow's import."""
        self._settings = settings
        mlflow = load_mlflow()
        self._client: Any = mlflow.MlflowClient(tracking_uri=settings.uri)
        self.id = self._find_or_create()

    def publish_pages(self, now: int) -> None:
        """Store our pages, and the experiment's description unless someone wrote their own.

        And that the experiment is of trainings, unless it has another kind: by that MLflow chooses what to show of it.
        """
        settings, there = self._settings, self._client.get_experiment(self.id).tags
        tags = view_tags(settings.experiment_id, settings.space, now)
        if _EXPERIMENT_KIND not in there:
            tags[_EXPERIMENT_KIND] = "custom_model_development"
        if is_ours(there.get(DESCRIPTION, "")):
            tags[DESCRIPTION] = page_note(settings.description or settings.experiment)
        for key, value in tags.items():
            self._client.set_experiment_tag(self.id, key, value)

    def runs(self, *conditions: str) -> Iterator[Any]:
        """The runs of this run directory, page by page."""
        ours = f"tags.`{EXPERIMENT_ID}` = '{self._settings.experiment_id}'"
        token = None
        while True:
            page = self._client.search_runs(
                [self.id], " and ".join([ours, *conditions]), max_results=_RUNS_PER_PAGE, page_token=token
            )
            yield from page
            if not (token := page.token):
                return

    def create(self, name: str, tags: Mapping[str, str], started: int) -> str:
        """A new run's id; `started` in milliseconds since the epoch. Empty tags are left out."""
        settings = self._settings
        common = {**settings.tags, EXPERIMENT_ID: settings.experiment_id, "mlflow.source.name": "fmnas"}
        given = {key: value for key, value in {**common, **tags}.items() if value}
        run = self._client.create_run(self.id, started, given, run_name=name)
        return str(run.info.run_id)

    def reopen(self, run_id: str) -> None:
        """Mark a run as running again."""
        self._client.update_run(run_id, status="RUNNING")

    def describe(self, run_id: str, params: Mapping[str, str]) -> None:
        """Note a run's params and what it trains on; what is there already stays, as MLflow has it."""
        run, (name, digest) = self._client.get_run(run_id), self._settings.dataset
        self.log(run_id, params={key: value for key, value in params.items() if key not in run.data.params})
        if name and not run.inputs.dataset_inputs:
            from mlflow.entities import Dataset, DatasetInput, InputTag

            dataset = Dataset(name=name, digest=digest, source_type="local", source="{}")
            context = InputTag(key="mlflow.data.context", value="training")
            self._client.log_inputs(run_id, [DatasetInput(dataset=dataset, tags=[context])])

    def terminate(self, run_id: str, status: str, ended: int | None = None) -> None:
        """End a run as FINISHED, FAILED or KILLED."""
        self._client.set_terminated(run_id, status, ended)

    def log(
        self,
        run_id: str,
        points: Sequence[Point] = (),
        params: Mapping[str, str] | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        """One batch; more where MLflow's limits ask for it, none if there is nothing to say."""
        from mlflow.entities import Metric, Param, RunTag

        batches = zip_longest(
            _chunks([Metric(*point) for point in points], _METRICS_PER_BATCH),
            _chunks([Param(*pair) for pair in (params or {}).items()], _PARAMS_PER_BATCH),
            _chunks([RunTag(*pair) for pair in (tags or {}).items()], _TAGS_PER_BATCH),
            fillvalue=(),
        )
        for batch in batches:
            self._client.log_batch(run_id, *batch, synchronous=True)

    def replace_tags(self, run_id: str, tags: Mapping[str, str]) -> None:
        """Set tags; an empty one is removed."""
        there = self._client.get_run(run_id).data.tags
        self.log(run_id, tags={key: value for key, value in tags.items() if value})
        for key in there.keys() & {key for key, value in tags.items() if not value}:
            self._client.delete_tag(run_id, key)

    def latest(self, run_id: str) -> Mapping[str, float]:
        """The latest value of each of a run's metrics."""
        return dict(self._client.get_run(run_id).data.metrics)

    def values(self, run_id: str, metric: str) -> dict[int, float]:
        """Step -> the latest value that a run's metric has there."""
        history = sorted(self._client.get_metric_history(run_id, metric), key=lambda point: point.timestamp)
        return {point.step: point.value for point in history}

    def upload(self, run_id: str, path: Path) -> None:
        """Keep a copy of a file with a run."""
        self._client.log_artifact(run_id, str(path))

    def _find_or_create(self) -> str:
        name, artifacts = self._settings.experiment, self._settings.artifacts
        found = self._client.get_experiment_by_name(name)
        if found is None:
            location = artifacts.resolve().as_uri() if artifacts and not is_server(self._settings.uri) else None
            return str(self._client.create_experiment(name, artifact_location=location))
        if found.lifecycle_stage != "active":
            raise TrackingError(
                f"tracking.experiment = {name!r}: it was deleted in the store; restore it with "
                f"'mlflow experiments restore -x {found.experiment_id}' or choose another name"
            )
        return str(found.experiment_id)


def _chunks(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    return (items[start : start + size] for start in range(0, len(items), size))
