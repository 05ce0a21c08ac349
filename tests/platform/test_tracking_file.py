"""The SQLite store of a run directory: whole or absent, mended when it is neither, and never outside its directory."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import quote

import pytest
import yaml

from fmnas.platform.cli import main
from fmnas.platform.config.schema import Config
from fmnas.platform.config.uri import TrackingError
from fmnas.platform.experiment.run_directory import RunDirectory
from fmnas.platform.mlflow.client import TrackingSettings
from fmnas.platform.mlflow.database import fault_of, prepare_file
from fmnas.platform.mlflow.password import settled, tracking_uri

pytestmark = pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy:DeprecationWarning")
TRIALS = 11
QUICK = ["run", "smoke", "-o", "workers.kind=in-process", "-o", "optimizers=[random]", "-o", "budget.evaluations=11"]


@pytest.fixture(autouse=True)
def _without_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fmnas.comparison.report.draw_figures", lambda *_: [])


def asked(path: Path, statement: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as database, database:
        return database.execute(statement).fetchall()


def trials(out: Path) -> int:
    """How many there are in the store of a run directory."""
    return len(asked(out / "mlflow.db", "select 1 from tags where key = 'fmnas.trial'"))


def locations(out: Path) -> set[str]:
    """Where MLflow looks for files, of experiments and of runs."""
    found = asked(out / "mlflow.db", "select artifact_location from experiments where name = 'smoke'")
    return {str(place) for (place,) in (*found, *asked(out / "mlflow.db", "select artifact_uri from runs"))}


def files(folder: Path) -> dict[Path, tuple[int, bytes]]:
    """When each was written, and what it holds."""
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.rglob("*") if path.is_file()}


def settings(folder: Path, own: bool = True) -> TrackingSettings:
    return TrackingSettings(f"sqlite:///{folder}/mlflow.db", "toy", "abc", artifacts=folder / "mlartifacts", own=own)


FAULTS = {
    "half": "create table _alembic_tmp_datasets (x)",
    "behind": "update alembic_version set version_num = 'acf3f17fdcc7'",
    "no version": "delete from alembic_version",
    "no versions": "drop table alembic_version",
    "garbage": "",
}


def break_(path: Path, statement: str) -> None:
    """As a kill in the middle of its making leaves it, or a disk."""
    if statement:
        asked(path, statement)
    else:
        path.write_bytes(b"no database" * 1000)


@pytest.mark.parametrize("statement", FAULTS.values(), ids=list(FAULTS))
def test_a_broken_store_of_our_own_is_put_aside_and_made_anew(
    statement: str, tmp_path: Path, whole_store: Path, quick_stores: None
) -> None:
    path = Path(shutil.copy(whole_store, tmp_path / "mlflow.db"))
    (tmp_path / "mlflow.db.broken-1").write_text("of another time")
    assert prepare_file(settings(tmp_path)) == fault_of(path) == ""
    break_(path, statement)
    before = path.read_bytes()
    told = prepare_file(settings(tmp_path))
    assert "mlflow.db.broken-2" in told
    assert (tmp_path / "mlflow.db.broken-2").read_bytes() == before
    assert fault_of(path) == ""
    assert asked(path, "select count(*) from experiments") == [(1,)]
    assert prepare_file(settings(tmp_path)) == ""


@pytest.mark.parametrize("statement", FAULTS.values(), ids=list(FAULTS))
def test_a_broken_store_that_the_user_named_is_not_touched(
    statement: str, tmp_path: Path, whole_store: Path, quick_stores: None
) -> None:
    path = Path(shutil.copy(whole_store, tmp_path / "mlflow.db"))
    break_(path, statement)
    before = path.read_bytes()
    with pytest.raises(TrackingError, match="it is yours"):
        prepare_file(settings(tmp_path, own=False))
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["mlflow.db"]


def test_a_store_of_a_later_mlflow_is_left_to_mlflow(tmp_path: Path, whole_store: Path) -> None:
    path = Path(shutil.copy(whole_store, tmp_path / "mlflow.db"))
    asked(path, "update alembic_version set version_num = 'ffffffffffff'")
    assert fault_of(path) == ""


def size(path: Path) -> int:
    """In bytes; 0 of one that is gone by now, as SQLite's journals come and go."""
    with suppress(FileNotFoundError):
        return path.stat().st_size
    return 0


def test_a_kill_while_the_store_is_made_costs_no_trial(
    tmp_path: Path, quick_stores: None, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    command = [sys.executable, "-m", "fmnas.platform.cli", *QUICK, "--out", str(out)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as driver:
        while not (made := [path for path in out.glob("*mlflow.db*") if size(path)]):
            assert driver.poll() is None
            time.sleep(0.005)
        driver.send_signal(signal.SIGKILL)
    assert not (out / "mlflow.db").exists(), made
    assert main(["resume", str(out)]) == 0
    assert "missed" not in capsys.readouterr().out
    assert trials(out) == TRIALS
    assert not list(out.glob(".mlflow.db*"))


def test_what_a_broken_store_held_is_sent_again_and_said(
    tmp_path: Path, quick_stores: None, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    assert main([*QUICK, "--out", str(out), "-o", "tracking.enabled=false"]) == 0
    config = yaml.safe_load((out / "config.yaml").read_text())
    (out / "config.yaml").write_text(yaml.safe_dump({**config, "tracking": {}}))
    for command in ("sync", "resume"):
        (out / "mlflow.db").unlink(missing_ok=True)
        break_(out / "mlflow.db", "")
        capsys.readouterr()
        copied = shutil.copytree(out, tmp_path / command)  # MLflow keeps the connections of a path that it has seen
        assert main([command, str(copied)]) == 0
        printed = capsys.readouterr().out
        assert f"{copied / 'mlflow.db'} could not be used" in printed
        assert "mlflow.db.broken-1" in printed
        assert "missed 1" not in printed
        assert trials(copied) == TRIALS


@pytest.mark.parametrize("move", [shutil.move, shutil.copytree], ids=["moved", "copied"])
def test_a_directory_that_was_moved_takes_its_files_along(
    move: Callable[[Path, Path], object], tmp_path: Path, quick_stores: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, after = tmp_path / "before", tmp_path / "sub folder" / "after"
    after.parent.mkdir()
    assert main([*QUICK, "--out", str(before)]) == 0
    assert all(place.startswith(f"{before.as_uri()}/mlartifacts") for place in locations(before))
    move(before, after)
    left = files(before)
    opened: list[set[str]] = []
    monkeypatch.setattr("fmnas.platform.mlflow.ui.open_ui", lambda *_, **__: opened.append(locations(after)))
    assert main(["ui", str(after)]) == 0
    again = tmp_path / "again"
    shutil.copytree(after, again)
    monkeypatch.setattr("mlflow.tracking._tracking_service.utils._artifact_repos_cache", OrderedDict())  # new process
    assert main(["sync", str(again)]) == 0
    for places, root in ((opened[0], after), (locations(again), again)):
        assert len(places) > TRIALS
        assert all(place.startswith(f"{root.as_uri()}/mlartifacts") for place in places)
    assert files(before) == left
    assert before.exists() == bool(left)
    assert sorted(path.name for path in tmp_path.iterdir() if path != before) == ["again", "sub folder"]


@pytest.mark.parametrize("name", ["p%41y", "q?mode=ro", "50%"])
def test_a_directory_where_mlflow_would_write_elsewhere_is_refused(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*QUICK, "--out", str(tmp_path / name)]) == 2
    assert "below a path with % or ?" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
    assert main([*QUICK, "--out", str(tmp_path / name), "-o", "tracking.enabled=false"]) == 0


def test_a_directory_with_any_other_name_has_its_store(tmp_path: Path, quick_stores: None) -> None:
    out = tmp_path / "a b#c'\"é&=;@:[x]+<b>"
    assert main([*QUICK, "--out", str(out)]) == 0
    assert trials(out) == TRIALS
    assert all(quote(out.name, safe="") in place or out.as_uri() in place for place in locations(out))
    assert [path.name for path in tmp_path.iterdir()] == [out.name]


def test_a_relative_store_is_the_same_wherever_one_resumes(
    tmp_path: Path, configured: Callable[..., Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        folder.mkdir()
    config = settled(configured(tracking={"uri": "sqlite:///mlflow.db?timeout=30"}), here)
    assert config.tracking.uri == f"sqlite:///{here}/mlflow.db?timeout=30"
    assert settled(config, there) == config
    # One that is not, from before: a new one elsewhere would be no help.
    directory, old = RunDirectory(here), configured(tracking={"uri": "sqlite:///mlflow.db"})
    directory.journal.touch()
    (here / "mlflow.db").touch()
    monkeypatch.chdir(here)
    assert tracking_uri(old.tracking, directory) == "sqlite:///mlflow.db"
    monkeypatch.chdir(there)
    with pytest.raises(TrackingError, match=f"below {there}; write its whole path in"):
        tracking_uri(old.tracking, directory)


def test_a_run_writes_down_where_a_relative_store_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole_store: Path
) -> None:
    shutil.copy(whole_store, tmp_path / "mine.db")
    monkeypatch.chdir(tmp_path)
    assert main([*QUICK, "--out", "run", "-o", "tracking.uri=sqlite:///mine.db"]) == 0
    assert yaml.safe_load(Path("run/config.yaml").read_text())["tracking"]["uri"] == f"sqlite:///{tmp_path}/mine.db"
    assert len(asked(tmp_path / "mine.db", "select 1 from tags where key = 'fmnas.trial'")) == TRIALS
    assert sorted(os.listdir(tmp_path)) == ["mine.db", "run"]
