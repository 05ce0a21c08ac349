"""Shared by the tests of logging to MLflow: a run directory whose journal a test writes, and what its store holds."""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

from fmnas.platform.experiment.events import asked_record, begun_record, driver_record, job_record
from fmnas.platform.experiment.journal import DriverWork, Journal
from fmnas.platform.experiment.run_directory import RunDirectory
from fmnas.platform.experiment.trial_result import Job
from fmnas.platform.mlflow.client import TrackingSettings
from fmnas.platform.mlflow.reconciler import Reconciler
from fmnas.platform.mlflow.sync import MlflowSync, TrackingReport
from fmnas.search_spaces import Evaluation, Nominal, Real, Space, Trial
from fmnas.search_spaces.records import CANCELLED, FINISHED, LOST

SPACE = Space([Real("rate", 1e-4, 1e-1, log=True), Real("momentum", 0.0, 1.0), Nominal("op", ["a", "b"])])
FULL = 10
"""Epochs of a full evaluation."""
CONFIG = {
    "optimizers": [{"name": "bo-fm"}, {"name": "bohb"}],
    "repeats": 1,
    "budget": {"evaluations": 3},
    "fidelity": {"epochs": FULL},
}


class LoggedExperiment:
    """A run directory whose journal a test writes, and its store."""

    def __init__(self, folder: Path, store: Path) -> None:
        self.directory = RunDirectory(folder)
        folder.mkdir()
        shutil.copy(store, folder / "mlflow.db")
        self.settings = TrackingSettings(
            self.directory.store,
            "an experiment",
            "abc",
            tags={"problem": "toy", "dataset": "", "commit": "deadbeef"},
            space=SPACE,
            artifacts=self.directory.artifacts,
            is_own=True,
        )
        self.append(begun_record("abc", CONFIG, 500.0), driver_record(DriverWork.EXPERIMENT, 500.0, {}))

    def append(self, *events: Mapping[str, Any]) -> None:
        """Append to the journal."""
        with Journal(self.directory.journal) as journal:
            for event in events:
                journal.append(event)

    def finish(self, optimizer: str, number: int, objective: float, epochs: int = FULL) -> None:
        """A trial that was asked, started and finished."""
        trial = Trial(number, {"rate": 0.01, "momentum": 0.25, "op": "b"}, epochs, "model", parent=3)
        curve = tuple(1 / epoch for epoch in range(1, epochs + 1))
        evaluation = Evaluation(objective, epochs, (0.1, 0.3), 1000, 0.5, curve, seconds=7.5)
        self._end(optimizer, trial, FINISHED, evaluation=evaluation.to_dict())

    def fail(self, optimizer: str, number: int, status: str) -> None:
        """A trial that ended without a result."""
        trial = Trial(number, {"rate": 0.02, "momentum": 0.5, "op": "a"}, FULL, "random")
        facts = {"final": True} if status == LOST else {} if status == CANCELLED else {"seconds": 1.0}
        self._end(optimizer, trial, status, reason="CUDA out of memory", **facts)

    def repeat(self, optimizer: str, number: int, objective: float) -> None:
        """A trial that was cancelled, as a resume finishes it."""
        job = Job(f"{optimizer}/repeat-0", Trial(number, {}, FULL, "random"), 2)
        self.append(
            job_record("started", job, "worker-1", 3000.0),
            job_record(FINISHED, job, "worker-1", 3001.0, evaluation=Evaluation(objective, FULL).to_dict()),
        )

    def _end(self, optimizer: str, trial: Trial, status: str, **facts: Any) -> None:
        job = Job(f"{optimizer}/repeat-0", trial)
        self.append(
            asked_record(job.run, trial, 0.5, 999.0 + trial.id),
            job_record("started", job, "worker-1", 1000.0 + trial.id),
            job_record(status, job, "worker-1", 1001.0 + trial.id, **facts),
        )

    def run_bo_fm(self, trials: int = 3) -> None:
        """Full evaluations, the second of which failed."""
        for number in range(trials):
            if number == 1:
                self.fail("bo-fm", 1, "failed")
            else:
                self.finish("bo-fm", number, 0.4 - 0.1 * number)

    def run_bohb(self) -> None:
        """A short training, then two full ones that end between two whole evaluations: after 0.4, 1.4 and 2.4."""
        self.finish("bohb", 0, 0.05, epochs=4)
        self.finish("bohb", 1, 0.3)
        self.finish("bohb", 2, 0.1)

    def log(self, status: str = "finished", flush_seconds: float = 60.0, **changes: Any) -> TrackingReport:
        """Log everything, as the end of an experiment or `fmnas sync` does. changes: to the settings."""
        reconciler = Reconciler(replace(self.settings, **changes), self.directory)
        trials = self.directory.journal.read_text().count('"started"')
        return MlflowSync(reconciler, flush_seconds).finish(status, trials)

    def read_store(self) -> "Store":
        """What the store holds."""
        return Store(self.settings.uri)


class Store:
    """MLflow's own view of a store."""

    def __init__(self, uri: str) -> None:
        self.client = MlflowClient(tracking_uri=uri)
        self.experiment = self.client.get_experiment_by_name("an experiment")
        runs = self.client.search_runs([self.experiment.experiment_id], max_results=1000)
        self.runs = {run.info.run_name: run for run in runs}
        assert len(self.runs) == len(runs), "a run is there twice"

    def line(self, run: str, metric: str) -> list[tuple[int, float]]:
        """Every point of a metric."""
        history = self.client.get_metric_history(self.runs[run].info.run_id, metric)
        return sorted((point.step, point.value) for point in history)

    def lines(self, run: str) -> dict[str, list[tuple[int, float]]]:
        """Every point of every metric of a run."""
        return {metric: self.line(run, metric) for metric in self.runs[run].data.metrics}

    def files(self, run: str) -> dict[str, Path]:
        """The files of a run, by name."""
        folder = Path(self.runs[run].info.artifact_uri.removeprefix("file://"))
        return {path.name: path for path in folder.iterdir()}


@pytest.fixture
def experiment(tmp_path: Path, whole_store: Path, quick_stores: None) -> LoggedExperiment:
    """A run directory whose journal says that it has begun."""
    return LoggedExperiment(tmp_path / "run", whole_store)


@pytest.fixture(scope="session")
def new_experiment(whole_store: Path) -> Callable[[Path], LoggedExperiment]:
    """new_experiment(folder): the same in a folder, which must not exist."""
    return lambda folder: LoggedExperiment(folder, whole_store)
