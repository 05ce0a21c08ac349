"""What several tests of the platform share: MLflow's own server, and jobs given to a pool."""

import json
import os
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

from fmnas.platform.mlflow_ui import ui_command, ui_environment
from fmnas.platform.pool import Event, Job, Pool


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
            ui_command(self._store, "127.0.0.1", self.port),
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
        found = self._post("runs/search", {"experiment_ids": ids, "max_results": 1000}).get("runs", [])
        return [
            {**{tag["key"]: tag["value"] for tag in run["data"].get("tags", [])}, "is": run["info"]["status"]}
            for run in found
        ]

    def trials(self) -> Counter[tuple[str, str]]:
        """(run, trial) -> how often it is there."""
        return Counter((run["fmnas.run"], run["fmnas.trial"]) for run in self.runs() if "fmnas.trial" in run)


@pytest.fixture
def server_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Server]]:
    """server_on(store): a server, not yet started, and killed in the end."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    made: list[Server] = []

    def make(store: str) -> Server:
        made.append(Server(store, tmp_path))
        return made[-1]

    yield make
    for server in made:
        server.kill()


@pytest.fixture
def server(server_on: Callable[[str], Server], tmp_path: Path) -> Server:
    """On a SQLite file."""
    return server_on(f"sqlite:///{tmp_path / 'server.db'}")


def _give(pool: Pool, work: Job) -> None:
    for _ in range(600):
        if pool.capacity:
            break
        assert pool.next_event(timeout=0.5) is None
    pool.submit(work)


def _wait(pool: Pool) -> Event:
    for _ in range(600):
        event = pool.next_event(timeout=0.5)
        if event is not None:
            return event
    raise AssertionError("no event came")


def _answer(pool: Pool, work: Job) -> Event:
    _give(pool, work)
    event = _wait(pool)
    assert event.job == work
    return event


@pytest.fixture(scope="session")
def give() -> Callable[[Pool, Job], None]:
    """give(pool, job): to the first worker that is ready."""
    return _give


@pytest.fixture(scope="session")
def wait() -> Callable[[Pool], Event]:
    """wait(pool): the next event, whatever it is of."""
    return _wait


@pytest.fixture(scope="session")
def answer() -> Callable[[Pool, Job], Event]:
    """answer(pool, job): the event of this job, by the first worker that is ready."""
    return _answer
