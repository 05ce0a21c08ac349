"""Wrong input as a user meets it: exit code 2, a line that says what is allowed and what to write, nothing touched."""

import shutil
import subprocess
import sys
import types
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from pydantic import BaseModel
from support import write_journal

from fmnas.platform.cli import main
from fmnas.platform.config.errors import EDIT_HINT, format_value, version_hint
from fmnas.platform.config.load import check_config, load_config
from fmnas.platform.config.schema import Config
from fmnas.platform.errors import LONGEST, ConfigError
from fmnas.platform.experiment.journal import read_journal
from fmnas.platform.registry import OPTIMIZERS

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
        ("optimizers=random", "optimizers = 'random'"),
        ("optimizers={name: bo-fm}", "optimizers = {'name': 'bo-fm'}"),
        ("optimizers=5", "optimizers = 5"),
        ("optimizers=[]", "optimizers = []"),
        ("optimizers=[random, null]", "optimizers.1 = null"),
        ("optimizers=[{nme: bo-fm}]", "optimizers.0 = {'nme': 'bo-fm'}"),
        ("optimizers=[{bo-fm: {mode: paper}}]", "optimizers.0 = {'bo-fm': "),
        (
            "optimizers=[{name: regularized-evolution, population: 5, tournament: 20}]",
            "optimizers.0.tournament = 20",
        ),
        (
            "optimizers=[{name: bo-fm, kernel: moddif, options: {kernel: modlap}}]",
            "'kernel'",
        ),
        (
            "optimizers=[{name: bo-fm, options: {concurrency: 2}}]",
            "'concurrency'",
        ),
        ("optimizers=[{name: bo-fm, options: 5}]", "optimizers.0.options = 5"),
        ("optimizers=[{name: bo-fm, 1: 2}]", "optimizers.0.1 = 1"),
        ("fidelity=5", "fidelity = 5"),
        ("fidelity=null", "fidelity = null"),
        ("budget=30", "budget = 30"),
        ("budget={seconds: 5}", "budget.evaluations: missing"),
        ("budget={1: 2}", "budget.1 = 1"),
        ("data.train=100", "data.train = 100: func2c does not take it"),
        ("tracking.experiment=''", "tracking.experiment = ''"),
        ("tracking.uri=''", "tracking.uri = ''"),
        ("tracking.enabled=maybe", "tracking.enabled = 'maybe'"),
        ("seeds=100000", "seeds = 100000"),
        ("repeats=1001", "repeats = 1001"),
        ("budget.evaluations=100000000", "budget.evaluations = 100000000"),
        ("budget.seconds=1.0e+300", "budget.seconds = 1e+300"),
        ("workers.gpus=.inf", "workers.gpus = .inf"),
        ("workers.grace_seconds=.nan", "workers.grace_seconds = .nan"),
        ("workers.cpus=1e-3", "workers.cpus = '1e-3'"),
        ("workers.cpus=1.0e-300", "workers.cpus = 1e-300"),
        ("workers.count=x", "workers.count = 'x'"),
        ("seed=0x" + "f" * 5000, "seed = 0x"),
        ("seed=" + "9" * 5000, "-o seed="),
        ("name=2001-99-99", "-o name=2001-99-99"),
        ("repeats=&a [*a]", "repeats = [["),
        ("repeats=" + "[" * 3000, "-o repeats="),
        ("budget={evaluations: 3, evaluations: 4}", "'evaluations'"),
        ("optimizers.².name=x", "'optimizers.².name'"),
        ("optimizers.bo-fm.kernel=x", "'optimizers.bo-fm.kernel'"),
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
    ("text", "line"),
    [
        ("a: [1\nb: 2\n", "my.yaml, line 2"),
        ("a: {b: 1\n", "my.yaml, line 2"),
        ("a: 1\nb: 'x\nc: 2\n", "my.yaml, line 4"),
        ("a: b: c\n", "my.yaml, line 1, column 5"),
        ("a:\n\tb: 1\n", "my.yaml, line 2, column 1"),
        ("a:\n  - b\n c: 3\n", "my.yaml, line 3, column 2"),
        ("a: 1\nb: \x07\n", "my.yaml: "),
        ("a: !!python/object:os.system b", "my.yaml, line 1, column 4"),
        ("a: *b\n", "my.yaml, line 1, column 4"),
        ("a: !!bool maybe\n", "my.yaml: "),
        ("{[1]: 2}", "my.yaml, line 1, column 2"),
        ("repeats: 3\n" + HERE + "repeats: 4\n", "my.yaml, line 7, column 1: invalid YAML: duplicate key 'repeats'"),
        (HERE.replace("{epochs: 1}", "{epochs: 1, epochs: 2}"), "my.yaml, line 5, column 23"),
        ("- a\n", "my.yaml: "),
        ("problem: func2c\noptimizers: [random]\nfidelity: {epochs: 1}", "\n  budget: missing"),
        ("problem: joint\noptimizers: [random]\nbudget: {evaluations: 9}", "\n  fidelity: missing"),
        ("problem: func2c\nbudget: {evaluations: 9}", "\n  optimizers: missing"),
    ],
)
def test_a_wrong_file_is_answered_with_its_place(text: str, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    message = run_refused(capsys, text)
    assert line in message
    if ", line " in line:
        assert len(message.splitlines()) == 1


def test_keys_may_be_merged_from_an_anchor() -> None:
    Path("my.yaml").write_text(HERE.replace("{epochs: 1}", "&f {epochs: 1}") + "workers: {cpus: 2}\n")
    with pytest.raises(ConfigError, match="unknown key; allowed are every"):
        load_config("my.yaml", ["checkpoints={<<: {a: 1}, every: 2}"])
    assert load_config("my.yaml", ["budget={<<: {evaluations: 3}, evaluations: 7}"]).budget.evaluations == 7


def leaves(schema: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every key of a configuration that holds no section, and its type."""
    for key, field in schema.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and not isinstance(kind, types.GenericAlias) and issubclass(kind, BaseModel):
            yield from leaves(kind, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", kind


LEAVES = dict(leaves(Config))
FLOATS = [key for key, kind in LEAVES.items() if float in (kind, *get_args(kind))]


def with_value(key: str, value: object) -> dict[str, Any]:
    data = yaml.safe_load(HERE) | {"name": "t"}
    section, _, last = key.rpartition(".")
    (data.setdefault(section, {}) if section else data)[last] = value
    return data


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan")], ids=str)
@pytest.mark.parametrize("key", LEAVES)
def test_no_key_takes_a_number_that_is_not_finite(key: str, value: float) -> None:
    with pytest.raises(ConfigError) as caught:
        check_config(with_value(key, value), "here")
    assert f"{key} = {format_value(value)}: " in str(caught.value)
    assert ("finite number" in str(caught.value)) == (key in FLOATS)


def test_the_keys_that_take_fractions_are_among_those_tried() -> None:
    expected = {"budget.seconds", "budget.trial_seconds", "workers.cpus", "workers.gpus", "workers.grace_seconds"}
    assert expected <= set(FLOATS)


def test_an_option_takes_no_number_that_is_not_finite() -> None:
    for name, row in OPTIMIZERS.items():
        for option in row.options.model_fields:
            entry = {"name": name, option: float("inf")}
            with pytest.raises(ConfigError, match=rf"optimizers\.0\.{option} = \.inf: "):
                check_config({**GOOD, "optimizers": [entry]}, "here")


def test_a_default_tournament_may_exceed_a_small_population() -> None:
    entry = {"name": "regularized-evolution", "population": 5}
    assert check_config({**GOOD, "optimizers": [entry]}, "here").optimizers[0].options == {"population": 5}


def test_a_value_is_shown_as_yaml_has_it_and_cut() -> None:
    assert format_value({"a": [None, True, "b c"], "d": float("inf")}) == "{'a': [null, true, 'b c'], 'd': .inf}"
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


def test_the_version_that_began_an_experiment_is_named_where_it_is_known() -> None:
    with pytest.raises(ConfigError, match=r"fmnas 9\.1"):
        check_config({**GOOD, "future": 1}, "here", version_hint("fmnas 9.1"))


def test_a_file_that_cannot_be_read_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    Path("folder").mkdir()
    Path("bytes.yaml").write_bytes(b"name: \xff\n")
    for name, words in {
        "x" * 300: "File name too long",
        "folder": "configuration folder: is a folder",
        "bytes.yaml": "configuration bytes.yaml is not a UTF-8",
    }.items():
        assert main(["run", name]) == 2
        assert words in capsys.readouterr().err


def test_a_folder_named_as_a_shipped_configuration_does_not_hide_it() -> None:
    Path("smoke").mkdir()
    assert load_config("smoke").name == "smoke"


@pytest.mark.parametrize("port", ["0", "65536", "²", "9" * 5000, "-1", "http"])
def test_a_port_that_is_none_is_named(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["ui", "--port", port])
    assert ended.value.code == 2
    message = capsys.readouterr().err
    assert "--port" in message
    assert repr(port) in message
    assert "1 to 65535" in message


@pytest.mark.parametrize(("name", "code"), [("rich", 1), ("numpy", 1), ("pydantic", 2), ("ray", 2)])
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
