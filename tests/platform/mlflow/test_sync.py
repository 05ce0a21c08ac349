"""A tracking server that goes down and comes back: the experiment does not notice, and nothing is missing or twice."""

import csv
import re
import socket
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from mlflow.exceptions import MlflowException

from fmnas.platform.cli import main
from fmnas.platform.errors import ExperimentFailed
from fmnas.platform.mlflow.client import load_mlflow
from fmnas.search_spaces import Evaluation, Trial
from fmnas.trainers.functions.synthetic import FunctionTrainer

pytestmark = pytest.mark.slow


def table(out: Path) -> Counter[tuple[str, str]]:
    with (out / "trials.csv").open() as file:
        return Counter((row["run"], row["trial"]) for row in csv.DictReader(file))


def counts(printed: str) -> tuple[int, ...]:
    """Trials logged, logged before and missed, as the last line of `fmnas sync` has them."""
    return tuple(map(int, re.findall(r"\b\d+\b", printed.splitlines()[-1])[-3:]))


def test_a_server_that_comes_and_goes_is_sent_everything_once(
    server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Down when the experiment begins, up from its fifth trial on, killed at its fifteenth, up again for the sync."""
    out = tmp_path / "run"
    evaluate = FunctionTrainer.evaluate

    def evaluate_meanwhile(self: FunctionTrainer, trial: Trial) -> Evaluation:
        if trial.id == 5:
            server.start()
        if trial.id == 10:
            while not server.trials():
                time.sleep(0.05)
        if trial.id == 15:
            server.kill()
        return evaluate(self, trial)

    monkeypatch.setattr(FunctionTrainer, "evaluate", evaluate_meanwhile)
    monkeypatch.setattr("fmnas.platform.mlflow.sync.LONGEST_PAUSE", 0.5)
    overrides = ["workers.kind=in-process", "optimizers=[random]", "budget.evaluations=20"]
    flags = [flag for override in (*overrides, f"tracking.uri={server.url}") for flag in ("-o", override)]
    assert main(["run", "smoke", *flags, "--out", str(out)]) == 0
    assert sorted(table(out).values()) == [1] * 20
    assert f"fmnas sync {out}" in " ".join(capsys.readouterr().out.split())
    assert main(["sync", str(out)]) == 1
    capsys.readouterr()
    server.start()
    before = server.trials()
    assert 0 < len(before) <= 15
    assert set(before.values()) == {1}
    for again in (False, True):
        assert main(["sync", str(out)]) == 0
        printed = capsys.readouterr().out
        logged, present, missed = counts(printed)
        assert (logged + present, missed, logged == 0) == (20, 0, again)
        assert server.trials() == table(out)
    assert Counter(run["is"] for run in server.runs()) == {"FINISHED": 20 + 1 + 1 + 1}, "trials, run, mean, experiment"


def test_a_creation_that_was_not_answered_is_not_sent_again_behind_our_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that takes what is sent and hangs up: whether it created the run, only a look at it can tell."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    taken: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def take() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    taken.append(connection.recv(100_000))

        thread = threading.Thread(target=take, daemon=True)
        thread.start()
        client = load_mlflow().MlflowClient(tracking_uri=f"http://127.0.0.1:{listener.getsockname()[1]}")
        with pytest.raises(MlflowException):
            client.create_run("1")
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
    assert len([request for request in taken if b"runs/create" in request]) == 1


@pytest.mark.usefixtures("quick_stores")
def test_what_a_killed_driver_could_not_send_is_sent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    arguments = ["run", "smoke", "-o", "workers.kind=in-process", "-o", "optimizers=[random]", "--out", str(out)]
    assert main([*arguments, "-o", "tracking.enabled=false"]) == 0
    for name in ("trials.csv", "summary.json"):
        (out / name).unlink()
    capsys.readouterr()
    assert main(["sync", str(out)]) == 2
    assert "tracking.enabled = false" in capsys.readouterr().err
    config = yaml.safe_load((out / "config.yaml").read_text())
    config["tracking"]["enabled"] = True
    (out / "config.yaml").write_text(yaml.safe_dump(config))
    assert main(["sync", str(out)]) == 0
    assert counts(capsys.readouterr().out) == (8, 0, 0)
    assert main(["sync", str(out)]) == 0
    assert counts(capsys.readouterr().out) == (0, 8, 0)
    assert len(table(out)) == 8


def test_trials_are_logged_even_if_the_report_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick_stores: None
) -> None:
    def fail(*_: object) -> None:
        raise ExperimentFailed("the disk is full")

    monkeypatch.setattr("fmnas.platform.observers.write_results", fail)
    arguments = ["run", "smoke", "-o", "workers.kind=in-process", "-o", "optimizers=[random]"]
    assert main([*arguments, "--out", str(tmp_path / "run")]) == 1
    client = load_mlflow().MlflowClient(tracking_uri=f"sqlite:///{tmp_path}/run/mlflow.db")
    ids = [experiment.experiment_id for experiment in client.search_experiments()]
    assert sum("fmnas.trial" in run.data.tags for run in client.search_runs(ids)) == 8
