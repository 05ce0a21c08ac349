"""The SQLite store of a run directory: complete or absent, replaced if it cannot be used, and never outside."""

import shutil
import signal
import subprocess
import sys
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from mlflow import MlflowClient

from fmnas.platform.cli import main
from fmnas.platform.config.load import check_config
from fmnas.platform.config.schema import Config
from fmnas.platform.experiment.run_directory import RunDirectory
from fmnas.platform.mlflow.client import prepare_own_store

pytestmark = [pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy:DeprecationWarning"), pytest.mark.slow]
TRIALS = 11
QUICK = ["run", "smoke", "-o", "workers.kind=in-process", "-o", "optimizers=[random]", "-o", "budget.evaluations=11"]


@pytest.fixture(autouse=True)
def _without_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fmnas.comparison.report.draw_figures", lambda *_: [])


def runs(store: Path) -> list[Any]:
    client = MlflowClient(tracking_uri=f"sqlite:///{store}")
    ids = [experiment.experiment_id for experiment in client.search_experiments()]
    return list(client.search_runs(ids, max_results=1000))


def trials(store: Path) -> int:
    return sum("fmnas.trial" in run.data.tags for run in runs(store))


def files(folder: Path) -> dict[Path, tuple[int, bytes]]:
    """When each was written, and what it holds."""
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("text", [b"", b"not a database" * 1000], ids=["empty", "garbage"])
def test_a_store_that_cannot_be_read_is_renamed_and_made_again(text: bytes, experiment: Any) -> None:
    experiment.run_bo_fm()
    folder = experiment.directory.root
    assert prepare_own_store(experiment.settings) == ""
    (folder / "mlflow.db.broken-1").write_text("of before")
    (folder / "mlflow.db").write_bytes(text)
    report = experiment.log()
    assert (report.written, report.missed) == (3, 0)
    assert "mlflow.db.broken-2" in report.remark
    assert (folder / "mlflow.db.broken-2").read_bytes() == text
    assert (folder / "mlflow.db.broken-1").read_text() == "of before"
    assert trials(folder / "mlflow.db") == 3
    assert prepare_own_store(experiment.settings) == ""


def test_a_store_that_the_user_named_is_not_touched(experiment: Any) -> None:
    experiment.run_bo_fm()
    path = experiment.directory.root / "mlflow.db"
    path.write_bytes(b"not a database" * 1000)
    report = experiment.log(is_own=False)
    assert (report.written, report.missed) == (0, 3)
    assert path.read_bytes() == b"not a database" * 1000


def test_a_store_of_an_older_mlflow_is_left_and_the_upgrade_is_named(experiment: Any) -> None:
    import sqlite3
    from contextlib import closing

    experiment.run_bo_fm()
    with closing(sqlite3.connect(experiment.directory.root / "mlflow.db")) as database, database:
        database.execute("update alembic_version set version_num = 'acf3f17fdcc7'")
    report = experiment.log()
    assert report.missed == 3
    assert "mlflow db upgrade" in report.reason
    assert not list(experiment.directory.root.glob("*.broken*"))


def size(path: Path) -> int:
    """In bytes; 0 of one that is gone by now, as SQLite's journals come and go."""
    with suppress(FileNotFoundError):
        return path.stat().st_size
    return 0


def test_a_kill_while_the_store_is_made_costs_no_trial(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    command = [sys.executable, "-m", "fmnas.platform.cli", *QUICK, "--out", str(out)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as driver:
        while not any(map(size, out.glob("*mlflow.db*"))):
            assert driver.poll() is None
            time.sleep(0.005)
        driver.send_signal(signal.SIGKILL)
    assert not (out / "mlflow.db").exists()
    assert main(["resume", str(out)]) == 0
    assert "MLflow" in capsys.readouterr().out
    assert trials(out / "mlflow.db") == TRIALS
    assert not list(out.glob(".mlflow.db*"))


@pytest.mark.parametrize("move", [shutil.move, shutil.copytree], ids=["moved", "copied"])
def test_a_directory_that_was_moved_or_copied_has_all_its_runs_and_files(
    move: Callable[[Path, Path], object], experiment: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, after = experiment.directory.root, tmp_path / "sub folder" / "after"
    after.parent.mkdir()
    experiment.directory.config.write_text("problem: toy\n")
    experiment.run_bo_fm()
    experiment.log()
    assert before.as_uri() in experiment.read_store().runs["experiment"].info.artifact_uri
    move(before, after)
    left = files(before)
    experiment.directory = RunDirectory(after)
    monkeypatch.setattr("mlflow.tracking._tracking_service.utils._artifact_repos_cache", OrderedDict())  # new process
    settings = {"uri": experiment.directory.store, "artifacts": experiment.directory.artifacts}
    for written, present in ((3, 0), (0, 3)):
        report = experiment.log(**settings)
        assert (report.written, report.present, report.missed) == (written, present, 0)
    (run,) = [run for run in runs(after / "mlflow.db") if run.info.run_name == "experiment"]
    assert run.info.artifact_uri.startswith(f"{after.as_uri()}/mlartifacts")
    assert list((after / "mlartifacts").rglob("config.yaml"))
    assert (after / "mlflow.db.broken-1").is_file()
    assert files(before) == left


@pytest.mark.parametrize("name", ["p%41y", "q?mode=ro", "50%"])
def test_a_directory_where_mlflow_would_write_elsewhere_is_refused(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*QUICK, "--out", str(tmp_path / name)]) == 2
    assert "tracking.uri" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_directory_with_any_other_name_has_its_store(tmp_path: Path, quick_stores: None) -> None:
    out = tmp_path / "a b#c'\"é&=;@:[x]+<b>"
    assert main([*QUICK, "--out", str(out)]) == 0
    assert trials(out / "mlflow.db") == TRIALS
    places = [run.info.artifact_uri for run in runs(out / "mlflow.db")]
    assert all(quote(out.name, safe="") in place or out.as_uri() in place for place in places)
    assert [path.name for path in tmp_path.iterdir()] == [out.name]


def test_a_relative_store_is_the_same_wherever_one_resumes(
    tmp_path: Path, configured: Callable[..., Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = configured(tracking={"uri": "sqlite:///mlflow.db?timeout=30"})
    assert config.tracking.uri == f"sqlite:///{tmp_path}/mlflow.db?timeout=30"
    monkeypatch.chdir("/")
    assert check_config(config.model_dump(mode="json"), "here") == config
