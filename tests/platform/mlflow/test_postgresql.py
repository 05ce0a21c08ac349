"""MLflow on PostgreSQL: the database goes away in the middle and comes back."""

import csv
import os
import pwd
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from fmnas.platform.cli import main
from fmnas.platform.mlflow.client import load_mlflow
from fmnas.search_spaces import Evaluation, Trial
from fmnas.trainers.functions.synthetic import FunctionTrainer

pytestmark = [pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy:DeprecationWarning"), pytest.mark.slow]
PLACES = [*os.get_exec_path(), *map(str, Path("/usr/lib/postgresql").glob("*/bin"))]


def program(name: str) -> str:
    """Its path; skips the test where it is missing."""
    path = shutil.which(name, path=os.pathsep.join(PLACES))
    if path is None:
        pytest.skip(f"PostgreSQL's {name} is not on this machine")
    return str(Path(path).resolve())


class Postgres:
    """A database cluster for a test; it refuses to be run by root."""

    def __init__(self, folder: Path) -> None:
        self._data = folder / "data"
        self._initdb, self._control = program("initdb"), program("pg_ctl")
        self._user = "nobody" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
        if os.geteuid() == 0:
            shutil.chown(folder, self._user)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self._folder = folder
        self._call(self._initdb, "-D", str(self._data), "-U", "mlflow", "--auth=trust", "--no-sync")
        self.store = f"postgresql+psycopg2://mlflow@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        """Until it answers."""
        options = f"-p {self.port} -k {self._folder} -c listen_addresses=127.0.0.1 -c fsync=off"
        self._call(self._control, "start", "-w", "-D", str(self._data), "-l", str(self._folder / "log"), "-o", options)

    def stop(self) -> None:
        """At once, connections or not."""
        self._call(self._control, "stop", "-w", "-m", "immediate", "-D", str(self._data))

    def _call(self, *command: str) -> None:
        user = self._user if os.geteuid() == 0 else None
        devnull = subprocess.DEVNULL
        subprocess.run(command, user=user, check=True, stdout=devnull, stderr=devnull, cwd=self._folder)


@pytest.fixture
def postgres() -> Iterator[Postgres]:
    pytest.importorskip("psycopg2", reason="psycopg2-binary is not installed")
    # Not below pytest's own folder: only its owner may enter that.
    with tempfile.TemporaryDirectory(prefix="fmnas-postgres-") as folder:
        made = Postgres(Path(folder))
        made.start()
        yield made
        made.stop()


def trials(uri: str) -> Counter[tuple[str, str]]:
    """(run, trial) -> how often it is in the store, finished."""
    client = load_mlflow().MlflowClient(tracking_uri=uri)
    ids = [experiment.experiment_id for experiment in client.search_experiments()]
    tags = [run.data.tags for run in client.search_runs(ids, max_results=1000) if run.info.status == "FINISHED"]
    return Counter((tag["fmnas.run"], tag["fmnas.trial"]) for tag in tags if "fmnas.trial" in tag)


def test_a_database_that_stops_and_starts_is_sent_everything_once(
    postgres: Postgres,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It stops at the fifth trial and starts at the fifteenth; what was asked for meanwhile is sent when it is back."""
    uri, out, evaluate = postgres.store, tmp_path / "run", FunctionTrainer.evaluate

    def evaluate_meanwhile(self: FunctionTrainer, trial: Trial) -> Evaluation:
        if trial.id == 5:
            while sum(trials(uri).values()) < 3:
                time.sleep(0.1)
            postgres.stop()
        if trial.id == 15:
            time.sleep(0.5)  # attempts fail meanwhile
            postgres.start()
        return evaluate(self, trial)

    monkeypatch.setattr(FunctionTrainer, "evaluate", evaluate_meanwhile)
    monkeypatch.setattr("fmnas.platform.mlflow.sync.LONGEST_PAUSE", 0.5)
    overrides = ["workers.kind=in-process", "optimizers=[random]", "budget.evaluations=20", f"tracking.uri={uri}"]
    flags = [flag for override in overrides for flag in ("-o", override)]
    assert main(["run", "smoke", *flags, "--out", str(out)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "fmnas sync" not in printed, printed
    with (out / "trials.csv").open() as file:
        expected = Counter((row["run"], row["trial"]) for row in csv.DictReader(file))
    assert sorted(expected.values()) == [1] * 20
    assert trials(uri) == expected
    assert main(["sync", str(out)]) == 0
    assert re.findall(r"\b\d+\b", capsys.readouterr().out.splitlines()[-1])[-3:] == ["0", "20", "0"]
    assert trials(uri) == expected
