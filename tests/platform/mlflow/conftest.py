"""Shared by the tests of logging to MLflow: a run directory whose journal a test writes, and what its store holds."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

from fmnas.platform.environment import current_software
from fmnas.platform.experiment.events import (
    FORMAT,
    Asked,
    Begun,
    Cancelled,
    DriverStarted,
    DriverWork,
    Event,
    Failed,
    Finished,
    Lost,
    Started,
)
from fmnas.platform.experiment.journal import Journal
from fmnas.platform.experiment.run_directory import RunDirectory
from fmnas.platform.mlflow.reconciler import Reconciler
from fmnas.platform.mlflow.settings import TrackingSettings
from fmnas.platform.mlflow.sync import MlflowSync, TrackingReport
from fmnas.search_spaces import Evaluation, Trial
from fmnas.search_spaces.records import CANCELLED, LOST

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
            artifacts=self.directory.artifacts,
            is_own=True,
        )
        self.append(
            Begun("abc", FORMAT, CONFIG, 500.0), DriverStarted(DriverWork.EXPERIMENT, current_software(), 500.0)
        )

    def append(self, *events: Event) -> None:
        """Append to the journal."""
        with Journal(self.directory.journal) as journal:
            for event in events:
                journal.append(event)

    def finish(self, optimizer: str, number: int, objective: float, epochs: int = FULL) -> None:
        """A trial that was asked, started and finished."""
        trial = Trial(number, {"rate": 0.01, "momentum": 0.25, "op": "b"}, epochs, "model", parent=3)
        curve = tuple(1 / epoch for epoch in range(1, epochs + 1))
        evaluation = Evaluation(objective, epochs, (0.1, 0.3), 1000, 0.5, curve, seconds=7.5)
        self._begin(optimizer, trial)
        self.append(Finished(f"{optimizer}/repeat-0", number, 1, "worker-1", evaluation, 1001.0 + number))

    def fail(self, optimizer: str, number: int, status: str) -> None:
        """A trial that ended without a result."""
        self._begin(optimizer, Trial(number, {"rate": 0.02, "momentum": 0.5, "op": "a"}, FULL, "random"))
        key, reason, at = (f"{optimizer}/repeat-0", number, 1, "worker-1"), "CUDA out of memory", 1001.0 + number
        if status == LOST:
            self.append(Lost(*key, reason, True, at))
        elif status == CANCELLED:
            self.append(Cancelled(*key, reason, at))
        else:
            self.append(Failed(*key, reason, 1.0, at, status))

    def repeat(self, optimizer: str, number: int, objective: float) -> None:
        """A trial that was cancelled, as a resume finishes it."""
        key = (f"{optimizer}/repeat-0", number, 2, "worker-1")
        self.append(Started(*key, 3000.0), Finished(*key, Evaluation(objective, FULL), 3001.0))

    def _begin(self, optimizer: str, trial: Trial) -> None:
        run = f"{optimizer}/repeat-0"
        self.append(Asked(run, trial, 0.5, 999.0 + trial.id), Started(run, trial.id, 1, "worker-1", 1000.0 + trial.id))

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


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fmnas.platform.mlflow.sync.POLL_SECONDS", 0.05)
    monkeypatch.setattr("fmnas.platform.mlflow.sync.RETRY_SECONDS", 0.05)


@pytest.fixture
def experiment(tmp_path: Path, whole_store: Path, quick_stores: None) -> LoggedExperiment:
    """A run directory whose journal says that it has begun."""
    return LoggedExperiment(tmp_path / "run", whole_store)


@pytest.fixture(scope="session")
def new_experiment(whole_store: Path) -> Callable[[Path], LoggedExperiment]:
    """new_experiment(folder): the same in a folder, which must not exist."""
    return lambda folder: LoggedExperiment(folder, whole_store)
