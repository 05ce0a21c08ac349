"""Wrong input as a user meets it: exit code 2, a line that says what is allowed and what to write, nothing touched."""

import shutil
import subprocess
import sys
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml
from support import write_journal

from fmnas.platform.cli import main
from fmnas.platform.config.errors import EDIT_HINT, format_value
from fmnas.platform.config.load import check_config, load_config
from fmnas.platform.errors import LONGEST, ConfigError
from fmnas.platform.experiment.journal import read_journal

pytestmark = pytest.mark.slow

HERE = "problem: func2c\noptimizers: [random]\ninitial_design: 2\nbudget: {evaluations: 20}\nfidelity: {epochs: 1}\n"
GOOD = {**yaml.safe_load(HERE), "name": "t"}
LIST = "`fmnas list optimizers`"


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run_refused(capsys: pytest.CaptureFixture[str], text: str, *overrides: str) -> str:
    """What `fmnas run` says of a configuration that it must refuse."""
    Path("my.yaml").write_text(text)
    flags = [flag for override in overrides for flag in ("-o", override)]
    assert main(["run", "my.yaml", *flags, "-o", "workers.kind=in-process"]) == 2
    message = capsys.readouterr().err
    assert message.startswith("fmnas: ")
    for talk in ("Traceback", "pydantic"):
        assert talk not in message
    assert [path.name for path in Path().iterdir()] == ["my.yaml"]
    return message


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("optimizers=[random, null]", "optimizers.1 = null"),
        (
            "optimizers=[{name: regularized-evolution, population: 5, tournament: 20}]",
            "optimizers.0.tournament = 20",
        ),
        ("optimizers=[{name: bo-fm, options: 5}]", "optimizers.0.options = 5"),
        ("optimizers=[{name: bo-fm, 1: 2}]", "optimizers.0.1 = 1"),
        ("fidelity=5", "fidelity = 5"),
        ("budget={seconds: 5}", "budget.evaluations: missing"),
        ("budget={1: 2}", "budget.1 = 1"),
        ("data.train=100", "data.train = 100: func2c does not take it"),
        ("budget.seconds=1.0e+300", "budget.seconds = 1e+300"),
        ("workers.gpus=.inf", "workers.gpus = inf"),
        ("seed=0x" + "f" * 5000, "seed = a int that is too long"),
        ("seed=" + "9" * 5000, "-o seed="),
        ("name=2001-99-99", "-o name=2001-99-99"),
        ("repeats=&a [*a]", "repeats = [["),
        ("repeats=" + "[" * 3000, "-o repeats="),
        ("budget={evaluations: 3, evaluations: 4}", "'evaluations'"),
        ("optimizers.².name=x", "'optimizers.².name'"),
        ("optimizers.bo-fm.kernel=x", "'optimizers.bo-fm.kernel'"),
        ("optimizers.-1=tpe", "'optimizers.-1'"),
        ("optimizers=[5]", "must be a mapping with the keys name, use"),
        ("a\nb=1", "'a\\nb': unknown key"),
    ],
    ids=lambda text: text[:40],
)
def test_a_wrong_override_is_answered_with_what_to_write(
    override: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    message = run_refused(capsys, HERE, override)
    assert line in message
    assert all(len(printed_line) < 4 * LONGEST for printed_line in message.splitlines())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: [1\nb: 2\n", ["my.yaml: invalid YAML", "line 2"]),
        ("a: b: c\n", ["my.yaml: invalid YAML", "line 1, column 5"]),
        ("a: 1\nb: \x07\n", ["my.yaml: "]),
        ("a: !!python/object:os.system b", ["my.yaml: invalid YAML", "line 1, column 4"]),
        ("a: *b\n", ["my.yaml: invalid YAML", "line 1, column 4"]),
        ("a: !!bool maybe\n", ["my.yaml: "]),
        ("{[1]: 2}", ["my.yaml: invalid YAML", "line 1, column 2"]),
        ("repeats: 3\n" + HERE + "repeats: 4\n", ["duplicate key 'repeats'", "line 7, column 1"]),
        (HERE.replace("{epochs: 1}", "{epochs: 1, epochs: 2}"), ["duplicate key 'epochs'", "line 5, column 23"]),
        ("- a\n", ["my.yaml: "]),
        ("problem: func2c\noptimizers: [random]\nfidelity: {epochs: 1}", ["\n  budget: missing"]),
        ("problem: joint\noptimizers: [random]\nbudget: {evaluations: 9}", ["\n  fidelity: missing"]),
    ],
)
def test_a_wrong_file_is_answered_with_its_place(
    text: str, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    message = run_refused(capsys, text)
    assert all(word in message for word in words)
    if "invalid YAML" in message:
        assert len(message.splitlines()) == 1


def test_keys_may_be_merged_from_an_anchor() -> None:
    Path("my.yaml").write_text(HERE.replace("{epochs: 1}", "&f {epochs: 1}") + "workers: {cpus: 2}\n")
    with pytest.raises(ConfigError, match="unknown key; allowed are every"):
        load_config("my.yaml", ["checkpoints={<<: {a: 1}, every: 2}"])
    assert load_config("my.yaml", ["budget={<<: {evaluations: 3}, evaluations: 7}"]).budget.evaluations == 7


@pytest.mark.parametrize("key", ["budget.seconds", "budget.trial_seconds", "workers.cpus", "workers.grace_seconds"])
def test_no_key_takes_a_number_that_is_not_finite(key: str) -> None:
    section, _, name = key.partition(".")
    with pytest.raises(ConfigError, match=f"{key} = inf: .*finite number"):
        check_config({**GOOD, section: {**GOOD.get(section, {}), name: float("inf")}}, "here")


def test_a_value_is_shown_in_a_line_and_cut() -> None:
    assert [format_value(value) for value in (None, True, "b c", [1.5])] == ["null", "true", "'b c'", "[1.5]"]
    assert len(format_value("x" * 5000)) <= LONGEST + 3
    endless: list[Any] = []
    endless.append(endless)
    assert format_value(endless) == "[[[[[...]]]]]"
    bomb: list[Any] = ["x"] * 10
    for _ in range(30):
        bomb = [bomb] * 10
    assert len(format_value(bomb)) <= LONGEST + 3


@pytest.mark.parametrize("where", ["config.yaml", "journal.jsonl"])
def test_files_of_another_version_are_not_to_be_fixed(where: str, capsys: pytest.CaptureFixture[str]) -> None:
    little = ["workers.kind=in-process", "tracking.enabled=false", "optimizers=[random]", "budget.evaluations=5"]
    assert main(["run", "smoke", *(flag for o in little for flag in ("-o", o)), "--out", "out"]) == 0
    path = Path("out", where)
    if where == "journal.jsonl":  # as that version would have written it
        begun, *events = read_journal(path)
        path.unlink()
        write_journal(path, [replace(begun, config={**begun.config, "future": 1}), *events])
    else:
        path.write_text(path.read_text().replace("seeds:", "future: 1\nseeds:", 1))
    for command in ("resume", "report", "replay"):
        capsys.readouterr()
        if command == "replay" and where == "config.yaml":
            continue  # it goes by the journal alone
        assert main([command, "out"]) == 2
        message = capsys.readouterr().err
        assert f"out/{where}:\n  future: unknown key" in message
        assert version("fmnas") in message
        assert EDIT_HINT not in message


def test_a_file_that_cannot_be_read_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    Path("folder").mkdir()
    Path("bytes.yaml").write_bytes(b"name: \xff\n")
    for name, words in {
        "x" * 300: "File name too long",
        "folder": "configuration folder: Is a directory",
        "bytes.yaml": "configuration bytes.yaml: it is not a UTF-8",
    }.items():
        assert main(["run", name]) == 2
        assert words in capsys.readouterr().err


def test_a_folder_named_as_a_shipped_configuration_does_not_hide_it() -> None:
    Path("smoke").mkdir()
    assert load_config("smoke").name == "smoke"


@pytest.mark.parametrize(("name", "code"), [("rich", 1), ("ray", 2)])
def test_a_package_that_is_missing_is_named(name: str, code: int) -> None:
    command = f"import sys; sys.modules[{name!r}] = None; from fmnas.platform.cli import main; sys.exit(main())"
    arguments = ["run", "smoke", "--out", "out"]
    done = subprocess.run([sys.executable, "-c", command, *arguments], capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("fmnas: ")
    assert name in line
    assert "install" in line
    shutil.rmtree("out", ignore_errors=True)
