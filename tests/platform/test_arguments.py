"""The command line's arguments: what is wrong with them is reported with what is allowed, and nothing is written."""

import sys
from pathlib import Path

import pytest

from fmnas.platform.cli import main
from fmnas.platform.display.summary import program_name

pytestmark = pytest.mark.slow

FAST = ["-o", "workers.kind=in-process", "-o", "tracking.enabled=false"]
Capture = pytest.CaptureFixture[str]


def run_refused(arguments: list[str], capsys: Capture) -> str:
    """The message of a command that must end with exit code 2."""
    assert main(arguments) == 2
    message = capsys.readouterr().err
    assert "Traceback" not in message
    return message


def flags(*overrides: str) -> list[str]:
    return [flag for override in overrides for flag in ("-o", override)]


@pytest.mark.parametrize(("typed", "meant"), [("rnu", "run"), ("confg", "config"), ("Status", "status")])
def test_a_misspelt_command_gets_a_question(typed: str, meant: str, capsys: Capture) -> None:
    with pytest.raises(SystemExit, match="2"):
        main([typed, "quickstart"])
    message = capsys.readouterr().err
    assert repr(typed) in message
    assert repr(meant) in message
    assert "doctor" not in message, "only the similar ones are named"


def test_all_commands_are_named_where_none_is_similar(capsys: Capture) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["xyz"])
    assert "doctor" in capsys.readouterr().err


def test_a_shortened_flag_is_no_misspelt_command(capsys: Capture) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--versi"])
    assert "fmnas" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["resume", "report", "ui"])
def test_a_folder_that_is_not_a_run_directory_is_named(command: str, tmp_path: Path, capsys: Capture) -> None:
    assert str(tmp_path) in run_refused([command, str(tmp_path)], capsys)


@pytest.mark.parametrize(
    ("config", "overrides", "words"),
    [
        ("smoke", ["problem=mnist"], ["problem = 'mnist'", "joint"]),
        ("smoke", ["budget.evaluations=2", "initial_design=4"], ["budget.evaluations = 2", "initial_design = 4"]),
        ("smoke", ["tracking.enabled=true", "tracking.uri=file:///tmp/x"], ["tracking.uri"]),
        ("quickstart", ["data.root=nowhere"], ["nowhere"]),
        ("quickstart", ["data.train=50000", "data.validation=20000"], ["data.train = 50", "60"]),
        ("quickstart", ["workers.gpus=1"], ["workers.gpus = 1"]),
        ("smoke", ["workers.kind=ray", "workers.gpus=1", "workers.count=64"], ["workers."]),
    ],
)
def test_wrong_input_writes_nothing(
    config: str, overrides: list[str], words: list[str], tmp_path: Path, capsys: Capture
) -> None:
    message = run_refused(["run", config, *FAST, *flags(*overrides), "--out", str(tmp_path / "run")], capsys)
    assert all(word in message for word in words)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("what", "name"), [("problems", "joint"), ("optimizers", "bo-fm"), ("configs", "quickstart")])
def test_lists_have_a_line_each(what: str, name: str, capsys: Capture) -> None:
    assert main(["list", what]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith(name) for line in lines)
    assert all(len(line.split(maxsplit=1)) == 2 for line in lines)


def test_only_optimizers_have_options(capsys: Capture) -> None:
    assert main(["list", "problems", "--options"]) == 2
    assert "problems" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["usage: fmnas", "COMMAND", "retrain", "doctor"]),
        (["rnu"], ["rnu", "'run'"]),
        (["list", "optimizer"], ["'optimizers'"]),
        (["list"], ["required: problems|optimizers|configs|observers"]),
        (
            ["run", "smoke", "--progres-s", "quiet"],
            ["usage: fmnas run", "--progres-s", "unknown option", "'--progress'"],
        ),
        (["status", "--xyz"], ["usage: fmnas status", "unknown", "--xyz"]),
        (["ui", "--port", "0"], ["'0'", "65535"]),
        (["retrain", "--epochs", "0"], ["--epochs", "'0'"]),
        (["check", "random", "--seconds", "x"], ["'x'"]),
    ],
)
def test_wrong_arguments_show_what_is_allowed(arguments: list[str], words: list[str], capsys: Capture) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert all(word in output.err for word in words)


def test_a_configuration_is_planned_with_the_arguments_of_run(tmp_path: Path, capsys: Capture) -> None:
    assert main(["config", "smoke", "--out", str(tmp_path / "run")]) == 0
    assert "evaluations" in capsys.readouterr().out
    assert not (tmp_path / "run").exists()


def test_the_program_is_named_by_its_path_if_the_shell_does_not_find_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin" / "fmnas"
    program.parent.mkdir()
    program.write_text("")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "argv", [str(program)])
    monkeypatch.setenv("PATH", str(tmp_path))
    assert program_name() == str(program)
    monkeypatch.setenv("PATH", str(program.parent))
    assert program_name() == "fmnas"
