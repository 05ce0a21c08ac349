"""What tests of the platform share: MLflow's own server, jobs given to a pool, and the driver on a scripted pool."""

import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest
import scripted
from support import journal_dicts, write_journal

from fmnas.comparison import figures
from fmnas.platform.cli import main
from fmnas.platform.config.schema import Config
from fmnas.platform.experiment.events import event_from_dict
from fmnas.platform.experiment.state import ExperimentState
from fmnas.platform.experiment.trial_result import Job
from fmnas.platform.mlflow.client import load_mlflow
from fmnas.platform.mlflow.ui import ui_command, ui_environment
from fmnas.platform.workers.pool import JobEnded, Pool

FIGURES = figures.FIGURES
"""Of a whole report."""


@pytest.fixture(scope="module", autouse=True)
def _one_figure() -> Iterator[None]:
    """A report has one figure: drawing all takes most of a short run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figures, "FIGURES", FIGURES[1:2])
        yield


@pytest.fixture
def all_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a test that looks at whole reports."""
    monkeypatch.setattr(figures, "FIGURES", FIGURES)


class Server:
    """MLflow's own server on a store; it can be killed and started again."""

    def __init__(self, store: str, folder: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._store, self._folder = store, folder
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Until it answers."""
        self._process = subprocess.Popen(
            ui_command(self.port),
            env=ui_environment(self._store),
            cwd=self._folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        while True:
            assert self._process.poll() is None
            try:
                with urlopen(f"{self.url}/health", timeout=2):
                    return
            except (URLError, OSError):
                time.sleep(0.1)

    def kill(self) -> None:
        """At once, and whatever it was doing."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        request = Request(
            f"{self.url}/api/2.0/mlflow/{path}", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urlopen(request, timeout=30) as answer:
            return dict(json.load(answer))

    def runs(self) -> list[dict[str, Any]]:
        """Every run of every experiment: its tags, and its status."""
        experiments = self._post("experiments/search", {"max_results": 100}).get("experiments", [])
        ids = [experiment["experiment_id"] for experiment in experiments]
        runs_found = self._post("runs/search", {"experiment_ids": ids, "max_results": 1000}).get("runs", [])
        return [
            {**{tag["key"]: tag["value"] for tag in run["data"].get("tags", [])}, "is": run["info"]["status"]}
            for run in runs_found
        ]

    def trials(self) -> Counter[tuple[str, str]]:
        """(run, trial) -> how often it is there."""
        return Counter((run["fmnas.run"], run["fmnas.trial"]) for run in self.runs() if "fmnas.trial" in run)


@pytest.fixture(scope="session")
def whole_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """MLflow makes its tables once; the tests copy the file."""
    path = tmp_path_factory.mktemp("store") / "mlflow.db"
    load_mlflow()
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    SqlAlchemyStore(f"sqlite:///{path}", str(path.parent)).engine.dispose()
    return path


@pytest.fixture
def quick_stores(whole_store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """New stores of run directories are copies of that one."""

    def copy(path: Path, artifacts: str) -> None:
        shutil.copy(whole_store, path)

    monkeypatch.setattr("fmnas.platform.mlflow.client._create_store", copy)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole_store: Path) -> Iterator[Server]:
    """A server on a SQLite file whose tables are there; not yet started, and killed in the end."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    shutil.copy(whole_store, tmp_path / "server.db")
    made = Server(f"sqlite:///{tmp_path / 'server.db'}", tmp_path)
    yield made
    made.kill()


def _give(pool: Pool, work: Job) -> None:
    for _ in range(600):
        if pool.capacity:
            break
        assert pool.next_event(timeout=0.5) is None
    pool.submit(work)


def _wait(pool: Pool) -> JobEnded:
    for _ in range(600):
        event = pool.next_event(timeout=0.5)
        if event is not None:
            return event
    raise AssertionError("no event came")


def _answer(pool: Pool, work: Job) -> JobEnded:
    _give(pool, work)
    event = _wait(pool)
    assert event.job == work
    return event


@pytest.fixture(scope="session")
def give() -> Callable[[Pool, Job], None]:
    """give(pool, job): to the first worker that is ready."""
    return _give


@pytest.fixture(scope="session")
def wait() -> Callable[[Pool], JobEnded]:
    """wait(pool): the next event, whatever it is of."""
    return _wait


@pytest.fixture(scope="session")
def answer() -> Callable[[Pool, Job], JobEnded]:
    """answer(pool, job): the event of this job, by the first worker that is ready."""
    return _answer


@pytest.fixture(scope="session")
def configured() -> Callable[..., Config]:
    """configured(**changes): a small experiment with every optimizer."""
    return scripted.configured


@pytest.fixture(scope="session")
def drive() -> Callable[..., tuple[str, ExperimentState, scripted.ScriptedPool]]:
    """drive(config, journal, capacity, fate, stop, elapsed, knowledge): to the end from whatever the journal holds."""
    return scripted.drive


@pytest.fixture(scope="session")
def asks() -> Callable[[Path], list[tuple[str, str]]]:
    """asks(journal): (run, trial as JSON) in the order asked."""
    return scripted.asks


@pytest.fixture(scope="session")
def results() -> Callable[[Path], dict[tuple[str, int], Any]]:
    """results(journal): (run, trial) -> objective; fails on a trial that finished twice."""
    return scripted.results


def _forge(journal: Path, change: Callable[[str], str]) -> None:
    events = [json.loads(change(json.dumps(event, separators=(",", ":")))) for event in journal_dicts(journal)]
    write_journal(journal, list(map(event_from_dict, events)))


@pytest.fixture(scope="session")
def forge() -> Callable[[Path, Callable[[str], str]], None]:
    """forge(journal, change): every record after a change of its text, with a checksum that fits."""
    return _forge


def _own_config(*optimizers: Any) -> dict[str, Any]:
    return {
        "name": "own",
        "problem": "func2c",
        "optimizers": list(optimizers),
        "repeats": 2,
        "initial_design": 3,
        "budget": {"evaluations": 8},
        "fidelity": {"epochs": 1},
        "workers": {"kind": "in-process"},
        "tracking": {"enabled": False},
    }


def _run_own(tmp_path: Path, *optimizers: Any) -> int:
    path = tmp_path / "own.yaml"
    path.write_text(json.dumps(_own_config(*optimizers)))
    return main(["run", str(path), "--out", str(tmp_path / "run"), "--progress", "quiet"])


@pytest.fixture(scope="session")
def own_config() -> Callable[..., dict[str, Any]]:
    """own_config(*optimizers): a small experiment of these, as plain data."""
    return _own_config


@pytest.fixture(scope="session")
def run_own() -> Callable[..., int]:
    """run_own(tmp_path, *optimizers): runs that in tmp_path / "run"; the exit code."""
    return _run_own


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A copy of own_optimizers.py."""
    return Path(shutil.copy(Path(__file__).with_name("own_optimizers.py"), tmp_path / "mine.py"))
