"""Run directories as a command line names them: odd names, folders of others, and commands that can be typed."""

import json
import os
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from fmnas.platform.cli import main
from fmnas.platform.display import summary as endings
from fmnas.platform.errors import Ending, RunDirectoryError
from fmnas.platform.experiment.run_directory import RunDirectory, new_run_directory, run_directory
from fmnas.platform.mlflow.sync import TrackingReport

pytestmark = pytest.mark.slow

LITTLE = ["workers.kind=in-process", "tracking.enabled=false", "optimizers=[random]", "budget.evaluations=5"]
FLAGS = [flag for override in LITTLE for flag in ("-o", override)]
LONG = "d" * 300
NOBODY = 65534


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everyone may enter, as pytest's own may not be."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    for path in folder.rglob("*"):
        path.chmod(0o755)
    shutil.rmtree(folder)


@contextmanager
def without_root() -> Iterator[None]:
    """The rights of a user whom a closed folder stops."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def complaint(arguments: list[Any], capsys: pytest.CaptureFixture[str]) -> str:
    """The message of a call that must end with exit code 2."""
    assert main([str(argument) for argument in arguments]) == 2
    message = capsys.readouterr().err
    assert "Traceback" not in message
    assert len(message) < 600
    return message


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An experiment that can be resumed, in a directory whose name means something to rich and to a shell."""
    out = tmp_path_factory.mktemp("odd") / "[red]z" / "[" / "x]y $(a) 'b'"
    assert main(["run", "smoke", *FLAGS, "--out", str(out)]) == 0
    lines = (out / "journal.jsonl").read_text().splitlines(keepends=True)
    (out / "journal.jsonl").write_text("".join(lines[:-3]))
    return out


@pytest.mark.parametrize("command", ["status", "report", "replay", "resume", "retrain", "sync", "ui"])
def test_a_name_that_is_too_long_is_explained(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    message = complaint([command, LONG], capsys)
    assert f"directory {LONG[:100]}" in message
    assert "File name too long" in message


def test_a_run_directory_with_a_name_that_is_too_long_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    message = complaint(["run", "smoke", *FLAGS, "--out", LONG], capsys)
    assert "File name too long" in message
    assert "--out DIR" in message
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("arguments", [["run", "smoke", *FLAGS], ["status", "run"]])
def test_a_working_directory_that_was_deleted_is_explained(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    assert "cannot be accessed (No such file or directory)" in complaint(arguments, capsys)


@pytest.mark.parametrize("command", ["status", "report", "replay", "resume", "retrain", "sync", "ui"])
def test_a_file_in_place_of_a_run_directory_is_refused(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "my.yaml"
    path.write_text("problem: func2c\n")
    message = complaint([command, path], capsys)
    assert f"{path} is not a run directory" in message
    assert "journal.jsonl" in message
    assert path.exists()


@pytest.mark.parametrize("command", ["status", "report", "replay", "resume", "retrain", "sync", "ui"])
def test_a_directory_that_may_not_be_entered_is_explained(
    command: str, open_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (open_folder / "run").mkdir(mode=0)
    with without_root():
        message = complaint([command, open_folder / "run"], capsys)
    assert f"{open_folder / 'run'} cannot be accessed (Permission denied)" in message


def test_a_new_directory_in_one_that_may_not_be_entered_is_explained(
    open_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (open_folder / "closed").mkdir(mode=0)
    with without_root():
        for out in (open_folder / "closed", open_folder / "closed" / "run"):
            with pytest.raises(RunDirectoryError, match=rf"{out}.*Permission denied.*--out DIR"):
                new_run_directory(out)


@pytest.mark.parametrize("name", ["journal.jsonl", "config.yaml"])
def test_files_that_may_not_be_read_are_not_said_to_be_missing(
    name: str, open_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for file_name in ("journal.jsonl", "config.yaml"):
        (open_folder / file_name).touch(mode=0 if file_name == name else 0o644)
    with without_root():
        message = complaint(["status", open_folder], capsys)
    assert f"{open_folder} cannot be accessed (Permission denied): reading {name} failed" in message
    assert "remove" not in message


def test_a_directory_of_another_user_is_read_and_not_written(
    odd: Path, open_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    theirs = open_folder / "theirs"
    shutil.copytree(odd, theirs)
    theirs.chmod(0o555)
    before = sorted(path.name for path in theirs.iterdir())
    with without_root():
        assert run_directory(theirs).root == theirs
        for command in ("resume", "retrain", "sync", "report"):
            message = complaint([command, theirs], capsys)
            assert f"{theirs}: no permission to write" in message
            assert "copy" in message
    assert sorted(path.name for path in theirs.iterdir()) == before


def test_a_path_is_printed_as_it_is(odd: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "[bold]" / "[" / "x]"
    for arguments, shown in (
        (["report", odd, "--out", out], out / "report" / "index.html"),
        (["status", odd], odd),
    ):
        assert main([str(file_name) for file_name in arguments]) == 0
        assert str(shown) in capsys.readouterr().out


@pytest.mark.parametrize("name", ["report", "mlartifacts", "checkpoints", "models"])
def test_nothing_is_written_through_a_link_out_of_the_directory(
    name: str, odd: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, other = tmp_path / "copy", tmp_path / "other"
    shutil.copytree(odd, run)
    other.mkdir()
    (other / "index.html").write_text("mine")
    shutil.rmtree(run / name, ignore_errors=True)
    (run / name).symlink_to(other, target_is_directory=True)
    for command in ("report", "resume", "sync", "retrain"):
        assert f"{run / name} is a link to {other}" in complaint([command, run], capsys)
    assert [path.name for path in other.iterdir()] == ["index.html"]
    assert (other / "index.html").read_text() == "mine"
    merged = tmp_path / "merged"
    assert main(["report", str(odd), "--out", str(merged)]) == 0
    shutil.rmtree(merged / "report")
    (merged / "report").symlink_to(other, target_is_directory=True)
    assert "is a link to" in complaint(["report", odd, "--out", merged], capsys)


def test_a_database_that_is_a_link_out_of_the_directory_is_not_replaced(
    odd: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, other = tmp_path / "copy", tmp_path / "mine.txt"
    shutil.copytree(odd, run)
    other.write_text("mine")
    (run / "mlflow.db").unlink(missing_ok=True)
    (run / "mlflow.db").symlink_to(other)
    for command in ("sync", "resume"):
        assert f"{run / 'mlflow.db'} is a link to {other}" in complaint([command, run], capsys)
    assert [path.name for path in tmp_path.glob("mine*")] == ["mine.txt"]
    assert other.read_text() == "mine"


def test_a_link_to_a_folder_in_the_directory_is_followed(odd: Path, tmp_path: Path) -> None:
    run = tmp_path / "copy"
    shutil.copytree(odd, run)
    (run / "report").rename(run / "pages")
    (run / "report").symlink_to("pages", target_is_directory=True)
    (tmp_path / "link").symlink_to(run, target_is_directory=True)
    (run / "pages" / "index.html").unlink()
    assert main(["report", str(tmp_path / "link")]) == 0
    assert (run / "pages" / "index.html").is_file()


def test_the_command_that_status_names_can_be_typed(odd: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", str(odd), "--json"]) == 0
    again = json.loads(capsys.readouterr().out)["resume_command"]
    assert shlex.split(again) == ["fmnas", "resume", str(odd)]


def test_the_commands_that_an_ending_names_can_be_typed(
    odd: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(endings, "print_summary", lambda *_: None)
    monkeypatch.setattr("sys.argv", ["/my tools/fmnas"])
    report = TrackingReport(written=0, present=0, missed=2, reason="down", store_experiment="1")
    ending: Any = SimpleNamespace(ending=Ending.FINISHED, reason="", summary={}, tracking=report, store="s")
    endings.ResultPrinter("lines", Console(width=120), RunDirectory(odd)).print_result(ending)
    printed = capsys.readouterr().out.replace("\n", " ")
    for command in ("ui", "sync"):
        typed = shlex.join(["/my tools/fmnas", command, str(odd)])
        assert typed in printed


def test_an_ending_tells_of_results_that_mlflow_missed(odd: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """All trials were there by then, and what comes at the end was not."""
    monkeypatch.setattr(endings, "print_summary", lambda *_: None)
    report = TrackingReport(written=5, present=0, missed=0, reason="ConnectionError: down", store_experiment="1")
    ending: Any = SimpleNamespace(ending=Ending.FINISHED, reason="", summary={}, tracking=report, store="s")
    endings.ResultPrinter("lines", Console(width=120), RunDirectory(odd)).print_result(ending)
    printed = capsys.readouterr().out.replace("\n", " ")
    assert "(ConnectionError: down)" in printed


def test_the_command_for_a_directory_that_is_taken_can_be_typed(odd: Path, capsys: pytest.CaptureFixture[str]) -> None:
    message = complaint(["run", "smoke", *FLAGS, "--out", odd], capsys)
    assert f"`{shlex.join(['fmnas', 'resume', str(odd)])}`" in message
