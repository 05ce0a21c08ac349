"""One experiment in MLflow: the few calls of MlflowClient that are needed, in batches within MLflow's limits."""

import json
import logging
import os
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from types import ModuleType
from typing import Any

from fmnas.platform.config.uri import TrackingError, is_server, sqlite_path
from fmnas.platform.mlflow.records import EXPERIMENT_ID, TEST_ERROR, Point, params
from fmnas.platform.mlflow.ui import view_tags
from fmnas.search_spaces import Space


@dataclass(frozen=True)
class TrackingSettings:
    """Where an experiment is logged, and what all its runs have.

    uri: MLflow's tracking URI. experiment: the name of the MLflow experiment; it is created if it does not exist.
    experiment_id: unique id of the run directory, so that two directories of the same name never mix in one store.
    name: of the run directory's own run, the parent of all others. description: of the experiment, in a line.
    tags: of every run. experiment_tags: of the parent run. optimizers: the params of each optimizer's runs, by label.
    space: tells which variables are on a log scale. artifacts: folder for files, if MLflow is used without a server.
    dataset: name and digest; the name is empty for a problem without data.
    is_own: whether the store is the SQLite file in the run directory, which may be written again from the journal.
    """

    uri: str
    experiment: str
    experiment_id: str
    name: str = "experiment"
    description: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    experiment_tags: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, str] = field(default_factory=dict)
    optimizers: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    space: Space | None = None
    artifacts: Path | None = None
    dataset: tuple[str, str] = ("", "")
    is_own: bool = False


_LOCK_SECONDS = 20.0
"""How long to wait for a file that another process has locked."""
NO_TELEMETRY = {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"}


def load_mlflow() -> ModuleType:
    """Import mlflow, which takes seconds: without telemetry, quiet, and with short timeouts.

    It does not retry by itself: it would create a run twice if the first creation was not answered.
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
    logging.getLogger("urllib3").setLevel(logging.ERROR)  # a server that is down is reported once, at the end
    import mlflow

    return mlflow


def prepare_own_store(settings: TrackingSettings) -> str:
    """Make the file if it does not exist; return a line for the user if one that could not be used was replaced.

    MLflow makes its tables in many steps: in a temporary file, so that a kill leaves none half made. MLflow stores
    absolute paths of artifacts, so the store of a directory that was moved or copied is replaced, too.
    """
    path, artifacts = sqlite_path(settings.uri), settings.artifacts
    assert path is not None
    assert artifacts is not None
    fault = _fault(path, settings.experiment, artifacts.resolve().as_uri()) if path.exists() else ""
    if path.exists() and not fault:
        return ""
    number, broken = 1, path.with_name(f"{path.name}.broken")
    while broken.exists():
        number, broken = number + 1, path.with_name(f"{path.name}.broken-{number}")
    for suffix in ("-journal", "-wal", "-shm", ""):
        if (part := path.with_name(path.name + suffix)).exists():
            part.rename(broken.with_name(broken.name + suffix))
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)  # of a driver that was killed: we hold its lock
    _create(new, artifacts.resolve().as_uri())
    os.replace(new, path)
    return f"{path}: {fault}; it is now {broken.name}, and all trials are logged to a new one" if fault else ""


def _create(path: Path, artifacts: str) -> None:
    load_mlflow()
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    SqlAlchemyStore(f"sqlite:///{path}", artifacts).engine.dispose()


def _fault(path: Path, experiment: str, artifacts: str) -> str:
    """Why the file cannot be used any more; empty if it can."""
    query = "select artifact_location from experiments where name = ?"
    try:
        with closing(sqlite3.connect(path, timeout=_LOCK_SECONDS)) as database:
            locations = [location for (location,) in database.execute(query, [experiment])]
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_READONLY):
            raise
        return f"it cannot be read as an MLflow store ({error})"
    if any(not location.startswith(artifacts) for location in locations):
        return "the run directory was moved or copied since"
    return ""


class MlflowExperiment:
    """The runs of one run directory, in the MLflow experiment of its name."""

    def __init__(self, settings: TrackingSettings) -> None:
        """Connect, and create the experiment if it does not exist."""
        self._settings = settings
        self._client: Any = load_mlflow().MlflowClient(tracking_uri=settings.uri)
        self.id = self._find_or_create()

    def is_reachable(self) -> bool:
        """Return whether the store answers."""
        try:
            self._client.get_experiment(self.id)
        except Exception:
            return False
        return True

    def label(self) -> None:
        """Set the tags of the experiment: its kind, its metric, its view, and its description if it has none."""
        existing = self._client.get_experiment(self.id).tags
        defaults = {
            "mlflow.experimentKind": "custom_model_development",  # MLflow chooses by it what to show
            "mlflow.experiment.primaryMetric.name": "objective",
            "mlflow.experiment.primaryMetric.greaterIsBetter": "False",
            "mlflow.note.content": self._settings.description,
        }
        new = {key: value for key, value in defaults.items() if value and key not in existing}
        for key, value in {**new, **view_tags(self._settings.experiment_id)}.items():
            self._client.set_experiment_tag(self.id, key, value)

    def runs(self, tags: Mapping[str, str]) -> Iterator[Any]:
        """Yield the runs of this run directory that have these tags."""
        wanted = {EXPERIMENT_ID: self._settings.experiment_id, **tags}
        condition, token = " and ".join(f"tags.`{key}` = '{value}'" for key, value in wanted.items()), None
        while True:
            page = self._client.search_runs([self.id], condition, max_results=1000, page_token=token)
            yield from page
            if not (token := page.token):
                return

    def create(self, name: str, tags: Mapping[str, str], started: int) -> str:
        """Create a run and return its id. started: milliseconds since the epoch."""
        common = {EXPERIMENT_ID: self._settings.experiment_id, "mlflow.source.name": "fmnas", **self._settings.tags}
        given = {key: value for key, value in {**common, **tags}.items() if value}
        return str(self._client.create_run(self.id, started, given, run_name=name).info.run_id)

    def open(self, existing: Any, name: str, tags: Mapping[str, str], params: Mapping[str, str], started: int) -> str:
        """Return the id of a run, new or reopened, with tags and params, and the data set that it trains on.

        existing: MLflow's record of it; None if it is to be created. Params that it has do not change.
        """
        if existing is None:
            run_id, has_dataset = self.create(name, tags, started), False
        else:
            run_id, has_dataset = existing.info.run_id, bool(existing.inputs.dataset_inputs)
            self._client.update_run(run_id, status="RUNNING")
            params = {key: value for key, value in params.items() if key not in existing.data.params}
        self.log(run_id, params=params, tags=tags if existing else {})
        if self._settings.dataset[0] and not has_dataset:
            self._log_dataset(run_id, *self._settings.dataset)
        return run_id

    def log(
        self,
        run_id: str,
        points: Sequence[Point] = (),
        params: Mapping[str, str] | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        """Log everything in one batch, or more if MLflow's limits require it: 1,000 values, 100 params, 100 tags."""
        from mlflow.entities import Metric, Param, RunTag

        batches = zip_longest(
            _chunks([Metric(*point) for point in points], 800),
            _chunks([Param(*pair) for pair in (params or {}).items()], 100),
            _chunks([RunTag(*pair) for pair in (tags or {}).items()], 100),
            fillvalue=(),
        )
        for batch in batches:
            self._client.log_batch(run_id, *batch, synchronous=True)

    def end(self, run_id: str, status: str, ended: int) -> None:
        """End a run as FINISHED, FAILED or KILLED."""
        self._client.set_terminated(run_id, status, ended)

    def delete(self, run_id: str) -> None:
        """Move a run to MLflow's trash."""
        self._client.delete_run(run_id)

    def latest_values(self, run_id: str) -> Mapping[str, float]:
        """Return the latest value of each metric of a run."""
        return dict(self._client.get_run(run_id).data.metrics)

    def values(self, run_id: str, metric: str) -> dict[int, float]:
        """Return step -> the latest value of a metric of a run."""
        history = sorted(self._client.get_metric_history(run_id, metric), key=lambda point: point.timestamp)
        return {point.step: point.value for point in history}

    def upload(self, run_id: str, path: Path) -> None:
        """Keep a copy of a file with a run."""
        self._client.log_artifact(run_id, str(path))

    def log_model(self, name: str, run_id: str, test_error: float, configuration: Mapping[str, Any]) -> None:
        """Log a retrained network of a run, once: its configuration and its test error; its weights are not kept."""
        from mlflow.entities import Metric

        name = re.sub(r"[^\w-]", "-", name)  # fewer characters are allowed here than elsewhere
        known = self._client.search_logged_models([self.id], f"source_run_id = '{run_id}' AND name = '{name}'")
        if str(test_error) in {model.tags.get(TEST_ERROR) for model in known}:
            return
        tags = {**self._settings.tags, TEST_ERROR: str(test_error)}
        model = self._client.create_logged_model(self.id, name, run_id, tags, params(configuration))
        metric = Metric(TEST_ERROR, test_error, 0, 0, model_id=model.model_id)
        self._client.log_batch(run_id, [metric], synchronous=True)
        self._client.finalize_logged_model(model.model_id, "READY")

    def _log_dataset(self, run_id: str, name: str, digest: str) -> None:
        from mlflow.entities import Dataset, DatasetInput, InputTag

        source = json.dumps({"tags": {"mlflow.source.name": "fmnas"}})
        dataset = Dataset(name=name, digest=digest, source_type="code", source=source)
        context = InputTag(key="mlflow.data.context", value="training")
        self._client.log_inputs(run_id, [DatasetInput(dataset=dataset, tags=[context])])

    def _find_or_create(self) -> str:
        name, artifacts = self._settings.experiment, self._settings.artifacts
        existing = self._client.get_experiment_by_name(name)
        if existing is None:
            location = artifacts.resolve().as_uri() if artifacts and not is_server(self._settings.uri) else None
            return str(self._client.create_experiment(name, artifact_location=location))
        if existing.lifecycle_stage != "active":
            raise TrackingError(
                f"tracking.experiment = {name!r}: it was deleted in the store; restore it with "
                f"'mlflow experiments restore -x {existing.experiment_id}' or choose a different name"
            )
        return str(existing.experiment_id)


def _chunks(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    return (items[start : start + size] for start in range(0, len(items), size))
