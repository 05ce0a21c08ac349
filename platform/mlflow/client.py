"""One experiment in MLflow: the few calls of MlflowClient that are needed, in batches within MLflow's limits."""

import json
import logging
import os
import re
import shutil
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from itertools import count, zip_longest
from pathlib import Path
from platform import python_version
from statistics import fmean
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

from fmnas.platform.config.uri import is_server, sqlite_path
from fmnas.platform.mlflow.records import EXPERIMENT_ID, FILES, TEST_ERROR, Point, params
from fmnas.platform.mlflow.settings import TrackingSettings
from fmnas.platform.mlflow.ui import view_tags

NETWORK = "network"
"""The folder of a logged model's files."""


def load_mlflow() -> ModuleType:
    """Import mlflow, which takes seconds: without telemetry, quiet, and with short timeouts.

    It does not retry by itself: it would create a run twice if the first creation was not answered.
    """
    os.environ.update(MLFLOW_DISABLE_TELEMETRY="true", DO_NOT_TRACK="true")
    for name, value in {
        "MLFLOW_LOGGING_LEVEL": "ERROR",
        "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
        "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
        "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    }.items():
        os.environ.setdefault(name, value)
    logging.getLogger("urllib3").setLevel(logging.ERROR)  # a server that is down is reported once, at the end
    logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)  # it logs the traceback of what it raises
    import mlflow

    return mlflow


def prepare_own_store(settings: TrackingSettings) -> str:
    """Make the SQLite file of a run directory; return a line for the user if one that cannot be used was renamed.

    MLflow makes its tables in many steps: here in a temporary file, so that a kill leaves none half made. MLflow keeps
    absolute paths of artifacts, so the file of a directory that was moved or copied cannot be used either.
    """
    path, artifacts = sqlite_path(settings.uri), settings.artifacts
    assert path is not None
    assert artifacts is not None
    message, location = "", artifacts.resolve().as_uri()
    if path.exists():
        fault = _find_fault(path, settings.experiment, location)
        if not fault:
            return ""
        names = (f"{path.name}.broken-{number}" for number in count(1))
        broken = next(name for name in names if not path.with_name(name).exists())
        for part in filter(Path.exists, (path.with_name(path.name + end) for end in ("-journal", "-wal", "-shm", ""))):
            part.rename(part.with_name(part.name.replace(path.name, broken)))
        message = f"{path}: {fault}; it is now {broken}, and all trials are logged to a new one"
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    _create_store(new, location)
    os.replace(new, path)
    return message


def _create_store(path: Path, location: str) -> None:
    load_mlflow()
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    SqlAlchemyStore(f"sqlite:///{path}", location).engine.dispose()


def _find_fault(path: Path, experiment: str, location: str) -> str:
    """Return why the file cannot be used any more; empty if it can."""
    query = "select artifact_location from experiments where name = ?"
    try:
        with closing(sqlite3.connect(path, timeout=20.0)) as database:
            is_here = all(known.startswith(location) for (known,) in database.execute(query, [experiment]))
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_READONLY):
            raise
        return f"it cannot be read as an MLflow store ({error})"
    return "" if is_here else "the run directory was moved or copied since"


class MlflowExperiment:
    """The runs of one run directory, in the MLflow experiment of its name. client: MLflow's own."""

    def __init__(self, settings: TrackingSettings) -> None:
        """Connect, and create the experiment if it does not exist."""
        self._settings = settings
        self.client: Any = load_mlflow().MlflowClient(tracking_uri=settings.uri)
        existing = self.client.get_experiment_by_name(settings.experiment)
        if existing is not None:
            self.id = str(existing.experiment_id)
        else:
            folder = None if is_server(settings.uri) else settings.artifacts
            location = folder.resolve().as_uri() if folder else None
            self.id = str(self.client.create_experiment(settings.experiment, artifact_location=location))

    def is_reachable(self) -> bool:
        """Return whether the store answers."""
        try:
            self.client.get_experiment(self.id)
        except Exception:
            return False
        return True

    def label(self) -> None:
        """Set the tags of the experiment: its kind, metric, view, and its description unless a user wrote another."""
        existing = self.client.get_experiment(self.id).tags
        defaults = {
            "mlflow.experimentKind": "custom_model_development",  # MLflow chooses by it what to show
            "mlflow.experiment.primaryMetric.name": "objective",
            "mlflow.experiment.primaryMetric.greaterIsBetter": "False",
        }
        new = {key: value for key, value in defaults.items() if key not in existing}
        note, written = "mlflow.note.content", f"mlflow.note.written-{self._settings.experiment_id}"
        if self._settings.description and existing.get(note) in (None, existing.get(written)):
            new |= dict.fromkeys((note, written), self._settings.description)
        for key, value in {**new, **view_tags(self._settings.experiment_id)}.items():
            self.client.set_experiment_tag(self.id, key, value)

    def runs(self, tags: Mapping[str, str]) -> Iterator[Any]:
        """Yield the runs of this run directory that have these tags."""
        wanted = {EXPERIMENT_ID: self._settings.experiment_id, **tags}
        condition, token = " and ".join(f"tags.`{key}` = '{value}'" for key, value in wanted.items()), None
        while True:
            page = self.client.search_runs([self.id], condition, max_results=1000, page_token=token)
            yield from page
            if not (token := page.token):
                return

    def create(self, name: str, tags: Mapping[str, str], started: int) -> str:
        """Create a run and return its id. started: milliseconds since the epoch."""
        common = {EXPERIMENT_ID: self._settings.experiment_id, **self._settings.tags}
        nonempty = {key: value for key, value in {**common, **tags}.items() if value}
        return str(self.client.create_run(self.id, started, nonempty, run_name=name).info.run_id)

    def open(self, existing: Any, name: str, tags: Mapping[str, str], params: Mapping[str, str], started: int) -> str:
        """Return the id of a run, new or reopened, with tags and params, and the data set that it trains on.

        existing: MLflow's record of it; None if it is to be created. Params that it has do not change.
        """
        if existing is None:
            run_id, has_dataset = self.create(name, tags, started), False
        else:
            run_id, has_dataset = existing.info.run_id, bool(existing.inputs.dataset_inputs)
            self.client.update_run(run_id, status="RUNNING")
            params = {key: value for key, value in params.items() if key not in existing.data.params}
        self.log(run_id, params=params, tags=tags if existing else {})
        if not has_dataset:
            self.log_dataset(run_id)
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
            self.client.log_batch(run_id, *batch, synchronous=True)

    def log_model(
        self, name: str, run_id: str, errors: Sequence[float], configuration: Mapping[str, Any], folder: Path | None
    ) -> None:
        """Log a retrained network as an output of a run, once: its configuration, its test errors, and its files.

        errors: of each training. folder: of its files; None if they were not saved.
        `mlflow.pyfunc.load_model` loads the first training.
        """
        from mlflow.entities import LoggedModelOutput, Metric

        name, error = re.sub(r"[^\w-]", "-", name), fmean(errors)  # fewer characters are allowed here than elsewhere
        known = self.client.search_logged_models([self.id], f"source_run_id = '{run_id}' AND name = '{name}'")
        model = next((model for model in known if model.tags.get(TEST_ERROR) == str(error)), None)
        if model is not None and model.status == "READY" and (folder is None or FILES in model.tags):
            return
        if model is None:
            tags = {key: value for key, value in self._settings.tags.items() if value} | {TEST_ERROR: str(error)}
            model = self.client.create_logged_model(self.id, name, run_id, tags, params(configuration))
            values = {TEST_ERROR: error, **{f"{TEST_ERROR}_seed_{i}": value for i, value in enumerate(errors, 1)}}
            data = self._settings.dataset
            dataset = (data.name, data.digest) if data.name else (None, None)
            metrics = [Metric(key, value, 0, 0, model.model_id, *dataset) for key, value in values.items()]
            self.client.log_batch(run_id, metrics, synchronous=True)
            self.client.log_outputs(run_id, [LoggedModelOutput(model.model_id, 0)])
        if folder is not None:
            self._log_model_files(model.model_id, run_id, folder)
        self.client.finalize_logged_model(model.model_id, "READY")

    def _log_model_files(self, model_id: str, run_id: str, folder: Path) -> None:
        """Log the files, and MLmodel: MLflow's own, by which it finds `_load_pyfunc` of model.py."""
        flavor = {"loader_module": "model", "code": NETWORK, "data": NETWORK, "python_version": python_version()}
        facts = {"flavors": {"python_function": flavor}, "model_id": model_id, "run_id": run_id}
        with TemporaryDirectory() as temporary:
            shutil.copytree(folder, Path(temporary) / NETWORK)
            (Path(temporary) / "MLmodel").write_text(json.dumps(facts, indent=2))  # JSON is YAML
            self.client.log_model_artifacts(model_id, temporary)
        self.client.set_logged_model_tags(model_id, {FILES: NETWORK})

    def log_dataset(self, run_id: str) -> None:
        """Log the data set that a run trains on, if there is one; MLflow keeps equal ones once."""
        from mlflow.entities import Dataset, DatasetInput, InputTag

        data = self._settings.dataset
        if not data.name:
            return
        kind, source = data.source()
        texts = [json.dumps(facts) if facts else None for facts in (data.schema(), data.arrays)]
        dataset = Dataset(data.name, data.digest, kind, json.dumps(source), *texts)
        context = InputTag(key="mlflow.data.context", value="training")
        self.client.log_inputs(run_id, [DatasetInput(dataset=dataset, tags=[context])])


def _chunks(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    return (items[start : start + size] for start in range(0, len(items), size))
